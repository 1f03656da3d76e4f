/* Threshold: whether a value is above a limit. It has no gradient.
 *
 * Formula: y = 1 for x > threshold, 0 otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: threshold_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "threshold" type: "Threshold" bottom: "x" top: "y"
 *     threshold_param { threshold: 0.5 } } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ThresholdParameter *param = layer->param->threshold_param;
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_THRESHOLD, param ? (double)param->threshold : 0, 0, 0);
}

const cr_layer_class cr_layer_threshold = {
    CR_LAYER_UNARY("Threshold", cr_layer_unary_by_input),
    .setup = setup,
};
