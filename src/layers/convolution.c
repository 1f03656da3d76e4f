/* Convolution over any number of spatial axes, in groups. Axes before `axis` are batch, `axis`
 * holds the channels, the rest is space. Shapes: bottom (N..., C, S...), weights (O, C/group,
 * K...), bias (O), top (N..., O, S'...) with S' = (S + 2 pad - dilation (K - 1) - 1) / stride + 1.
 * Several bottoms of one shape give as many tops with the same weights. */
#include <string.h>

#include "core/fail.h"
#include "layers/layer_op.h"
#include "layers/layer_weights.h"
#include "layers/layer_window.h"

typedef struct conv_state {
  int axis; /* of the channels */
  int64_t channels, outputs, group;
  bool bias;
  cr_window window;
  cr_layer_op forward, backward_data;
  cr_layer_weights backward_weights;
} conv_state;

static crema_status read_channels(cr_layer *layer, const Caffe__ConvolutionParameter *param,
                                  const crema_shape *from) {
  conv_state *s = layer->state;
  s->channels = from->dim[s->axis];
  s->outputs = param->num_output;
  s->group = param->group;
  s->bias = param->bias_term;
  if (s->group == 0) return cr_layer_fail(layer, CREMA_E_RANGE, "group is 0, must be 1 or more");
  if (s->channels == 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom has no channels (axis %d)", s->axis);
  }
  if (s->channels % s->group != 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom's %lld channels cannot be divided into %lld groups",
                         (long long)s->channels, (long long)s->group);
  }
  if (s->outputs % s->group != 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_output %lld cannot be divided into %lld groups",
                         (long long)s->outputs, (long long)s->group);
  }
  return CREMA_OK;
}

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const conv_state *s = layer->state;
  char text[128];
  *to = cr_shape(s->axis, from->dim);
  to->dim[to->axes++] = s->outputs;
  for (int i = 0; i < s->window.axes; i++) {
    int64_t span = s->window.dilation[i] * (s->window.kernel[i] - 1) + 1;
    int64_t room = from->dim[s->axis + 1 + i] + 2 * s->window.pad[i] - span;
    if (room < 0) {
      return cr_layer_fail(layer, CREMA_E_SHAPE,
                           "the kernel spans %lld places of spatial axis %d, more than the padded "
                           "input has, shape %s, pad %lld",
                           (long long)span, i, crema_shape_text(from, text, sizeof text),
                           (long long)s->window.pad[i]);
    }
    to->dim[to->axes++] = room / s->window.stride[i] + 1;
  }
  return crema_shape_check(to);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  conv_state *s = layer->state;
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  const crema_shape *from = &bottom[0]->shape;
  (void)top;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "convolution_param needs a num_output of 1 or more");
  }
  CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &s->axis));
  CR_TRY(cr_layer_read_window(layer, param, from->axes - s->axis - 1, &s->window));
  CR_TRY(read_channels(layer, param, from));
  /* A kernel that does not fit is refused before memory is taken for it. */
  crema_shape to;
  CR_TRY(top_shape(layer, from, &to));
  crema_shape weights = cr_shape_2(s->outputs, s->channels / s->group);
  for (int i = 0; i < s->window.axes; i++) weights.dim[weights.axes++] = s->window.kernel[i];
  crema_shape bias = cr_shape_1(s->outputs);
  CR_TRY(cr_layer_set_params(layer, s->bias ? 2 : 1));
  CR_TRY(cr_layer_add_param(layer, 0, &weights, param->weight_filler));
  return s->bias ? cr_layer_add_param(layer, 1, &bias, param->bias_filler) : CREMA_OK;
}

