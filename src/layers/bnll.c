/* BNLL: the binomial normal log likelihood, a smooth ReLU.
 *
 * Formula: y = log(1 + exp(x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "bnll" type: "BNLL" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_BNLL};
  return true;
}

const cr_layer_class cr_layer_bnll = {
    CR_LAYER_UNARY("BNLL", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
