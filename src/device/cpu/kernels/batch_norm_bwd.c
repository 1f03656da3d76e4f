/* The gradient of batch normalisation. With z = (x - m) / sqrt(v + eps),
 * dx = (dy - mean(dy) - z mean(dy z)) * scale / sqrt(v + eps). With constant statistics,
 * dx = dy * scale / sqrt(v + eps). If the forward op rectified its results, dy is first multiplied
 * by 0 where the result is not above 0. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

/* Argument `arg`; NULL if the op lacks it. */
static cr_real *values_if(const cr_call *call, int arg) {
  return arg < call->desc->args ? cr_as_reals(call->buffer, arg) : NULL;
}

/* The gradient of the normalised values. `y`: the rectified results; NULL: they are not rectified.
 */
CR_INLINE cr_real gradient_at(const cr_real *y, const cr_real *dy, int64_t i) {
  return y == NULL || y[i] > 0 ? dy[i] : 0 * dy[i];
}

/* The sums over a channel of dy and of dy (x - mean). */
typedef struct channel_sums {
  double flat, product;
} channel_sums;

typedef struct channel_arrays {
  const cr_real *x, *dy, *y;
} channel_arrays;

CR_REF_CLONES static void sum_channel(const cr_split *s, int64_t c, const channel_arrays *from,
                                      double mean, channel_sums *out) {
  const cr_real *x = from->x, *dy = from->dy, *y = from->y;
  double sum = 0, product = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = at; i < at + s->inner; ++i) {
      const double at_i = (double)gradient_at(y, dy, i);
      sum += at_i;
      product += at_i * ((double)x[i] - mean);
    }
  }
  *out = (channel_sums){sum, product};
}

/* dx = ((dy - flat) - slope * (x - mean)) * scale. */
typedef struct channel_slope {
  cr_real mean, scale, flat, slope;
} channel_slope;

CR_REF_CLONES static void put_gradient(const cr_split *s, int64_t c, const channel_arrays *from,
                                       const channel_slope *of, cr_real *dx) {
  const cr_real *x = from->x, *dy = from->dy, *y = from->y;
  const cr_real mean = of->mean, scale = of->scale, flat = of->flat, slope = of->slope;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) {
      dx[i] = (gradient_at(y, dy, i) - flat - slope * (x[i] - mean)) * scale;
    }
  }
}

static void give(const cr_call *call, int arg, int64_t c, double sum) {
  cr_real *to = values_if(call, arg);
  if (to == NULL) return;
  to[c] = (cr_real)((call->accumulate[arg] ? (double)to[c] : 0) + sum);
}

/* The gradient of one channel. */
static void channel_gradient(const cr_call *call, const cr_split *s, int64_t c) {
  const channel_arrays from = {cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1),
                               values_if(call, 8)};
  const double mean = (double)cr_as_reals(call->buffer, 2)[c];
  const double variance = (double)cr_as_reals(call->buffer, 3)[c];
  const double deviation = sqrt(variance + (double)call->desc->u.bn.eps);
  const cr_real *scale_of = values_if(call, 5);
  const double scale = (double)(scale_of == NULL ? 1 : scale_of[c]);
  const int64_t count = s->outer * s->inner;
  channel_sums sums = {0, 0};
  if (!call->desc->u.bn.global) sum_channel(s, c, &from, mean, &sums);
  const channel_slope of = {
      .mean = (cr_real)mean,
      .scale = (cr_real)(scale / deviation),
      .flat = count ? (cr_real)(sums.flat / (double)count) : 0,
      .slope = count ? (cr_real)(sums.product / (double)count / (deviation * deviation)) : 0};
  put_gradient(s, c, &from, &of, cr_as_reals(call->buffer, 4));
  give(call, 6, c, sums.product / deviation);
  give(call, 7, c, sums.flat);
}

/* src, diff_dst, mean, variance, diff_src, scale, diff_scale, diff_shift, dst. */
static crema_status bn_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) channel_gradient(call, &s, c);
  return CREMA_OK;
}

CR_REF_KERNEL(bn_bwd, BN_BWD, .can_accumulate = true, .run = bn_bwd);
