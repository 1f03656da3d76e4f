/* Reversal of axes: index i of a reversed axis of extent n becomes n - 1 - i. */
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

static crema_status flip_plan(cr_plan *plan) {
  const crema_shape *from = &plan->desc->arg[0].shape, *to = &plan->desc->arg[1].shape;
  bool same = from->axes == to->axes;
  for (int a = 0; same && a < to->axes; ++a) same = from->dim[a] == to->dim[a];
  return same ? CREMA_OK : cr_fail(CREMA_E_SHAPE, "the reversed shapes differ");
}

/* src, dst. */
static crema_status flip(const cr_call *call) {
  const crema_shape *shape = &call->desc->arg[1].shape;
  const unsigned flipped = call->desc->u.flipped;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 1);
  const int last = shape->axes - 1;
  const int64_t columns = last < 0 ? 1 : shape->dim[last];
  const bool turned = last >= 0 && (flipped >> last & 1u);
  if (count == 0) return CREMA_OK;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < count / columns; ++r) {
    int64_t row = 0, step = 1, left = r;
    for (int a = last - 1; a >= 0; --a) {
      const int64_t at = left % shape->dim[a];
      row += (flipped >> a & 1u ? shape->dim[a] - 1 - at : at) * step;
      step *= shape->dim[a];
      left /= shape->dim[a];
    }
    for (int64_t k = 0; k < columns; ++k) {
      dst[r * columns + k] = src[row * columns + (turned ? columns - 1 - k : k)];
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(flip, FLIP, .plan = flip_plan, .run = flip);
