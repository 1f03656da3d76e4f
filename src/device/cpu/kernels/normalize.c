/* Rows to Euclidean length 1, times a scale per channel: y = scale x / norm, norm = sqrt(sum of x^2
 * + eps). */
#include "device/cpu/kernels/normalize.h"
#include "core/cpu_dispatch.h"

CR_INLINE double square_of(const cr_real *x, int64_t i) {
  return (double)x[i] * (double)x[i];
}

/* A sample as one row: (channels, inner) neighbouring elements. */
CR_REF_CLONES static void normalize_sample(const cr_split *s, double eps, const cr_real *scale,
                                           const cr_real *x, cr_real *y, cr_real *norm) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < s->channels * s->inner; ++i) sum += square_of(x, i);
  const double length = sqrt(sum + eps);
  const cr_real inverse = (cr_real)(1 / length);
  *norm = (cr_real)length;
  if (s->inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < s->channels; ++c) y[c] = x[c] * inverse * scale[c];
    return;
  }
  for (int64_t c = 0; c < s->channels; ++c, x += s->inner, y += s->inner) {
#pragma omp simd
    for (int64_t i = 0; i < s->inner; ++i) y[i] = x[i] * inverse * scale[c];
  }
}

/* `width` rows side by side, each made of the channels of one position. */
CR_REF_CLONES static void normalize_planes(const cr_split *s, int64_t width, double eps,
                                           const cr_real *scale, const cr_real *x, cr_real *y,
                                           cr_real *norm) {
  const int64_t step = s->inner;
  double sum[CR_NORM_WIDTH];
  cr_real inverse[CR_NORM_WIDTH];
  for (int64_t i = 0; i < width; ++i) sum[i] = eps;
  int64_t c = 0;
  for (; c + 4 <= s->channels; c += 4) {
    const cr_real *from = x + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      sum[i] += (square_of(from, i) + square_of(from + step, i)) +
                (square_of(from + 2 * step, i) + square_of(from + 3 * step, i));
    }
  }
  for (; c < s->channels; ++c) {
    const cr_real *from = x + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += square_of(from, i);
  }
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const double length = sqrt(sum[i]);
    norm[i] = (cr_real)length;
    inverse[i] = (cr_real)(1 / length);
  }
  for (c = 0; c < s->channels; ++c) {
    const cr_real *from = x + c * step;
    cr_real *to = y + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) to[i] = from[i] * inverse[i] * scale[c];
  }
}

static crema_status normalize_fwd_plan(cr_plan *plan) {
  plan->workspace_bytes = (size_t)cr_op_split(plan->desc, 0, 1).channels * sizeof(cr_real);
  return cr_norm_check(plan, 3);
}

/* src, scale, dst, norm: sqrt(sum of squares + eps). */
static crema_status normalize_fwd(const cr_call *call) {
  const cr_norm_blocks b = cr_norm_blocks_of(call->desc);
  const double eps = (double)call->desc->u.normalize.eps;
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  cr_real *norm = cr_as_reals(call->buffer, 3), *scale = (cr_real *)call->workspace.address;
  cr_norm_scales(call, b.s.channels, scale);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t k = 0; k < b.count; ++k) {
    int64_t at, row;
    const int64_t width = cr_norm_block_at(&b, k, &at, &row);
    if (b.whole) normalize_sample(&b.s, eps, scale, src + at, dst + at, norm + row);
    else normalize_planes(&b.s, width, eps, scale, src + at, dst + at, norm + row);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_fwd, NORMALIZE_FWD, .plan = normalize_fwd_plan, .run = normalize_fwd);
