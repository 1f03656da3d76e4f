/* SigmoidCrossEntropyLoss: the cross entropy of independent yes-or-no questions.
 *
 * Formula: loss = sum of -t * log(p) - (1 - t) * log(1 - p) with p = 1 / (1 + exp(-x)), by default
 * over the batch size; loss_param chooses the divisor.
 * Shapes: scores x (N, ...), targets t in [0, 1] (same count) -> loss (a scalar).
 * Fields: loss_param.
 * Caffe: the same; label_smoothing of the NVIDIA dialect is refused.
 * Example, x 4 3, t 4 3:
 *   layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "x" bottom: "t" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_SIGMOID_LOSS_FWD, {CR_X0, CR_X1, CR_LOSS_SUM, CR_LOSS_COUNT}},
    .backward = {CR_OP_SIGMOID_LOSS_BWD, {CR_X0, CR_X1, CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_loss_read(layer, layer->state,
                            CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_loss *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape, *targets = &bottom[1]->shape;
  int64_t count = crema_blob_count(bottom[0]);
  const crema_shape flat = cr_shape_1(count), one = cr_shape_1(1);
  if (scores->axes < 1 || targets->axes < 1 || scores->dim[0] != targets->dim[0] ||
      count != crema_blob_count(bottom[1])) {
    return cr_layer_same_shape(layer, "bottom 1", scores, targets);
  }
  CR_TRY(cr_layer_loss_reshape(layer, layer->state, top[0], scores->dim[0], count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SIGMOID_LOSS_FWD);
  desc.u.nll.has_ignore = s->has_ignore;
  desc.u.nll.ignore = s->ignore;
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&flat, &flat}, .y = &one, .own = {&one, &one}});
}

const cr_layer_class cr_layer_sigmoid_loss = {
    CR_LAYER_LOSS_PAIR("SigmoidCrossEntropyLoss", 2, pair),
    .graph.reads_loss_param = true,
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
};
