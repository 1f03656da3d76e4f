/* Swish: a smooth ReLU (Ramachandran, Zoph and Le, 2017).
 *
 * Formula: y = x / (1 + exp(-beta * x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: swish_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "swish" type: "Swish" bottom: "x" top: "y" swish_param { beta: 1.5 } } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__SwishParameter *p = param->swish_param;
  (void)arithmetic;
  *out = (cr_post){
      .kind = CR_POST_UNARY, .function = CR_UNARY_SWISH, .alpha = p ? (double)p->beta : 1};
  return true;
}

const cr_layer_class cr_layer_swish = {
    CR_LAYER_UNARY("Swish", cr_layer_unary_by_input),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
