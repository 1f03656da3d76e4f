/* Reverse: the values of an axis in reverse order.
 *
 * Formula: y[i] = x[n - 1 - i] along each axis that is given; n is its extent.
 * Shapes: x (any) -> y (as x).
 * Fields: reverse_param.
 * Caffe: as in the forks for CRNN (one axis) and of Synopsys (any number of axes). The forks whose
 * Reverse takes sequence marks as a second bottom are not supported.
 * Example, x 3 2 4:
 *   layer { name: "back" type: "Reverse" bottom: "x" top: "y" reverse_param { axis: 0 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_FLIP, {CR_X0, CR_Y}},
    .backward = {CR_OP_FLIP, {CR_DY, CR_DX}},
};

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ReverseParameter *param = layer->param->reverse_param;
  const crema_shape *shape = &bottom[0]->shape;
  const size_t given = param ? param->n_axis : 0;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_FLIP);
  for (size_t i = 0; i < (given > 0 ? given : 1); ++i) {
    int axis = 0;
    CR_TRY(cr_layer_axis(layer, shape, given > 0 ? param->axis[i] : 0, "axis", &axis));
    if (desc.u.flipped >> axis & 1u) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "axis %d is given twice", axis);
    }
    desc.u.flipped |= 1u << axis;
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

const cr_layer_class cr_layer_reverse = {
    CR_LAYER_PAIR("Reverse", cr_layer_pair, 1),
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
};
