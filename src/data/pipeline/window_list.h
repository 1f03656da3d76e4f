/* Window files of R-CNN. For each image:
 *   # <image number>
 *   <file name>
 *   <channels> <height> <width>
 *   <number of windows>
 *   <class> <overlap with an object> <x1> <y1> <x2> <y2>     for each window */
#ifndef CR_DATA_WINDOW_LIST_H
#define CR_DATA_WINDOW_LIST_H

#include <stddef.h>

#include "core/buffer.h"

typedef struct cr_listed_window {
  size_t image; /* index in the list */
  size_t line;
  int label; /* 0: background */
  float overlap;
  int x1, y1, x2, y2; /* pixels, the corners included */
} cr_listed_window;

typedef struct cr_window_image {
  char *name;
  int channels, height, width;
} cr_window_image;

typedef struct cr_window_list {
  char *path;
  cr_buffer text;    /* holds the names */
  cr_buffer images;  /* of cr_window_image */
  cr_buffer windows; /* of cr_listed_window */
} cr_window_list;

/* Reads a window file. Free with cr_window_list_free. Errors name file and line:
 * CREMA_E_NOT_FOUND, CREMA_E_PARSE. */
crema_status cr_window_list_read(const char *path, cr_window_list *out) CREMA_MUST_USE;

size_t cr_window_list_images(const cr_window_list *list);
size_t cr_window_list_windows(const cr_window_list *list);
const cr_window_image *cr_window_list_image(const cr_window_list *list, size_t i);
const cr_listed_window *cr_window_list_window(const cr_window_list *list, size_t i);

/* Frees the memory and zeroes the struct. */
void cr_window_list_free(cr_window_list *list);

#endif
