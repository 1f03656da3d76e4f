/* Softmax along one axis, shifted by the maximum so that no power overflows. */
#include <math.h>

#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* `step` elements lie between neighbours of the axis. */
static void softmax_line(int64_t channels, int64_t step, const float *x, float *y) {
  float top = -INFINITY;
  for (int64_t c = 0; c < channels; ++c) top = x[c * step] > top ? x[c * step] : top;
  double sum = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const float power = expf(x[c * step] - top);
    y[c * step] = power;
    sum += (double)power;
  }
  const float scale = (float)(1 / sum);
  for (int64_t c = 0; c < channels; ++c) y[c * step] *= scale;
}

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
#pragma omp parallel for collapse(2) \
    schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t n = 0; n < s.outer; ++n) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const int64_t at = n * s.channels * s.inner + i;
      softmax_line(s.channels, s.inner, src + at, dst + at);
    }
  }
  return CREMA_OK;
}

/* dst, diff_dst, diff_src: dx = y (dy - sum(y dy)). */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const float *dst = cr_f32(call->buffer, 0), *diff_dst = cr_f32(call->buffer, 1);
  float *diff_src = cr_f32(call->buffer, 2);
#pragma omp parallel for collapse(2) \
    schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const int64_t begin = n * s.channels * s.inner + i, end = begin + s.channels * s.inner;
      double sum = 0;
      for (int64_t at = begin; at < end; at += s.inner)
        sum += (double)dst[at] * (double)diff_dst[at];
      for (int64_t at = begin; at < end; at += s.inner) {
        diff_src[at] = (float)((double)dst[at] * ((double)diff_dst[at] - sum));
      }
    }
  }
  return CREMA_OK;
}

CR_KERNEL(softmax_fwd_f32_ref, SOFTMAX_FWD, .run = softmax_fwd);
CR_KERNEL(softmax_bwd_f32_ref, SOFTMAX_BWD, .run = softmax_bwd);
