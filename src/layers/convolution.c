/* Convolution: convolution over any number of spatial axes, in groups.
 *
 * Formula: y[o] = bias[o] + sum over channels c of the group and window positions k of
 * weights[o][c][k] * x[c][stride * position + dilation * k - pad].
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...) with S' = (S + 2 pad - dilation (K - 1) - 1) /
 * stride + 1, O being num_output. Axes before axis are batch, axis holds the channels, the rest is
 * space. Parameters: weights (O, C / group, K...), bias (O). Several bottoms of one shape give as
 * many tops with the same weights.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 3 16 16:
 *   layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
 *     param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
 *     convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2
 *       weight_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"
#include "layers/common/layer_weights.h"

typedef struct conv_state {
  cr_layer_conv conv;
  cr_layer_op forward, backward_data;
  cr_layer_weights backward_weights;
} conv_state;

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const conv_state *s = layer->state;
  const cr_window *w = &s->conv.window;
  char text[128];
  *to = cr_shape(s->conv.axis, from->dim);
  to->dim[to->axes++] = s->conv.outputs;
  for (int i = 0; i < w->axes; ++i) {
    int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
    int64_t room = from->dim[s->conv.axis + 1 + i] + 2 * w->pad[i] - span;
    if (room < 0) {
      return cr_layer_fail(layer, CREMA_E_SHAPE,
                           "the kernel spans %lld places of spatial axis %d, more than the padded "
                           "input has, shape %s, pad %lld",
                           (long long)span, i, crema_shape_text(from, text, sizeof text),
                           (long long)w->pad[i]);
    }
    to->dim[to->axes++] = room / w->stride[i] + 1;
  }
  return crema_shape_check(to);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  conv_state *s = layer->state;
  crema_shape to;
  (void)top;
  CR_TRY(cr_layer_conv_read(layer, bottom, &s->conv));
  /* A kernel that does not fit is refused before memory is taken for it. */
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  return cr_layer_conv_params(layer, &s->conv, s->conv.outputs, s->conv.channels);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *src, const crema_shape *dst) {
  conv_state *s = layer->state;
  const crema_shape *bias = s->conv.bias ? &layer->blob[1]->shape : NULL;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_FWD);
  const crema_shape weights = cr_layer_conv_weights(layer, &s->conv, &desc.u.conv);
  cr_op_desc fused = desc;
  fused.u.conv.relu = layer->fused_relu;
  fused.u.conv.relu_slope = layer->fused_relu ? layer->fused_relu_slope : 0;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &fused, 4,
                          (const crema_shape *[]){src, &weights, bias, dst}, NULL));
  desc.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(cr_layer_op_make(layer, &s->backward_data, &desc, 3,
                          (const crema_shape *[]){dst, &weights, src}, NULL));
  desc.kind = CR_OP_CONV_BWD_WEIGHTS;
  return cr_layer_weights_make(layer, &s->backward_weights, &desc, src, dst, &weights, bias);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  conv_state *s = layer->state;
  crema_shape to;
  CR_TRY(cr_layer_conv_check(layer, &s->conv, bottom));
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  crema_shape src = cr_layer_conv_fold(&s->conv, &bottom[0]->shape);
  crema_shape dst = cr_layer_conv_fold(&s->conv, &to);
  for (int i = 0; i < layer->tops; ++i) CR_TRY(crema_blob_reshape(top[i], &to));
  return make_ops(layer, &src, &dst);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  conv_state *s = layer->state;
  cr_tensor *bias = s->conv.bias ? layer->blob[1]->data : NULL;
  for (int i = 0; i < layer->bottoms; ++i) {
    CR_TRY(cr_layer_op_run(
        &s->forward, context,
        (cr_tensor *[]){bottom[i]->data, layer->blob[0]->data, bias, top[i]->data}, NULL));
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  conv_state *s = layer->state;
  for (int i = 0; i < layer->bottoms; ++i) {
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

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)bottom;
  return layer->param_propagate_down[0];
}

const cr_layer_class cr_layer_convolution = {
    .type = "Convolution",
    .state_size = sizeof(conv_state),
    .min_bottoms = 1,
    .max_bottoms = CR_ANY,
    .min_tops = 1,
    .max_tops = CR_ANY,
    .equal_bottoms_tops = true,
    .fuses_relu = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
