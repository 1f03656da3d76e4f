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
#include "layers/loss/layer_loss.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_MULTINOMIAL_FWD, {CR_X0, CR_X1, CR_LOSS_SUM}},
    .backward = {CR_OP_MULTINOMIAL_BWD, {CR_X0, CR_X1, CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *prob = &bottom[0]->shape;
  if (prob->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must have axes, found a scalar");
  }
  const crema_shape folded = cr_layer_fold(prob, 1, prob->axes), one = cr_shape_1(1);
  const crema_shape rows = cr_shape_2(folded.dim[0], folded.dim[1]);
  const crema_shape labels = cr_shape_1(rows.dim[0]);
  CR_TRY(cr_layer_loss_labels(layer, prob, &bottom[1]->shape, &folded));
  CR_TRY(cr_layer_loss_fix(layer, layer->state, top[0], (double)rows.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_MULTINOMIAL_FWD);
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&rows, &labels}, .y = &one, .own = {&one}});
}

const cr_layer_class cr_layer_multinomial_loss = {
    CR_LAYER_LOSS_PAIR("MultinomialLogisticLoss", 2, pair),
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .setup = cr_layer_noop,
    .reshape = reshape,
};
