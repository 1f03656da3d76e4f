/* Convolutions with other weights for each of some regions of a map: LocalConvolution with
 * local_conv_param. */
#ifndef CR_LAYERS_LAYER_REGIONS_H
#define CR_LAYERS_LAYER_REGIONS_H

#include "layers/common/layer_weights.h"

/* The state of such a layer. Regions become channels of one map, which a convolution of as many
 * groups takes. */
typedef struct cr_layer_regions {
  cr_window window;
  int64_t group, outputs;
  int64_t number[2], step[2]; /* regions along an axis, and pixels from one to the next */
  float ratio[2];             /* of the extent of a region and the map's */
  bool bias;
  int64_t extent[2], out[2]; /* of a region, and of its part of the top */
  crema_shape from;          /* of the bottom; only the number of samples may change */
  cr_layer_op turn, pick, stack, convolve, tile;
  cr_layer_op untile, back, unstack, unpick, unturn;
  cr_layer_weights weights;
  cr_tensor *index; /* of the regions' positions in the map */
  cr_tensor *rows, *picked, *stacked, *products;
  cr_tensor *diff_rows, *diff_picked, *diff_stacked, *diff_products;
} cr_layer_regions;

/* For setup: makes the parameters 0, weights (L, O C / group, kernel height, kernel width) for L
 * regions, and 1, bias (L, O, 1, 1). Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE, CREMA_E_SHAPE. */
crema_status cr_layer_regions_setup(cr_layer *layer, cr_layer_regions *s,
                                    const crema_shape *bottom) CREMA_MUST_USE;

/* For the class functions. */
crema_status cr_layer_regions_reshape(cr_layer *layer, cr_layer_regions *s,
                                      crema_blob *const *bottom,
                                      crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_regions_forward(cr_layer *layer, cr_layer_regions *s, crema_context *context,
                                      cr_tensor *x, cr_tensor *y) CREMA_MUST_USE;
/* diff_x NULL: only the gradients of the parameters. */
crema_status cr_layer_regions_backward(cr_layer *layer, cr_layer_regions *s, crema_context *context,
                                       cr_tensor *diff_y, cr_tensor *diff_x) CREMA_MUST_USE;

#endif
