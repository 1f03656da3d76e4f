/* The common part of layers that pool regions of interest. */
#ifndef CR_LAYERS_DETECTION_ROI_H
#define CR_LAYERS_DETECTION_ROI_H

#include "layers/common/layer_op.h"

typedef struct cr_roi_state {
  cr_layer_op forward, backward;
  bool uses_map; /* backward reads the values of the map */
} cr_roi_state;

/* The parts of a pooled region. */
typedef struct cr_roi_parts {
  int64_t channels, rows, columns; /* of the top */
  float scale;
  int ratio;
  float pad;
} cr_roi_parts;

/* Checks the map (bottom 0) and the regions (bottom 1), shapes the top and makes the ops;
 * `uses_map`: the backward op reads the map. */
crema_status cr_roi_make(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                         cr_op_kind forward, cr_op_kind backward, const cr_roi_parts *parts,
                         bool uses_map) CREMA_MUST_USE;

/* Class functions. */
cr_layer_forward_fn cr_roi_forward;
cr_layer_backward_fn cr_roi_backward;

/* The members that the classes set; each adds its setup and reshape. */
#define CR_LAYER_ROI(type_name)                                                             \
  .type = type_name, .state_size = sizeof(cr_roi_state), .bottoms = {2, 2}, .tops = {1, 1}, \
  .no_gradient_bottoms = 1u << 1, .forward = cr_roi_forward, .backward = cr_roi_backward

#endif
