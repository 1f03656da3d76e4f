#include "layers/common/layer_conv.h"

#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_window.h"

static crema_status read_channels(cr_layer *layer, const Caffe__ConvolutionParameter *param,
                                  const crema_shape *from, cr_layer_conv *c) {
  c->channels = from->dim[c->axis];
  c->outputs = c->depthwise ? c->channels : param->num_output;
  c->group = c->depthwise ? c->channels : param->group;
  c->bias = param->bias_term;
  if (c->group == 0) return cr_layer_fail(layer, CREMA_E_RANGE, "group is 0, must be 1 or more");
  if (c->channels == 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom has no channels (axis %d)", c->axis);
  }
  if (c->channels % c->group != 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom's %lld channels cannot be divided into %lld groups",
                         (long long)c->channels, (long long)c->group);
  }
  if (c->outputs % c->group != 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_output %lld cannot be divided into %lld groups",
                         (long long)c->outputs, (long long)c->group);
  }
  return CREMA_OK;
}

static crema_status read_param(cr_layer *layer, crema_blob *const *bottom, cr_layer_conv *conv) {
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  const crema_shape *from = &bottom[0]->shape;
  if (param == NULL || (param->num_output == 0 && !conv->depthwise)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "convolution_param needs a num_output of 1 or more");
  }
  if (param->fusion_type != CAFFE__CONVOLUTION_PARAMETER__FUSION_TYPE__NONE_FUSION ||
      param->n_coeff > 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "fusion_type and coeff are not supported, use an Eltwise layer");
  }
  if (param->has_temporal_stride || param->has_temporal_pad) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "temporal_stride and temporal_pad need a kernel_depth");
  }
  CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &conv->axis));
  CR_TRY(cr_layer_read_window(layer, param, from->axes - conv->axis - 1, &conv->window));
  return read_channels(layer, param, from, conv);
}

/* Parameter 0, the weights (O, C / group, window) or, transposed, (C, O / group, window), and 1,
 * the bias (O). */
static crema_status add_params(cr_layer *layer, const cr_layer_conv *conv) {
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  const int64_t first = conv->transposed ? conv->channels : conv->outputs;
  const int64_t second = conv->transposed ? conv->outputs : conv->channels;
  crema_shape weights = cr_shape_2(first, second / conv->group);
  for (int i = 0; i < conv->window.axes; ++i) weights.dim[weights.axes++] = conv->window.kernel[i];
  crema_shape bias = cr_shape_1(conv->outputs);
  return cr_layer_weights_add(layer, &weights, param->weight_filler, conv->bias ? &bias : NULL,
                              param->bias_filler);
}

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const cr_layer_conv *s = layer->state;
  *to = cr_shape(s->axis, from->dim);
  to->dim[to->axes++] = s->outputs;
  for (int i = 0; i < s->window.axes; ++i) {
    CR_TRY(s->extent(layer, from, i, &to->dim[to->axes]));
    ++to->axes;
  }
  return crema_shape_check(to);
}

crema_status cr_layer_conv_setup(cr_layer *layer, crema_blob *const *bottom, bool transposed,
                                 cr_conv_extent *extent) {
  cr_layer_conv *s = layer->state;
  crema_shape to;
  s->transposed = s->gradients.transposed = transposed;
  s->extent = extent;
  CR_TRY(read_param(layer, bottom, s));
  /* A kernel that does not fit is refused before memory is allocated for it. */
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  return add_params(layer, s);
}

/* All bottoms have one shape that fits the parameters. */
static crema_status check_bottoms(const cr_layer *layer, const cr_layer_conv *conv,
                                  crema_blob *const *bottom) {
  const crema_shape *from = &bottom[0]->shape;
  char text[128];
  if (from->axes != conv->axis + 1 + conv->window.axes || from->dim[conv->axis] != conv->channels) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the weights need a bottom of %d axes with %lld channels in axis %d, "
                         "found shape %s",
                         conv->axis + 1 + conv->window.axes, (long long)conv->channels, conv->axis,
                         crema_shape_text(from, text, sizeof text));
  }
  for (int i = 1; i < cr_layer_own_bottoms(layer); ++i) {
    CR_TRY(cr_layer_same_shape(layer, "each bottom", from, &bottom[i]->shape));
  }
  return CREMA_OK;
}

/* A shape as ops expect it: batch axes folded, and one axis of extent 1 for missing spatial axes.
 */
static crema_shape fold(const cr_layer_conv *conv, const crema_shape *shape) {
  crema_shape out = cr_shape_1(crema_shape_count(shape, 0, conv->axis));
  for (int i = conv->axis; i < shape->axes; ++i) out.dim[out.axes++] = shape->dim[i];
  if (conv->window.axes == 0) out.dim[out.axes++] = 1;
  return out;
}

/* The weights' shape and the parameters of a CONV op, with the same spatial axis added. */
static crema_shape weights_shape(const cr_layer *layer, const cr_layer_conv *conv,
                                 cr_conv_params *params) {
  crema_shape weights = layer->blob[0]->shape;
  params->window = conv->window;
  params->group = conv->group;
  if (conv->window.axes > 0) return weights;
  cr_window *w = &params->window;
  w->axes = 1;
  w->kernel[0] = w->stride[0] = w->dilation[0] = 1;
  weights.dim[weights.axes++] = 1;
  return weights;
}

