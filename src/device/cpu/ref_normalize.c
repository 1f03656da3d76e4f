/* Rows to Euclidean length 1, and the smooth L1 loss. */
#include "core/fail.h"
#include "device/cpu/clones.h"
#include "device/cpu/ref_type.h"

/* Rows that are worked on at a time where a row is made of the channels of one position. */
enum { WIDTH = 512 };

CR_INLINE double square_of(const cr_value *x, int64_t i) {
  return (double)cr_get(x, i) * (double)cr_get(x, i);
}

CR_INLINE double product_of(const cr_value *x, const cr_value *y, int64_t i) {
  return (double)cr_get(x, i) * (double)cr_get(y, i);
}

/* One row, in neighbouring elements. */
CR_CLONES static void normalize_row(int64_t count, double eps, const cr_value *x, cr_value *y,
                                    cr_real *norm) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += square_of(x, i);
  const double length = sqrt(sum + eps);
  const cr_real inverse = (cr_real)(1 / length);
  *norm = (cr_real)length;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) cr_put(y, i, cr_get(x, i) * inverse);
}

/* `width` rows side by side; `step` elements lie between neighbours of a row. */
CR_CLONES static void normalize_planes(int64_t count, int64_t step, int64_t width, double eps,
                                       const cr_value *x, cr_value *y, cr_real *norm) {
  double sum[WIDTH];
  cr_real inverse[WIDTH];
  for (int64_t i = 0; i < width; ++i) sum[i] = eps;
  int64_t c = 0;
  for (; c + 4 <= count; c += 4) {
    const cr_value *from = x + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      sum[i] += (square_of(from, i) + square_of(from + step, i)) +
                (square_of(from + 2 * step, i) + square_of(from + 3 * step, i));
    }
  }
  for (; c < count; ++c) {
    const cr_value *from = x + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += square_of(from, i);
  }
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const double length = sqrt(sum[i]);
    norm[i] = (cr_real)length;
    inverse[i] = (cr_real)(1 / length);
  }
  for (c = 0; c < count; ++c) {
    const cr_value *from = x + c * step;
    cr_value *to = y + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) cr_put(to, i, cr_get(from, i) * inverse[i]);
  }
}

/* What backward reads and writes: (dy - y sum(dy y)) / norm. */
typedef struct gradient {
  const cr_value *y, *dy;
  cr_value *dx;
} gradient;

CR_CLONES static void gradient_row(int64_t count, const gradient *g, cr_real norm) {
  const cr_value *y = g->y, *dy = g->dy;
  cr_value *dx = g->dx;
  const double inverse = 1 / (double)norm;
  double along = 0;
#pragma omp simd reduction(+ : along)
  for (int64_t i = 0; i < count; ++i) along += product_of(y, dy, i);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const double rest = (double)cr_get(dy, i) - (double)cr_get(y, i) * along;
    cr_put(dx, i, (cr_real)(rest * inverse));
  }
}

CR_CLONES static void gradient_planes(int64_t count, int64_t step, int64_t width, const gradient *g,
                                      const cr_real *norm) {
  double along[WIDTH] = {0}, inverse[WIDTH];
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) inverse[i] = 1 / (double)norm[i];
  for (int64_t c = 0; c < count; ++c) {
    const cr_value *y = g->y + c * step, *dy = g->dy + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) along[i] += product_of(y, dy, i);
  }
  for (int64_t c = 0; c < count; ++c) {
    const cr_value *y = g->y + c * step, *dy = g->dy + c * step;
    cr_value *dx = g->dx + c * step;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const double rest = (double)cr_get(dy, i) - (double)cr_get(y, i) * along[i];
      cr_put(dx, i, (cr_real)(rest * inverse[i]));
    }
  }
}

/* Rows of a source (N, C, inner): with `across` the values of a sample, else those of the channels
 * of one position. They are taken in blocks; block b begins at element *at, with row *row. */
typedef struct blocks {
  cr_split s;
  bool across;
  int64_t per_sample, count;
} blocks;

static blocks blocks_of(const cr_op_desc *desc) {
  blocks b = {.s = cr_op_split(desc, 0, 1), .across = desc->u.normalize.across, .per_sample = 1};
  if (!b.across) b.per_sample = (b.s.inner + WIDTH - 1) / WIDTH;
  b.count = b.s.outer * b.per_sample;
  return b;
}

static int64_t block_at(const blocks *b, int64_t block, int64_t *at, int64_t *row) {
  const int64_t n = block / b->per_sample, i = block % b->per_sample * WIDTH;
  *at = n * b->s.channels * b->s.inner + i;
  *row = b->across ? n : n * b->s.inner + i;
  return b->s.inner - i < WIDTH ? b->s.inner - i : WIDTH;
}

