#include "layers/common/layer_local.h"

#include "core/fail.h"
#include "layers/common/layer_shape.h"
#include "layers/common/layer_weights.h"

/* Kernel, stride and pad of both axes: one field for both, or one for each. */
static void read_window(const Caffe__LocalParameter *p, cr_window *out) {
  const bool kernels = p->has_kernel_h || p->has_kernel_w;
  const bool strides = p->has_stride_h || p->has_stride_w, pads = p->has_pad_h || p->has_pad_w;
  out->axes = 2;
  out->kernel[0] = kernels ? p->kernel_h : p->kernel_size;
  out->kernel[1] = kernels ? p->kernel_w : p->kernel_size;
  out->stride[0] = strides ? p->stride_h : p->stride;
  out->stride[1] = strides ? p->stride_w : p->stride;
  out->pad[0] = pads ? p->pad_h : p->pad;
  out->pad[1] = pads ? p->pad_w : p->pad;
  out->dilation[0] = out->dilation[1] = 1;
}

static crema_status find_shapes(cr_layer *layer, const crema_shape *from, int64_t outputs) {
  cr_layer_local_conv *s = layer->state;
  char text[128];
  if (from->axes != 4 || from->dim[1] < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom must be a map of 4 axes with channels, found shape %s",
                         crema_shape_text(from, text, sizeof text));
  }
  s->from = *from;
  s->to = cr_shape_4(from->dim[0], outputs, 0, 0);
  for (int i = 0; i < 2; ++i) {
    const int64_t kernel = s->window.kernel[i], stride = s->window.stride[i];
    const int64_t pad = s->window.pad[i], room = from->dim[2 + i] + 2 * pad - kernel;
    if (kernel < 1 || stride < 1 || kernel > INT16_MAX || stride > INT32_MAX || pad > INT32_MAX) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "kernel %lld and stride %lld must be 1 or more, the kernel at most %d",
                           (long long)kernel, (long long)stride, INT16_MAX);
    }
    if (room < 0) {
      return cr_layer_fail(
          layer, CREMA_E_SHAPE, "a kernel of %lld with pad %lld does not fit into shape %s",
          (long long)kernel, (long long)pad, crema_shape_text(from, text, sizeof text));
    }
    s->to.dim[2 + i] = room / stride + 1;
  }
  return crema_shape_check(&s->to);
}

crema_status cr_layer_local_conv_setup(cr_layer *layer, crema_blob *const *bottom,
                                       const char *field, const Caffe__LocalParameter *param) {
  cr_layer_local_conv *s = layer->state;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s needs a num_output of 1 or more", field);
  }
  read_window(param, &s->window);
  CR_TRY(find_shapes(layer, &bottom[0]->shape, param->num_output));
  const int64_t inner = s->from.dim[1] * s->window.kernel[0] * s->window.kernel[1];
  crema_shape weights = cr_shape_4(s->to.dim[1], 1, inner, s->to.dim[2]);
  crema_shape bias = cr_shape_4(1, 1, s->to.dim[1], s->to.dim[2]);
  CR_TRY(cr_layer_multiply(layer, s->to.dim[3], &weights.dim[3]));
  CR_TRY(cr_layer_multiply(layer, s->to.dim[3], &bias.dim[3]));
  CR_TRY(crema_shape_check(&weights));
  s->bias = param->bias_term;
  return cr_layer_weights_add(layer, &weights, param->weight_filler, s->bias ? &bias : NULL,
                              param->bias_filler);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *from, const crema_shape *to) {
  cr_layer_local_conv *s = layer->state;
  const int64_t samples = from->dim[0], outputs = to->dim[1];
  const int64_t inner = layer->blob[0]->shape.dim[2], positions = layer->blob[0]->shape.dim[3];
  const crema_shape columns = cr_shape_3(samples, inner, positions);
  const crema_shape unfolded = cr_shape_4(samples, inner, to->dim[2], to->dim[3]);
  const crema_shape weights = cr_shape_3(outputs, inner, positions);
  const crema_shape y = cr_shape_3(samples, outputs, positions);
  const crema_shape bias = cr_shape_1(outputs * positions);
  const crema_shape added = cr_shape_3(samples, outputs * positions, 1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IM2COL);
  desc.u.window = s->window;
  CR_TRY(CR_LAYER_MAKE(layer, &s->unfold, &desc, from, &unfolded));
  desc.kind = CR_OP_COL2IM;
  CR_TRY(CR_LAYER_MAKE(layer, &s->fold, &desc, &unfolded, from));
  desc = cr_layer_op_desc(CR_OP_LOCAL_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &columns, &weights, s->bias ? &bias : NULL, &y));
  desc.kind = CR_OP_LOCAL_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, &y, &weights, &columns));
  desc.kind = CR_OP_LOCAL_BWD_WEIGHTS;
  CR_TRY(CR_LAYER_MAKE(layer, &s->add_weights, &desc, &columns, &y, &weights));
  if (!s->bias) return CREMA_OK;
  desc = cr_layer_op_desc(CR_OP_AFFINE_BWD_BIAS);
  return CR_LAYER_MAKE(layer, &s->add_bias, &desc, &added, &bias);
}

crema_status cr_layer_local_conv_reshape(cr_layer *layer, crema_blob *const *bottom,
                                         crema_blob *const *top) {
  cr_layer_local_conv *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  crema_shape from = s->from, to = s->to;
  from.dim[0] = to.dim[0] = bottom[0]->shape.axes > 0 ? bottom[0]->shape.dim[0] : 0;
  CR_TRY(cr_layer_same_shape(layer, "the bottom", &from, &bottom[0]->shape));
  const crema_shape columns =
      cr_shape_3(from.dim[0], layer->blob[0]->shape.dim[2], layer->blob[0]->shape.dim[3]);
  CR_TRY(crema_shape_check(&columns));
  const int64_t count = crema_shape_count(&columns, 0, 3);
  CR_TRY(crema_blob_reshape(top[0], &to));
  CR_TRY(cr_layer_pass_tensor(layer, &s->columns, type, count));
  CR_TRY(cr_layer_pass_tensor(layer, &s->diff_columns, type, count));
  return make_ops(layer, &from, &to);
}

crema_status cr_layer_local_conv_forward(cr_layer *layer, crema_context *context,
                                         crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_local_conv *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->unfold, context, bottom[0]->data, s->columns));
  return CR_LAYER_RUN(&s->forward, context, s->columns, layer->blob[0]->data,
                      s->bias ? layer->blob[1]->data : NULL, top[0]->data);
}

crema_status cr_layer_local_conv_backward(cr_layer *layer, crema_context *context,
                                          crema_blob *const *top, const bool *propagate_down,
                                          crema_blob *const *bottom) {
  cr_layer_local_conv *s = layer->state;
  cr_tensor *dy = top[0]->diff;
  if (layer->param_propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->add_weights, context, s->columns, dy, layer->blob[0]->diff));
  }
  if (s->bias && layer->param_propagate_down[1]) {
    CR_TRY(CR_LAYER_RUN(&s->add_bias, context, dy, layer->blob[1]->diff));
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->backward_data, context, dy, layer->blob[0]->data, s->diff_columns));
  return CR_LAYER_RUN(&s->fold, context, s->diff_columns, bottom[0]->diff);
}
