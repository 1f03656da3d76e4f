/* The gradient of rows of Euclidean length 1, y = scale x / norm. With z = scale dy,
 * dx = (z - x sum(x z) / norm^2) / norm. The gradient of a scale is the sum of x dy / norm. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/normalize.h"

/* The arrays of one block. */
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
  double along[CR_NORM_WIDTH] = {0};
  cr_real inverse[CR_NORM_WIDTH], of_x[CR_NORM_WIDTH];
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

/* The sums of the parts of the blocks, then the scales. */
static crema_status normalize_bwd_plan(cr_plan *plan) {
  const size_t channels = (size_t)cr_op_split(plan->desc, 0, 1).channels;
  plan->workspace_bytes = channels * (CR_REF_PARTS * sizeof(double) + sizeof(cr_real));
  return cr_norm_check(plan, 2);
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
  const cr_norm_blocks b = cr_norm_blocks_of(call->desc);
  const int64_t channels = b.s.channels;
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 3);
  const cr_real *norm = cr_as_reals(call->buffer, 2);
  cr_real *diff_src = cr_as_reals(call->buffer, 4);
  double *sums = (double *)call->workspace.address;
  cr_real *scale = (cr_real *)(sums + CR_REF_PARTS * channels);
  cr_norm_scales(call, channels, scale);
  for (int64_t k = 0; k < CR_REF_PARTS * channels; ++k) sums[k] = 0; /* without channels: none */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    for (int64_t k = cr_ref_part(b.count, part); k < cr_ref_part(b.count, part + 1); ++k) {
      int64_t at, row;
      const int64_t width = cr_norm_block_at(&b, k, &at, &row);
      const norm_backward g = {src + at, diff_dst + at, scale, diff_src ? diff_src + at : NULL,
                               sums + part * channels};
      if (b.whole) gradient_sample(&b.s, &g, norm[row]);
      else gradient_planes(&b.s, width, &g, norm + row);
    }
  }
  put_scale_gradient(call, channels, sums);
  return CREMA_OK;
}

CR_REF_KERNEL(normalize_bwd, NORMALIZE_BWD, .can_accumulate = true, .plan = normalize_bwd_plan,
              .run = normalize_bwd);
