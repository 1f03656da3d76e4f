/* Rows to Euclidean length 1, and the smooth L1 loss. */
#include "core/fail.h"
#include "device/cpu/ref_type.h"

/* Row r of a source (N, C, inner): with `across` the values of sample r, else those of the channels
 * of one position. */
typedef struct row {
  int64_t begin, count, step;
} row;

static row row_at(const cr_split *s, bool across, int64_t r) {
  if (across) return (row){r * s->channels * s->inner, s->channels * s->inner, 1};
  return (row){r / s->inner * s->channels * s->inner + r % s->inner, s->channels, s->inner};
}

static int64_t rows_of(const cr_split *s, bool across) {
  return across ? s->outer : s->outer * s->inner;
}

/* src, dst, norm: sqrt(sum of squares + eps). */
static crema_status normalize_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const bool across = call->desc->u.normalize.across;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  cr_real *norm = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows_of(&s, across); ++r) {
    const row at = row_at(&s, across, r);
    double sum = (double)call->desc->u.normalize.eps;
    for (int64_t i = 0; i < at.count; ++i) {
      const double x = (double)cr_get(src, at.begin + i * at.step);
      sum += x * x;
    }
    norm[r] = (cr_real)sqrt(sum);
    for (int64_t i = 0; i < at.count; ++i) {
      const int64_t k = at.begin + i * at.step;
      cr_put(dst, k, cr_get(src, k) / norm[r]);
    }
  }
  return CREMA_OK;
}

/* dst, norm, diff_dst, diff_src: (dy - y sum(dy y)) / norm. */
static crema_status normalize_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const bool across = call->desc->u.normalize.across;
  const cr_value *dst = cr_as_values(call->buffer, 0), *diff = cr_as_values(call->buffer, 2);
  const cr_real *norm = cr_as_reals(call->buffer, 1);
  cr_value *diff_src = cr_as_values(call->buffer, 3);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows_of(&s, across); ++r) {
    const row at = row_at(&s, across, r);
    double along = 0;
    for (int64_t i = 0; i < at.count; ++i) {
      const int64_t k = at.begin + i * at.step;
      along += (double)cr_get(dst, k) * (double)cr_get(diff, k);
    }
    for (int64_t i = 0; i < at.count; ++i) {
      const int64_t k = at.begin + i * at.step;
      const double rest = (double)cr_get(diff, k) - (double)cr_get(dst, k) * along;
      cr_put(diff_src, k, (cr_real)(rest / (double)norm[r]));
    }
  }
  return CREMA_OK;
}

/* ---- smooth L1 ----------------------------------------------------------- */

static cr_real weight_at(const cr_value *weights, int64_t i) {
  return weights ? cr_get(weights, i) : 1;
}

/* a, b, inside, outside, loss. */
static crema_status smooth_l1_fwd(const cr_call *call) {
  const cr_value *a = cr_as_values(call->buffer, 0), *b = cr_as_values(call->buffer, 1);
  const cr_value *inside = cr_as_values(call->buffer, 2), *outside = cr_as_values(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const double square = (double)call->desc->u.smooth.sigma2;
  double part[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    part[p] = 0;
    for (int64_t i = cr_ref_part(count, p); i < cr_ref_part(count, p + 1); ++i) {
      const double d = fabs((double)(weight_at(inside, i) * (cr_get(a, i) - cr_get(b, i))));
      const double loss = d < 1 / square ? 0.5 * square * d * d : d - 0.5 / square;
      part[p] += (double)weight_at(outside, i) * loss;
    }
  }
  double sum = 0;
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  *cr_as_reals(call->buffer, 4) = (cr_real)sum;
  return CREMA_OK;
}

/* a, b, inside, outside, diff_loss, diff_a. */
static crema_status smooth_l1_bwd(const cr_call *call) {
  const cr_value *a = cr_as_values(call->buffer, 0), *b = cr_as_values(call->buffer, 1);
  const cr_value *inside = cr_as_values(call->buffer, 2), *outside = cr_as_values(call->buffer, 3);
  const cr_real factor = (cr_real)call->scalars->alpha * *cr_as_reals(call->buffer, 4);
  cr_value *diff = cr_as_values(call->buffer, 5);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real square = call->desc->u.smooth.sigma2;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real w = weight_at(inside, i), d = w * (cr_get(a, i) - cr_get(b, i));
    cr_real slope = d < 0 ? -1 : d > 0 ? 1 : d;
    if (fabs(d) < 1 / square) slope = square * d;
    cr_put(diff, i, factor * weight_at(outside, i) * w * slope);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_fwd, NORMALIZE_FWD, .run = normalize_fwd);
CR_REF_KERNEL(normalize_bwd, NORMALIZE_BWD, .run = normalize_bwd);
CR_REF_KERNEL(smooth_l1_fwd, SMOOTH_L1_FWD, .run = smooth_l1_fwd);
CR_REF_KERNEL(smooth_l1_bwd, SMOOTH_L1_BWD, .run = smooth_l1_bwd);
