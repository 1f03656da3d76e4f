/* Cross entropy of sigmoids: the sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) over the
 * targets t that are not ignored; the derivative is sigmoid(x) - t. */
#include "device/cpu/kernels/loss.h"
#include "device/cpu/kernels/vector_math.h"

/* Elements that a thread works through at a time. */
enum { PIECE = 4096 };

/* The whole part of a target that is ignored; nan, which no target equals, where there is none. */
static cr_real ignored_target(const cr_op_desc *desc) {
  const cr_real ignored = (cr_real)desc->u.nll.ignore;
  return desc->u.nll.has_ignore && (double)ignored == (double)desc->u.nll.ignore ? ignored : NAN;
}

enum { LANES = 16, FOLDED = 4 /* values of a lane whose logarithms are taken together */ };

/* Returns one part of the loss. The other part is log(1 + exp(-|v|)). *rest collects it: 1 + *rest
 * is the product of all 1 + exp(-|v|). Storing the product without the 1 keeps the precision of
 * small terms. */
CR_INLINE cr_real fold_loss(cr_real v, cr_real target, cr_real *rest) {
  const cr_real power = cr_ref_exp_below_0(false, -fabs(v));
  *rest += power * (1 + *rest);
  return (v > 0 ? v : 0) - v * target;
}

/* Whether the target counts. Without targets to ignore nothing is compared. */
CR_INLINE bool is_used(bool ignores, cr_real target, cr_real ignored) {
  return !ignores || trunc(target) != ignored;
}

/* *counted: how many targets are not ignored. */
CR_INLINE double sigmoid_sum(bool ignores, const cr_real *x, const cr_real *t, cr_real ignored,
                             int64_t count, double *counted) {
  double lane[LANES] = {0}, loss = 0, used = 0;
  int64_t i = 0;
  for (; i + LANES * FOLDED <= count; i += LANES * FOLDED) {
    cr_real counts[LANES];
#pragma omp simd
    for (int k = 0; k < LANES; ++k) {
      cr_real rest = 0, direct = 0, number = 0;
      for (int j = 0; j < FOLDED; ++j) {
        const int64_t at = i + j * LANES + k;
        const bool use = is_used(ignores, t[at], ignored);
        cr_real next = rest;
        const cr_real part = fold_loss(x[at], t[at], &next);
        rest = use ? next : rest;
        direct += use ? part : 0;
        number += use ? 1 : 0;
      }
      lane[k] += (double)(direct + cr_ref_log1p_far(rest));
      counts[k] = number;
    }
    for (int k = 0; k < LANES && ignores; ++k) used += (double)counts[k];
    used += ignores ? 0 : LANES * FOLDED;
  }
  for (; i < count; ++i) {
    cr_real rest = 0;
    const cr_real part = fold_loss(x[i], t[i], &rest);
    if (!is_used(ignores, t[i], ignored)) continue;
    loss += (double)(part + cr_ref_log1p_far(rest));
    used += 1;
  }
  for (int k = 0; k < LANES; ++k) loss += lane[k];
  *counted = used;
  return loss;
}

CR_REF_CLONES static double sigmoid_part(const cr_real *x, const cr_real *t, cr_real ignored,
                                         int64_t count, double *counted) {
  if (isnan(ignored)) return sigmoid_sum(false, x, t, ignored, count, counted);
  return sigmoid_sum(true, x, t, ignored, count, counted);
}

/* scores, targets, loss, count: the sum of -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)). */
static crema_status sigmoid_fwd(const cr_call *call) {
  const cr_real *x = cr_as_reals(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real ignored = ignored_target(call->desc);
  double loss[CR_REF_PARTS], counted[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t begin = cr_ref_part(count, p), end = cr_ref_part(count, p + 1);
    loss[p] = sigmoid_part(x + begin, t + begin, ignored, end - begin, &counted[p]);
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)cr_loss_sum(loss);
  *cr_as_reals(call->buffer, 3) = (cr_real)cr_loss_sum(counted);
  return CREMA_OK;
}

CR_REF_CLONES static void sigmoid_piece(const cr_real *x, const cr_real *t, cr_real ignored,
                                        cr_real factor, int64_t count, cr_real *dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real slope = factor * (cr_ref_sigmoid(x[i]) - t[i]);
    dx[i] = trunc(t[i]) == ignored ? 0 : slope;
  }
}

/* scores, targets, diff_loss, diff_scores. */
static crema_status sigmoid_bwd(const cr_call *call) {
  const cr_real *x = cr_as_reals(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  cr_real *dx = cr_as_reals(call->buffer, 3);
  cr_real factor = 0;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real ignored = ignored_target(call->desc);
  CR_TRY(cr_loss_factor(call->scalars, cr_as_reals(call->buffer, 2), &factor));
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; i += PIECE) {
    const int64_t length = count - i < PIECE ? count - i : PIECE;
    sigmoid_piece(x + i, t + i, ignored, factor, length, dx + i);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, .run = sigmoid_fwd);
CR_REF_KERNEL(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, .run = sigmoid_bwd);
