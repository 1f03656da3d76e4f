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

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ThresholdParameter *p = param->threshold_param;
  (void)arithmetic;
  *out = (cr_post){
      .kind = CR_POST_UNARY, .function = CR_UNARY_THRESHOLD, .alpha = p ? (double)p->threshold : 0};
  return true;
}

const cr_layer_class cr_layer_threshold = {
    CR_LAYER_UNARY("Threshold", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
};
