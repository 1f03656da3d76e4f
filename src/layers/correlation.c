/* Correlation: compares the patches of two maps (Dosovitskiy et al., "FlowNet", 2015).
 *
 * Formula: y[d] at (i, j) = mean over channels and the kernel_size^2 positions of a patch of a b
 * or, with SUBTRACT, |a - b|. The patch of a begins at stride_1 (i, j) + max_displacement - pad.
 * The patch of b is displaced by d, in steps of stride_2 up to max_displacement to each side.
 * Outside the maps there are zeros.
 * Shapes: a (N, C, H, W), b (as a) -> y (N, D^2, H', W'), D = 2 floor(max_displacement / stride_2)
 * + 1, H' = ceil((H + 2 pad - 2 max_displacement - kernel_size + 1) / stride_1). W' is computed
 * alike.
 * Fields: correlation_param.
 * Caffe: as in FlowNet, where SUBTRACT has another gradient: the sign of a - b at one position.
 * Example, a 1 2 6 6, b 1 2 6 6:
 *   layer { name: "corr" type: "Correlation" bottom: "a" bottom: "b" top: "y"
 *     correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 stride_2: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct correlation_state {
  cr_layer_op forward, backward[2];
} correlation_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__CorrelationParameter *p = layer->param->correlation_param;
  (void)bottom, (void)top;
  if (p == NULL || !p->has_kernel_size || !p->has_max_displacement) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "correlation_param needs kernel_size and max_displacement");
  }
  if (p->single_direction != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "single_direction is not supported, use 0");
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

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const Caffe__CorrelationParameter *p = layer->param->correlation_param;
  const int64_t side = 2 * (int64_t)(p->max_displacement / p->stride_2) + 1;
  char text[128];
  if (from->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(from, text, sizeof text));
  }
  *to = cr_shape_4(from->dim[0], side * side, 0, 0);
  for (int i = 2; i < 4; ++i) {
    const int64_t room = from->dim[i] + 2 * (int64_t)p->pad - 2 * (int64_t)p->max_displacement -
                         (int64_t)p->kernel_size + 1;
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

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  correlation_state *s = layer->state;
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
  desc.u.correlation.subtract =
      p->correlation_type == CAFFE__CORRELATION_PARAMETER__CORRELATION_TYPE__SUBTRACT;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, a, a, &to));
  desc.kind = CR_OP_CORRELATION_BWD_A;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward[0], &desc, a, a, &to, a));
  desc.kind = CR_OP_CORRELATION_BWD_B;
  return CR_LAYER_MAKE(layer, &s->backward[1], &desc, a, a, &to, a);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  correlation_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  correlation_state *s = layer->state;
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    CR_TRY(CR_LAYER_RUN(&s->backward[i], context, bottom[0]->data, bottom[1]->data, top[0]->diff,
                        bottom[i]->diff));
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_correlation = {
    CR_LAYER_OF_OPS("Correlation", sizeof(correlation_state), setup, reshape, forward, backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .uses_bottom = cr_layer_always,
    .fusion.reach = cr_layer_reaches_sample,
};
