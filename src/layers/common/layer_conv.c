#include "layers/common/layer_conv.h"

#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_window.h"

static crema_status read_channels(cr_layer *layer, const Caffe__ConvolutionParameter *param,
                                  const crema_shape *from, cr_layer_conv *c) {
  c->channels = from->dim[c->axis];
  c->outputs = param->num_output;
  c->group = param->group;
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

crema_status cr_layer_conv_read(cr_layer *layer, crema_blob *const *bottom, cr_layer_conv *conv) {
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  const crema_shape *from = &bottom[0]->shape;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "convolution_param needs a num_output of 1 or more");
  }
  CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &conv->axis));
  CR_TRY(cr_layer_read_window(layer, param, from->axes - conv->axis - 1, &conv->window));
  return read_channels(layer, param, from, conv);
}

crema_status cr_layer_conv_params(cr_layer *layer, const cr_layer_conv *conv, int64_t first,
                                  int64_t second) {
  const Caffe__ConvolutionParameter *param = layer->param->convolution_param;
  crema_shape weights = cr_shape_2(first, second / conv->group);
  for (int i = 0; i < conv->window.axes; ++i) weights.dim[weights.axes++] = conv->window.kernel[i];
  crema_shape bias = cr_shape_1(conv->outputs);
  CR_TRY(cr_layer_set_params(layer, conv->bias ? 2 : 1));
  CR_TRY(cr_layer_add_param(layer, 0, &weights, param->weight_filler));
  return conv->bias ? cr_layer_add_param(layer, 1, &bias, param->bias_filler) : CREMA_OK;
}

crema_status cr_layer_conv_check(const cr_layer *layer, const cr_layer_conv *conv,
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
  for (int i = 1; i < layer->bottoms; ++i) {
    CR_TRY(cr_layer_same_shape(layer, "each bottom", from, &bottom[i]->shape));
  }
  return CREMA_OK;
}

crema_shape cr_layer_conv_fold(const cr_layer_conv *conv, const crema_shape *shape) {
  crema_shape out = cr_shape_1(crema_shape_count(shape, 0, conv->axis));
  for (int i = conv->axis; i < shape->axes; ++i) out.dim[out.axes++] = shape->dim[i];
  if (conv->window.axes == 0) out.dim[out.axes++] = 1;
  return out;
}

crema_shape cr_layer_conv_weights(const cr_layer *layer, const cr_layer_conv *conv,
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
