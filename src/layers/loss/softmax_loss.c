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
#include "layers/loss/softmax_loss.h"
#include "core/fail.h"

const cr_layer_pair_table cr_softmax_loss_pair = {
    .forward = {CR_OP_NLL_FWD, {CR_LOSS_PROB, CR_X1, CR_LOSS_SUM, CR_LOSS_COUNT}},
    .backward = {CR_OP_NLL_BWD, {CR_LOSS_PROB, CR_X1, CR_DX}},
};

crema_status cr_softmax_loss_setup(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_loss_read(layer, layer->state, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
}

crema_status cr_softmax_loss_reshape(cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) {
  const cr_layer_loss *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  crema_shape folded;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape, param ? param->axis : 1, "softmax_param axis",
                       &axis));
  CR_TRY(cr_layer_softmax_loss_make(layer, bottom, top, axis, &folded));
  const crema_shape labels = cr_shape_2(folded.dim[0], folded.dim[2]), one = cr_shape_1(1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_NLL_FWD);
  desc.u.nll.has_ignore = s->has_ignore;
  desc.u.nll.ignore = s->ignore;
  return cr_layer_pair_make(
      layer, bottom, top, &desc,
      &(cr_pair_shapes){.x = {&folded, &labels}, .own = {&one, &one, &folded}});
}

crema_status cr_softmax_loss_forward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top) {
  CR_TRY(cr_layer_softmax_loss_prob(layer, context, bottom));
  return cr_layer_loss_forward(layer, context, bottom, top);
}

crema_status cr_softmax_loss_backward(cr_layer *layer, crema_context *context,
                                      crema_blob *const *top, const bool *propagate_down,
                                      crema_blob *const *bottom) {
  cr_op_scalars scalars = {0};
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_factor(layer->state, top[0], &scalars.alpha));
  return cr_layer_pair_run_back(layer, context, top, bottom, 0, &scalars);
}

const cr_layer_class cr_layer_softmax_loss = {
    CR_SOFTMAX_LOSS("SoftmaxWithLoss", 2),
    .reshape = cr_softmax_loss_reshape,
    .forward = cr_softmax_loss_forward,
};
