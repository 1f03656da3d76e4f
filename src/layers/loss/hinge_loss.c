/* HingeLoss: the loss of a support vector machine, one against all.
 *
 * Formula: loss = 1 / N * sum over all scores s of h(s), h(s) = max(0, 1 - s) for the labelled
 * class and max(0, 1 + s) for all others; squared with norm L2.
 * Shapes: scores (N, C), labels (N), whole numbers as floats -> loss (a scalar).
 * Fields: hinge_loss_param.
 * Caffe: the same.
 * Example, scores 4 3, label 4:
 *   layer { name: "loss" type: "HingeLoss" bottom: "scores" bottom: "label" top: "loss"
 *     hinge_loss_param { norm: L2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/loss/layer_loss.h"

typedef struct hinge_state {
  cr_layer_loss loss;
  cr_layer_op forward, backward;
} hinge_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  hinge_state *s = layer->state;
  const Caffe__HingeLossParameter *param = layer->param->hinge_loss_param;
  const crema_shape *scores = &bottom[0]->shape;
  if (scores->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the scores must have axes, found a scalar");
  }
  const crema_shape folded = cr_layer_fold(scores, 1, scores->axes), one = cr_shape_1(1);
  const crema_shape matrix = cr_shape_2(folded.dim[0], folded.dim[1]);
  const crema_shape labels = cr_shape_1(folded.dim[0]);
  CR_TRY(cr_layer_loss_labels(layer, scores, &bottom[1]->shape, &folded));
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], (double)folded.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_HINGE_FWD);
  desc.u.norm = param && param->norm == CAFFE__HINGE_LOSS_PARAMETER__NORM__L2 ? 2 : 1;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 3,
                          (const crema_shape *[]){&matrix, &labels, &one}, NULL));
  desc.kind = CR_OP_HINGE_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 4,
                          (const crema_shape *[]){&matrix, &labels, &one, &matrix}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  hinge_state *s = layer->state;
  CR_TRY(cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){bottom[0]->data, bottom[1]->data, s->loss.sum}, NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  hinge_state *s = layer->state;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down, 1));
  if (!propagate_down[0]) return CREMA_OK;
  cr_op_scalars scalars = {.alpha = (float)(1 / s->loss.divisor)};
  return cr_layer_op_run(
      &s->backward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, top[0]->diff, bottom[0]->diff}, &scalars);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 1;
}

const cr_layer_class cr_layer_hinge_loss = {
    .type = "HingeLoss",
    .state_size = sizeof(hinge_state),
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
