/* ShuffleChannel: lets channels of different groups take turns (Zhang et al., "ShuffleNet", 2018).
 *
 * Formula: channel c of group g, of C / group channels each, becomes channel c group + g.
 * Shapes: x (N, C, ...) -> y (as x).
 * Fields: shuffle_channel_param.
 * Caffe: as in ShuffleNet's fork.
 * Example, x 2 6 3 3:
 *   layer { name: "shuffle" type: "ShuffleChannel" bottom: "x" top: "y"
 *     shuffle_channel_param { group: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_PERMUTE, {CR_X0, CR_Y}},
    .backward = {CR_OP_PERMUTE, {CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ShuffleChannelParameter *param = layer->param->shuffle_channel_param;
  const crema_shape *shape = &bottom[0]->shape;
  const int64_t group = param ? param->group : 1;
  if (shape->axes < 2 || group == 0 || shape->dim[1] % group != 0) {
    char text[128];
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "%lld groups must divide the channels of the bottom, shape %s",
                         (long long)group, crema_shape_text(shape, text, sizeof text));
  }
  const crema_shape x = cr_layer_fold(shape, 1, 2);
  crema_shape from = cr_shape_3(x.dim[0], group, x.dim[1] / group);
  crema_shape to = cr_shape_3(x.dim[0], x.dim[1] / group, group);
  from.dim[from.axes++] = to.dim[to.axes++] = x.dim[2];
  cr_op_desc desc = cr_layer_op_desc(CR_OP_PERMUTE);
  for (int i = 0; i < 4; ++i) desc.u.order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
  CR_TRY(crema_blob_reshape(top[0], shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&from}, .y = &to});
}

const cr_layer_class cr_layer_shuffle_channel = {
    CR_LAYER_PAIR("ShuffleChannel", cr_layer_pair, 1),
    .int8.takes_bf16 = true,
    .int8.keeps_positive = true,
    .int8.carries_integers = cr_layer_carries,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
    .fusion.reach = cr_layer_reaches_sample,
};
