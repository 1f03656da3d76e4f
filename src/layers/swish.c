/* Swish: a smooth ReLU (Ramachandran, Zoph and Le, 2017).
 *
 * Formula: y = x / (1 + exp(-beta * x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: swish_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "swish" type: "Swish" bottom: "x" top: "y" swish_param { beta: 1.5 } } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__SwishParameter *param = layer->param->swish_param;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_SWISH;
  s->alpha = param ? param->beta : 1;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(swish, "Swish", setup, cr_layer_function_backward);
