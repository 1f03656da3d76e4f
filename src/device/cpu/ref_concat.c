/* Concatenating arrays along an axis, and slicing one: block copies. */
#include <string.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* Copies `rows` runs of `length` floats. */
static void copy_rows(int64_t rows, int64_t length, const float *src, int64_t src_step, float *dst,
                      int64_t dst_step) {
#pragma omp parallel for schedule(static) if (rows * length >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(dst + r * dst_step, src + r * src_step, (size_t)length * sizeof *dst);
  }
}

/* src..., dst. */
static crema_status concat(const cr_call *call) {
  const int parts = call->desc->args - 1, axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, parts, axis);
  float *dst = cr_f32(call->buffer, parts);
  for (int k = 0; k < parts; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    copy_rows(all.outer, length, cr_f32(call->buffer, k), length, dst, all.channels * all.inner);
    dst += length;
  }
  return CREMA_OK;
}

/* src, dst... */
static crema_status slice(const cr_call *call) {
  const int axis = call->desc->u.axis;
  const cr_split all = cr_op_split(call->desc, 0, axis);
  const float *src = cr_f32(call->buffer, 0);
  for (int k = 1; k < call->desc->args; ++k) {
    const int64_t length = cr_op_split(call->desc, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    if (call->buffer[k].address) {
      copy_rows(all.outer, length, src, all.channels * all.inner, cr_f32(call->buffer, k), length);
    }
    src += length;
  }
  return CREMA_OK;
}

CR_KERNEL(concat_f32_ref, CONCAT, .plan = cr_check_concat, .run = concat);
CR_KERNEL(slice_f32_ref, SLICE, .plan = cr_check_slice, .run = slice);
