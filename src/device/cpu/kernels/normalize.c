/* Rows to Euclidean length 1, times a scale per channel: y = scale x / norm, norm = sqrt(sum of x^2
 * + eps). */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

/* Rows that are worked on at a time where a row is made of the channels of one position. */
enum { WIDTH = 512 };

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
  double sum[WIDTH];
  cr_real inverse[WIDTH];
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

/* What backward reads and writes. With z = scale dy: dx = (z - x sum(x z) / norm^2) / norm, and a
 * scale's gradient is the sum of x dy / norm. */
typedef struct norm_backward {
  const cr_real *x, *dy;
  const cr_real *scale;
  cr_real *dx;  /* NULL: not wanted */
  double *sums; /* of each channel, to add to */
} norm_backward;

CR_INLINE double product_of(const norm_backward *g, int64_t i) {
  return (double)g->x[i] * (double)g->dy[i];
}

CR_INLINE void slope_line(const norm_backward *g, int64_t begin, int64_t end, cr_real of_dy,
                          cr_real of_x) {
  const cr_real *x = g->x, *dy = g->dy;
  cr_real *dx = g->dx;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    dx[i] = dy[i] * of_dy - x[i] * of_x;
  }
}

CR_REF_CLONES static void gradient_sample(const cr_split *s, const norm_backward *g, cr_real norm) {
  const double inverse = 1 / (double)norm;
  const cr_real *scale = g->scale;
  double along = 0, *sums = g->sums;
  if (s->inner == 1) {
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < s->channels; ++c) {
      const double product = product_of(g, c);
      along += product * (double)scale[c];
      sums[c] += product * inverse;
    }
  } else {
    for (int64_t c = 0; c < s->channels; ++c) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = c * s->inner; i < (c + 1) * s->inner; ++i) sum += product_of(g, i);
      along += sum * (double)scale[c];
      sums[c] += sum * inverse;
    }
  }
  if (!g->dx) return;
  const cr_real of_dy = (cr_real)inverse, of_x = (cr_real)(along * inverse * inverse * inverse);
  if (s->inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < s->channels; ++c) {
      g->dx[c] = g->dy[c] * (of_dy * scale[c]) - g->x[c] * of_x;
    }
    return;
  }
  for (int64_t c = 0; c < s->channels; ++c) {
    slope_line(g, c * s->inner, (c + 1) * s->inner, of_dy * scale[c], of_x);
  }
}

CR_REF_CLONES static void gradient_planes(const cr_split *s, int64_t width, const norm_backward *g,
                                          const cr_real *norm) {
  double along[WIDTH] = {0};
  cr_real inverse[WIDTH], of_x[WIDTH];
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) inverse[i] = 1 / norm[i];
  for (int64_t c = 0; c < s->channels; ++c) {
    const cr_real *x = g->x + c * s->inner, *dy = g->dy + c * s->inner;
    const cr_real scale = g->scale[c];
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) {
      const double product = (double)(x[i] * inverse[i] * dy[i]);
      sum += product;
      along[i] += product * (double)scale;
    }
    g->sums[c] += sum;
  }
  if (!g->dx) return;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) of_x[i] = (cr_real)along[i] * inverse[i] * inverse[i];
  for (int64_t c = 0; c < s->channels; ++c) {
    const cr_real *x = g->x + c * s->inner, *dy = g->dy + c * s->inner;
    const cr_real scale = g->scale[c];
    cr_real *dx = g->dx + c * s->inner;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = dy[i] * (scale * inverse[i]) - x[i] * of_x[i];
    }
  }
}

/* Rows of a source (N, C, inner): with `across` the values of a sample, else those of the channels
 * of one position. They are taken in blocks; block b begins at element *at, with row *row. */
typedef struct norm_blocks {
  cr_split s;
  bool whole; /* a block is a sample, and a row */
  int64_t per_sample, count;
} norm_blocks;

static norm_blocks blocks_of(const cr_op_desc *desc) {
  norm_blocks b = {.s = cr_op_split(desc, 0, 1), .per_sample = 1};
  b.whole = desc->u.normalize.across || b.s.inner == 1;
  if (!b.whole) b.per_sample = (b.s.inner + WIDTH - 1) / WIDTH;
  b.count = b.s.outer * b.per_sample;
  return b;
}

static int64_t block_at(const norm_blocks *b, int64_t block, int64_t *at, int64_t *row) {
  const int64_t n = block / b->per_sample, i = block % b->per_sample * WIDTH;
  *at = n * b->s.channels * b->s.inner + i;
  *row = b->whole ? n : n * b->s.inner + i;
  return b->s.inner - i < WIDTH ? b->s.inner - i : WIDTH;
}

