/* ReLU: the rectified linear unit.
 *
 * Formula: y = x for x > 0, negative_slope * x otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: relu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "relu" type: "ReLU" bottom: "x" top: "y" relu_param { negative_slope: 0.1 } } */
#include "layers/common/layer_unary.h"

static float slope(const Caffe__LayerParameter *param) {
  return param->relu_param == NULL ? 0.0f : param->relu_param->negative_slope;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_unary *s = layer->state;
  (void)bottom;
  (void)top;
  s->function = CR_UNARY_RELU;
  s->alpha = slope(layer->param);
  return CREMA_OK;
}

const cr_layer_class cr_layer_relu = {
    .type = "ReLU",
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
    .relu_slope = slope,
    .uses_tops = cr_layer_unary_uses_tops,
    .uses_bottom = cr_layer_unary_uses_bottom,
    .preserves = cr_layer_unary_preserves,
};
