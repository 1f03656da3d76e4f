/* Sums of the rows of a matrix, of absolute values or of squares, and their gradients; and the sums
 * of an array as a whole. */
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

CR_REF_CLONES static double row_sum(cr_reduction reduction, int64_t width, const cr_real *x) {
  double sum = 0;
  switch (reduction) {
    case CR_REDUCE_SUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += (double)x[i];
      break;
    case CR_REDUCE_ASUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += fabs((double)x[i]);
      break;
    case CR_REDUCE_SUMSQ:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += (double)x[i] * (double)x[i];
      break;
  }
  return sum;
}

/* The same of a row whose parts are shared by the threads. */
static double long_row_sum(cr_reduction reduction, int64_t width, const cr_real *x) {
  double part[CR_REF_PARTS], sum = 0;
#pragma omp parallel for schedule(static) if (width >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t begin = cr_ref_part(width, p);
    part[p] = row_sum(reduction, cr_ref_part(width, p + 1) - begin, x + begin);
  }
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  return sum;
}

/* src (rows, width), dst (rows): u.rows.coeff times the sum of x, |x| or x^2. */
static crema_status row_reduce_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  const cr_reduction reduction = call->desc->u.rows.reduction;
  const cr_real coeff = (cr_real)call->desc->u.rows.coeff;
  const bool few = s.outer < CR_REF_PARTS;
#pragma omp parallel for schedule(static) if (!few && s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const cr_real *x = src + r * s.channels;
    const double sum =
        few ? long_row_sum(reduction, s.channels, x) : row_sum(reduction, s.channels, x);
    dst[r] = (cr_real)(sum * (double)coeff);
  }
  return CREMA_OK;
}

/* src, result (F64): an array as one row. */
static crema_status reduce(const cr_call *call) {
  const int64_t count = cr_op_arg_count(call->desc, 0);
  double *result = (double *)call->buffer[1].address; /* NOLINT: a host address */
  *result = long_row_sum(call->desc->u.reduce, count, cr_as_reals(call->buffer, 0));
  return CREMA_OK;
}

CR_REF_CLONES static void row_slopes(cr_reduction reduction, int64_t width, cr_real factor,
                                     const cr_real *x, cr_real *dx) {
  switch (reduction) {
    case CR_REDUCE_SUM:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) dx[i] = factor;
      break;
    case CR_REDUCE_ASUM:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const cr_real v = x[i];
        dx[i] = factor * ((cr_real)(v > 0 ? 1 : 0) - (cr_real)(v < 0 ? 1 : 0));
      }
      break;
    case CR_REDUCE_SUMSQ:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) dx[i] = factor * (2 * x[i]);
      break;
  }
}

/* src, diff_dst (rows), diff_src. */
static crema_status row_reduce_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 1);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const cr_reduction reduction = call->desc->u.rows.reduction;
  const cr_real coeff = (cr_real)call->desc->u.rows.coeff;
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    row_slopes(reduction, s.channels, diff_dst[r] * coeff, src + at, diff_src + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(reduce, REDUCE, .run = reduce);
CR_REF_KERNEL(row_reduce_fwd, ROW_REDUCE_FWD, .run = row_reduce_fwd);
CR_REF_KERNEL(row_reduce_bwd, ROW_REDUCE_BWD, .run = row_reduce_bwd);
