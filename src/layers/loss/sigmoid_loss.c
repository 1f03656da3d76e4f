/* SigmoidCrossEntropyLoss: the cross entropy of independent yes-or-no questions.
 *
 * Formula: loss = sum of -t * log(p) - (1 - t) * log(1 - p) with p = 1 / (1 + exp(-x)), by default
 * over the batch size; loss_param chooses the divisor.
 * Shapes: scores x (N, ...), targets t in [0, 1] (as many) -> loss (a scalar).
 * Fields: loss_param.
 * Caffe: the same; label_smoothing of the NVIDIA dialect is refused.
 * Example, x 4 3, t 4 3:
 *   layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "x" bottom: "t" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

typedef struct sigmoid_loss_state {
  cr_layer_loss loss;
  cr_layer_op forward, backward;
} sigmoid_loss_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  sigmoid_loss_state *s = layer->state;
  (void)bottom;
  (void)top;
  return cr_layer_loss_read(layer, &s->loss, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  sigmoid_loss_state *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape, *targets = &bottom[1]->shape;
  int64_t count = crema_blob_count(bottom[0]);
  const crema_shape flat = cr_shape_1(count), one = cr_shape_1(1);
  if (scores->axes < 1 || targets->axes < 1 || scores->dim[0] != targets->dim[0] ||
      count != crema_blob_count(bottom[1])) {
    return cr_layer_same_shape(layer, "bottom 1", scores, targets);
  }
  CR_TRY(cr_layer_loss_reshape(layer, &s->loss, top[0], scores->dim[0], count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SIGMOID_LOSS_FWD);
  desc.u.nll.has_ignore = s->loss.has_ignore;
  desc.u.nll.ignore = s->loss.ignore;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 4,
                          (const crema_shape *[]){&flat, &flat, &one, &one}, NULL));
  desc.kind = CR_OP_SIGMOID_LOSS_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 4,
                          (const crema_shape *[]){&flat, &flat, &one, &flat}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  sigmoid_loss_state *s = layer->state;
  CR_TRY(cr_layer_op_run(
      &s->forward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, s->loss.sum, s->loss.count}, NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  sigmoid_loss_state *s = layer->state;
  double divisor = 1;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down, 1));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_divisor(&s->loss, &divisor));
  cr_op_scalars scalars = {.alpha = (float)(1 / divisor)};
  return cr_layer_op_run(
      &s->backward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, top[0]->diff, bottom[0]->diff}, &scalars);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 1;
}

const cr_layer_class cr_layer_sigmoid_loss = {
    .type = "SigmoidCrossEntropyLoss",
    .state_size = sizeof(sigmoid_loss_state),
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
