/* The gradient of a softmax of floats over an axis other than the last one, in blocks of adjacent
 * positions.
 *
 * Gain over softmax.c on AMD EPYC (Zen 5), two threads: 15x in the Softmax row of bench/layers with
 * 8 x 21 planes of 224 x 224. The classes of a position are a multiple of 4 KiB apart there, so
 * they compete for the same lines of the cache. */
#define CR_REF_F32

#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/softmax_fast.h"

/* The gradient at `count` positions whose classes are `step` elements apart. */
CR_CLONES static void find_gradient(int64_t classes, int64_t step, int64_t count, const float *y,
                                    const float *dy, float *dx) {
  double sum[CR_SOFTMAX_POSITIONS] = {0};
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += (double)y[at + i] * (double)dy[at + i];
  }
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      dx[at + i] = (float)((double)y[at + i] * ((double)dy[at + i] - sum[i]));
    }
  }
}

static crema_status plan_softmax_bwd(cr_plan *plan) {
  if (cr_op_split(plan->desc, 0, plan->desc->u.axis).inner > 1) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "softmax over the last axis");
}

/* dst, diff_dst, diff_src. */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const float *y = cr_f32(call->buffer, 0), *dy = cr_f32(call->buffer, 1);
  float *dx = cr_f32(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < cr_softmax_fast_blocks(&s); ++b) {
    cr_softmax_block block;
    cr_softmax_fast_place(&s, b, &block);
    find_gradient(s.channels, s.inner, block.count, y + block.at, dy + block.at, dx + block.at);
  }
  return CREMA_OK;
}

CR_KERNEL(softmax_bwd_fast, SOFTMAX_BWD, .plan = plan_softmax_bwd, .run = softmax_bwd);
