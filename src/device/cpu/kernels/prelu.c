/* ReLU with a learned slope per channel (He et al., "Delving deep into rectifiers", 2015): y = x
 * for x > 0, slope[c] * x otherwise; x and y are (outer, C, inner). */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

CR_REF_CLONES static void rectify(int64_t count, cr_real factor, const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = x[i];
    y[i] = value > 0 ? value : factor * value;
  }
}

CR_REF_CLONES static void rectify_gradient(int64_t count, cr_real factor, const cr_real *x,
                                           const cr_real *dy, cr_real *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real given = dy[i], scaled = factor * given;
    dx[i] = x[i] > 0 ? given : scaled;
  }
}

/* The sum of dy x over the elements with x <= 0. */
CR_REF_CLONES static double slope_sum(int64_t count, const cr_real *x, const cr_real *dy) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const double value = (double)x[i], product = (double)dy[i] * value;
    sum += value > 0 ? 0 : product;
  }
  return sum;
}

/* src, slope, dst. */
static crema_status forward(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *x = cr_as_reals(call->buffer, 0), *slope = cr_as_reals(call->buffer, 1);
  cr_real *y = cr_as_reals(call->buffer, 2);
  const int64_t rows = s.outer * s.channels;
#pragma omp parallel for schedule(static) if (rows * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const cr_real factor = slope[r % s.channels];
    rectify(s.inner, factor, x + r * s.inner, y + r * s.inner);
  }
  return CREMA_OK;
}

/* src, slope, diff_dst, diff_src. */
static crema_status backward_data(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *x = cr_as_reals(call->buffer, 0), *slope = cr_as_reals(call->buffer, 1),
                *dy = cr_as_reals(call->buffer, 2);
  cr_real *dx = cr_as_reals(call->buffer, 3);
  const int64_t rows = s.outer * s.channels;
#pragma omp parallel for schedule(static) if (rows * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const cr_real factor = slope[r % s.channels];
    rectify_gradient(s.inner, factor, x + r * s.inner, dy + r * s.inner, dx + r * s.inner);
  }
  return CREMA_OK;
}

/* src, diff_dst, diff_slope: the sum of dy x over the channel's elements with x <= 0. */
static crema_status backward_slope(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *x = cr_as_reals(call->buffer, 0), *dy = cr_as_reals(call->buffer, 1);
  cr_real *d_slope = cr_as_reals(call->buffer, 2);
  const bool add = call->accumulate[2];
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < s.outer; ++n) {
      const int64_t at = (n * s.channels + c) * s.inner;
      sum += slope_sum(s.inner, x + at, dy + at);
    }
    d_slope[c] = (cr_real)(sum + (add ? (double)d_slope[c] : 0));
  }
  return CREMA_OK;
}

CR_REF_KERNEL(prelu_fwd, PRELU_FWD, .run = forward);
CR_REF_KERNEL(prelu_bwd_data, PRELU_BWD_DATA, .run = backward_data);
CR_REF_KERNEL(prelu_bwd_slope, PRELU_BWD_SLOPE, .can_accumulate = true, .run = backward_slope);
