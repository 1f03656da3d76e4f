/* Power: a power of a linear function.
 *
 * Formula: y = (shift + scale * x) ^ power.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: power_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "power" type: "Power" bottom: "x" top: "y"
 *     power_param { power: 2 scale: 0.5 shift: 1 } } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__PowerParameter *param = layer->param->power_param;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_POWER;
  s->alpha = param ? param->power : 1;
  s->beta = param ? param->scale : 1;
  s->gamma = param ? param->shift : 0;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(power, "Power", setup, cr_layer_function_backward);
