/* MultinomialLogisticLoss: the logistic loss of probabilities.
 *
 * Formula: loss = 1 / N * sum of -log(max(p[label], 1e-20)).
 * Shapes: probabilities (N, C), labels (N), whole numbers as floats -> loss (a scalar).
 * Fields: none.
 * Caffe: the same.
 * Example, p 4 3, label 4:
 *   layer { name: "loss" type: "MultinomialLogisticLoss" bottom: "p" bottom: "label" top: "loss" }
 */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/loss/layer_loss.h"

typedef struct multinomial_state {
  cr_layer_loss loss;
  cr_layer_op forward, backward;
} multinomial_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  multinomial_state *s = layer->state;
  const crema_shape *prob = &bottom[0]->shape;
  if (prob->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must have axes, found a scalar");
  }
  const crema_shape folded = cr_layer_fold(prob, 1, prob->axes), one = cr_shape_1(1);
  const crema_shape labels = cr_shape_2(folded.dim[0], 1);
  CR_TRY(cr_layer_loss_labels(layer, prob, &bottom[1]->shape, &folded));
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], (double)folded.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_INFOGAIN_FWD);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 5,
                          (const crema_shape *[]){&folded, &labels, NULL, &one, &one}, NULL));
  desc.kind = CR_OP_INFOGAIN_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 5,
                          (const crema_shape *[]){&folded, &labels, NULL, &one, &folded}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  multinomial_state *s = layer->state;
  CR_TRY(cr_layer_op_run(
      &s->forward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, NULL, s->loss.sum, s->loss.count}, NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  multinomial_state *s = layer->state;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down, 1));
  if (!propagate_down[0]) return CREMA_OK;
  cr_op_scalars scalars = {.alpha = (float)(1 / s->loss.divisor)};
  return cr_layer_op_run(
      &s->backward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, NULL, top[0]->diff, bottom[0]->diff},
      &scalars);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 1;
}

const cr_layer_class cr_layer_multinomial_loss = {
    .type = "MultinomialLogisticLoss",
    .state_size = sizeof(multinomial_state),
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
