/* Rows to mean 0 and deviation 1: y = (x - mean) / (sqrt(variance) + eps). */
#include "device/cpu/kernels/element_type.h"

CR_INLINE double mean_of(const cr_real *x, int64_t width) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) sum += (double)x[i];
  return width > 0 ? sum / (double)width : 0;
}

/* One row; returns the divisor. */
CR_REF_CLONES static double mvn_row(const cr_op_desc *desc, int64_t width, const cr_real *x,
                                    cr_real *y) {
  const double mean = mean_of(x, width);
  double square = 0, scale = 1;
  if (desc->u.mvn.variance) {
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < width; ++i) {
      const double distance = (double)x[i] - mean;
      square += distance * distance;
    }
    scale = sqrt(square / (double)(width > 0 ? width : 1)) + (double)desc->u.mvn.eps;
  }
  const double factor = 1 / scale;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    y[i] = (cr_real)(((double)x[i] - mean) * factor);
  }
  return scale;
}

/* src (rows, width), dst, divisor (rows): sqrt(variance) + eps, or 1. */
static crema_status mvn_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  cr_real *divisor = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    divisor[r] = (cr_real)mvn_row(call->desc, s.channels, src + at, dst + at);
  }
  return CREMA_OK;
}

CR_REF_CLONES static void mvn_gradient(const cr_op_desc *desc, int64_t width, const cr_real *y,
                                       const cr_real *dy, double divisor, cr_real *dx) {
  const double mean = mean_of(dy, width), factor = 1 / divisor;
  double along = 0;
  if (desc->u.mvn.variance && width > 0) {
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < width; ++i) along += (double)dy[i] * (double)y[i];
    along /= (double)width;
  }
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const double rest = (double)dy[i] - mean - (double)y[i] * along;
    dx[i] = (cr_real)(rest * factor);
  }
}

/* dst, divisor, diff_dst, diff_src: (dy - mean(dy) - y mean(dy y)) / divisor, without the last
 * term where only the mean is removed. */
static crema_status mvn_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *y = cr_as_reals(call->buffer, 0), *dy = cr_as_reals(call->buffer, 2);
  const cr_real *divisor = cr_as_reals(call->buffer, 1);
  cr_real *dx = cr_as_reals(call->buffer, 3);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    mvn_gradient(call->desc, s.channels, y + at, dy + at, (double)divisor[r], dx + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(mvn_fwd, MVN_FWD, .run = mvn_fwd);
CR_REF_KERNEL(mvn_bwd, MVN_BWD, .run = mvn_bwd);
