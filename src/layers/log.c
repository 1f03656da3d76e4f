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

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__LogParameter *param = layer->param->log_param;
  float base = param ? param->base_ : -1;
  (void)bottom, (void)top;
  if (base != -1 && !(base > 0 && base != 1 && isfinite(base))) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "base is %g, must be positive and not 1, or -1 for e", (double)base);
  }
  return cr_layer_unary_set(layer, CR_UNARY_LOG,
                            base == -1 ? 1 : 1 / cr_layer_unary_log(layer, base),
                            param ? (double)param->scale : 1, param ? (double)param->shift : 0);
}

const cr_layer_class cr_layer_log = {
    CR_LAYER_UNARY("Log", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
