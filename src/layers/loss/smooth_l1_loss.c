/* SmoothL1Loss: the absolute distance, quadratic near 0 (Girshick, "Fast R-CNN", 2015). Both
 * predictions and targets have a gradient.
 *
 * Formula: loss = 1 / N * sum of outside * f(inside * (a - b)). The function is f(d) = (sigma d)^2
 * / 2 for |d| < 1 / sigma^2, else |d| - 1 / (2 sigma^2). N is the first extent, unless loss_param
 * chooses another divisor, as in SmoothL1LossOHEM.
 * Shapes: a (N, ...), b (as a), optionally the weights inside and outside (as a) -> loss (a
 * scalar).
 * Fields: smooth_l1_loss_param, loss_param.
 * Caffe: as in Caffe-SSD (up to 3 bottoms) and the forks of Fast R-CNN (2 or 4), which do not read
 * loss_param. R-FCN's fork (2 or 3) reads it; its default divisor is N times the positions.
 * Caffe-SSD's gradient lacks the factor `inside`, which changes it unless that is 0 or 1.
 * Example, a 4 3, b 4 3:
 *   layer { name: "loss" type: "SmoothL1Loss" bottom: "a" bottom: "b" top: "loss"
 *     smooth_l1_loss_param { sigma: 3 } } */
#include "core/fail.h"
#include "layers/loss/smooth_l1.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_smooth_l1_read(layer, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  CR_TRY(cr_smooth_l1_make(layer, bottom));
  return cr_smooth_l1_shape_loss(layer, &bottom[0]->shape, top[0]);
}

const cr_layer_class cr_layer_smooth_l1_loss = {
    CR_LAYER_LOSS("SmoothL1Loss", 2, 4, 1),
    .state_size = sizeof(cr_smooth_l1),
    .no_gradient_bottoms = 1u << 2 | 1u << 3,
    .graph.reads_loss_param = true,
    .setup = setup,
    .reshape = reshape,
    .forward = cr_smooth_l1_forward,
    .backward = cr_smooth_l1_backward,
    .uses_bottom = cr_smooth_l1_uses_bottom,
};
