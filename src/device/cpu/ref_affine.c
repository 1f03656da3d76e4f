/* y = x * scale + bias, one scale and one bias per channel; x and y are (outer, C, inner). */
#include "core/fail.h"
#include "device/cpu/ref_posts.h"

/* Channels that one thread sums at a time when neighbours in memory are channels. */
enum { GROUP = 16 };

/* y[i] = x[i] * scale[c] + bias[c]; NULL: 1 and 0. */
static void apply(const cr_split *s, const cr_value *x, const cr_value *scale, const cr_value *bias,
                  cr_value *y) {
  const int64_t rows = s->inner == 1 ? s->outer : s->outer * s->channels;
  const int64_t length = s->inner == 1 ? s->channels : s->inner;
#pragma omp parallel for schedule(static) if (rows * length >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const cr_value *from = x + r * length;
    cr_value *to = y + r * length;
    if (s->inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < length; ++c) {
        const cr_real factor = scale ? cr_get(scale, c) : 1, shift = bias ? cr_get(bias, c) : 0;
        cr_put(to, c, cr_get(from, c) * factor + shift);
      }
    } else {
      const int64_t c = r % s->channels;
      const cr_real factor = scale ? cr_get(scale, c) : 1, shift = bias ? cr_get(bias, c) : 0;
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) cr_put(to, i, cr_get(from, i) * factor + shift);
    }
  }
}

/* Sums dy * x (x NULL: dy) of channels c0 ... c0 + GROUP - 1 where inner is 1. */
static void sum_columns(const cr_split *s, int64_t c0, const cr_value *dy, const cr_value *x,
                        double *sum) {
  const int64_t width = s->channels - c0 < GROUP ? s->channels - c0 : GROUP;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = n * s->channels + c0;
    for (int64_t c = 0; c < width; ++c) {
      const double slope = (double)cr_get(dy, at + c);
      sum[c] += x ? slope * (double)cr_get(x, at + c) : slope;
    }
  }
}

/* The same for one channel of any inner extent. */
static double sum_channel(const cr_split *s, int64_t c, const cr_value *dy, const cr_value *x) {
  double sum = 0;
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = (n * s->channels + c) * s->inner;
    if (x) {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = at; i < at + s->inner; ++i) {
        sum += (double)cr_get(dy, i) * (double)cr_get(x, i);
      }
    } else {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = at; i < at + s->inner; ++i) sum += (double)cr_get(dy, i);
    }
  }
  return sum;
}

/* out[c] (+)= sum of dy * x, x NULL: of dy. */
static void channel_sums(const cr_split *s, const cr_value *dy, const cr_value *x, bool add,
                         cr_value *out) {
#pragma omp parallel for schedule(static) if (s->outer * s->channels * s->inner >= \
                                              CR_REF_PARALLEL_MIN)
  for (int64_t c0 = 0; c0 < s->channels; c0 += GROUP) {
    double sum[GROUP] = {0};
    if (s->inner == 1) sum_columns(s, c0, dy, x, sum);
    for (int64_t c = c0; c < c0 + GROUP && c < s->channels; ++c) {
      const double value = s->inner == 1 ? sum[c - c0] : sum_channel(s, c, dy, x);
      cr_put(out, c, (cr_real)(add ? (double)cr_get(out, c) + value : value));
    }
  }
}
/* Tensors convert halves for post operations. */
static crema_status plan_affine_fwd(cr_plan *plan) {
#ifdef CR_REF_NARROW
  if (cr_posts_count(cr_op_posts(plan->desc)) > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "post operations on halves");
  }
#endif
  (void)plan;
  return CREMA_OK;
}

#ifndef CR_REF_NARROW
static void apply_posts(const cr_posts *posts, int64_t count, cr_value *y) {
  enum { PIECE = 4096 };
  if (cr_posts_count(posts) == 0) return;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    cr_ref_posts(posts, n, 0, y + at, NULL, y + at);
  }
}
#endif

/* x, scale, bias, y. */
static crema_status affine_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  apply(&s, cr_as_values(call->buffer, 0), cr_as_values(call->buffer, 1),
        cr_as_values(call->buffer, 2), cr_as_values(call->buffer, 3));
#ifndef CR_REF_NARROW
  apply_posts(cr_op_posts(call->desc), cr_op_arg_count(call->desc, 3),
              cr_as_values(call->buffer, 3));
#endif
  return CREMA_OK;
}

/* diff_dst, scale, diff_src. */
static crema_status affine_bwd_data(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  apply(&s, cr_as_values(call->buffer, 0), cr_as_values(call->buffer, 1), NULL,
        cr_as_values(call->buffer, 2));
  return CREMA_OK;
}

/* src, diff_dst, diff_scale. */
static crema_status affine_bwd_scale(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  channel_sums(&s, cr_as_values(call->buffer, 1), cr_as_values(call->buffer, 0),
               call->accumulate[2], cr_as_values(call->buffer, 2));
  return CREMA_OK;
}

/* diff_dst, diff_bias. */
static crema_status affine_bwd_bias(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  channel_sums(&s, cr_as_values(call->buffer, 0), NULL, call->accumulate[1],
               cr_as_values(call->buffer, 1));
  return CREMA_OK;
}

CR_REF_KERNEL(affine_fwd, AFFINE_FWD, .plan = plan_affine_fwd, .run = affine_fwd);
CR_REF_KERNEL(affine_bwd_data, AFFINE_BWD_DATA, .run = affine_bwd_data);
CR_REF_KERNEL(affine_bwd_scale, AFFINE_BWD_SCALE, .can_accumulate = true, .run = affine_bwd_scale);
CR_REF_KERNEL(affine_bwd_bias, AFFINE_BWD_BIAS, .can_accumulate = true, .run = affine_bwd_bias);
