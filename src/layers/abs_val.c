/* AbsVal: y = |x|. */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_ABS;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(abs_val, "AbsVal", setup, cr_layer_function_backward);
