#include "layers/common/layer_correlation.h"

#include "core/fail.h"

static crema_status check_params(const cr_layer *layer) {
  const Caffe__CorrelationParameter *p = layer->param->correlation_param;
  if (p == NULL || !p->has_kernel_size || !p->has_max_displacement) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "correlation_param needs kernel_size and max_displacement");
  }
  if (p->kernel_size % 2 == 1 && p->kernel_size <= INT16_MAX && p->stride_1 > 0 &&
      p->stride_2 > 0 && p->stride_1 <= INT32_MAX && p->max_displacement <= INT16_MAX &&
      p->pad <= INT32_MAX) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "kernel_size %u must be odd, stride_1 %u and stride_2 %u 1 or more, and "
                       "max_displacement %u at most %d",
                       p->kernel_size, p->stride_1, p->stride_2, p->max_displacement, INT16_MAX);
}

crema_status cr_layer_correlation_setup(cr_layer *layer, crema_blob *const *bottom,
                                        crema_blob *const *top) {
  (void)bottom, (void)top;
  CR_TRY(check_params(layer));
  if (layer->param->correlation_param->single_direction == 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                       "single_direction is a field of Correlation1D, use 0");
}

crema_status cr_layer_correlation_1d_setup(cr_layer *layer, crema_blob *const *bottom,
                                           crema_blob *const *top) {
  cr_layer_correlation_state *s = layer->state;
  (void)bottom, (void)top;
  s->in_rows = true;
  CR_TRY(check_params(layer));
  const int32_t direction = layer->param->correlation_param->single_direction;
  if (direction >= -1 && direction <= 1) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "single_direction is %d, must be -1 (left), 0 (both) or 1 (right)",
                       direction);
}

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const Caffe__CorrelationParameter *p = layer->param->correlation_param;
  const cr_layer_correlation_state *s = layer->state;
  const int64_t radius = p->max_displacement / p->stride_2;
  const int64_t side = p->single_direction == 0 ? 2 * radius + 1 : radius + 1;
  char text[128];
  if (from->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(from, text, sizeof text));
  }
  *to = cr_shape_4(from->dim[0], s->in_rows ? side : side * side, 0, 0);
  for (int i = 2; i < 4; ++i) {
    const int64_t border = (int64_t)p->max_displacement - (int64_t)p->pad;
    const int64_t room =
        from->dim[i] - (i == 2 && s->in_rows ? 0 : 2 * border) - (int64_t)p->kernel_size + 1;
    if (room < 1) {
      return cr_layer_fail(
          layer, CREMA_E_SHAPE,
          "displacements and kernel do not fit into the padded axis %d of shape %s", i,
          crema_shape_text(from, text, sizeof text));
    }
    to->dim[i] = (room + p->stride_1 - 1) / p->stride_1;
  }
  return crema_shape_check(to);
}

crema_status cr_layer_correlation_reshape(cr_layer *layer, crema_blob *const *bottom,
                                          crema_blob *const *top) {
  cr_layer_correlation_state *s = layer->state;
  const Caffe__CorrelationParameter *p = layer->param->correlation_param;
  const crema_shape *a = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CORRELATION_FWD);
  crema_shape to;
  CR_TRY(top_shape(layer, a, &to));
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", a, &bottom[1]->shape));
  CR_TRY(crema_blob_reshape(top[0], &to));
  desc.u.correlation.pad = p->pad;
  desc.u.correlation.kernel = p->kernel_size;
  desc.u.correlation.displacement = p->max_displacement;
  desc.u.correlation.stride = p->stride_1;
  desc.u.correlation.step = p->stride_2;
  desc.u.correlation.in_rows = s->in_rows;
  desc.u.correlation.direction = p->single_direction;
  desc.u.correlation.subtract =
      p->correlation_type == CAFFE__CORRELATION_PARAMETER__CORRELATION_TYPE__SUBTRACT;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, a, a, &to));
  desc.kind = CR_OP_CORRELATION_BWD_A;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward[0], &desc, a, a, &to, a));
  desc.kind = CR_OP_CORRELATION_BWD_B;
  return CR_LAYER_MAKE(layer, &s->backward[1], &desc, a, a, &to, a);
}

crema_status cr_layer_correlation_forward(cr_layer *layer, crema_context *context,
                                          crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_correlation_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data, top[0]->data);
}

crema_status cr_layer_correlation_backward(cr_layer *layer, crema_context *context,
                                           crema_blob *const *top, const bool *propagate_down,
                                           crema_blob *const *bottom) {
  cr_layer_correlation_state *s = layer->state;
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    CR_TRY(CR_LAYER_RUN(&s->backward[i], context, bottom[0]->data, bottom[1]->data, top[0]->diff,
                        bottom[i]->diff));
  }
  return CREMA_OK;
}
