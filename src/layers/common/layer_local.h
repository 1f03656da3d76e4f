/* Convolutions with other weights at each position: Local and LocalConvolution, whose fields have
 * different names. */
#ifndef CR_LAYERS_LAYER_LOCAL_H
#define CR_LAYERS_LAYER_LOCAL_H

#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

/* The state of such a layer. */
typedef struct cr_layer_local_conv {
  cr_window window;
  bool bias;
  crema_shape from, to; /* of bottom and top; only the number of samples may change */
  cr_layer_op unfold, fold;
  cr_layer_op forward, backward_data, add_weights, add_bias;
  cr_tensor *columns, *diff_columns;
} cr_layer_local_conv;

/* For setup: reads `param` (NULL: not given) and makes the parameters 0, weights (O, 1, K, P) for K
 * values of a window and P positions, and 1, bias (1, 1, O, P). `field` names param in errors.
 * Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE, CREMA_E_SHAPE. */
crema_status cr_layer_local_conv_setup(cr_layer *layer, crema_blob *const *bottom,
                                       const char *field,
                                       const Caffe__LocalParameter *param) CREMA_MUST_USE;

/* Class functions. */
cr_layer_shape_fn cr_layer_local_conv_reshape;
cr_layer_forward_fn cr_layer_local_conv_forward;
cr_layer_backward_fn cr_layer_local_conv_backward;

/* The members that the classes set; each adds its setup. */
#define CR_LAYER_LOCAL(type_name)                                                                  \
  .type = type_name, .state_size = sizeof(cr_layer_local_conv), .bottoms = {1, 1}, .tops = {1, 1}, \
  .reshape = cr_layer_local_conv_reshape, .forward = cr_layer_local_conv_forward,                  \
  .backward = cr_layer_local_conv_backward, .fusion.reach = cr_layer_reaches_sample

#endif
