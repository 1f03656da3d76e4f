/* Ops over rows: normalising to mean 0 and deviation 1, sums of a row, the largest values. */
#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

static double mean_of(const float *x, int64_t width) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) sum += (double)x[i];
  return width > 0 ? sum / (double)width : 0;
}

/* src (rows, width), dst, divisor (rows): sqrt(variance) + eps, or 1. */
static crema_status mvn_fwd(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                            const bool *accumulate, const cr_op_scalars *scalars,
                            crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const cr_ocs s = cr_ref_split(plan, 0, 1);
  const float *src = cr_f32(buffer, 0);
  float *dst = cr_f32(buffer, 1), *divisor = cr_f32(buffer, 2);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const float *x = src + r * s.channels;
    float *y = dst + r * s.channels;
    const double mean = mean_of(x, s.channels);
    double square = 0, scale = 1;
    for (int64_t i = 0; i < s.channels; ++i) {
      square += ((double)x[i] - mean) * ((double)x[i] - mean);
    }
    if (plan->desc->u.mvn.variance) {
      scale =
          sqrt(square / (double)(s.channels > 0 ? s.channels : 1)) + (double)plan->desc->u.mvn.eps;
    }
    for (int64_t i = 0; i < s.channels; ++i) y[i] = (float)(((double)x[i] - mean) / scale);
    divisor[r] = (float)scale;
  }
  return CREMA_OK;
}

/* dst, divisor, diff_dst, diff_src: (dy - mean(dy) - y mean(dy y)) / divisor, without the last
 * term where only the mean is removed. */
static crema_status mvn_bwd(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                            const bool *accumulate, const cr_op_scalars *scalars,
                            crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const cr_ocs s = cr_ref_split(plan, 0, 1);
  const float *divisor = cr_f32(buffer, 1);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const float *y = cr_f32(buffer, 0) + r * s.channels, *dy = cr_f32(buffer, 2) + r * s.channels;
    float *dx = cr_f32(buffer, 3) + r * s.channels;
    const double mean = mean_of(dy, s.channels);
    double along = 0;
    for (int64_t i = 0; i < s.channels && plan->desc->u.mvn.variance; ++i) {
      along += (double)dy[i] * (double)y[i] / (double)s.channels;
    }
    for (int64_t i = 0; i < s.channels; ++i) {
      dx[i] = (float)(((double)dy[i] - mean - (double)y[i] * along) / (double)divisor[r]);
    }
  }
  return CREMA_OK;
}

/* src (rows, width), dst (rows): u.rows.coeff times the sum of x, |x| or x^2. */
static crema_status row_reduce_fwd(cr_plan *plan, crema_context *context,
                                   const crema_devptr *buffer, const bool *accumulate,
                                   const cr_op_scalars *scalars, crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const cr_ocs s = cr_ref_split(plan, 0, 1);
  const float *src = cr_f32(buffer, 0);
  float *dst = cr_f32(buffer, 1);
  const cr_reduction reduction = plan->desc->u.rows.reduction;
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const float *x = src + r * s.channels;
    double sum = 0;
    for (int64_t i = 0; i < s.channels; ++i) {
      const double v = (double)x[i];
      sum += reduction == CR_REDUCE_SUM ? v : reduction == CR_REDUCE_ASUM ? fabs(v) : v * v;
    }
    dst[r] = (float)(sum * (double)plan->desc->u.rows.coeff);
  }
  return CREMA_OK;
}

/* src, diff_dst (rows), diff_src. */
static crema_status row_reduce_bwd(cr_plan *plan, crema_context *context,
                                   const crema_devptr *buffer, const bool *accumulate,
                                   const cr_op_scalars *scalars, crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const cr_ocs s = cr_ref_split(plan, 0, 1);
  const float *src = cr_f32(buffer, 0), *diff_dst = cr_f32(buffer, 1);
  float *diff_src = cr_f32(buffer, 2);
  const cr_reduction reduction = plan->desc->u.rows.reduction;
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const float factor = diff_dst[r] * plan->desc->u.rows.coeff;
    for (int64_t i = r * s.channels; i < (r + 1) * s.channels; ++i) {
      float slope = 1;
      if (reduction == CR_REDUCE_ASUM) slope = (float)((src[i] > 0) - (src[i] < 0));
      if (reduction == CR_REDUCE_SUMSQ) slope = 2 * src[i];
      diff_src[i] = factor * slope;
    }
  }
  return CREMA_OK;
}

/* Of equal values the later one is the larger; nan is below everything. */
static bool is_above(float a, int64_t at_a, float b, int64_t at_b) {
  if (isnan(a) || isnan(b)) return isnan(b) && (!isnan(a) || at_a > at_b);
  return a > b || (a == b && at_a > at_b);
}

/* src (outer, C, inner), indices (outer, K, inner), values (outer, K, inner): the K largest over C
 * in falling order. Each rank is the largest below the one before. */
static crema_status arg_max(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                            const bool *accumulate, const cr_op_scalars *scalars,
                            crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const cr_ocs s = cr_ref_split(plan, 0, 1);
  const int64_t ranks = plan->desc->arg[1].shape.dim[1];
  const float *src = cr_f32(buffer, 0);
  float *places = cr_f32(buffer, 1), *values = cr_f32(buffer, 2);
#pragma omp parallel for schedule(static) if (cr_ref_count(plan, 0) >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * s.inner; ++p) {
    const float *x = src + p / s.inner * s.channels * s.inner + p % s.inner;
    int64_t before = -1;
    for (int64_t k = 0; k < ranks; ++k) {
      int64_t best = -1;
      for (int64_t c = 0; c < s.channels; ++c) {
        const float v = x[c * s.inner];
        if (before >= 0 && !is_above(x[before * s.inner], before, v, c)) continue;
        if (best < 0 || is_above(v, c, x[best * s.inner], best)) best = c;
      }
      const int64_t to = (p / s.inner * ranks + k) * s.inner + p % s.inner;
      places[to] = (float)best;
      if (values) values[to] = x[best * s.inner];
      before = best;
    }
  }
  return CREMA_OK;
}

static crema_status arg_max_plan(cr_plan *plan) {
  const crema_shape *from = &plan->desc->arg[0].shape, *to = &plan->desc->arg[1].shape;
  if (from->axes == 3 && to->axes == 3 && to->dim[1] <= from->dim[1]) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "more largest values are asked for than there are");
}

#define ROW(row, OP, function, planner)  \
  const cr_kernel cr_##row##_f32_ref = { \
      .name = #row "_f32_ref",           \
      .op = CR_OP_##OP,                  \
      .type = CREMA_F32,                 \
      .plan = planner,                   \
      .run = function,                   \
  }

ROW(mvn_fwd, MVN_FWD, mvn_fwd, NULL);
ROW(mvn_bwd, MVN_BWD, mvn_bwd, NULL);
ROW(row_reduce_fwd, ROW_REDUCE_FWD, row_reduce_fwd, NULL);
ROW(row_reduce_bwd, ROW_REDUCE_BWD, row_reduce_bwd, NULL);
ROW(arg_max, ARG_MAX, arg_max, arg_max_plan);
