/* Clip: cuts values to a range.
 *
 * Formula: y = min(max(x, min), max).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: clip_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "clip" type: "Clip" bottom: "x" top: "y" clip_param { min: -1 max: 1 } } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__ClipParameter *param = layer->param->clip_param;
  (void)bottom;
  (void)top;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "clip_param with min and max is required");
  }
  if (!(param->min <= param->max)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "min %g is above max %g", (double)param->min,
                         (double)param->max);
  }
  s->kind = CR_FUNCTION_CLIP;
  s->alpha = param->min;
  s->beta = param->max;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(clip, "Clip", setup, cr_layer_function_backward);