/* src, dst, norm: sqrt(sum of squares + eps). */
static crema_status normalize_fwd(const cr_call *call) {
  const blocks b = blocks_of(call->desc);
  const double eps = (double)call->desc->u.normalize.eps;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  cr_real *norm = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t k = 0; k < b.count; ++k) {
    int64_t at, row;
    const int64_t width = block_at(&b, k, &at, &row);
    if (b.across) {
      normalize_row(b.s.channels * b.s.inner, eps, src + at, dst + at, norm + row);
    } else if (b.s.inner == 1) {
      normalize_row(b.s.channels, eps, src + at, dst + at, norm + row);
    } else {
      normalize_planes(b.s.channels, b.s.inner, width, eps, src + at, dst + at, norm + row);
    }
  }
  return CREMA_OK;
}

/* dst, norm, diff_dst, diff_src. */
static crema_status normalize_bwd(const cr_call *call) {
  const blocks b = blocks_of(call->desc);
  const cr_real *norm = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t k = 0; k < b.count; ++k) {
    int64_t at, row;
    const int64_t width = block_at(&b, k, &at, &row);
    const gradient g = {cr_as_values(call->buffer, 0) + at, cr_as_values(call->buffer, 2) + at,
                        cr_as_values(call->buffer, 3) + at};
    if (b.across) {
      gradient_row(b.s.channels * b.s.inner, &g, norm[row]);
    } else if (b.s.inner == 1) {
      gradient_row(b.s.channels, &g, norm[row]);
    } else {
      gradient_planes(b.s.channels, b.s.inner, width, &g, norm + row);
    }
  }
  return CREMA_OK;
}

/* ---- smooth L1 ----------------------------------------------------------- */

/* Two arrays and the weights of their differences and losses, NULL for 1. */
typedef struct pairs {
  const cr_value *a, *b, *inside, *outside;
} pairs;

static pairs pairs_of(const cr_call *call) {
  return (pairs){cr_as_values(call->buffer, 0), cr_as_values(call->buffer, 1),
                 cr_as_values(call->buffer, 2), cr_as_values(call->buffer, 3)};
}

CR_INLINE cr_real weight_at(const cr_value *weights, int64_t i) {
  return weights ? cr_get(weights, i) : 1;
}

CR_INLINE double smooth_sum(const cr_value *a, const cr_value *b, const cr_value *inside,
                            const cr_value *outside, double square, int64_t begin, int64_t end) {
  const double edge = 1 / square, shift = 0.5 / square;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) {
    const double d = (double)fabs(weight_at(inside, i) * (cr_get(a, i) - cr_get(b, i)));
    const double loss = d < edge ? 0.5 * square * d * d : d - shift;
    sum += (double)weight_at(outside, i) * loss;
  }
  return sum;
}

/* Without weights a loop of its own, so that none asks for them at each element. */
CR_CLONES static double smooth_part(const pairs *p, double square, int64_t begin, int64_t end) {
  if (!p->inside && !p->outside) return smooth_sum(p->a, p->b, NULL, NULL, square, begin, end);
  return smooth_sum(p->a, p->b, p->inside, p->outside, square, begin, end);
}

/* a, b, inside, outside, loss. */
static crema_status smooth_l1_fwd(const cr_call *call) {
  const pairs pair = pairs_of(call);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const double square = (double)call->desc->u.smooth.sigma2;
  double part[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    part[p] = smooth_part(&pair, square, cr_ref_part(count, p), cr_ref_part(count, p + 1));
  }
  double sum = 0;
  for (int p = 0; p < CR_REF_PARTS; ++p) sum += part[p];
  *cr_as_reals(call->buffer, 4) = (cr_real)sum;
  return CREMA_OK;
}

CR_CLONES static void smooth_slopes(const pairs *p, cr_real square, cr_real factor, int64_t begin,
                                    int64_t end, cr_value *diff) {
  const cr_value *a = p->a, *b = p->b, *inside = p->inside, *outside = p->outside;
  const cr_real edge = 1 / square;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const cr_real w = weight_at(inside, i), d = w * (cr_get(a, i) - cr_get(b, i));
    const cr_real sign = d < 0 ? -1 : d > 0 ? 1 : d;
    const cr_real slope = fabs(d) < edge ? square * d : sign;
    cr_put(diff, i, factor * weight_at(outside, i) * w * slope);
  }
}

/* a, b, inside, outside, diff_loss, diff_a. */
static crema_status smooth_l1_bwd(const cr_call *call) {
  const pairs pair = pairs_of(call);
  const cr_real factor = (cr_real)call->scalars->alpha * *cr_as_reals(call->buffer, 4);
  cr_value *diff = cr_as_values(call->buffer, 5);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real square = call->desc->u.smooth.sigma2;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    smooth_slopes(&pair, square, factor, cr_ref_part(count, p), cr_ref_part(count, p + 1), diff);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_fwd, NORMALIZE_FWD, .run = normalize_fwd);
CR_REF_KERNEL(normalize_bwd, NORMALIZE_BWD, .run = normalize_bwd);
CR_REF_KERNEL(smooth_l1_fwd, SMOOTH_L1_FWD, .run = smooth_l1_fwd);
CR_REF_KERNEL(smooth_l1_bwd, SMOOTH_L1_BWD, .run = smooth_l1_bwd);
