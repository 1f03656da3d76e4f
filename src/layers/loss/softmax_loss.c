/* SoftmaxWithLoss: the logistic loss of scores: Softmax and MultinomialLogisticLoss in one.
 *
 * Formula: loss = mean of -log(softmax(scores)[label]) over all positions whose label is not
 * ignored; loss_param chooses the divisor.
 * Shapes: scores (outer, C, inner), labels (outer, inner), whole numbers as floats -> loss (a
 * scalar) and, optionally, the probabilities (as scores).
 * Fields: softmax_param, loss_param.
 * Caffe: the same; label_smoothing of the NVIDIA dialect is refused.
 * Example, scores 4 10, label 4:
 *   layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
 *     loss_param { ignore_label: 255 } } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

typedef struct softmax_loss_state {
  cr_layer_loss loss;
  cr_layer_op softmax, forward, backward;
  cr_tensor *prob;
} softmax_loss_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  softmax_loss_state *s = layer->state;
  (void)bottom;
  (void)top;
  return cr_layer_loss_read(layer, &s->loss, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *scores, int axis,
                             const crema_shape *folded) {
  softmax_loss_state *s = layer->state;
  const crema_shape labels = cr_shape_2(folded->dim[0], folded->dim[2]);
  const crema_shape one = cr_shape_1(1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SOFTMAX_FWD);
  desc.u.axis = axis;
  CR_TRY(cr_layer_op_make(layer, &s->softmax, &desc, 2, (const crema_shape *[]){scores, scores},
                          NULL));
  desc = cr_layer_op_desc(CR_OP_NLL_FWD);
  desc.u.nll.has_ignore = s->loss.has_ignore;
  desc.u.nll.ignore = s->loss.ignore;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 4,
                          (const crema_shape *[]){folded, &labels, &one, &one}, NULL));
  desc.kind = CR_OP_NLL_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 3,
                          (const crema_shape *[]){folded, &labels, folded}, NULL);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  softmax_loss_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_shape *scores = &bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param ? param->axis : 1, "softmax_param axis", &axis));
  const crema_shape folded = cr_layer_fold(scores, axis, axis + 1);
  CR_TRY(cr_layer_loss_labels(layer, scores, &bottom[1]->shape, &folded));
  CR_TRY(
      cr_layer_loss_reshape(layer, &s->loss, top[0], folded.dim[0], folded.dim[0] * folded.dim[2]));
  CR_TRY(cr_layer_tensor(layer, &s->prob, CREMA_F32, crema_blob_count(bottom[0])));
  if (layer->tops > 1) {
    CR_TRY(crema_blob_reshape(top[1], scores));
    CR_TRY(cr_tensor_share(top[1]->data, s->prob));
  }
  return make_ops(layer, scores, axis, &folded);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  softmax_loss_state *s = layer->state;
  CR_TRY(cr_layer_op_run(&s->softmax, context, (cr_tensor *[]){bottom[0]->data, s->prob}, NULL));
  CR_TRY(cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){s->prob, bottom[1]->data, s->loss.sum, s->loss.count},
                         NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  softmax_loss_state *s = layer->state;
  cr_op_scalars scalars = {0};
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down, 1));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &scalars.alpha));
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){s->prob, bottom[1]->data, bottom[0]->diff}, &scalars);
}

/* The second top is what backward reads. */
static cr_values uses_tops(const cr_layer *layer, bool in_place) {
  (void)in_place;
  return layer->tops > 1 ? CR_VALUES_ALL : CR_VALUES_NONE;
}

const cr_layer_class cr_layer_softmax_loss = {
    .type = "SoftmaxWithLoss",
    .state_size = sizeof(softmax_loss_state),
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 2,
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_tops = uses_tops,
};
