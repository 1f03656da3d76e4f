/* Power: a power of a linear function.
 *
 * Formula: y = (shift + scale * x) ^ power.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: power_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "power" type: "Power" bottom: "x" top: "y"
 *     power_param { power: 2 scale: 0.5 shift: 1 } } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__PowerParameter *p = param->power_param;
  (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_POWER,
                   .alpha = p ? (double)p->power : 1,
                   .beta = p ? (double)p->scale : 1,
                   .gamma = p ? (double)p->shift : 0};
  return true;
}

const cr_layer_class cr_layer_power = {
    CR_LAYER_UNARY("Power", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
