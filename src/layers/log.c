/* Log: a logarithm.
 *
 * Formula: y = log(shift + scale * x) to the given base. Base -1 means e.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: log_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "log" type: "Log" bottom: "x" top: "y" log_param { shift: 1 } } */
#include <math.h>

#include "layers/common/layer_unary.h"

static const Caffe__LogParameter *param_of(const Caffe__LayerParameter *param) {
  static const Caffe__LogParameter defaults = CAFFE__LOG_PARAMETER__INIT;
  return param->log_param ? param->log_param : &defaults;
}

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__LogParameter *p = param_of(param);
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_LOG,
                   .alpha = 1 / cr_layer_unary_log(arithmetic, p->base_),
                   .beta = (double)p->scale,
                   .gamma = (double)p->shift};
  return isfinite(out->alpha);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_post found;
  if (post(layer->param, CREMA_F32, &found)) return cr_layer_unary_setup(layer, bottom, top);
  return cr_layer_fail(layer, CREMA_E_RANGE, "base is %g, must be positive and not 1, or -1 for e",
                       (double)param_of(layer->param)->base_);
}

const cr_layer_class cr_layer_log = {
    CR_LAYER_UNARY("Log", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
