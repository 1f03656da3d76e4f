/* The hinge loss: the sum over scores of max(0, 1 - s x), or of its square, with s = 1 for the true
 * class and -1 for all other classes. */
#include "device/cpu/kernels/loss.h"

/* The shortfall of a score from its margin. `sign` is d shortfall / d score: -1 for the true class,
 * 1 for all other classes. */
CR_INLINE cr_real shortfall(cr_real score, cr_real sign) {
  const cr_real margin = 1 + sign * score;
  return margin > 0 ? margin : 0;
}

CR_REF_CLONES static double hinge_sum(const cr_real *x, int64_t count, cr_real sign, bool square) {
  double sum = 0;
  if (square) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const double missing = (double)shortfall(x[i], sign);
      sum += missing * missing;
    }
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += (double)shortfall(x[i], sign);
  }
  return sum;
}

/* scores (N, C), labels (N), loss. */
static crema_status hinge_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const bool square = call->desc->u.norm == 2;
  CR_TRY(cr_loss_check_labels(label, s.outer, s.channels));
  double loss[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const cr_real *x = cr_as_reals(call->buffer, 0) + n * s.channels;
      const int64_t truth = (int64_t)label[n];
      loss[p] += hinge_sum(x, truth, 1, square) + hinge_sum(x + truth, 1, -1, square) +
                 hinge_sum(x + truth + 1, s.channels - truth - 1, 1, square);
    }
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)cr_loss_sum(loss);
  return CREMA_OK;
}

CR_REF_CLONES static void hinge_slopes(const cr_real *x, int64_t count, cr_real sign,
                                       cr_real factor, bool square, cr_real *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real missing = shortfall(x[i], sign);
    const cr_real slope = square ? 2 * missing : missing > 0 ? 1 : 0;
    dx[i] = factor * sign * slope;
  }
}

/* scores, labels, diff_loss, diff_scores. */
static crema_status hinge_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  const bool square = call->desc->u.norm == 2;
  cr_real factor = 0;
  CR_TRY(cr_loss_check_labels(label, s.outer, s.channels));
  CR_TRY(cr_loss_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const cr_real *x = cr_as_reals(call->buffer, 0) + n * s.channels;
    cr_real *dx = cr_as_reals(call->buffer, 3) + n * s.channels;
    const int64_t truth = (int64_t)label[n], behind = truth + 1;
    hinge_slopes(x, truth, 1, factor, square, dx);
    hinge_slopes(x + truth, 1, -1, factor, square, dx + truth);
    hinge_slopes(x + behind, s.channels - behind, 1, factor, square, dx + behind);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(hinge_fwd, HINGE_FWD, .run = hinge_fwd);
CR_REF_KERNEL(hinge_bwd, HINGE_BWD, .run = hinge_bwd);
