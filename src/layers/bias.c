/* Bias: adds a learnt or computed bias.
 *
 * Formula: y = x + bias, where the bias spans the axes of x from axis on and is repeated over all
 * others.
 * Shapes: x (any), optionally bias -> y (as x), also in place. Without a second bottom the bias is
 * parameter 0 of num_axes axes (-1: to the last; 0: a scalar).
 * Fields: bias_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "bias" type: "Bias" bottom: "x" top: "y" bias_param { filler { value: 0.5 } } }
 */
#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct bias_state {
  cr_layer_op forward, copy, backward;
} bias_state;

static const Caffe__BiasParameter *parameters(const cr_layer *layer) {
  static const Caffe__BiasParameter defaults = CAFFE__BIAS_PARAMETER__INIT;
  return layer->param->bias_param ? layer->param->bias_param : &defaults;
}

static crema_blob *bias_of(const cr_layer *layer, crema_blob *const *bottom) {
  return layer->bottoms > 1 ? bottom[1] : layer->blob[0];
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__BiasParameter *param = parameters(layer);
  crema_shape shape;
  (void)top;
  if (layer->bottoms > 1) return CREMA_OK;
  CR_TRY(cr_layer_read_span(layer, &bottom[0]->shape, param->axis, param->num_axes, &shape));
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &shape, param->filler);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  bias_state *s = layer->state;
  crema_shape x;
  CR_TRY(cr_layer_fit_span(layer, "bias", &bottom[0]->shape, &bias_of(layer, bottom)->shape,
                           parameters(layer)->axis, &x));
  const crema_shape c = cr_shape_1(x.dim[1]);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], &bottom[0]->shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 4, (const crema_shape *[]){&x, NULL, &c, &x},
                          NULL));
  desc.kind = CR_OP_AFFINE_BWD_BIAS;
  CR_TRY(cr_layer_op_make(layer, &s->backward, &desc, 2, (const crema_shape *[]){&x, &c}, NULL));
  desc.kind = CR_OP_COPY;
  return cr_layer_op_make(layer, &s->copy, &desc, 2, (const crema_shape *[]){&x, &x}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  bias_state *s = layer->state;
  cr_tensor *bias = bias_of(layer, bottom)->data;
  return cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){bottom[0]->data, NULL, bias, top[0]->data}, NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  bias_state *s = layer->state;
  bool bias = layer->bottoms > 1 ? propagate_down[1] : layer->param_propagate_down[0];
  if (bias) {
    cr_tensor *diff = bias_of(layer, bottom)->diff;
    /* A parameter's gradient accumulates; a bottom's is overwritten. */
    if (layer->bottoms > 1) cr_tensor_set_zero(diff);
    CR_TRY(cr_layer_op_run(&s->backward, context, (cr_tensor *[]){top[0]->diff, diff}, NULL));
  }
  if (!propagate_down[0] || bottom[0]->diff == top[0]->diff) return CREMA_OK;
  return cr_layer_op_run(&s->copy, context, (cr_tensor *[]){top[0]->diff, bottom[0]->diff}, NULL);
}

const cr_layer_class cr_layer_bias = {
    .type = "Bias",
    .state_size = sizeof(bias_state),
    .min_bottoms = 1,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .in_place = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
