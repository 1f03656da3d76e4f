/* Lists of images: text files whose lines hold a file name and a label. */
#ifndef CR_DATA_IMAGE_LIST_H
#define CR_DATA_IMAGE_LIST_H

#include <stddef.h>

#include "core/buffer.h"

/* One line: a file name (which may hold spaces), a space or tab, a label. */
typedef struct cr_list_entry {
  char *name;
  int label;
  size_t line;
} cr_list_entry;

typedef struct cr_image_list {
  char *path;
  cr_buffer text; /* holds the names */
  cr_list_entry *entry;
  size_t count;
} cr_image_list;

/* Reads a list; empty lines are skipped. Free with cr_image_list_free. Errors name file and line:
 * CREMA_E_NOT_FOUND, CREMA_E_PARSE (also a list without entries). */
crema_status cr_image_list_read(const char *path, cr_image_list *out) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_image_list_free(cr_image_list *list);

#endif
