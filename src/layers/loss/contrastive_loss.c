/* ContrastiveLoss: brings pairs that are alike together and keeps others apart (Hadsell, Chopra and
 * LeCun, 2006).
 *
 * Formula: loss = 1 / (2 N) * sum over pairs of d^2 where they are similar, max(0, margin - d)^2
 * where not, d = |a - b| (legacy_version: max(0, margin - d^2)).
 * Shapes: a (N, C), b (N, C), similar (N), 0 or 1 -> loss (a scalar).
 * Fields: contrastive_loss_param.
 * Caffe: the same.
 * Example, a 4 8, b 4 8, similar 4:
 *   layer { name: "loss" type: "ContrastiveLoss" bottom: "a" bottom: "b" bottom: "similar"
 *     top: "loss"
 *     contrastive_loss_param { margin: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/loss/layer_loss.h"

typedef struct contrastive_state {
  cr_layer_loss loss;
  cr_layer_op forward, backward;
} contrastive_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  contrastive_state *s = layer->state;
  const Caffe__ContrastiveLossParameter *param = layer->param->contrastive_loss_param;
  const crema_shape *a = &bottom[0]->shape;
  if (a->axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottoms must have axes, found a scalar");
  }
  CR_TRY(cr_layer_same_shape(layer, "bottom 1", a, &bottom[1]->shape));
  const crema_shape folded = cr_layer_fold(a, 1, a->axes), one = cr_shape_1(1);
  const crema_shape matrix = cr_shape_2(folded.dim[0], folded.dim[1]);
  const crema_shape similar = cr_shape_1(folded.dim[0]);
  CR_TRY(cr_layer_loss_labels(layer, a, &bottom[2]->shape, &folded));
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], 2 * (double)folded.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONTRASTIVE_FWD);
  desc.u.contrastive.margin = param ? param->margin : 1;
  desc.u.contrastive.legacy = param && param->legacy_version;
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 4,
                          (const crema_shape *[]){&matrix, &matrix, &similar, &one}, NULL));
  desc.kind = CR_OP_CONTRASTIVE_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 5,
                          (const crema_shape *[]){&matrix, &matrix, &similar, &one, &matrix}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  contrastive_state *s = layer->state;
  CR_TRY(cr_layer_op_run(
      &s->forward, context,
      (cr_tensor *[]){bottom[0]->data, bottom[1]->data, bottom[2]->data, s->loss.sum}, NULL));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  contrastive_state *s = layer->state;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down, 2));
  for (int i = 0; i < 2; ++i) {
    float sign = i == 0 ? 1 : -1;
    cr_op_scalars scalars = {.alpha = sign * (float)(1 / s->loss.divisor)};
    if (!propagate_down[i]) continue;
    CR_TRY(cr_layer_op_run(&s->backward, context,
                           (cr_tensor *[]){bottom[0]->data, bottom[1]->data, bottom[2]->data,
                                           top[0]->diff, bottom[i]->diff},
                           &scalars));
  }
  return CREMA_OK;
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 2;
}

const cr_layer_class cr_layer_contrastive_loss = {
    .type = "ContrastiveLoss",
    .state_size = sizeof(contrastive_state),
    .min_bottoms = 3,
    .max_bottoms = 3,
    .min_tops = 1,
    .max_tops = 1,
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 2,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
};
