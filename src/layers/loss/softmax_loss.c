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

crema_status cr_softmax_loss_setup(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_loss_read(layer, layer->state, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
}

crema_status cr_softmax_loss_reshape(cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) {
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape, param ? param->axis : 1, "softmax_param axis",
                       &axis));
  return cr_softmax_loss_make(layer, bottom, top, axis, false, layer->tops > 2);
}

crema_status cr_softmax_loss_forward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top) {
  cr_tensor *each = layer->tops > 2 ? top[2]->data : NULL;
  return cr_softmax_loss_run(layer, context, bottom, top, NULL, each);
}

crema_status cr_softmax_loss_backward(cr_layer *layer, crema_context *context,
                                      crema_blob *const *top, const bool *propagate_down,
                                      crema_blob *const *bottom) {
  return cr_softmax_loss_run_back(layer, context, top, propagate_down, bottom, NULL, NULL);
}

const cr_layer_class cr_layer_softmax_loss = {
    CR_SOFTMAX_LOSS("SoftmaxWithLoss", 2),
    .reshape = cr_softmax_loss_reshape,
};
