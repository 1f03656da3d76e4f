/* The smooth L1 loss (Girshick, "Fast R-CNN", 2015): the sum of outside * f(inside * (a - b)), with
 * f(d) = sigma^2 d^2 / 2 for |d| < 1 / sigma^2 and |d| - 1 / (2 sigma^2) otherwise. */
#include "device/cpu/kernels/loss.h"

/* Two arrays and the weights of their differences and losses, NULL for 1. */
typedef struct pairs {
  const cr_real *a, *b, *inside, *outside;
} pairs;

static pairs pairs_of(const cr_call *call) {
  return (pairs){cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1),
                 cr_as_reals(call->buffer, 2), cr_as_reals(call->buffer, 3)};
}

CR_INLINE cr_real weight_at(const cr_real *weights, int64_t i) {
  return weights ? weights[i] : 1;
}

CR_INLINE double smooth_sum(const cr_real *a, const cr_real *b, const cr_real *inside,
                            const cr_real *outside, double square, int64_t begin, int64_t end) {
  const double edge = 1 / square, shift = 0.5 / square;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) {
    const double d = (double)fabs(weight_at(inside, i) * (a[i] - b[i]));
    const double loss = d < edge ? 0.5 * square * d * d : d - shift;
    sum += (double)weight_at(outside, i) * loss;
  }
  return sum;
}

/* Two loops keep the branch on weights out of the inner loop. */
CR_REF_CLONES static double smooth_part(const pairs *p, double square, int64_t begin, int64_t end) {
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
  *cr_as_reals(call->buffer, 4) = (cr_real)cr_loss_sum(part);
  return CREMA_OK;
}

CR_REF_CLONES static void smooth_slopes(const pairs *p, cr_real square, cr_real factor,
                                        int64_t begin, int64_t end, cr_real *diff) {
  const cr_real *a = p->a, *b = p->b, *inside = p->inside, *outside = p->outside;
  const cr_real edge = 1 / square;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const cr_real w = weight_at(inside, i), d = w * (a[i] - b[i]);
    const cr_real sign = d < 0 ? -1 : d > 0 ? 1 : d;
    const cr_real slope = fabs(d) < edge ? square * d : sign;
    diff[i] = factor * weight_at(outside, i) * w * slope;
  }
}

/* a, b, inside, outside, diff_loss, diff_a. */
static crema_status smooth_l1_bwd(const cr_call *call) {
  const pairs pair = pairs_of(call);
  const cr_real factor = (cr_real)call->scalars->alpha * *cr_as_reals(call->buffer, 4);
  cr_real *diff = cr_as_reals(call->buffer, 5);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real square = call->desc->u.smooth.sigma2;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    smooth_slopes(&pair, square, factor, cr_ref_part(count, p), cr_ref_part(count, p + 1), diff);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(smooth_l1_fwd, SMOOTH_L1_FWD, .run = smooth_l1_fwd);
CR_REF_KERNEL(smooth_l1_bwd, SMOOTH_L1_BWD, .run = smooth_l1_bwd);
