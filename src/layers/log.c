/* Log: a logarithm.
 *
 * Formula: y = log(shift + scale * x) to the given base; base -1 stands for e.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: log_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "log" type: "Log" bottom: "x" top: "y" log_param { shift: 1 } } */
#include <math.h>

#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__LogParameter *param = layer->param->log_param;
  float base = param ? param->base_ : -1;
  (void)bottom;
  (void)top;
  if (base != -1 && !(base > 0 && base != 1 && isfinite(base))) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "base is %g, must be positive and not 1, or -1 for e", (double)base);
  }
  s->kind = CR_FUNCTION_LOG;
  s->alpha = base == -1 ? 1 : 1 / logf(base);
  s->beta = param ? param->scale : 1;
  s->gamma = param ? param->shift : 0;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(log, "Log", setup, cr_layer_function_backward);
