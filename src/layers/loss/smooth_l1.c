#include "layers/loss/smooth_l1.h"

#include <stdio.h>

#include "core/fail.h"

/* Caffe compares number, channels, height and width, those that a shape lacks being 1: R-FCN's
 * votes (N, 8, 1, 1) have targets (N, 8). */
static bool is_like(const crema_shape *a, const crema_shape *b) {
  const int axes = a->axes > b->axes ? a->axes : b->axes;
  for (int i = 0; i < axes; ++i) {
    if ((i < a->axes ? a->dim[i] : 1) != (i < b->axes ? b->dim[i] : 1)) return false;
  }
  return true;
}

crema_status cr_smooth_l1_read(cr_layer *layer, int fallback) {
  cr_smooth_l1 *s = layer->state;
  CR_TRY(cr_layer_loss_read(layer, &s->loss, fallback));
  if (!s->loss.has_ignore) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "ignore_label has no meaning here");
}

crema_status cr_smooth_l1_shape_loss(cr_layer *layer, const crema_shape *a, crema_blob *top) {
  cr_smooth_l1 *s = layer->state;
  const int64_t positions = a->axes > 2 ? crema_shape_count(a, 2, a->axes) : 1;
  return cr_layer_loss_reshape(layer, &s->loss, top, a->dim[0], a->dim[0] * positions);
}

crema_status cr_smooth_l1_make(cr_layer *layer, crema_blob *const *bottom) {
  const Caffe__SmoothL1LossParameter *param = layer->param->smooth_l1_loss_param;
  const crema_shape *a = &bottom[0]->shape;
  const float sigma = param ? param->sigma : 1, sigma2 = sigma * sigma;
  if (!(sigma2 > 0 && sigma2 < 1e20f)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "sigma is %g, must be above 0", (double)sigma);
  }
  if (a->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found a scalar");
  }
  for (int i = 1; i < layer->bottoms; ++i) {
    char what[32];
    snprintf(what, sizeof what, "bottom %d", i);
    if (is_like(a, &bottom[i]->shape)) continue;
    CR_TRY(cr_layer_same_shape(layer, what, a, &bottom[i]->shape));
  }
  return cr_smooth_l1_make_ops(layer, bottom, sigma2);
}

crema_status cr_smooth_l1_make_ops(cr_layer *layer, crema_blob *const *bottom, float sigma2) {
  cr_smooth_l1 *s = layer->state;
  const crema_shape flat = cr_shape_1(crema_blob_count(bottom[0])), one = cr_shape_1(1);
  const crema_shape *inside = layer->bottoms > 2 ? &flat : NULL,
                    *outside = layer->bottoms > 3 ? &flat : NULL;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SMOOTH_L1_FWD);
  desc.u.smooth.sigma2 = s->sigma2 = sigma2;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &flat, &flat, inside, outside, &one));
  desc.kind = CR_OP_SMOOTH_L1_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, &flat, &flat, inside, outside, &one, &flat);
}

static cr_tensor *weights_of(const cr_layer *layer, crema_blob *const *bottom, int index) {
  return layer->bottoms > index ? bottom[index]->data : NULL;
}

crema_status cr_smooth_l1_forward(cr_layer *layer, crema_context *context,
                                  crema_blob *const *bottom, crema_blob *const *top) {
  cr_smooth_l1 *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data,
                      weights_of(layer, bottom, 2), weights_of(layer, bottom, 3),
                      s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

crema_status cr_smooth_l1_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                   const bool *propagate_down, crema_blob *const *bottom) {
  cr_smooth_l1 *s = layer->state;
  double divisor = 1;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  CR_TRY(cr_layer_loss_divisor(&s->loss, &divisor));
  for (int i = 0; i < 2; ++i) {
    const cr_op_scalars scalars = {.alpha = i == 0 ? 1 / divisor : -1 / divisor};
    if (!propagate_down[i]) continue;
    CR_TRY(cr_layer_op_run(
        &s->backward, context,
        (cr_tensor *[]){bottom[0]->data, bottom[1]->data, weights_of(layer, bottom, 2),
                        weights_of(layer, bottom, 3), top[0]->diff, bottom[i]->diff},
        &scalars));
  }
  return CREMA_OK;
}

bool cr_smooth_l1_uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 2;
}
