/* Softmax: scores to probabilities.
 *
 * Formula: y[c] = exp(x[c]) / sum over k of exp(x[k]) along axis.
 * Shapes: x (outer, C, inner) -> y (as x), also in place.
 * Fields: softmax_param.
 * Caffe: the same.
 * Example, x 2 10:
 *   layer { name: "prob" type: "Softmax" bottom: "x" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_SOFTMAX_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_SOFTMAX_BWD, {CR_Y, CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_shape *shape = &bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SOFTMAX_FWD);
  CR_TRY(cr_layer_axis(layer, shape, param ? param->axis : 1, "axis", &desc.u.axis));
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

static cr_value_use uses_tops(const cr_layer *layer, bool in_place) {
  (void)layer, (void)in_place;
  return CR_VALUES_ALL;
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  (void)bottoms;
  return cr_layer_reach_from(param->softmax_param ? param->softmax_param->axis : 1);
}

const cr_layer_class cr_layer_softmax = {
    CR_LAYER_PAIR("Softmax", cr_layer_pair, 1),
    .in_place = true,
    .graph.probabilities = true,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
    .uses_tops = uses_tops,
    .fusion.reach = reach,
};
