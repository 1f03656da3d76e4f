/* SeLu: the scaled exponential linear unit (Klambauer et al., "Self-normalizing neural networks",
 * 2017).
 *
 * Formula: y = lambda x for x > 0, lambda alpha (exp(x) - 1) otherwise, with lambda =
 * 1.0507009873554805 and alpha = 1.6732632423543773.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: as in the paper's fork.
 * Example, x 2 3 4 4:
 *   layer { name: "selu" type: "SeLu" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_ELU,
                   .alpha = 1.6732632423543773,
                   .beta = 1.0507009873554805};
  return true;
}

const cr_layer_class cr_layer_selu = {
    CR_LAYER_UNARY("SeLu", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
