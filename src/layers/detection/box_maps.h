/* The common part of BoxOutput and BoxGroupOutput: boxes of maps in pixels, and the best of them.
 */
#ifndef CR_LAYERS_DETECTION_BOX_MAPS_H
#define CR_LAYERS_DETECTION_BOX_MAPS_H

#include "core/buffer.h"
#include "layers/common/layer.h"
#include "layers/common/layer_host.h"

/* The fields of both parameters (caffe.proto). */
typedef struct cr_box_rules {
  double fg_thr, iou_thr, field_whr, field_xyr, min_size;
  const char *nms_type;
  size_t max_nms_num, max_post_nms_num;
  bool inclusive; /* the right and the bottom border are pixels of the box */
} cr_box_rules;

typedef struct cr_box_maps {
  cr_box_rules rules;
  double mean[4], deviation[4], most_shift, most_log;
  int64_t images;
  cr_buffer box;  /* cr_box of one image; the right and bottom border are outside */
  cr_buffer rank; /* cr_ranked */
  cr_buffer row;  /* 6 floats for each kept box of the batch */
} cr_box_maps;

/* The boxes of one size of a map. */
typedef struct cr_box_field {
  double width, height, rate;
  int64_t columns, rows;
  cr_host_values values; /* of the offsets */
} cr_box_field;

/* Checks the rules, and reads bbox_reg_param. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_box_maps_setup(cr_layer *layer) CREMA_MUST_USE;
crema_status cr_box_maps_reshape(cr_layer *layer, crema_blob *const *top) CREMA_MUST_USE;

/* Adds the box of a cell, whose first offset is value `at`, unless its score or size is too low. */
crema_status cr_box_maps_add(cr_box_maps *s, const cr_box_field *field, int64_t at, int64_t cell,
                             double score) CREMA_MUST_USE;

/* Calls cr_box_maps_add for each box of an image. */
typedef crema_status cr_box_maps_find(cr_layer *layer, crema_blob *const *bottom, int64_t image);

/* Finds the boxes of all images and writes the best to the tops. */
crema_status cr_box_maps_forward(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                                 cr_box_maps_find *find) CREMA_MUST_USE;
void cr_box_maps_free(cr_layer *layer);

#endif
