/* Batch normalisation (Ioffe and Szegedy, 2015): y = (x - m) / sqrt(v + eps) * scale + shift per
 * channel. The mean m and the biased variance v are over the batch and all positions. */

#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

CR_REF_CLONES static double mean_of(const cr_split *s, int64_t c, const cr_real *x) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const cr_real *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) sum += (double)v[i];
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

CR_REF_CLONES static double variance_of(const cr_split *s, int64_t c, const cr_real *x,
                                        double mean) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const cr_real *v = x + (n * s->channels + c) * s->inner;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s->inner; ++i) {
      const double d = (double)v[i] - mean;
      sum += d * d;
    }
  }
  const int64_t count = s->outer * s->inner;
  return count ? sum / (double)count : 0;
}

/* The function of a channel's values: (x - mean) * scale + shift, rectified or not. */
typedef struct channel_line {
  cr_real mean, scale, shift;
  bool rectify;
} channel_line;

static cr_real number_of(const cr_real *numbers, int64_t c, cr_real absent) {
  return numbers == NULL ? absent : numbers[c];
}

static channel_line line_of(double mean, double variance, float eps, cr_real scale, cr_real shift) {
  const double by = (double)scale / sqrt(variance + (double)eps);
  return (channel_line){(cr_real)mean, (cr_real)by, shift, false};
}

CR_REF_CLONES static void normalise(const cr_split *s, int64_t c, const cr_real *x,
                                    const channel_line *line, cr_real *y) {
  const cr_real mean = line->mean, scale = line->scale, shift = line->shift;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
#pragma omp simd
    for (int64_t i = at; i < at + s->inner; ++i) {
      y[i] = (x[i] - mean) * scale + shift;
    }
    for (int64_t i = at; line->rectify && i < at + s->inner; ++i) y[i] = y[i] < 0 ? 0 : y[i];
  }
}

/* Argument `arg`; NULL if the op lacks it. */
static cr_real *values_if(const cr_call *call, int arg) {
  return arg < call->desc->args ? cr_as_reals(call->buffer, arg) : NULL;
}

/* Adds the statistics of the batch to the moving sums, if they are given. */
static void add_statistics(const cr_call *call, const cr_split *s) {
  const cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  cr_real *means = values_if(call, 6), *variances = values_if(call, 7);
  cr_real *weight = values_if(call, 8);
  const double count = (double)(s->outer * s->inner);
  const cr_real unbiased = (cr_real)(count > 1 ? count / (count - 1) : 1);
  const cr_real fraction = (cr_real)call->desc->u.bn.fraction;
  if (weight == NULL) return;
  for (int64_t c = 0; c < s->channels; ++c) {
    means[c] = mean[c] + fraction * means[c];
    variances[c] = unbiased * variance[c] + fraction * variances[c];
  }
  *weight = 1 + fraction * *weight;
}

/* src, dst, mean, variance, scale, shift, moving sums: the statistics are computed here. */
static crema_status bn_fwd_train(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  const cr_real *scale = values_if(call, 4), *shift = values_if(call, 5);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const double m = mean_of(&s, c, src), v = variance_of(&s, c, src, m);
    channel_line line = line_of(m, v, eps, number_of(scale, c, 1), number_of(shift, c, 0));
    line.rectify = call->desc->u.bn.rectify;
    mean[c] = (cr_real)m;
    variance[c] = (cr_real)v;
    normalise(&s, c, src, &line, dst);
  }
  add_statistics(call, &s);
  return CREMA_OK;
}

/* src, dst, mean, variance: the statistics are given. */
static crema_status bn_fwd_global(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  const cr_real *mean = cr_as_reals(call->buffer, 2), *variance = cr_as_reals(call->buffer, 3);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  const float eps = call->desc->u.bn.eps;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    const channel_line line = line_of((double)mean[c], (double)variance[c], eps, 1, 0);
    normalise(&s, c, src, &line, dst);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(bn_fwd_train, BN_FWD_TRAIN, .run = bn_fwd_train);
CR_REF_KERNEL(bn_fwd_global, BN_FWD_GLOBAL, .run = bn_fwd_global);
