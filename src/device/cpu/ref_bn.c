/* Batch normalisation (Ioffe and Szegedy, 2015) without scale and shift: y = (x - m) / sqrt(v +
 * eps) per channel, with m and v the mean and the biased variance over the batch and all positions.
 */
#include <math.h>

#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

static double mean_of(const cr_split *s, int64_t c, const float *x) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const float *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) sum += (double)v[i];
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

static double variance_of(const cr_split *s, int64_t c, const float *x, double mean) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const float *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) {
      const double d = (double)v[i] - mean;
      sum += d * d;
    }
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

static void normalise(const cr_split *s, int64_t c, const float *x, double mean, double variance,
                      float eps, float *y) {
  const float scale = (float)(1 / sqrt(variance + (double)eps)), shift = (float)mean;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) y[i] = (x[i] - shift) * scale;
  }
}

/* src, dst, mean, variance: the statistics are computed here. */
static crema_status bn_fwd_train(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1), *mean = cr_f32(call->buffer, 2),
        *variance = cr_f32(call->buffer, 3);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const double m = mean_of(&s, c, src), v = variance_of(&s, c, src, m);
    mean[c] = (float)m;
    variance[c] = (float)v;
    normalise(&s, c, src, m, v, eps, dst);
  }
  return CREMA_OK;
}

/* src, dst, mean, variance: the statistics are given. */
static crema_status bn_fwd_global(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *src = cr_f32(call->buffer, 0), *mean = cr_f32(call->buffer, 2),
              *variance = cr_f32(call->buffer, 3);
  float *dst = cr_f32(call->buffer, 1);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    normalise(&s, c, src, (double)mean[c], (double)variance[c], eps, dst);
  }
  return CREMA_OK;
}

/* One channel of dx = (dy - mean(dy) - z mean(dy z)) / sqrt(v + eps) with z = (x - m) / sqrt(v +
 * eps); with constant statistics only dy / sqrt(v + eps). */
static void channel_gradient(const cr_split *s, int64_t c, const float *x, const float *dy,
                             double mean, double deviation, bool global, float *dx) {
  double sum = 0, product = 0;
  for (int64_t n = 0; n < s->outer && !global; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = at; i < at + s->inner; ++i) {
      sum += (double)dy[i];
      product += (double)dy[i] * ((double)x[i] - mean);
    }
  }
  const int64_t count = s->outer * s->inner;
  const float scale = (float)(1 / deviation), shift = (float)mean;
  const float flat = count ? (float)(sum / (double)count) : 0;
  const float slope = count ? (float)(product / (double)count / (deviation * deviation)) : 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) {
      dx[i] = (dy[i] - flat - slope * (x[i] - shift)) * scale;
    }
  }
}

/* src, diff_dst, mean, variance, diff_src. */
static crema_status bn_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *src = cr_f32(call->buffer, 0), *diff_dst = cr_f32(call->buffer, 1);
  const float *mean = cr_f32(call->buffer, 2), *variance = cr_f32(call->buffer, 3);
  float *diff_src = cr_f32(call->buffer, 4);
  const bool global = call->desc->u.bn.global;
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const double deviation = sqrt((double)variance[c] + (double)eps);
    channel_gradient(&s, c, src, diff_dst, (double)mean[c], deviation, global, diff_src);
  }
  return CREMA_OK;
}

CR_KERNEL(bn_fwd_train_f32_ref, BN_FWD_TRAIN, .run = bn_fwd_train);
CR_KERNEL(bn_fwd_global_f32_ref, BN_FWD_GLOBAL, .run = bn_fwd_global);
CR_KERNEL(bn_bwd_f32_ref, BN_BWD, .run = bn_bwd);
