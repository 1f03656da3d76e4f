/* Exp: a power of a base.
 *
 * Formula: y = base ^ (shift + scale * x). Base -1 means e.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: exp_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "exp" type: "Exp" bottom: "x" top: "y" exp_param { base: 2 } } */
#include <math.h>

#include "layers/common/layer_unary.h"

static const Caffe__ExpParameter *param_of(const Caffe__LayerParameter *param) {
  static const Caffe__ExpParameter defaults = CAFFE__EXP_PARAMETER__INIT;
  return param->exp_param ? param->exp_param : &defaults;
}

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ExpParameter *p = param_of(param);
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_EXP,
                   .alpha = cr_layer_unary_log(arithmetic, p->base_),
                   .beta = (double)p->scale,
                   .gamma = (double)p->shift};
  return isfinite(out->alpha);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_post found;
  if (post(layer->param, CREMA_F32, &found)) return cr_layer_unary_setup(layer, bottom, top);
  return cr_layer_fail(layer, CREMA_E_RANGE, "base is %g, must be positive, or -1 for e",
                       (double)param_of(layer->param)->base_);
}

const cr_layer_class cr_layer_exp = {
    CR_LAYER_UNARY("Exp", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
