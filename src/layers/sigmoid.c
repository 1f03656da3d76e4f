/* Sigmoid: the logistic function.
 *
 * Formula: y = 1 / (1 + exp(-x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: sigmoid_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_SIGMOID};
  return true;
}

const cr_layer_class cr_layer_sigmoid = {
    CR_LAYER_UNARY("Sigmoid", cr_layer_unary_by_value),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
