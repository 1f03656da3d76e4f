/* ELU: the exponential linear unit (Clevert, Unterthiner and Hochreiter, 2016).
 *
 * Formula: y = lambda * x for x > 0, lambda * alpha * (exp(x) - 1) otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: elu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "elu" type: "ELU" bottom: "x" top: "y" elu_param { alpha: 0.5 } } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__ELUParameter *param = layer->param->elu_param;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_ELU;
  s->alpha = param ? param->alpha : 1;
  s->beta = param ? param->lambda : 1;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(elu, "ELU", setup, cr_layer_function_backward);
