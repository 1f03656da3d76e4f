/* SoftmaxWithLossOHEM: SoftmaxWithLoss that also gives the loss of each position, for
 * BoxAnnotatorOHEM (Shrivastava et al., "Training region-based object detectors with online hard
 * example mining", 2016).
 *
 * Formula: as SoftmaxWithLoss; each = -log(softmax(scores)[label]), 0 where ignored.
 * Shapes: scores (outer, C, inner), labels (outer, inner) -> loss (a scalar), optionally the
 * probabilities (as scores) and each (as labels; (N, 1, 1, 1) where those are N of scores (N, C, 1,
 * 1)).
 * Fields: softmax_param, loss_param.
 * Caffe: as in R-FCN's fork and Intel Caffe.
 * Example, scores 4 10, label 4:
 *   layer { name: "loss" type: "SoftmaxWithLossOHEM" bottom: "scores" bottom: "label" top: "loss"
 *     top: "prob" top: "each" } */
#include "core/fail.h"
#include "layers/loss/softmax_loss.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  CR_TRY(cr_softmax_loss_reshape(layer, bottom, top));
  const crema_shape *scores = &bottom[0]->shape, *labels = &bottom[1]->shape;
  crema_shape each = *labels;
  /* Labels (N) of scores (N, C, 1, 1) mean (N, 1, 1, 1), the shape of SmoothL1LossOHEM's top for
   * the boxes of the same regions, because R-FCN adds both. */
  if (scores->axes > 2 && labels->axes == 1 && labels->dim[0] == scores->dim[0]) {
    each = *scores;
    each.dim[1] = 1;
  }
  return layer->tops > 2 ? crema_blob_reshape(top[2], &each) : CREMA_OK;
}

const cr_layer_class cr_layer_softmax_loss_ohem = {
    CR_SOFTMAX_LOSS("SoftmaxWithLossOHEM", 3),
    .reshape = reshape,
};
