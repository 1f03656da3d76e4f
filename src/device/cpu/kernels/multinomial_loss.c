/* The multinomial logistic loss: the sum of -log(p) over rows, with p the probability that a row
 * has for its label. */
#include "device/cpu/kernels/loss.h"

/* Smaller probabilities count as this value. */
static const cr_real least_probability = (cr_real)1e-20;

/* prob (N, C), labels (N), loss. */
static crema_status multinomial_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *prob = cr_as_reals(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  double loss[CR_REF_PARTS];
  CR_TRY(cr_loss_check_labels(label, s.outer, s.channels));
#pragma omp parallel for schedule(static) if (s.outer >= CR_REF_PARALLEL_MIN / 16)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    loss[p] = 0;
    for (int64_t n = cr_ref_part(s.outer, p); n < cr_ref_part(s.outer, p + 1); ++n) {
      const cr_real given = prob[n * s.channels + (int64_t)label[n]];
      loss[p] -= log((double)(given < least_probability ? least_probability : given));
    }
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)cr_loss_sum(loss);
  return CREMA_OK;
}

/* prob, labels, diff_loss, diff_prob. */
static crema_status multinomial_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *prob = cr_as_reals(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  cr_real *diff = cr_as_reals(call->buffer, 3);
  cr_real factor = 0;
  CR_TRY(cr_loss_check_labels(label, s.outer, s.channels));
  CR_TRY(cr_loss_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = n * s.channels + (int64_t)label[n];
    const cr_real given = prob[at];
    memset(diff + n * s.channels, 0, (size_t)s.channels * sizeof *diff);
    diff[at] = -factor / (given < least_probability ? least_probability : given);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(multinomial_fwd, MULTINOMIAL_FWD, .run = multinomial_fwd);
CR_REF_KERNEL(multinomial_bwd, MULTINOMIAL_BWD, .run = multinomial_bwd);
