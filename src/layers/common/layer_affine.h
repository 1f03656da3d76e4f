/* Layers that multiply their bottom by one blob or add one to it: Bias and Scale.
 *
 * y = x * scale + bias, where either may be absent. The first of them, the operand, spans the axes
 * of x from `axis` on; it is the second bottom or, without one, parameter 0. The bias of a layer
 * with a scale is its last parameter. */
#ifndef CR_LAYERS_LAYER_AFFINE_H
#define CR_LAYERS_LAYER_AFFINE_H

#include "layers/common/layer_keep.h"

/* The state; setup sets the first members. */
typedef struct cr_layer_affine {
  int axis;
  bool scale, bias;
  cr_layer_op forward, backward_data, backward_scale, backward_bias;
  cr_layer_keep keep; /* with a scale */
} cr_layer_affine;

/* The shape of the operand according to `axis` and `num_axes` (as cr_layer_read_span) or the second
 * bottom. */
crema_status cr_layer_affine_shape(const cr_layer *layer, crema_blob *const *bottom, int num_axes,
                                   crema_shape *out) CREMA_MUST_USE;

/* Class functions. */
cr_layer_shape_fn cr_layer_affine_reshape;
cr_layer_forward_fn cr_layer_affine_forward;
cr_layer_backward_fn cr_layer_affine_backward;
bool cr_layer_affine_uses_bottom(const cr_layer *layer, int bottom);

/* For a layer with a scale. */
bool cr_layer_affine_scales_channels(const cr_layer *layer);

/* How far the values reach of a layer whose parameters say `axis`. */
cr_layer_reach cr_layer_affine_reach(int bottoms, int axis);

/* The members that both classes set; each adds its setup. */
#define CR_LAYER_AFFINE(type_name)                                                             \
  .type = type_name, .state_size = sizeof(cr_layer_affine), .bottoms = {1, 2}, .tops = {1, 1}, \
  .in_place = true, .reshape = cr_layer_affine_reshape, .forward = cr_layer_affine_forward,    \
  .backward = cr_layer_affine_backward, .uses_bottom = cr_layer_affine_uses_bottom,            \
  .memory.makes_input_again = true, .fusion.fuses_functions = true, .int8.takes_bf16 = true

#endif
