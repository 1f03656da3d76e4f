/* Deconvolution: the transpose of a convolution, which exchanges its forward and its backward pass.
 *
 * Formula: y = bias + the gradient that a Convolution with these weights would give its bottom if
 * its top had the gradient x.
 * Shapes: x (N..., C, S...) -> y (N..., O, S'...) with S' = stride (S - 1) + dilation (K - 1) + 1 -
 * 2 pad. Parameters: weights (C, O / group, K...), bias (O). Several bottoms of one shape give as
 * many tops.
 * Fields: convolution_param.
 * Caffe: the same.
 * Example, x 2 4 5 5:
 *   layer { name: "up" type: "Deconvolution" bottom: "x" top: "y"
 *     convolution_param { num_output: 4 group: 4 kernel_size: 4 stride: 2 pad: 1 bias_term: false
 *       weight_filler { type: "bilinear" } } } */
#include "core/fail.h"
#include "layers/common/layer_conv.h"

typedef struct deconv_state {
  cr_layer_conv conv;
  cr_layer_op forward, add_bias, backward_data, backward_weights, backward_bias;
} deconv_state;

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const deconv_state *s = layer->state;
  const cr_window *w = &s->conv.window;
  char text[128];
  *to = cr_shape(s->conv.axis, from->dim);
  to->dim[to->axes++] = s->conv.outputs;
  for (int i = 0; i < w->axes; ++i) {
    int64_t size = from->dim[s->conv.axis + 1 + i];
    int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
    /* Extents beyond this could not be counted in 64 bits, nor held in memory. */
    bool huge = size > INT32_MAX || span > INT32_MAX;
    int64_t extent = huge ? 0 : w->stride[i] * (size - 1) + span - 2 * w->pad[i];
    if (extent < 1) {
      return cr_layer_fail(layer, CREMA_E_SHAPE,
                           "the top would have no place along spatial axis %d: bottom shape %s, "
                           "kernel span %lld, pad %lld",
                           i, crema_shape_text(from, text, sizeof text), (long long)span,
                           (long long)w->pad[i]);
    }
    to->dim[to->axes++] = extent;
  }
  return crema_shape_check(to);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  deconv_state *s = layer->state;
  crema_shape to;
  (void)top;
  CR_TRY(cr_layer_conv_read(layer, bottom, &s->conv));
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  return cr_layer_conv_params(layer, &s->conv, s->conv.channels, s->conv.outputs);
}

/* x: bottom, y: top; the op's source is the top. */
static crema_status make_ops(cr_layer *layer, const crema_shape *x, const crema_shape *y) {
  deconv_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_BWD_DATA);
  const crema_shape weights = cr_layer_conv_weights(layer, &s->conv, &desc.u.conv);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 3, (const crema_shape *[]){x, &weights, y},
                          NULL));
  desc.kind = CR_OP_CONV_FWD;
  CR_TRY(cr_layer_op_make(layer, &s->backward_data, &desc, 4,
                          (const crema_shape *[]){y, &weights, NULL, x}, NULL));
  desc.kind = CR_OP_CONV_BWD_WEIGHTS;
  CR_TRY(cr_layer_op_make(layer, &s->backward_weights, &desc, 4,
                          (const crema_shape *[]){y, x, &weights, NULL}, NULL));
  if (!s->conv.bias) return CREMA_OK;
  const crema_shape folded = cr_layer_fold(y, 1, 2), *bias = &layer->blob[1]->shape;
  desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(cr_layer_op_make(layer, &s->add_bias, &desc, 4,
                          (const crema_shape *[]){&folded, NULL, bias, &folded}, NULL));
  desc.kind = CR_OP_AFFINE_BWD_BIAS;
  return cr_layer_op_make(layer, &s->backward_bias, &desc, 2,
                          (const crema_shape *[]){&folded, bias}, NULL);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  deconv_state *s = layer->state;
  crema_shape to;
  CR_TRY(cr_layer_conv_check(layer, &s->conv, bottom));
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  crema_shape x = cr_layer_conv_fold(&s->conv, &bottom[0]->shape);
  crema_shape y = cr_layer_conv_fold(&s->conv, &to);
  for (int i = 0; i < layer->tops; ++i) CR_TRY(crema_blob_reshape(top[i], &to));
  return make_ops(layer, &x, &y);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  deconv_state *s = layer->state;
  for (int i = 0; i < layer->bottoms; ++i) {
    cr_tensor *y = top[i]->data;
    CR_TRY(cr_layer_op_run(&s->forward, context,
                           (cr_tensor *[]){bottom[i]->data, layer->blob[0]->data, y}, NULL));
    if (!s->conv.bias) continue;
    CR_TRY(cr_layer_op_run(&s->add_bias, context, (cr_tensor *[]){y, NULL, layer->blob[1]->data, y},
                           NULL));
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  deconv_state *s = layer->state;
  for (int i = 0; i < layer->bottoms; ++i) {
    cr_tensor *dy = top[i]->diff;
    if (s->conv.bias && layer->param_propagate_down[1]) {
      CR_TRY(cr_layer_op_run(&s->backward_bias, context, (cr_tensor *[]){dy, layer->blob[1]->diff},
                             NULL));
    }
    if (layer->param_propagate_down[0]) {
      CR_TRY(cr_layer_op_run(&s->backward_weights, context,
                             (cr_tensor *[]){dy, bottom[i]->data, layer->blob[0]->diff, NULL},
                             NULL));
    }
    if (!propagate_down[i]) continue;
    CR_TRY(cr_layer_op_run(&s->backward_data, context,
                           (cr_tensor *[]){dy, layer->blob[0]->data, NULL, bottom[i]->diff}, NULL));
  }
  return CREMA_OK;
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)bottom;
  return layer->param_propagate_down[0];
}

const cr_layer_class cr_layer_deconvolution = {
    .type = "Deconvolution",
    .state_size = sizeof(deconv_state),
    .min_bottoms = 1,
    .max_bottoms = CR_ANY,
    .min_tops = 1,
    .max_tops = CR_ANY,
    .equal_bottoms_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
