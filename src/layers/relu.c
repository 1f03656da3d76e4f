/* ReLU: the rectified linear unit.
 *
 * Formula: y = x for x > 0, negative_slope * x otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: relu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "relu" type: "ReLU" bottom: "x" top: "y" relu_param { negative_slope: 0.1 } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"
#include "layers/common/layer_unary.h"

typedef struct relu_state {
  cr_layer_unary unary;
  cr_layer_op with_bias; /* the gradient, and the gradient of bias_of's bias */
} relu_state;

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

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  relu_state *s = layer->state;
  CR_TRY(cr_layer_unary_reshape(layer, bottom, top));
  if (layer->bias_of == NULL) return CREMA_OK;
  const cr_layer_conv *conv = layer->bias_of->state;
  const crema_shape shape = cr_layer_fold(&top[0]->shape, conv->axis, conv->axis + 1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_RELU_BWD_BIAS);
  desc.u.unary.function = s->unary.function;
  desc.u.unary.alpha = s->unary.alpha;
  return CR_LAYER_MAKE(layer, &s->with_bias, &desc, &shape, &shape, &shape,
                       &layer->bias_of->blob[1]->shape);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  relu_state *s = layer->state;
  const cr_layer *conv = layer->bias_of;
  if (conv == NULL || !conv->param_propagate_down[1] || !propagate_down[0]) {
    return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
  }
  return CR_LAYER_RUN(&s->with_bias, context, top[0]->diff, top[0]->data, bottom[0]->diff,
                      conv->blob[1]->diff);
}

const cr_layer_class cr_layer_relu = {
    CR_LAYER_UNARY_OF("ReLU", relu_state, cr_layer_unary_by_value),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = setup,
    .reshape = reshape,
    .backward = backward,
};
