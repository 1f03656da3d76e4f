/* Maps of boxes as YOLO v2 has them (Redmon and Farhadi, "YOLO9000: better, faster, stronger",
 * 2016). A map (anchors * (5 + classes), side, side) has for each anchor of a cell the position,
 * the size, whether there is an object, and the scores of its classes. */
#ifndef CR_LAYERS_DETECTION_REGION_H
#define CR_LAYERS_DETECTION_REGION_H

#include "core/buffer.h"
#include "layers/common/layer.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

/* Centre and extents, in shares of the image. */
typedef struct cr_region {
  double x, y, width, height;
} cr_region;

/* Zero-initialise. */
typedef struct cr_region_map {
  int64_t side, anchors, classes;
  const float *biases; /* width and height of each anchor, in cells */
} cr_region_map;

/* Checks sizes and anchors: `message` is the name of the field that holds them. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_region_map_check(const cr_layer *layer, const char *message,
                                 const cr_region_map *map, size_t biases) CREMA_MUST_USE;
/* Checks that a bottom (N, anchors * (5 + classes), side, side) is such a map. */
crema_status cr_region_shape_check(const cr_layer *layer, const cr_region_map *map,
                                   const crema_shape *shape) CREMA_MUST_USE;

/* Numbers of an anchor of a cell: x, y, width, height, object, then classes. */
int64_t cr_region_size(const cr_region_map *map);
/* Index of number `k` of an anchor of a cell, of all images' numbers. */
int64_t cr_region_index(const cr_region_map *map, int64_t image, int64_t cell, int64_t anchor,
                        int64_t k);

double cr_region_sigmoid(double x);
/* The probabilities of the classes. */
void cr_region_classes(const cr_region_map *map, const cr_host_values *from, int64_t image,
                       int64_t cell, int64_t anchor, double *out);
/* Area common to both over the area of either. */
double cr_region_overlap(cr_region a, cr_region b);

/* An object of a batch. */
typedef struct cr_region_truth {
  int64_t image, label; /* label: a class, the background not counted */
  cr_region box;
} cr_region_truth;

/* Replaces what is in `out` by the objects of rows of 8 numbers as AnnotatedData gives them (image,
 * label with the background as 0, instance, xmin, ymin, xmax, ymax, difficult); those of image -1
 * and those without an area are left out; sorted by image, else in their order. Errors:
 * CREMA_E_RANGE for an image or a label that is none. */
crema_status cr_region_read_truth(const cr_layer *layer, const cr_host_values *from, int64_t rows,
                                  int64_t images, int64_t labels, cr_buffer *out) CREMA_MUST_USE;

/* The objects of an image, of `truths` that begin at *first; returns how many they are. Images are
 * to be asked for in ascending order, with *first 0 at first. */
size_t cr_region_truths_of(const cr_region_truth *truth, size_t truths, int64_t image,
                           size_t *first);

/* ---- boxes --------------------------------------------------------------- */

/* The boxes of a map, computed by an op. Of the values of an image's anchor those of its cells lie
 * side by side. Zero-initialise; the layer owns what it consists of. */
typedef struct cr_region_boxes {
  cr_layer_op op;
  cr_tensor *biases, *objects;
  cr_tensor *box;     /* (N, anchors, 5, cells): x, y, width, height, probability of an object */
  cr_tensor *overlap; /* (N, anchors, cells): best with an object of the image */
  cr_tensor *classes; /* (N, anchors, 2, cells): the class of the highest score, its probability */
} cr_region_boxes;

/* For maps of shape `map_shape`: with overlaps if there may be objects, `objects` at most, and
 * with classes only if `classes`. */
crema_status cr_region_boxes_make(cr_layer *layer, const cr_region_map *map,
                                  const crema_shape *map_shape, int64_t objects, bool classes,
                                  cr_region_boxes *out) CREMA_MUST_USE;
/* Computes those of `bottom` with these objects. */
crema_status cr_region_boxes_find(cr_region_boxes *boxes, crema_context *context,
                                  crema_blob *bottom, const cr_region_truth *truth,
                                  size_t truths) CREMA_MUST_USE;
/* Box `at` of (N, anchors, cells). */
cr_region cr_region_box(const cr_region_map *map, const cr_host_values *box, int64_t at);

#endif
