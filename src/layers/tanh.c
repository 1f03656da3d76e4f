/* TanH: the hyperbolic tangent.
 *
 * Formula: y = tanh(x).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: tanh_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "tanh" type: "TanH" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_unary *s = layer->state;
  (void)bottom;
  (void)top;
  s->function = CR_UNARY_TANH;
  return CREMA_OK;
}

const cr_layer_class cr_layer_tanh = {
    .type = "TanH",
    .state_size = sizeof(cr_layer_unary),
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .in_place = true,
    .setup = setup,
    .reshape = cr_layer_unary_reshape,
    .forward = cr_layer_unary_forward,
    .backward = cr_layer_unary_backward,
    .uses_tops = cr_layer_unary_uses_tops,
    .uses_bottom = cr_layer_unary_uses_bottom,
    .preserves = cr_layer_unary_preserves,
};
