/* The gradients of y = x * scale + bias by scale and bias, one of each per channel: the sums of
 * dy * x and of dy over (outer, C, inner) without C. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

enum {
  STRIP = 512, /* columns that a thread sums at a time, at most */
  LANES = 16   /* partial sums of a channel, whatever the vectors */
};

/* dy * x of element i; x NULL: dy. */
CR_INLINE double term(const cr_real *dy, const cr_real *x, int64_t i) {
  return x ? (double)dy[i] * (double)x[i] : (double)dy[i];
}

/* Adds the terms of rows that begin `step` elements apart to sum[c], c < width. */
CR_REF_CLONES static void sum_columns(int64_t rows, int64_t step, int64_t width, const cr_real *dy,
                                      const cr_real *x, double *sum) {
  for (int64_t at = 0; at < rows * step; at += step) {
    if (x) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += term(dy, x, at + c);
    } else {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += term(dy, NULL, at + c);
    }
  }
}

/* Columns of a strip: long pieces of rows, but something for each thread, and whole cache lines. */
static int64_t strip_of(const cr_call *call, int64_t channels) {
  const int64_t threads = call->plan->threads > 0 ? call->plan->threads : 1;
  const int64_t each = channels < threads ? 1 : (channels + threads - 1) / threads;
  const int64_t up = (each + LANES - 1) / LANES * LANES;
  return up < STRIP ? up : STRIP;
}

/* out[c] (+)= sum of dy * x, x NULL: of dy, over the rows (outer, channels). */
static void column_sums(const cr_call *call, const cr_split *s, const cr_real *dy, const cr_real *x,
                        bool add, cr_real *out) {
  const int64_t outer = s->outer, channels = s->channels, most = strip_of(call, channels);
#pragma omp parallel for schedule(static) if (outer * channels >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < channels; at += most) {
    const int64_t width = channels - at < most ? channels - at : most;
    double sum[STRIP] = {0};
    sum_columns(outer, channels, width, dy + at, x ? x + at : NULL, sum);
    for (int64_t c = 0; c < width; ++c) {
      const double before = add ? (double)out[at + c] : 0;
      out[at + c] = (cr_real)(before + sum[c]);
    }
  }
}

/* Adds the terms of `count` elements to sum[0 ... LANES - 1], which are registers meanwhile: where
 * they lie in memory, each addition waits for the store of the one before. */
CR_INLINE void sum_terms(int64_t count, const cr_real *dy, const cr_real *x, double *sum) {
  double acc[LANES];
  int64_t i = 0;
  memcpy(acc, sum, sizeof acc);
  for (; i + LANES <= count; i += LANES) {
#pragma omp simd
    for (int k = 0; k < LANES; ++k) acc[k] += term(dy, x, i + k);
  }
  memcpy(sum, acc, sizeof acc);
  for (; i < count; ++i) sum[i % LANES] += term(dy, x, i);
}

CR_REF_CLONES static void sum_lanes(int64_t count, const cr_real *dy, const cr_real *x,
                                    double *sum) {
  if (x) sum_terms(count, dy, x, sum);
  else sum_terms(count, dy, NULL, sum);
}

/* The same as column_sums for (outer, C, inner). */
static void channel_sums(const cr_call *call, const cr_split *s, const cr_real *dy,
                         const cr_real *x, bool add, cr_real *out) {
  if (s->inner == 1) {
    column_sums(call, s, dy, x, add, out);
    return;
  }
#pragma omp parallel for schedule(static) if (s->outer * s->channels * s->inner >= \
                                              CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->channels; ++c) {
    double sum[LANES] = {0}, all = add ? (double)out[c] : 0;
    for (int64_t n = 0; n < s->outer; ++n) {
      const int64_t at = (n * s->channels + c) * s->inner;
      sum_lanes(s->inner, dy + at, x ? x + at : NULL, sum);
    }
    for (int k = 0; k < LANES; ++k) all += sum[k];
    out[c] = (cr_real)all;
  }
}

/* src, diff_dst, diff_scale. */
static crema_status affine_bwd_scale(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  channel_sums(call, &s, cr_as_reals(call->buffer, 1), cr_as_reals(call->buffer, 0),
               call->accumulate[2], cr_as_reals(call->buffer, 2));
  return CREMA_OK;
}

/* diff_dst, diff_bias. */
static crema_status affine_bwd_bias(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  channel_sums(call, &s, cr_as_reals(call->buffer, 0), NULL, call->accumulate[1],
               cr_as_reals(call->buffer, 1));
  return CREMA_OK;
}

CR_REF_KERNEL(affine_bwd_scale, AFFINE_BWD_SCALE, .can_accumulate = true, .run = affine_bwd_scale);
CR_REF_KERNEL(affine_bwd_bias, AFFINE_BWD_BIAS, .can_accumulate = true, .run = affine_bwd_bias);
