/* Exchange of axes: axis a of dst is axis order[a] of src. */
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

/* src, dst. */
static crema_status permute(const cr_call *call) {
  const crema_shape *from = &call->desc->arg[0].shape, *to = &call->desc->arg[1].shape;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  int64_t stride[CREMA_MAX_AXES], step = 1;
  const int last = to->axes - 1;
  if (cr_op_arg_count(call->desc, 1) == 0) return CREMA_OK;
  for (int a = from->axes - 1; a >= 0; --a) {
    stride[a] = step;
    step *= from->dim[a];
  }
  const int64_t columns = last < 0 ? 1 : to->dim[last], rows = step / columns;
  const int64_t apart = last < 0 ? 1 : stride[call->desc->u.order[last]];
#pragma omp parallel for schedule(static) if (step >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    int64_t begin = 0, left = r;
    for (int a = last - 1; a >= 0; --a) {
      begin += left % to->dim[a] * stride[call->desc->u.order[a]];
      left /= to->dim[a];
    }
    for (int64_t k = 0; k < columns; ++k) dst[r * columns + k] = src[begin + k * apart];
  }
  return CREMA_OK;
}

CR_REF_KERNEL(permute, PERMUTE, .plan = cr_check_permute, .run = permute);
