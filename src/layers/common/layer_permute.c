#include "layers/common/layer_permute.h"

#include "core/fail.h"

const cr_layer_pair_table cr_layer_permute_pair = {
    .forward = {CR_OP_PERMUTE, {CR_X0, CR_Y}},
    .backward = {CR_OP_PERMUTE, {CR_DY, CR_DX}},
};

static crema_status check_axis(const cr_layer *layer, const crema_shape *from, const char *field,
                               uint32_t axis) {
  if (axis < (uint32_t)from->axes) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE, "%s names axis %u of a blob of %d axes", field, axis,
                       from->axes);
}

crema_status cr_layer_permute_check(const cr_layer *layer, crema_blob *const *bottom,
                                    const cr_axis_order *order) {
  uint32_t seen = 0;
  for (size_t i = 0; i < order->count; ++i) {
    const uint32_t axis = order->axis[i];
    CR_TRY(check_axis(layer, &bottom[0]->shape, order->field, axis));
    if (seen >> axis & 1u) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s names axis %u twice", order->field, axis);
    }
    seen |= 1u << axis;
  }
  return CREMA_OK;
}

crema_status cr_layer_permute_make(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top, const cr_axis_order *order) {
  const crema_shape *from = &bottom[0]->shape;
  cr_op_desc there = cr_layer_op_desc(CR_OP_PERMUTE), back = there;
  crema_shape to = *from;
  uint32_t seen = 0;
  int axes = 0;
  for (size_t i = 0; i < order->count; ++i) {
    CR_TRY(check_axis(layer, from, order->field, order->axis[i]));
    there.u.order[axes++] = (int)order->axis[i];
    seen |= 1u << order->axis[i];
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
