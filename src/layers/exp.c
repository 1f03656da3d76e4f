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

static float base_of(const Caffe__LayerParameter *param) {
  return param->exp_param ? param->exp_param->base_ : -1;
}

static bool is_base(float base) {
  return base == -1 || (base > 0 && isfinite(base));
}

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ExpParameter *p = param->exp_param;
  const float base = base_of(param);
  if (!is_base(base)) return false;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_EXP,
                   .alpha = base == -1 ? 1 : cr_layer_unary_log(arithmetic, base),
                   .beta = p ? (double)p->scale : 1,
                   .gamma = p ? (double)p->shift : 0};
  return true;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const float base = base_of(layer->param);
  if (!is_base(base)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "base is %g, must be positive, or -1 for e",
                         (double)base);
  }
  return cr_layer_unary_setup(layer, bottom, top);
}

const cr_layer_class cr_layer_exp = {
    CR_LAYER_UNARY("Exp", cr_layer_unary_by_input),
    .post = post,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
