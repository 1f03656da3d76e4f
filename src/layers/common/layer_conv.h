/* Convolution and its transpose: parameters, checks, ops and class functions. The layers differ in
 * the top's extents and in which op runs forward and which backward. */
#ifndef CR_LAYERS_LAYER_CONV_H
#define CR_LAYERS_LAYER_CONV_H

#include "layers/common/layer_int8.h"
#include "layers/common/layer_weights.h"

/* The top's extent along spatial axis `i` for a bottom of shape `from`. Errors: CREMA_E_SHAPE when
 * the window does not fit. */
typedef crema_status cr_conv_extent(const cr_layer *layer, const crema_shape *from, int i,
                                    int64_t *out);

/* The state of such a layer. */
typedef struct cr_layer_conv {
  int axis; /* of the channels: axes before it are batch, axes after it space */
  int64_t channels, outputs, group;
  bool bias;
  cr_window window;
  bool depthwise;  /* one group and one output per channel, whatever convolution_param says; set
                      before setup */
  bool transposed; /* forward is the gradient of a convolution and vice versa */
  cr_conv_extent *extent;
  cr_layer_op forward, backward_data;
  cr_layer_rounded rounded;
  cr_layer_op add_bias; /* transposed: its forward op takes none */
  cr_layer_weights gradients;
} cr_layer_conv;

/* The extent of a convolution's top. */
cr_conv_extent cr_layer_conv_extent;

/* Reads convolution_param for bottoms shaped as bottom[0], makes weights and bias. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE, CREMA_E_SHAPE. */
crema_status cr_layer_conv_setup(cr_layer *layer, crema_blob *const *bottom, bool transposed,
                                 cr_conv_extent *extent) CREMA_MUST_USE;

/* Class functions. */
cr_layer_shape_fn cr_layer_conv_reshape;
cr_layer_forward_fn cr_layer_conv_forward;
cr_layer_backward_fn cr_layer_conv_backward;
cr_layer_reach cr_layer_conv_reach(const Caffe__LayerParameter *param, int bottoms);

/* The members that the classes set; each adds its setup. */
#define CR_LAYER_CONV(type_name)                                                           \
  .type = type_name, .state_size = sizeof(cr_layer_conv), .bottoms = {1, CR_ANY},          \
  .tops = {1, CR_ANY}, .graph.equal_bottoms_tops = true, .reshape = cr_layer_conv_reshape, \
  .forward = cr_layer_conv_forward, .backward = cr_layer_conv_backward,                    \
  .uses_bottom = cr_layer_weights_uses_bottom, .fusion.reach = cr_layer_conv_reach,        \
  .fusion.product = CR_PRODUCT_CONV, .int8.takes_bf16 = true, .memory.runs_ops = true

#endif