static crema_status check_bottoms(const cr_layer *layer, crema_blob *const *bottom) {
  const conv_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  char text[128];
  if (from->axes != s->axis + 1 + s->window.axes || from->dim[s->axis] != s->channels) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the weights need a bottom of %d axes with %lld channels in axis %d, "
                         "found shape %s",
                         s->axis + 1 + s->window.axes, (long long)s->channels, s->axis,
                         crema_shape_text(from, text, sizeof text));
  }
  for (int i = 1; i < layer->bottoms; i++) {
    CR_TRY(cr_layer_same_shape(layer, "each bottom", from, &bottom[i]->shape));
  }
  return CREMA_OK;
}

/* The shape as the op wants it: batch axes joined; without spatial axes, one of extent 1. */
static crema_shape op_shape(const conv_state *s, const crema_shape *shape) {
  crema_shape out = cr_shape_1(crema_shape_count(shape, 0, s->axis));
  for (int i = s->axis; i < shape->axes; i++) out.dim[out.axes++] = shape->dim[i];
  if (s->window.axes == 0) out.dim[out.axes++] = 1;
  return out;
}

static crema_status make_ops(cr_layer *layer, const crema_shape *src, const crema_shape *dst) {
  conv_state *s = layer->state;
  crema_shape weights = layer->blob[0]->shape;
  const crema_shape *bias = s->bias ? &layer->blob[1]->shape : NULL;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_FWD);
  desc.u.conv.window = s->window;
  desc.u.conv.group = s->group;
  if (s->window.axes == 0) {
    cr_window *w = &desc.u.conv.window;
    w->axes = 1;
    w->kernel[0] = w->stride[0] = w->dilation[0] = 1;
    weights.dim[weights.axes++] = 1;
  }
  cr_op_desc fused = desc;
  fused.u.conv.relu = layer->fused_relu;
  fused.u.conv.relu_slope = layer->fused_relu ? layer->fused_relu_slope : 0;
  CR_TRY(cr_layer_op_make(&s->forward, &fused, 4, (const crema_shape *[]){src, &weights, bias, dst},
                          NULL));
  desc.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(cr_layer_op_make(&s->backward_data, &desc, 3, (const crema_shape *[]){dst, &weights, src},
                          NULL));
  desc.kind = CR_OP_CONV_BWD_WEIGHTS;
  return cr_layer_weights_make(&s->backward_weights, &desc, src, dst, &weights, bias);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  conv_state *s = layer->state;
  crema_shape to;
  CR_TRY(check_bottoms(layer, bottom));
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  crema_shape src = op_shape(s, &bottom[0]->shape), dst = op_shape(s, &to);
  for (int i = 0; i < layer->tops; i++) CR_TRY(crema_blob_reshape(top[i], &to));
  return make_ops(layer, &src, &dst);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  conv_state *s = layer->state;
  cr_tensor *bias = s->bias ? layer->blob[1]->data : NULL;
  for (int i = 0; i < layer->bottoms; i++) {
    CR_TRY(cr_layer_op_run(
        &s->forward, context,
        (cr_tensor *[]){bottom[i]->data, layer->blob[0]->data, bias, top[i]->data}, NULL));
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  conv_state *s = layer->state;
  for (int i = 0; i < layer->bottoms; i++) {
    CR_TRY(
        cr_layer_weights_run(&s->backward_weights, layer, context, bottom[i]->data, top[i]->diff));
    if (propagate_down[i]) {
      CR_TRY(cr_layer_op_run(&s->backward_data, context,
                             (cr_tensor *[]){top[i]->diff, layer->blob[0]->data, bottom[i]->diff},
                             NULL));
    }
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  conv_state *s = layer->state;
  cr_layer_weights_free(&s->backward_weights);
  cr_layer_op_free(&s->backward_data);
  cr_layer_op_free(&s->forward);
}

const cr_layer_class cr_layer_convolution = {
    .type = "Convolution",
    .state_size = sizeof(conv_state),
    .min_bottoms = 1,
    .max_bottoms = CR_ANY,
    .min_tops = 1,
    .max_tops = CR_ANY,
    .equal_bottoms_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