/* A scale for each channel: `scale` has as many values, or one. */
static void scales_of(const cr_call *call, int64_t channels, cr_real *out) {
  const cr_real *scale = cr_as_reals(call->buffer, 1);
  const bool shared = cr_op_arg_count(call->desc, 1) == 1;
  for (int64_t c = 0; c < channels; ++c) out[c] = scale[shared ? 0 : c];
}

static crema_status check(const cr_plan *plan, int norm) {
  const cr_op_desc *desc = plan->desc;
  const norm_blocks b = blocks_of(desc);
  const int64_t scales = cr_op_arg_count(desc, 1);
  const int64_t rows = b.whole ? b.s.outer : b.s.outer * b.s.inner;
  if ((scales == 1 || scales == b.s.channels) && cr_op_arg_count(desc, norm) == rows) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: %lld scales for %lld channels", cr_op_kind_name(desc->kind),
                 (long long)scales, (long long)b.s.channels);
}

static crema_status normalize_fwd_plan(cr_plan *plan) {
  plan->workspace_bytes = (size_t)cr_op_split(plan->desc, 0, 1).channels * sizeof(cr_real);
  return check(plan, 3);
}

/* src, scale, dst, norm: sqrt(sum of squares + eps). */
static crema_status normalize_fwd(const cr_call *call) {
  const norm_blocks b = blocks_of(call->desc);
  const double eps = (double)call->desc->u.normalize.eps;
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  cr_real *norm = cr_as_reals(call->buffer, 3), *scale = (cr_real *)call->workspace.address;
  scales_of(call, b.s.channels, scale);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t k = 0; k < b.count; ++k) {
    int64_t at, row;
    const int64_t width = block_at(&b, k, &at, &row);
    if (b.whole) normalize_sample(&b.s, eps, scale, src + at, dst + at, norm + row);
    else normalize_planes(&b.s, width, eps, scale, src + at, dst + at, norm + row);
  }
  return CREMA_OK;
}

/* The sums of the parts of the blocks, then the scales. */
static crema_status normalize_bwd_plan(cr_plan *plan) {
  const size_t channels = (size_t)cr_op_split(plan->desc, 0, 1).channels;
  plan->workspace_bytes = channels * (CR_REF_PARTS * sizeof(double) + sizeof(cr_real));
  return check(plan, 2);
}

static void put_scale_gradient(const cr_call *call, int64_t channels, const double *sums) {
  cr_real *diff = cr_as_reals(call->buffer, 5);
  const int64_t scales = cr_op_arg_count(call->desc, 1);
  for (int64_t k = 0; diff && k < scales; ++k) {
    double sum = call->accumulate[5] ? (double)diff[k] : 0;
    for (int64_t c = k; c < channels; c += scales) {
      for (int p = 0; p < CR_REF_PARTS; ++p) sum += sums[p * channels + c];
    }
    diff[k] = (cr_real)sum;
  }
}

/* src, scale, norm, diff_dst, diff_src, diff_scale. */
static crema_status normalize_bwd(const cr_call *call) {
  const norm_blocks b = blocks_of(call->desc);
  const int64_t channels = b.s.channels;
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 3);
  const cr_real *norm = cr_as_reals(call->buffer, 2);
  cr_real *diff_src = cr_as_reals(call->buffer, 4);
  double *sums = (double *)call->workspace.address;
  cr_real *scale = (cr_real *)(sums + CR_REF_PARTS * channels);
  scales_of(call, channels, scale);
  for (int64_t k = 0; k < CR_REF_PARTS * channels; ++k) sums[k] = 0; /* without channels: none */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    for (int64_t k = cr_ref_part(b.count, part); k < cr_ref_part(b.count, part + 1); ++k) {
      int64_t at, row;
      const int64_t width = block_at(&b, k, &at, &row);
      const norm_backward g = {src + at, diff_dst + at, scale, diff_src ? diff_src + at : NULL,
                               sums + part * channels};
      if (b.whole) gradient_sample(&b.s, &g, norm[row]);
      else gradient_planes(&b.s, width, &g, norm + row);
    }
  }
  put_scale_gradient(call, channels, sums);
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_fwd, NORMALIZE_FWD, .plan = normalize_fwd_plan, .run = normalize_fwd);
CR_REF_KERNEL(normalize_bwd, NORMALIZE_BWD, .can_accumulate = true, .plan = normalize_bwd_plan,
              .run = normalize_bwd);
