/* Exp: a power of a base.
 *
 * Formula: y = base ^ (shift + scale * x); base -1 stands for e.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: exp_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "exp" type: "Exp" bottom: "x" top: "y" exp_param { base: 2 } } */
#include <math.h>

#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ExpParameter *param = layer->param->exp_param;
  float base = param ? param->base_ : -1;
  (void)bottom, (void)top;
  if (base != -1 && !(base > 0 && isfinite(base))) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "base is %g, must be positive, or -1 for e",
                         (double)base);
  }
  return cr_layer_unary_set(layer, CR_UNARY_EXP, base == -1 ? 1 : cr_layer_unary_log(layer, base),
                            param ? (double)param->scale : 1, param ? (double)param->shift : 0);
}

const cr_layer_class cr_layer_exp = {
    CR_LAYER_UNARY("Exp", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
