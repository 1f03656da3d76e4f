/* Threshold: whether a value is above a limit. It has no gradient.
 *
 * Formula: y = 1 for x > threshold, 0 otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: threshold_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "threshold" type: "Threshold" bottom: "x" top: "y"
 *     threshold_param { threshold: 0.5 } } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  const Caffe__ThresholdParameter *param = layer->param->threshold_param;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_THRESHOLD;
  s->alpha = param ? param->threshold : 0;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(threshold, "Threshold", setup, NULL);
