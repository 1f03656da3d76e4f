/* Softmax along an axis and its gradient; values are (outer, C, inner):
 *
 *   y_c = exp(x_c - top) / sum,  dx_c = y_c (dy_c - sum of dy_k y_k over the classes k),
 *
 * where top is the largest x_c, so that no power overflows, and sum adds up the powers of the C
 * classes. */
#include "device/cpu/kernels/softmax.h"

/* src, dst; they may be one. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * s.inner; ++p) {
    cr_softmax_of(&s, src + cr_softmax_at(&s, p), dst + cr_softmax_at(&s, p));
  }
  return CREMA_OK;
}

/* dst, diff_dst, diff_src. */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * s.inner; ++p) {
    const int64_t at = cr_softmax_at(&s, p), end = s.channels * s.inner;
    const cr_real *y = cr_as_reals(call->buffer, 0) + at, *dy = cr_as_reals(call->buffer, 1) + at;
    cr_real *dx = cr_as_reals(call->buffer, 2) + at;
    double sum = 0;
    for (int64_t c = 0; c < end; c += s.inner) sum += (double)y[c] * (double)dy[c];
    for (int64_t c = 0; c < end; c += s.inner) {
      dx[c] = (cr_real)((double)y[c] * ((double)dy[c] - sum));
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_fwd, SOFTMAX_FWD, .run = softmax_fwd);
CR_REF_KERNEL(softmax_bwd, SOFTMAX_BWD, .run = softmax_bwd);
