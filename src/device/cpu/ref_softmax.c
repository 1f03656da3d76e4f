/* Softmax along one axis, shifted by the maximum so that no power overflows. */

#include "device/cpu/ref_type.h"

/* `step` elements lie between neighbours of the axis. */
static void softmax_line(int64_t channels, int64_t step, const cr_value *x, cr_value *y) {
  cr_real top = -INFINITY;
  for (int64_t c = 0; c < channels; ++c) {
    const cr_real value = cr_get(x, c * step);
    top = value > top ? value : top;
  }
  double sum = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const cr_real power = exp(cr_get(x, c * step) - top);
    cr_put(y, c * step, power);
    sum += (double)power;
  }
  const cr_real scale = (cr_real)(1 / sum);
  for (int64_t c = 0; c < channels; ++c) cr_put(y, c * step, cr_get(y, c * step) * scale);
}

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
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
  const cr_value *dst = cr_as_values(call->buffer, 0), *diff_dst = cr_as_values(call->buffer, 1);
  cr_value *diff_src = cr_as_values(call->buffer, 2);
#pragma omp parallel for collapse(2) \
    schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const int64_t begin = n * s.channels * s.inner + i, end = begin + s.channels * s.inner;
      double sum = 0;
      for (int64_t at = begin; at < end; at += s.inner) {
        sum += (double)cr_get(dst, at) * (double)cr_get(diff_dst, at);
      }
      for (int64_t at = begin; at < end; at += s.inner) {
        const double slope = (double)cr_get(diff_dst, at) - sum;
        cr_put(diff_src, at, (cr_real)((double)cr_get(dst, at) * slope));
      }
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_fwd, SOFTMAX_FWD, .run = softmax_fwd);
CR_REF_KERNEL(softmax_bwd, SOFTMAX_BWD, .run = softmax_bwd);
