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
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_RELU, (double)slope(layer->param), 0, 0);
}

const cr_layer_class cr_layer_relu = {
    CR_LAYER_UNARY("ReLU", cr_layer_unary_by_value),
    .setup = setup,
    .backward = cr_layer_pair_backward,
    .relu_slope = slope,
};
