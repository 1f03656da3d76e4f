/* The gradient of rows of Euclidean length 1, y = scale x / norm. With z = scale dy,
 * dx = (z - x sum(x z) / norm^2) / norm. The gradient of a scale is the sum of x dy / norm. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/normalize.h"

/* Intermediate values of some samples. */
typedef struct norm_space {
  double *sums;  /* of x dy / norm, for each channel, to add to */
  double *along; /* sum(x z) / norm, for each position */
  double *inverse;
} norm_space;

/* One sample; dx NULL: not computed. */
CR_REF_CLONES static void gradient_sample(const cr_norm *n, const cr_real *scale, const cr_real *x,
                                          const cr_real *norm, const cr_real *dy, cr_real *dx,
                                          norm_space to) {
  const int64_t channels = n->s.channels, inner = n->s.inner;
  double all = 0, *along = to.along, *inverse = to.inverse;
  for (int64_t i = 0; i < inner; ++i) {
    along[i] = 0;
    inverse[i] = 1 / (double)norm[n->across ? 0 : i];
  }
  for (int64_t c = 0; c < channels; ++c) {
    const double factor = (double)scale[n->scales == 1 ? 0 : c];
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < inner; ++i) {
      const double product = (double)x[c * inner + i] * (double)dy[c * inner + i] * inverse[i];
      sum += product;
      along[i] += product * factor;
    }
    to.sums[c] += sum;
  }
  if (dx == NULL) return;
  for (int64_t i = 0; i < inner; ++i) all += along[i];
#pragma omp simd
  for (int64_t i = 0; i < inner; ++i) {
    along[i] = (n->across ? all : along[i]) * inverse[i] * inverse[i];
  }
  for (int64_t c = 0; c < channels; ++c) {
    const cr_real factor = scale[n->scales == 1 ? 0 : c];
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t at = c * inner + i;
      dx[at] = dy[at] * factor * (cr_real)inverse[i] - x[at] * (cr_real)along[i];
    }
  }
}

/* A space for each part of the samples. */
static int64_t space_of(const cr_norm *n) {
  return n->s.channels + 2 * n->s.inner;
}

static crema_status normalize_bwd_plan(cr_plan *plan) {
  const cr_norm n = cr_norm_of(plan->desc);
  plan->workspace_bytes = (size_t)(CR_REF_PARTS * space_of(&n)) * sizeof(double);
  return cr_norm_check(plan, 2);
}

static void put_scale_gradient(const cr_call *call, const cr_norm *n, const double *sums) {
  cr_real *diff = cr_as_reals(call->buffer, 5);
  for (int64_t k = 0; diff && k < n->scales; ++k) {
    double sum = call->accumulate[5] ? (double)diff[k] : 0;
    for (int64_t c = k; c < n->s.channels; c += n->scales) {
      for (int p = 0; p < CR_REF_PARTS; ++p) sum += sums[p * space_of(n) + c];
    }
    diff[k] = (cr_real)sum;
  }
}

/* src, scale, norm, diff_dst, diff_src, diff_scale. */
static crema_status normalize_bwd(const cr_call *call) {
  const cr_norm n = cr_norm_of(call->desc);
  const int64_t channels = n.s.channels, count = channels * n.s.inner;
  const cr_real *src = cr_as_reals(call->buffer, 0), *scale = cr_as_reals(call->buffer, 1);
  const cr_real *norm = cr_as_reals(call->buffer, 2), *diff_dst = cr_as_reals(call->buffer, 3);
  cr_real *diff_src = cr_as_reals(call->buffer, 4);
  double *spaces = (double *)call->workspace.address; /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    double *sums = spaces + part * space_of(&n);
    const norm_space to = {sums, sums + channels, sums + channels + n.s.inner};
    for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
    for (int64_t i = cr_ref_part(n.s.outer, part); i < cr_ref_part(n.s.outer, part + 1); ++i) {
      gradient_sample(&n, scale, src + i * count, norm + i * n.norms, diff_dst + i * count,
                      diff_src ? diff_src + i * count : NULL, to);
    }
  }
  put_scale_gradient(call, &n, spaces);
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_bwd, NORMALIZE_BWD, .can_accumulate = true, .plan = normalize_bwd_plan,
              .run = normalize_bwd);
