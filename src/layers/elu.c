/* ELU: the exponential linear unit (Clevert, Unterthiner and Hochreiter, 2016).
 *
 * Formula: y = lambda * x for x > 0, lambda * alpha * (exp(x) - 1) otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: elu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "elu" type: "ELU" bottom: "x" top: "y" elu_param { alpha: 0.5 } } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ELUParameter *p = param->elu_param;
  (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_ELU,
                   .alpha = p ? (double)p->alpha : 1,
                   .beta = p ? (double)p->lambda : 1};
  return true;
}

const cr_layer_class cr_layer_elu = {
    CR_LAYER_UNARY("ELU", cr_layer_unary_by_input),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
