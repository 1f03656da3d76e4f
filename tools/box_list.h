/* The boxes of an image, from files of several formats. */
#ifndef CREMA_TOOLS_BOX_LIST_H
#define CREMA_TOOLS_BOX_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buffer.h"
#include "crema/status.h"
#include "label_map.h"

typedef enum box_format {
  BOX_TEXT, /* lines LABEL LEFT TOP RIGHT BOTTOM [DIFFICULT] */
  BOX_YOLO, /* lines CLASS CENTRE_X CENTRE_Y WIDTH HEIGHT, classes from 0 on, parts of the image */
  BOX_XML,  /* a file of PASCAL VOC */
  BOX_JSON  /* one image of COCO, with the members "image" and "annotation" */
} box_format;

/* A box that lies in the image. */
typedef struct box {
  int label; /* 1 or more */
  bool difficult;
  float side[4]; /* left, top, right, bottom, as parts of the image */
} box;

/* Set the first five members, zero-initialise the other ones, and free the buffer `boxes`. */
typedef struct box_list {
  const label_map *labels;
  bool normalised;   /* sides are parts of the image, also in formats of pixels */
  const char *path;  /* of the file, for messages */
  int width, height; /* of the image, in pixels */
  cr_buffer boxes;   /* of type box */
  bool skip_empty;   /* set by readers: omit boxes without area, with a warning */
  bool pixels;       /* some box has a side above 1, so its unit is the pixel */
} box_list;

/* A box as a file has it, in pixels of an image of width x height, which are 0 for the size of the
 * list's image. */
typedef struct found_box {
  int label;
  bool difficult;
  double side[4];
  double width, height;
  size_t line; /* of the file */
} found_box;

/* Checks a box and appends it. Cuts it at the borders of the image; warns about a box outside of
 * the image and omits it. Errors, without path and line: CREMA_E_RANGE. */
crema_status box_list_add(box_list *list, const found_box *found) CREMA_MUST_USE;

/* Replaces list->boxes by the boxes of a file, whose text changes. Errors name path and line:
 * CREMA_E_PARSE, CREMA_E_RANGE, CREMA_E_UNKNOWN_NAME. */
crema_status box_list_read(box_list *list, box_format format, cr_buffer *text) CREMA_MUST_USE;

/* The readers of XML and JSON for box_list_read. */
crema_status box_list_read_xml(box_list *list, const cr_buffer *text) CREMA_MUST_USE;
crema_status box_list_read_json(box_list *list, const cr_buffer *text) CREMA_MUST_USE;

/* Cuts the next line off *at, which may be NULL; NULL: there is none. */
char *box_next_line(char **at);

#endif
