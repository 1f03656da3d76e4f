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
#include "layers/loss/layer_loss.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_HINGE_FWD, {CR_X0, CR_X1, CR_LOSS_SUM}},
    .backward = {CR_OP_HINGE_BWD, {CR_X0, CR_X1, CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__HingeLossParameter *param = layer->param->hinge_loss_param;
  const crema_shape *scores = &bottom[0]->shape;
  if (scores->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the scores must have axes, found a scalar");
  }
  const crema_shape folded = cr_layer_fold(scores, 1, scores->axes), one = cr_shape_1(1);
  const crema_shape matrix = cr_shape_2(folded.dim[0], folded.dim[1]);
  const crema_shape labels = cr_shape_1(folded.dim[0]);
  CR_TRY(cr_layer_loss_labels(layer, scores, &bottom[1]->shape, &folded));
  CR_TRY(cr_layer_loss_fix(layer, layer->state, top[0], (double)folded.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_HINGE_FWD);
  desc.u.norm = param && param->norm == CAFFE__HINGE_LOSS_PARAMETER__NORM__L2 ? 2 : 1;
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&matrix, &labels}, .y = &one, .own = {&one}});
}

const cr_layer_class cr_layer_hinge_loss = {
    CR_LAYER_LOSS_PAIR("HingeLoss", 2, pair),
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .setup = cr_layer_noop,
    .reshape = reshape,
};
