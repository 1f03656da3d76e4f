/* Scale: multiplies by a learnt or computed factor.
 *
 * Formula: y = x * scale + bias, where scale and bias span the axes of x from axis on and are
 * repeated over all others.
 * Shapes: x (any), optionally scale -> y (as x), also in place. Without a second bottom the scale
 * is parameter 0 of num_axes axes (-1: to the last; 0: a scalar), filled with 1 unless filler says
 * otherwise; with bias_term the bias is the last parameter.
 * Fields: scale_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "scale" type: "Scale" bottom: "x" top: "y" scale_param { bias_term: true } } */
#include "core/fail.h"
#include "layers/common/layer_keep.h"
#include "layers/common/layer_shape.h"

typedef struct scale_state {
  bool bias;
  cr_layer_op forward, backward_data, backward_scale, backward_bias;
  cr_layer_keep keep;
} scale_state;

static const Caffe__ScaleParameter *parameters(const cr_layer *layer) {
  static const Caffe__ScaleParameter defaults = CAFFE__SCALE_PARAMETER__INIT;
  return layer->param->scale_param ? layer->param->scale_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static Caffe__FillerParameter const ones = {
      .base = PROTOBUF_C_MESSAGE_INIT(&caffe__filler_parameter__descriptor),
      .type = (char *)"constant",
      .value = 1,
      .sparse = -1};
  scale_state *s = layer->state;
  const Caffe__ScaleParameter *param = parameters(layer);
  crema_shape shape;
  int learned = layer->bottoms == 1;
  (void)top;
  s->bias = param->bias_term;
  if (learned) {
    CR_TRY(cr_layer_read_span(layer, &bottom[0]->shape, param->axis, param->num_axes, &shape));
  } else {
    shape = bottom[1]->shape;
  }
  CR_TRY(cr_layer_set_params(layer, learned + s->bias));
  if (learned) CR_TRY(cr_layer_add_param(layer, 0, &shape, param->filler ? param->filler : &ones));
  return s->bias ? cr_layer_add_param(layer, learned, &shape, param->bias_filler) : CREMA_OK;
}

static crema_blob *scale_of(const cr_layer *layer, crema_blob *const *bottom) {
  return layer->bottoms > 1 ? bottom[1] : layer->blob[0];
}

static crema_blob *bias_of(const cr_layer *layer) {
  const scale_state *s = layer->state;
  return s->bias ? layer->blob[layer->params - 1] : NULL;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  scale_state *s = layer->state;
  crema_shape x;
  const crema_shape *scale = &scale_of(layer, bottom)->shape;
  CR_TRY(cr_layer_fit_span(layer, "scale", &bottom[0]->shape, scale, parameters(layer)->axis, &x));
  if (s->bias) {
    CR_TRY(cr_layer_same_shape(layer, "the scale", &bias_of(layer)->shape, scale));
  }
  crema_shape c = cr_shape_1(x.dim[1]);
  const crema_shape *bias = s->bias ? &c : NULL;
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], &bottom[0]->shape));
  CR_TRY(cr_layer_keep_make(layer, &s->keep, bottom[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 4, (const crema_shape *[]){&x, &c, bias, &x},
                          NULL));
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  CR_TRY(cr_layer_op_make(layer, &s->backward_data, &desc, 3, (const crema_shape *[]){&x, &c, &x},
                          NULL));
  desc.kind = CR_OP_AFFINE_BWD_SCALE;
  CR_TRY(cr_layer_op_make(layer, &s->backward_scale, &desc, 3, (const crema_shape *[]){&x, &x, &c},
                          NULL));
  desc.kind = CR_OP_AFFINE_BWD_BIAS;
  return cr_layer_op_make(layer, &s->backward_bias, &desc, 2, (const crema_shape *[]){&x, &c},
                          NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  scale_state *s = layer->state;
  cr_tensor *scale = scale_of(layer, bottom)->data;
  cr_tensor *bias = s->bias ? bias_of(layer)->data : NULL;
  CR_TRY(cr_layer_keep_forward(layer, &s->keep, context, bottom[0], top[0]));
  return cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){bottom[0]->data, scale, bias, top[0]->data}, NULL);
}

static crema_status backward_scale(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                   crema_blob *const *bottom) {
  scale_state *s = layer->state;
  cr_tensor *diff = scale_of(layer, bottom)->diff;
  cr_tensor *input = cr_layer_keep_input(&s->keep, bottom[0], top[0]);
  /* A parameter's gradient accumulates; a bottom's is overwritten. */
  if (layer->bottoms > 1) cr_tensor_set_zero(diff);
  return cr_layer_op_run(&s->backward_scale, context, (cr_tensor *[]){input, top[0]->diff, diff},
                         NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  scale_state *s = layer->state;
  bool scale = layer->bottoms > 1 ? propagate_down[1] : layer->param_propagate_down[0];
  if (s->bias && layer->param_propagate_down[layer->params - 1]) {
    CR_TRY(cr_layer_op_run(&s->backward_bias, context,
                           (cr_tensor *[]){top[0]->diff, bias_of(layer)->diff}, NULL));
  }
  if (scale) CR_TRY(backward_scale(layer, context, top, bottom));
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(
      &s->backward_data, context,
      (cr_tensor *[]){top[0]->diff, scale_of(layer, bottom)->data, bottom[0]->diff}, NULL);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  if (bottom == 1) return true;
  return layer->bottoms > 1 || layer->param_propagate_down[0];
}

const cr_layer_class cr_layer_scale = {
    .type = "Scale",
    .state_size = sizeof(scale_state),
    .min_bottoms = 1,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .in_place = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
