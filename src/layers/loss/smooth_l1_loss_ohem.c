/* SmoothL1LossOHEM: SmoothL1Loss that also gives the loss of each item, for BoxAnnotatorOHEM
 * (Shrivastava et al., "Training region-based object detectors with online hard example mining",
 * 2016).
 *
 * Formula: loss = sum of f(w * (a - b)) / divisor, with f as in SmoothL1Loss. The second top is the
 * sum over the channels of each position. loss_param chooses the divisor. The number of positions
 * is N times the product of the extents after the channels.
 * Shapes: a (N, C, ...), b (as a), optionally weights w (as a) -> loss (a scalar), optionally each
 * (N, 1, ...).
 * Fields: smooth_l1_loss_param, loss_param.
 * Caffe: as in R-FCN's fork and Intel Caffe, which read no sigma here.
 * Example, a 4 8, b 4 8:
 *   layer { name: "loss" type: "SmoothL1LossOHEM" bottom: "a" bottom: "b" top: "loss" top: "each"
 *     loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 128 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/loss/smooth_l1.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_smooth_l1_read(layer, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  crema_shape each = bottom[0]->shape;
  if (each.axes < 2) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have 2 axes or more");
  }
  CR_TRY(cr_smooth_l1_make(layer, bottom));
  each.dim[1] = 1;
  if (layer->tops > 1) CR_TRY(crema_blob_reshape(top[1], &each));
  return cr_smooth_l1_shape_loss(layer, &bottom[0]->shape, top[0]);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const cr_smooth_l1 *s = layer->state;
  const crema_shape f = cr_layer_fold(&bottom[0]->shape, 1, 2);
  const double square = (double)s->sigma2;
  cr_host_values a, b, w = {0};
  cr_host_results each;
  CR_TRY(cr_smooth_l1_forward(layer, context, bottom, top));
  if (layer->tops < 2) return CREMA_OK;
  CR_TRY(cr_host_read(bottom[0]->data, &a));
  CR_TRY(cr_host_read(bottom[1]->data, &b));
  if (layer->bottoms > 2) CR_TRY(cr_host_read(bottom[2]->data, &w));
  CR_TRY(cr_host_write(top[1]->data, &each));
  for (int64_t i = 0; i < f.dim[0] * f.dim[2]; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < f.dim[1]; ++c) {
      const int64_t at = (i / f.dim[2] * f.dim[1] + c) * f.dim[2] + i % f.dim[2];
      const double scale = layer->bottoms > 2 ? cr_host_get(&w, at) : 1;
      const double d = fabs(scale * (cr_host_get(&a, at) - cr_host_get(&b, at)));
      sum += d < 1 / square ? square * d * d / 2 : d - 0.5 / square;
    }
    cr_host_put(&each, i, sum);
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_smooth_l1_loss_ohem = {
    CR_LAYER_LOSS("SmoothL1LossOHEM", 2, 3, 2),
    .state_size = sizeof(cr_smooth_l1),
    .no_gradient_bottoms = 1u << 2,
    .graph.reads_loss_param = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_smooth_l1_backward,
    .uses_bottom = cr_smooth_l1_uses_bottom,
};
