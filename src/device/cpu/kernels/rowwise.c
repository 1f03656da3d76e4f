/* Ops over rows: normalising to mean 0 and deviation 1, sums of a row, the largest values. */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

CR_INLINE double mean_of(const cr_value *x, int64_t width) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) sum += (double)cr_get(x, i);
  return width > 0 ? sum / (double)width : 0;
}

/* One row; returns the divisor. */
CR_CLONES static double mvn_row(const cr_op_desc *desc, int64_t width, const cr_value *x,
                                cr_value *y) {
  const double mean = mean_of(x, width);
  double square = 0, scale = 1;
  if (desc->u.mvn.variance) {
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < width; ++i) {
      const double distance = (double)cr_get(x, i) - mean;
      square += distance * distance;
    }
    scale = sqrt(square / (double)(width > 0 ? width : 1)) + (double)desc->u.mvn.eps;
  }
  const double factor = 1 / scale;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    cr_put(y, i, (cr_real)(((double)cr_get(x, i) - mean) * factor));
  }
  return scale;
}

/* src (rows, width), dst, divisor (rows): sqrt(variance) + eps, or 1. */
static crema_status mvn_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  cr_real *divisor = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    divisor[r] = (cr_real)mvn_row(call->desc, s.channels, src + at, dst + at);
  }
  return CREMA_OK;
}

CR_CLONES static void mvn_gradient(const cr_op_desc *desc, int64_t width, const cr_value *y,
                                   const cr_value *dy, double divisor, cr_value *dx) {
  const double mean = mean_of(dy, width), factor = 1 / divisor;
  double along = 0;
  if (desc->u.mvn.variance && width > 0) {
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < width; ++i) along += (double)cr_get(dy, i) * (double)cr_get(y, i);
    along /= (double)width;
  }
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const double rest = (double)cr_get(dy, i) - mean - (double)cr_get(y, i) * along;
    cr_put(dx, i, (cr_real)(rest * factor));
  }
}

/* dst, divisor, diff_dst, diff_src: (dy - mean(dy) - y mean(dy y)) / divisor, without the last
 * term where only the mean is removed. */
static crema_status mvn_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *y = cr_as_values(call->buffer, 0), *dy = cr_as_values(call->buffer, 2);
  const cr_real *divisor = cr_as_reals(call->buffer, 1);
  cr_value *dx = cr_as_values(call->buffer, 3);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    mvn_gradient(call->desc, s.channels, y + at, dy + at, (double)divisor[r], dx + at);
  }
  return CREMA_OK;
}

CR_CLONES static double row_sum(cr_reduction reduction, int64_t width, const cr_value *x) {
  double sum = 0;
  switch (reduction) {
    case CR_REDUCE_SUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += (double)cr_get(x, i);
      break;
    case CR_REDUCE_ASUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += fabs((double)cr_get(x, i));
      break;
    case CR_REDUCE_SUMSQ:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += (double)cr_get(x, i) * (double)cr_get(x, i);
      break;
  }
  return sum;
}

/* The same of a row that is long enough for several threads. */
static double long_row_sum(cr_reduction reduction, int64_t width, const cr_value *x) {
  double part[CR_REF_PARTS], sum = 0;
#pragma omp parallel for schedule(static)
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
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  const cr_reduction reduction = call->desc->u.rows.reduction;
  const cr_real coeff = (cr_real)call->desc->u.rows.coeff;
  if (s.outer < CR_REF_PARTS && s.channels >= CR_REF_PARALLEL_MIN) {
    for (int64_t r = 0; r < s.outer; ++r) {
      const double sum = long_row_sum(reduction, s.channels, src + r * s.channels);
      cr_put(dst, r, (cr_real)(sum * (double)coeff));
    }
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const double sum = row_sum(reduction, s.channels, src + r * s.channels);
    cr_put(dst, r, (cr_real)(sum * (double)coeff));
  }
  return CREMA_OK;
}

CR_CLONES static void row_slopes(cr_reduction reduction, int64_t width, cr_real factor,
                                 const cr_value *x, cr_value *dx) {
  switch (reduction) {
    case CR_REDUCE_SUM:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) cr_put(dx, i, factor);
      break;
    case CR_REDUCE_ASUM:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const cr_real v = cr_get(x, i);
        cr_put(dx, i, factor * ((cr_real)(v > 0 ? 1 : 0) - (cr_real)(v < 0 ? 1 : 0)));
      }
      break;
    case CR_REDUCE_SUMSQ:
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) cr_put(dx, i, factor * (2 * cr_get(x, i)));
      break;
  }
}

/* src, diff_dst (rows), diff_src. */
static crema_status row_reduce_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *src = cr_as_values(call->buffer, 0), *diff_dst = cr_as_values(call->buffer, 1);
  cr_value *diff_src = cr_as_values(call->buffer, 2);
  const cr_reduction reduction = call->desc->u.rows.reduction;
  const cr_real coeff = (cr_real)call->desc->u.rows.coeff;
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    const int64_t at = r * s.channels;
    row_slopes(reduction, s.channels, cr_get(diff_dst, r) * coeff, src + at, diff_src + at);
  }
  return CREMA_OK;
}

