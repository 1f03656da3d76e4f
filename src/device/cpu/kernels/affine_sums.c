/* The gradients of y = x * scale + bias, and of y = ReLU(x + bias), one scale and one bias per
 * channel c of (outer, C, inner):
 *
 *   diff_scale[c] = sum of dy x,  diff_bias[c] = sum of dy,
 *
 * both over outer and inner. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/post_ops.h"

/* Term i: dy x, or dy if x is NULL. */
CR_INLINE double term(const cr_real *dy, const cr_real *x, int64_t i) {
  return x != NULL ? (double)dy[i] * (double)x[i] : (double)dy[i];
}

/* Adds the terms of the channels from `begin` to end - 1 to `sum`. */
CR_INLINE void add_terms_of(const cr_split *s, int64_t begin, int64_t end, const cr_real *dy,
                            const cr_real *x, double *sum) {
  for (int64_t n = 0; n < s->outer; ++n) {
    const int64_t at = n * s->channels;
    if (s->inner == 1) {
#pragma omp simd
      for (int64_t c = begin; c < end; ++c) sum[c] += term(dy, x, at + c);
      continue;
    }
    for (int64_t c = begin; c < end; ++c) {
      double line = 0;
#pragma omp simd reduction(+ : line)
      for (int64_t i = (at + c) * s->inner; i < (at + c + 1) * s->inner; ++i) {
        line += term(dy, x, i);
      }
      sum[c] += line;
    }
  }
}

CR_REF_CLONES static void add_terms(const cr_split *s, int64_t begin, int64_t end,
                                    const cr_real *dy, const cr_real *x, double *sum) {
  if (x != NULL) add_terms_of(s, begin, end, dy, x, sum);
  else add_terms_of(s, begin, end, dy, NULL, sum);
}

/* out[c] (+)= sum of the terms of channel c. Each sum is rounded before it is added, so opposite
 * gradients of a shared parameter cancel. */
static crema_status channel_sums(const cr_call *call, const cr_real *dy, const cr_real *x, bool add,
                                 cr_real *out) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  double *sum = (double *)call->workspace.address; /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (s.outer * s.channels * s.inner >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    const int64_t begin = cr_ref_part(s.channels, part), end = cr_ref_part(s.channels, part + 1);
    for (int64_t c = begin; c < end; ++c) sum[c] = 0;
    add_terms(&s, begin, end, dy, x, sum);
    for (int64_t c = begin; c < end; ++c) out[c] = (add ? out[c] : 0) + (cr_real)sum[c];
  }
  return CREMA_OK;
}

static crema_status plan_sums(cr_plan *plan) {
  plan->workspace_bytes = (size_t)cr_op_split(plan->desc, 0, 1).channels * sizeof(double);
  return CREMA_OK;
}

/* src, diff_dst, diff_scale. */
static crema_status affine_bwd_scale(const cr_call *call) {
  return channel_sums(call, cr_as_reals(call->buffer, 1), cr_as_reals(call->buffer, 0),
                      call->accumulate[2], cr_as_reals(call->buffer, 2));
}

/* diff_dst, diff_bias. */
static crema_status affine_bwd_bias(const cr_call *call) {
  return channel_sums(call, cr_as_reals(call->buffer, 0), NULL, call->accumulate[1],
                      cr_as_reals(call->buffer, 1));
}

/* diff_dst, dst, diff_src, diff_bias. */
static crema_status relu_bwd_bias(const cr_call *call) {
  enum { PIECE = 4096 };
  const cr_post relu = {CR_POST_UNARY, CR_UNARY_RELU, call->desc->u.unary.alpha, 0, 0};
  const cr_real *dy = cr_as_reals(call->buffer, 0), *y = cr_as_reals(call->buffer, 1);
  cr_real *dx = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    const int64_t n = count - i < PIECE ? count - i : PIECE;
    cr_ref_unary_slope(&relu, n, y + i, y + i, dy + i, dx + i);
  }
  return channel_sums(call, dx, NULL, call->accumulate[3], cr_as_reals(call->buffer, 3));
}

CR_REF_KERNEL(affine_bwd_scale, AFFINE_BWD_SCALE, .can_accumulate = true, .plan = plan_sums,
              .run = affine_bwd_scale);
CR_REF_KERNEL(affine_bwd_bias, AFFINE_BWD_BIAS, .can_accumulate = true, .plan = plan_sums,
              .run = affine_bwd_bias);
CR_REF_KERNEL(relu_bwd_bias, RELU_BWD_BIAS, .can_accumulate = true, .plan = plan_sums,
              .run = relu_bwd_bias);
