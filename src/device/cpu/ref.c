#include "device/cpu/ref.h"

int64_t cr_ref_count(const cr_plan *plan, int i) {
  const crema_shape *shape = &plan->desc->arg[i].shape;
  int64_t count = shape->axes < 0 ? 0 : 1;
  for (int axis = 0; axis < shape->axes; ++axis) count *= shape->dim[axis];
  return count;
}

cr_ocs cr_ref_split(const cr_plan *plan, int i, int axis) {
  const crema_shape *shape = &plan->desc->arg[i].shape;
  cr_ocs out = {1, 1, 1};
  for (int a = 0; a < shape->axes; ++a) {
    if (a < axis) {
      out.outer *= shape->dim[a];
    } else if (a == axis) {
      out.channels = shape->dim[a];
    } else {
      out.inner *= shape->dim[a];
    }
  }
  return out;
}
