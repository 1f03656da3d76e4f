/* Concatenating arrays along an axis, and slicing one: block copies. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

/* Copies `rows` runs of `length` values. */
static void copy_rows(int64_t rows, int64_t length, const cr_value *src, int64_t src_step,
                      cr_value *dst, int64_t dst_step) {
#pragma omp parallel for schedule(static) if (rows * length >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(dst + r * dst_step, src + r * src_step, (size_t)length * sizeof *dst);
  }
}

/* src..., dst. */
static crema_status concat(const cr_call *call) {
  const int parts = call->desc->args - 1, axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, parts, axis);
  cr_value *dst = cr_as_values(call->buffer, parts);
  for (int k = 0; k < parts; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    copy_rows(all.outer, length, cr_as_values(call->buffer, k), length, dst,
              all.channels * all.inner);
    dst += length;
  }
  return CREMA_OK;
}

/* src, dst... */
static crema_status slice(const cr_call *call) {
  const int axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, 0, axis);
  const cr_value *src = cr_as_values(call->buffer, 0);
  for (int k = 1; k < call->desc->args; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    if (call->buffer[k].address) {
      copy_rows(all.outer, length, src, all.channels * all.inner, cr_as_values(call->buffer, k),
                length);
    }
    src += length;
  }
  return CREMA_OK;
}

CR_REF_KERNEL(concat, CONCAT, .plan = cr_check_concat, .run = concat);
CR_REF_KERNEL(slice, SLICE, .plan = cr_check_slice, .run = slice);
