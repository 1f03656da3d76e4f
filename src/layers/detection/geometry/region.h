/* Maps of boxes of YOLO v2 (Redmon and Farhadi, "YOLO9000: better, faster, stronger", 2016). A map
 * (anchors * (5 + classes), side, side) holds for each anchor of a cell: x, y, width, height, the
 * probability of an object, and the scores of the classes. */
#ifndef CR_LAYERS_DETECTION_REGION_H
#define CR_LAYERS_DETECTION_REGION_H

#include "layers/common/layer_op.h"
#include "layers/detection/geometry/boxes.h"

/* Zero-initialise. */
typedef struct cr_region_map {
  int64_t side, anchors, classes;
  const float *biases; /* width and height of each anchor, in cells */
} cr_region_map;

/* Checks sizes and anchors; `message` is their field's name. Errors: CREMA_E_ARGUMENT,
 * CREMA_E_RANGE. */
crema_status cr_region_map_check(const cr_layer *layer, const char *message,
                                 const cr_region_map *map, size_t biases) CREMA_MUST_USE;
/* Checks that bottom 0 is such a map for N images. */
crema_status cr_region_shape_check(const cr_layer *layer, const cr_region_map *map,
                                   const crema_shape *shape) CREMA_MUST_USE;

/* Numbers of an anchor of a cell: x, y, width, height, object, then classes. */
int64_t cr_region_size(const cr_region_map *map);
/* Index of number `k` of an anchor of a cell in the blob. */
int64_t cr_region_index(const cr_region_map *map, int64_t image, int64_t cell, int64_t anchor,
                        int64_t k);

double cr_region_sigmoid(double x);
/* The probabilities of the classes. */
void cr_region_classes(const cr_region_map *map, const cr_host_values *from, int64_t image,
                       int64_t cell, int64_t anchor, double *out);
/* Boxes: */

/* The boxes of a map, computed by an op. The last axis of each tensor is the cells.
 * Zero-initialise; the layer owns the tensors. */
typedef struct cr_region_boxes {
  cr_layer_op op;
  cr_tensor *biases, *objects;
  cr_tensor *box;     /* (N, anchors, 5, cells): x, y, width, height, probability of an object */
  cr_tensor *overlap; /* (N, anchors, cells): the best one with an object of the image */
  cr_tensor *classes; /* (N, anchors, 2, cells): the class of the highest score, its probability */
} cr_region_boxes;

/* For maps of shape `map_shape` and up to `objects` objects; 0: without overlaps. `classes`: with
 * classes. */
crema_status cr_region_boxes_make(cr_layer *layer, const cr_region_map *map,
                                  const crema_shape *map_shape, int64_t objects, bool classes,
                                  cr_region_boxes *out) CREMA_MUST_USE;
/* Computes the boxes of `bottom`; `truths` may be NULL. */
crema_status cr_region_boxes_find(cr_region_boxes *boxes, crema_context *context,
                                  crema_blob *bottom, const cr_truths *truths) CREMA_MUST_USE;
/* Box `at` of (N, anchors, cells). */
cr_box cr_region_box(const cr_region_map *map, const cr_host_values *box, int64_t at);

#endif
