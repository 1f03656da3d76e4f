/* Log: a logarithm.
 *
 * Formula: y = log(shift + scale * x) to the given base; base -1 stands for e.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: log_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "log" type: "Log" bottom: "x" top: "y" log_param { shift: 1 } } */
#include <math.h>

#include "layers/common/layer_unary.h"

static float base_of(const Caffe__LayerParameter *param) {
  return param->log_param ? param->log_param->base_ : -1;
}

static bool is_base(float base) {
  return base == -1 || (base > 0 && base != 1 && isfinite(base));
}

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__LogParameter *p = param->log_param;
  const float base = base_of(param);
  if (!is_base(base)) return false;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_LOG,
                   .alpha = base == -1 ? 1 : 1 / cr_layer_unary_log(arithmetic, base),
                   .beta = p ? (double)p->scale : 1,
                   .gamma = p ? (double)p->shift : 0};
  return true;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const float base = base_of(layer->param);
  if (!is_base(base)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "base is %g, must be positive and not 1, or -1 for e", (double)base);
  }
  return cr_layer_unary_setup(layer, bottom, top);
}

const cr_layer_class cr_layer_log = {
    CR_LAYER_UNARY("Log", cr_layer_unary_by_input),
    .post = post,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
