/* ReLU6: the rectified linear unit cut at 6 (Howard et al., "MobileNets", 2017).
 *
 * Formula: y = min(max(x, 0), 6).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: as in forks that have MobileNets; there is no gradient at 0 and at 6.
 * Example, x 2 3 4 4:
 *   layer { name: "relu6" type: "ReLU6" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_CLIP, .alpha = 0, .beta = 6};
  return true;
}

const cr_layer_class cr_layer_relu6 = {
    CR_LAYER_UNARY("ReLU6", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
