/* Batch normalisation (Ioffe and Szegedy, 2015) without scale and shift: y = (x - m) / sqrt(v +
 * eps) per channel, with m and v the mean and the biased variance over the batch and all positions.
 */

#include "core/clones.h"
#include "device/cpu/ref_type.h"

CR_CLONES static double mean_of(const cr_split *s, int64_t c, const cr_value *x) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const cr_value *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) sum += (double)cr_get(v, i);
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

CR_CLONES static double variance_of(const cr_split *s, int64_t c, const cr_value *x, double mean) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const cr_value *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) {
      const double d = (double)cr_get(v, i) - mean;
      sum += d * d;
    }
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

CR_CLONES static void normalise(const cr_split *s, int64_t c, const cr_value *x, double mean,
                                double variance, float eps, cr_value *y) {
  const cr_real scale = (cr_real)(1 / sqrt(variance + (double)eps)), shift = (cr_real)mean;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) cr_put(y, i, (cr_get(x, i) - shift) * scale);
  }
}

/* src, dst, mean, variance: the statistics are computed here. */
static crema_status bn_fwd_train(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const double m = mean_of(&s, c, src), v = variance_of(&s, c, src, m);
    mean[c] = (cr_real)m;
    variance[c] = (cr_real)v;
    normalise(&s, c, src, m, v, eps, dst);
  }
  return CREMA_OK;
}

/* src, dst, mean, variance: the statistics are given. */
static crema_status bn_fwd_global(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  const cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  cr_value *dst = cr_as_values(call->buffer, 1);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    normalise(&s, c, src, (double)mean[c], (double)variance[c], eps, dst);
  }
  return CREMA_OK;
}

/* One channel of dx = (dy - mean(dy) - z mean(dy z)) / sqrt(v + eps) with z = (x - m) / sqrt(v +
 * eps); with constant statistics only dy / sqrt(v + eps). */
CR_CLONES static void channel_gradient(const cr_split *s, int64_t c, const cr_value *x,
                                       const cr_value *dy, double mean, double deviation,
                                       bool global, cr_value *dx) {
  double sum = 0, product = 0;
  for (int64_t n = 0; n < s->outer && !global; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = at; i < at + s->inner; ++i) {
      sum += (double)cr_get(dy, i);
      product += (double)cr_get(dy, i) * ((double)cr_get(x, i) - mean);
    }
  }
  const int64_t count = s->outer * s->inner;
  const cr_real scale = (cr_real)(1 / deviation), shift = (cr_real)mean;
  const cr_real flat = count ? (cr_real)(sum / (double)count) : 0;
  const cr_real slope = count ? (cr_real)(product / (double)count / (deviation * deviation)) : 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) {
      cr_put(dx, i, (cr_get(dy, i) - flat - slope * (cr_get(x, i) - shift)) * scale);
    }
  }
}

/* src, diff_dst, mean, variance, diff_src. */
static crema_status bn_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *src = cr_as_values(call->buffer, 0), *diff_dst = cr_as_values(call->buffer, 1);
  const cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  cr_value *diff_src = cr_as_values(call->buffer, 4);
  const bool global = call->desc->u.bn.global;
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const double deviation = sqrt((double)variance[c] + (double)eps);
    channel_gradient(&s, c, src, diff_dst, (double)mean[c], deviation, global, diff_src);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(bn_fwd_train, BN_FWD_TRAIN, .run = bn_fwd_train);
CR_REF_KERNEL(bn_fwd_global, BN_FWD_GLOBAL, .run = bn_fwd_global);
CR_REF_KERNEL(bn_bwd, BN_BWD, .run = bn_bwd);
