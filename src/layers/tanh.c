/* TanH: the hyperbolic tangent.
 *
 * Formula: y = tanh(x).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: tanh_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "tanh" type: "TanH" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_TANH};
  return true;
}

const cr_layer_class cr_layer_tanh = {
    CR_LAYER_UNARY("TanH", cr_layer_unary_by_value),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
