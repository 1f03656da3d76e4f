/* ContrastiveLoss: pulls similar pairs together and pushes other pairs apart (Hadsell, Chopra and
 * LeCun, 2006).
 *
 * Formula: loss = 1 / (2 N) * sum over pairs of d^2 for similar pairs and max(0, margin - d)^2 for
 * other pairs, with d = |a - b|. With legacy_version the latter is max(0, margin - d^2).
 * Shapes: a (N, C), b (N, C), similar (N), 0 or 1 -> loss (a scalar).
 * Fields: contrastive_loss_param.
 * Caffe: the same.
 * Example, a 4 8, b 4 8, similar 4:
 *   layer { name: "loss" type: "ContrastiveLoss" bottom: "a" bottom: "b" bottom: "similar"
 *     top: "loss"
 *     contrastive_loss_param { margin: 1 } } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_CONTRASTIVE_FWD, {CR_X0, CR_X1, CR_X2, CR_LOSS_SUM}},
    .backward = {CR_OP_CONTRASTIVE_BWD, {CR_X0, CR_X1, CR_X2, CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
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
  CR_TRY(cr_layer_loss_fix(layer, layer->state, top[0], 2 * (double)folded.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONTRASTIVE_FWD);
  desc.u.contrastive.margin = param ? param->margin : 1;
  desc.u.contrastive.legacy = param && param->legacy_version;
  return cr_layer_pair_make(
      layer, bottom, top, &desc,
      &(cr_pair_shapes){.x = {&matrix, &matrix, &similar}, .y = &one, .own = {&one}});
}

const cr_layer_class cr_layer_contrastive_loss = {
    CR_LAYER_LOSS_PAIR("ContrastiveLoss", 3, pair),
    .no_gradient_bottoms = 1u << 2,
    .graph.integer_bottoms = 1u << 2,
    .setup = cr_layer_noop,
    .reshape = reshape,
};
