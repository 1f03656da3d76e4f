/* L1Loss: the mean absolute distance. Both bottoms have a gradient.
 *
 * Formula: loss = 1 / N * sum of |a - b|, N being the first extent.
 * Shapes: a (N, ...), b (as a) -> loss (a scalar).
 * Fields: none.
 * Caffe: as in NVIDIA Caffe.
 * Example, a 4 3, b 4 3:
 *   layer { name: "loss" type: "L1Loss" bottom: "a" bottom: "b" top: "loss" } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/loss/smooth_l1.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_smooth_l1 *s = layer->state;
  const crema_shape *a = &bottom[0]->shape;
  if (a->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found a scalar");
  }
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", a, &bottom[1]->shape));
  /* Nowhere quadratic. */
  CR_TRY(cr_smooth_l1_make_ops(layer, bottom, INFINITY));
  return cr_layer_loss_fix(layer, &s->loss, top[0], (double)a->dim[0]);
}

const cr_layer_class cr_layer_l1_loss = {
    CR_LAYER_LOSS("L1Loss", 2, 2, 1),
    .state_size = sizeof(cr_smooth_l1),
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_smooth_l1_forward,
    .backward = cr_smooth_l1_backward,
    .uses_bottom = cr_smooth_l1_uses_bottom,
};
