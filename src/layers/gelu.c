/* GELU: the Gaussian error linear unit (Hendrycks and Gimpel, 2016).
 *
 * Formula: y = x / 2 (1 + erf(x / sqrt(2))); with approximate, y = x / 2 (1 + tanh(sqrt(2 / pi)
 * (x + 0.044715 x^3))).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: gelu_param.
 * Caffe: has no such layer.
 * Example, x 2 3 4 4:
 *   layer { name: "gelu" type: "GELU" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__GELUParameter *p = param->gelu_param;
  (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = p && p->approximate ? CR_UNARY_GELU_TANH : CR_UNARY_GELU};
  return true;
}

const cr_layer_class cr_layer_gelu = {
    CR_LAYER_UNARY("GELU", cr_layer_unary_by_input),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
