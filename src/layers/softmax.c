/* Softmax: scores to probabilities.
 *
 * Formula: y[c] = exp(x[c]) / sum over k of exp(x[k]) along axis.
 * Shapes: x (outer, C, inner) -> y (as x), also in place.
 * Fields: softmax_param.
 * Caffe: the same.
 * Example, x 2 10:
 *   layer { name: "prob" type: "Softmax" bottom: "x" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct softmax_state {
  cr_layer_op forward, backward;
} softmax_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  softmax_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SOFTMAX_FWD);
  CR_TRY(cr_layer_axis(layer, shape, param ? param->axis : 1, "axis", &desc.u.axis));
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(
      cr_layer_op_make(layer, &s->forward, &desc, 2, (const crema_shape *[]){shape, shape}, NULL));
  desc.kind = CR_OP_SOFTMAX_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 3,
                          (const crema_shape *[]){shape, shape, shape}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  softmax_state *s = layer->state;
  return cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, top[0]->data},
                         NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  softmax_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){top[0]->data, top[0]->diff, bottom[0]->diff}, NULL);
}

static cr_values uses_tops(const cr_layer *layer, bool in_place) {
  (void)layer, (void)in_place;
  return CR_VALUES_ALL;
}

const cr_layer_class cr_layer_softmax = {
    .type = "Softmax",
    .state_size = sizeof(softmax_state),
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .in_place = true,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_tops = uses_tops,
};
