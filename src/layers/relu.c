/* ReLU: the rectified linear unit.
 *
 * Formula: y = x for x > 0, negative_slope * x otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: relu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "relu" type: "ReLU" bottom: "x" top: "y" relu_param { negative_slope: 0.1 } } */
#include "core/fail.h"
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ReLUParameter *p = param->relu_param;
  (void)arithmetic;
  *out = (cr_post){
      .kind = CR_POST_UNARY, .function = CR_UNARY_RELU, .alpha = p ? (double)p->negative_slope : 0};
  return true;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ReLUParameter *param = layer->param->relu_param;
  if (param != NULL && param->fuse && param->negative_slope != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "fuse with a negative_slope is not supported: leave the layer out");
  }
  return cr_layer_unary_setup(layer, bottom, top);
}

const cr_layer_class cr_layer_relu = {
    CR_LAYER_UNARY("ReLU", cr_layer_unary_by_value),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
