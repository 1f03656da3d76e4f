/* Rows to Euclidean length 1, times a scale per channel: y = scale x / norm, norm = sqrt(sum of x^2
 * + eps). */
#include "device/cpu/kernels/normalize.h"
#include "core/cpu_dispatch.h"

/* One sample. `sum`: space for a value per position. */
CR_REF_CLONES static void normalize_sample(const cr_norm *n, double eps, const cr_real *scale,
                                           const cr_real *x, cr_real *y, cr_real *norm,
                                           double *sum) {
  const int64_t channels = n->s.channels, inner = n->s.inner;
  double all = 0;
  for (int64_t i = 0; i < inner; ++i) sum[i] = 0;
  for (int64_t c = 0; c < channels; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      sum[i] += (double)x[c * inner + i] * (double)x[c * inner + i];
    }
  }
  for (int64_t i = 0; i < inner; ++i) all += sum[i];
  for (int64_t i = 0; i < n->norms; ++i) norm[i] = (cr_real)sqrt((n->across ? all : sum[i]) + eps);
#pragma omp simd
  for (int64_t i = 0; i < inner; ++i) sum[i] = 1 / sqrt((n->across ? all : sum[i]) + eps);
  for (int64_t c = 0; c < channels; ++c) {
    const cr_real factor = scale[n->scales == 1 ? 0 : c];
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      y[c * inner + i] = x[c * inner + i] * (cr_real)sum[i] * factor;
    }
  }
}

static crema_status normalize_fwd_plan(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  plan->workspace_bytes = (size_t)(s.outer * s.inner) * sizeof(double);
  return cr_norm_check(plan, 3);
}

/* src, scale, dst, norm: sqrt(sum of squares + eps). */
static crema_status normalize_fwd(const cr_call *call) {
  const cr_norm n = cr_norm_of(call->desc);
  const int64_t count = n.s.channels * n.s.inner;
  const double eps = (double)call->desc->u.normalize.eps;
  const cr_real *src = cr_as_reals(call->buffer, 0), *scale = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2), *norm = cr_as_reals(call->buffer, 3);
  double *sum = (double *)call->workspace.address; /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < n.s.outer; ++i) {
    normalize_sample(&n, eps, scale, src + i * count, dst + i * count, norm + i * n.norms,
                     sum + i * n.s.inner);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_fwd, NORMALIZE_FWD, .plan = normalize_fwd_plan, .run = normalize_fwd);