/* Ops that run as a convolution of `x`, the bottom, to `y`. */
static crema_status make_conv(cr_layer *layer, const cr_op_desc *desc, const crema_shape *weights,
                              const crema_blob *bottom, const crema_shape *x,
                              const crema_shape *y) {
  cr_layer_conv *s = layer->state;
  const crema_shape *bias = s->bias ? &layer->blob[1]->shape : NULL;
  const crema_shape *addend = cr_posts_add(&layer->posts) ? y : NULL;
  const crema_shape *shape[] = {x, weights, bias, y, addend};
  cr_op_desc made = *desc, forward = *desc;
  forward.u.conv.posts = layer->posts;
  forward.u.conv.winograd = layer->winograd;
  if (layer->int8 != NULL) {
    return cr_layer_int8_make(layer, &s->rounded, &s->forward, &forward, shape, bottom);
  }
  made.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &made, y, weights, x));
  made.kind = CR_OP_CONV_BWD_WEIGHTS;
  CR_TRY(cr_layer_weights_make(layer, &s->gradients, &made, x, y, weights, bias));
  return cr_layer_op_make(layer, &s->forward, &forward, 5, shape);
}

/* The same ops with the passes exchanged: their source is the top y. */
static crema_status make_transposed(cr_layer *layer, const cr_op_desc *desc,
                                    const crema_shape *weights, const crema_shape *x,
                                    const crema_shape *y) {
  cr_layer_conv *s = layer->state;
  const crema_shape *bias = s->bias ? &layer->blob[1]->shape : NULL;
  cr_op_desc made = *desc;
  made.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &made, x, weights, y));
  made.kind = CR_OP_CONV_FWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &made, y, weights, NULL, x));
  made.kind = CR_OP_CONV_BWD_WEIGHTS;
  CR_TRY(cr_layer_weights_make(layer, &s->gradients, &made, y, x, weights, bias));
  if (!s->bias) return CREMA_OK;
  const crema_shape folded = cr_layer_fold(y, 1, 2);
  made = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  return CR_LAYER_MAKE(layer, &s->add_bias, &made, &folded, NULL, bias, &folded);
}

crema_status cr_layer_conv_reshape(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top) {
  cr_layer_conv *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_FWD);
  crema_shape to;
  CR_TRY(check_bottoms(layer, s, bottom));
  CR_TRY(top_shape(layer, &bottom[0]->shape, &to));
  const crema_shape x = fold(s, &bottom[0]->shape), y = fold(s, &to);
  const crema_shape weights = weights_shape(layer, s, &desc.u.conv);
  CR_TRY(cr_layer_check_addend(layer, bottom, &to));
  for (int i = 0; i < layer->tops; ++i) CR_TRY(crema_blob_reshape(top[i], &to));
  return s->transposed ? make_transposed(layer, &desc, &weights, &x, &y)
                       : make_conv(layer, &desc, &weights, bottom[0], &x, &y);
}

crema_status cr_layer_conv_forward(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_conv *s = layer->state;
  cr_tensor *weights = layer->blob[0]->data, *bias = s->bias ? layer->blob[1]->data : NULL;
  const int own = cr_layer_own_bottoms(layer);
  for (int i = 0; i < own; ++i) {
    cr_tensor *x = bottom[i]->data, *y = top[i]->data;
    if (!s->transposed) {
      CR_TRY(cr_layer_int8_round(&s->rounded, context, &x));
      cr_tensor *addend = own < layer->bottoms ? bottom[own]->data : NULL;
      CR_TRY(CR_LAYER_RUN(&s->forward, context, x, weights, bias, y, addend));
      continue;
    }
    CR_TRY(CR_LAYER_RUN(&s->forward, context, x, weights, y));
    if (bias == NULL) continue;
    CR_TRY(CR_LAYER_RUN(&s->add_bias, context, y, NULL, bias, y));
  }
  return CREMA_OK;
}

crema_status cr_layer_conv_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    const bool *propagate_down, crema_blob *const *bottom) {
  cr_layer_conv *s = layer->state;
  cr_tensor *weights = layer->blob[0]->data;
  for (int i = 0; i < layer->bottoms; ++i) {
    cr_tensor *x = bottom[i]->data, *dx = bottom[i]->diff, *dy = top[i]->diff;
    CR_TRY(cr_layer_weights_run(&s->gradients, layer, context, s->transposed ? dy : x,
                                s->transposed ? x : dy));
    if (!propagate_down[i]) continue;
    cr_tensor *conv[] = {dy, weights, NULL, dx}, *gradient[] = {dy, weights, dx};
    CR_TRY(cr_layer_op_run(&s->backward_data, context, s->transposed ? conv : gradient, NULL));
  }
  return CREMA_OK;
}

crema_status cr_layer_conv_extent(const cr_layer *layer, const crema_shape *from, int i,
                                  int64_t *out) {
  const cr_layer_conv *s = layer->state;
  const cr_window *w = &s->window;
  int64_t span = w->dilation[i] * (w->kernel[i] - 1) + 1;
  int64_t room = from->dim[s->axis + 1 + i] + 2 * w->pad[i] - span;
  if (room < 0) return cr_layer_fail_kernel(layer, w, i, from->dim[s->axis + 1 + i]);
  *out = room / w->stride[i] + 1;
  return CREMA_OK;
}

cr_layer_reach cr_layer_conv_reach(const Caffe__LayerParameter *param, int bottoms) {
  (void)bottoms;
  return cr_layer_reach_from(param->convolution_param->axis);
}