/* The largest values: of equal ones the later is the larger, and nan is below everything. Each rank
 * is the largest below the one before, that is below (value, channel) in this order. */
enum { LANES = 32 /* of a row */, STRIP = 128 /* positions side by side */ };

/* At first below nothing: nan, which compares with nothing, is looked for when all else is taken.
 */
typedef struct rank {
  cr_real value;
  int64_t channel;
} rank;

/* Keeps the larger of value `v` of channel c and of what is best so far, if v is below `bound`. */
CR_INLINE void keep_larger(cr_real v, int64_t c, cr_real bound, int64_t bound_at, cr_real *best,
                           int64_t *at) {
  const bool below = (v < bound) | ((v == bound) & (c < bound_at));
  const bool more = below & (v >= *best);
  *best = more ? v : *best;
  *at = more ? c : *at;
}

/* The last nan below `before`; there is one where no number is left. */
static int64_t last_nan(int64_t channels, int64_t inner, const cr_value *x, const rank *before) {
  int64_t c = isnan(before->value) ? before->channel - 1 : channels - 1;
  while (c > 0 && !isnan(cr_get(x, c * inner))) --c;
  return c;
}

/* The rank behind `before` in a row. */
CR_CLONES static int64_t next_of_row(int64_t channels, const cr_value *x, const rank *before) {
  const rank bound = *before;
  cr_real best[LANES], top = -INFINITY;
  int64_t at[LANES], last = -1;
  for (int i = 0; i < LANES; ++i) best[i] = -INFINITY, at[i] = -1;
  int64_t done = 0;
  for (; done + LANES <= channels; done += LANES) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) {
      keep_larger(cr_get(x, done + i), done + i, bound.value, bound.channel, &best[i], &at[i]);
    }
  }
  for (int i = 0; done + i < channels; ++i) {
    keep_larger(cr_get(x, done + i), done + i, bound.value, bound.channel, &best[i], &at[i]);
  }
  for (int i = 0; i < LANES; ++i) {
    const bool more = best[i] > top || (best[i] == top && at[i] > last);
    top = more ? best[i] : top;
    last = more ? at[i] : last;
  }
  return last;
}

/* The ranks behind those before at `width` positions side by side. */
CR_CLONES static void next_of_strip(int64_t channels, int64_t inner, int64_t width,
                                    const cr_value *x, const rank *before, int64_t *at) {
  cr_real best[STRIP], bound[STRIP];
  int64_t bound_at[STRIP];
  for (int64_t i = 0; i < width; ++i) {
    best[i] = -INFINITY, at[i] = -1;
    bound[i] = before[i].value, bound_at[i] = before[i].channel;
  }
  for (int64_t c = 0; c < channels; ++c) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      keep_larger(cr_get(x, c * inner + i), c, bound[i], bound_at[i], &best[i], &at[i]);
    }
  }
}

/* All ranks at `width` positions, of which the first one's values begin at x and whose results
 * begin at `indices` and, unless NULL, `values`. */
static void rank_strip(const cr_split *s, int64_t ranks, int64_t width, const cr_value *x,
                       cr_real *indices, cr_value *values) {
  rank before[STRIP];
  int64_t at[STRIP];
  for (int64_t i = 0; i < width; ++i) before[i] = (rank){INFINITY, s->channels};
  for (int64_t k = 0; k < ranks; ++k) {
    if (s->inner == 1) at[0] = next_of_row(s->channels, x, before);
    else next_of_strip(s->channels, s->inner, width, x, before, at);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t to = k * s->inner + i;
      if (at[i] < 0) at[i] = last_nan(s->channels, s->inner, x + i, &before[i]);
      indices[to] = (cr_real)at[i];
      if (values) values[to] = x[at[i] * s->inner + i];
      before[i] = (rank){cr_get(x, at[i] * s->inner + i), at[i]};
    }
  }
}

/* src (outer, C, inner), indices (outer, K, inner), values (outer, K, inner): the K largest over C
 * in falling order. */
static crema_status arg_max(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const int64_t ranks = call->desc->arg[1].shape.dim[1], strips = (s.inner + STRIP - 1) / STRIP;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_real *indices = cr_as_reals(call->buffer, 1);
  cr_value *values = cr_as_values(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < s.outer * strips; ++p) {
    const int64_t n = p / strips, begin = p % strips * STRIP;
    const int64_t width = s.inner - begin < STRIP ? s.inner - begin : STRIP;
    const int64_t to = n * ranks * s.inner + begin;
    rank_strip(&s, ranks, width, src + n * s.channels * s.inner + begin, indices + to,
               values ? values + to : NULL);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(mvn_fwd, MVN_FWD, .run = mvn_fwd);
CR_REF_KERNEL(mvn_bwd, MVN_BWD, .run = mvn_bwd);
CR_REF_KERNEL(row_reduce_fwd, ROW_REDUCE_FWD, .run = row_reduce_fwd);
CR_REF_KERNEL(row_reduce_bwd, ROW_REDUCE_BWD, .run = row_reduce_bwd);
CR_REF_KERNEL(arg_max, ARG_MAX, .plan = cr_check_arg_max, .run = arg_max);
