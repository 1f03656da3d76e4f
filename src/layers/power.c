/* Power: y = (shift + scale x)^power. */
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
