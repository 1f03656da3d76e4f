/* Maps of boxes as YOLO v2 has them (Redmon and Farhadi, "YOLO9000: better, faster, stronger",
 * 2016). A map (anchors * (5 + classes), side, side) has for each anchor of a cell the position,
 * the size, whether there is an object, and the scores of its classes. */
#ifndef CR_LAYERS_DETECTION_REGION_H
#define CR_LAYERS_DETECTION_REGION_H

#include "layers/common/layer.h"
#include "layers/common/layer_host.h"

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
cr_region cr_region_at(const cr_region_map *map, const cr_host_values *from, int64_t image,
                       int64_t cell, int64_t anchor);
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

/* Appends the objects of rows of 8 numbers as AnnotatedData gives them (image, label with the
 * background as 0, instance, xmin, ymin, xmax, ymax, difficult); those of image -1 and those
 * without an area are left out. Errors: CREMA_E_RANGE for an image or a label that is none. */
crema_status cr_region_read_truth(const cr_layer *layer, const cr_host_values *from, int64_t rows,
                                  int64_t images, int64_t labels, cr_buffer *out) CREMA_MUST_USE;

#endif
