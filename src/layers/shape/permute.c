/* Permute: exchanges axes.
 *
 * Formula: axis i of y = axis order[i] of x; axes that order does not name follow in their old
 * order.
 * Shapes: x (any) -> y: the extents of x in that order.
 * Fields: permute_param.
 * Caffe: as in Caffe-SSD.
 * Example, x 2 3 4 5:
 *   layer { name: "nhwc" type: "Permute" bottom: "x" top: "y"
 *     permute_param { order: 0 order: 2 order: 3 order: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_PERMUTE, {CR_X0, CR_Y}},
    .backward = {CR_OP_PERMUTE, {CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__PermuteParameter *param = layer->param->permute_param;
  uint32_t seen = 0;
  (void)top;
  for (size_t i = 0; param && i < param->n_order; ++i) {
    uint32_t axis = param->order[i];
    if (axis >= (uint32_t)bottom[0]->shape.axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "order names axis %u of a blob of %d axes", axis,
                           bottom[0]->shape.axes);
    }
    if (seen >> axis & 1u) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "order names axis %u twice", axis);
    }
    seen |= 1u << axis;
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__PermuteParameter *param = layer->param->permute_param;
  const crema_shape *from = &bottom[0]->shape;
  cr_op_desc there = cr_layer_op_desc(CR_OP_PERMUTE), back = there;
  crema_shape to = *from;
  uint32_t seen = 0;
  int axes = 0;
  for (size_t i = 0; param && i < param->n_order; ++i) {
    if (param->order[i] >= (uint32_t)from->axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "order names axis %u of a blob of %d axes",
                           param->order[i], from->axes);
    }
    there.u.order[axes++] = (int)param->order[i];
    seen |= 1u << param->order[i];
  }
  for (int a = 0; a < from->axes; ++a) {
    if (!(seen >> a & 1u)) there.u.order[axes++] = a;
  }
  for (int a = 0; a < axes; ++a) {
    to.dim[a] = from->dim[there.u.order[a]];
    back.u.order[there.u.order[a]] = a;
  }
  CR_TRY(crema_blob_reshape(top[0], &to));
  return cr_layer_pair_make(layer, bottom, top, &there, &(cr_pair_shapes){.backward = &back});
}

const cr_layer_class cr_layer_permute = {
    CR_LAYER_PAIR("Permute", cr_layer_pair, 1),
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
};
