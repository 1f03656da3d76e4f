/* Annotations of COCO in JSON: one file for a whole data set. box_list.h reads a file for one
 * image. */
#ifndef CREMA_TOOLS_COCO_H
#define CREMA_TOOLS_COCO_H

#include "box_list.h"

/* Texts are positions in coco.texts. */
typedef struct coco_image {
  size_t id, name;
  double width, height; /* 0: not in the file */
  size_t first, count;  /* its boxes */
} coco_image;

typedef struct coco_category {
  size_t id, name;
  int label;
} coco_category;

typedef struct coco_box {
  size_t image_id, category_id;
  size_t image, order; /* positions of the image and of the box in the file */
  double side[4];      /* left, top, width, height */
  bool crowd;
  size_t line;
} coco_box;

typedef struct coco {
  const char *path;
  cr_buffer texts;
  cr_buffer images, categories, boxes; /* arrays of the structs above */
  cr_buffer text;                      /* scratchpad of the reader */
  bool annotated;                      /* has the member "annotations" or "annotation" */
} coco;

/* Whether a text is an object of JSON, such as a whole data set of COCO. */
bool coco_is_json(const cr_buffer *text);

/* Reads the text of the file at `path`, which must live as long as *out. Categories get the labels
 * of the map by name, else by id; without a map, 1, 2, ... in the order of their ids. Free with
 * coco_free, also after a failure. Errors name path and line: CREMA_E_PARSE,
 * CREMA_E_UNKNOWN_NAME. */
crema_status coco_read(const char *path, cr_buffer *text, const label_map *labels,
                       coco *out) CREMA_MUST_USE;
void coco_free(coco *c);

size_t coco_image_count(const coco *c);
const coco_image *coco_image_at(const coco *c, size_t i);
const char *coco_text(const coco *c, size_t at);

/* Replaces list->boxes by the boxes of image i. Errors: as box_list_add, with path and line. */
crema_status coco_list_boxes(const coco *c, size_t i, box_list *list) CREMA_MUST_USE;

#endif
