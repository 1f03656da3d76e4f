#include "device/cpu/plain.h"

crema_status cr_plain_plan(cr_plan *plan) {
  for (int i = 0; i < plan->desc->args; ++i) {
    plan->form[i] = (cr_form){plan->desc->arg[i].type, NULL};
  }
  return CREMA_OK;
}

int64_t cr_plain_count(const cr_plan *plan, int i) {
  const crema_shape *shape = &plan->desc->arg[i].shape;
  int64_t count = shape->axes < 0 ? 0 : 1;
  for (int axis = 0; axis < shape->axes; ++axis) count *= shape->dim[axis];
  return count;
}

cr_ocs cr_plain_split(const cr_plan *plan, int i, int axis) {
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
