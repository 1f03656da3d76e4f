/* Concatenating arrays along an axis, and slicing one: block copies. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* Checks that the parts [first, last) together make up `whole` along u.axis. */
static crema_status check(cr_plan *plan, int whole, int first, int last) {
  const cr_ocs all = cr_ref_split(plan, whole, plan->desc->u.axis);
  int64_t channels = 0;
  for (int k = first; k < last; ++k) {
    const cr_ocs part = cr_ref_split(plan, k, plan->desc->u.axis);
    channels += part.channels;
    if (part.outer != all.outer || part.inner != all.inner) channels = -1;
    if (channels < 0) break;
  }
  if (channels != all.channels) {
    return cr_fail(CREMA_E_SHAPE, "the parts do not make up the whole along axis %d",
                   plan->desc->u.axis);
  }
  return CREMA_OK;
}

static crema_status concat_plan(cr_plan *plan) {
  return check(plan, plan->desc->args - 1, 0, plan->desc->args - 1);
}

static crema_status slice_plan(cr_plan *plan) {
  return check(plan, 0, 1, plan->desc->args);
}

/* Copies `rows` runs of `length` floats. */
static void copy_rows(int64_t rows, int64_t length, const float *src, int64_t src_step, float *dst,
                      int64_t dst_step) {
#pragma omp parallel for schedule(static) if (rows * length >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(dst + r * dst_step, src + r * src_step, (size_t)length * sizeof *dst);
  }
}

/* src..., dst. */
static crema_status concat(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                           const bool *accumulate, const cr_op_scalars *scalars,
                           crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const int parts = plan->desc->args - 1, axis = plan->desc->u.axis;
  const cr_ocs all = cr_ref_split(plan, parts, axis);
  float *dst = cr_f32(buffer, parts);
  for (int k = 0; k < parts; ++k) {
    const int64_t length = cr_ref_split(plan, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    copy_rows(all.outer, length, cr_f32(buffer, k), length, dst, all.channels * all.inner);
    dst += length;
  }
  return CREMA_OK;
}

/* src, dst... */
static crema_status slice(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                          const bool *accumulate, const cr_op_scalars *scalars,
                          crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const int axis = plan->desc->u.axis;
  const cr_ocs all = cr_ref_split(plan, 0, axis);
  const float *src = cr_f32(buffer, 0);
  for (int k = 1; k < plan->desc->args; ++k) {
    const int64_t length = cr_ref_split(plan, k, axis).channels * all.inner;
    if (length == 0 || all.outer == 0) continue;
    if (buffer[k].address) {
      copy_rows(all.outer, length, src, all.channels * all.inner, cr_f32(buffer, k), length);
    }
    src += length;
  }
  return CREMA_OK;
}

const cr_kernel cr_concat_f32_ref = {.name = "concat_f32_ref",
                                     .op = CR_OP_CONCAT,
                                     .type = CREMA_F32,
                                     .plan = concat_plan,
                                     .run = concat};
const cr_kernel cr_slice_f32_ref = {.name = "slice_f32_ref",
                                    .op = CR_OP_SLICE,
                                    .type = CREMA_F32,
                                    .plan = slice_plan,
                                    .run = slice};
