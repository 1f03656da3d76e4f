/* Cross entropy of sigmoids, summed over the targets t that are not ignored:
 *
 *   -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) = log(1 + exp(x)) - t x
 *
 * The derivative is sigmoid(x) - t. */
#include "device/cpu/kernels/loss.h"
#include "device/cpu/kernels/vector_math.h"

/* The whole part of a target that is ignored; nan, which no target equals, where there is none. */
static cr_real ignored_target(const cr_op_desc *desc) {
  const cr_real ignored = (cr_real)desc->u.nll.ignore;
  return desc->u.nll.has_ignore && (double)ignored == (double)desc->u.nll.ignore ? ignored : NAN;
}

CR_REF_CLONES static double sigmoid_sum(int64_t count, const cr_real *x, const cr_real *t,
                                        cr_real ignored) {
  double loss = 0;
#pragma omp simd reduction(+ : loss)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real own = cr_ref_softplus(x[i]) - t[i] * x[i];
    loss += (double)(trunc(t[i]) == ignored ? 0 : own);
  }
  return loss;
}

/* How many targets are not ignored. */
CR_REF_CLONES static int64_t count_used(int64_t count, const cr_real *t, cr_real ignored) {
  int64_t used = 0;
#pragma omp simd reduction(+ : used)
  for (int64_t i = 0; i < count; ++i) used += trunc(t[i]) != ignored;
  return used;
}

/* scores, targets, loss, count. */
static crema_status sigmoid_fwd(const cr_call *call) {
  const cr_real *x = cr_as_reals(call->buffer, 0);
  const cr_real *t = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real ignored = ignored_target(call->desc);
  double loss[CR_REF_PARTS], counted[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t begin = cr_ref_part(count, p), end = cr_ref_part(count, p + 1);
    loss[p] = sigmoid_sum(end - begin, x + begin, t + begin, ignored);
    counted[p] =
        (double)(isnan(ignored) ? end - begin : count_used(end - begin, t + begin, ignored));
  }
  *cr_as_reals(call->buffer, 2) = (cr_real)cr_loss_sum(loss);
  *cr_as_reals(call->buffer, 3) = (cr_real)cr_loss_sum(counted);
  return CREMA_OK;
}

CR_REF_CLONES static void sigmoid_slopes(int64_t count, const cr_real *x, const cr_real *t,
                                         cr_real ignored, cr_real factor, cr_real *dx) {
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
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t begin = cr_ref_part(count, p), end = cr_ref_part(count, p + 1);
    sigmoid_slopes(end - begin, x + begin, t + begin, ignored, factor, dx + begin);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, .run = sigmoid_fwd);
CR_REF_KERNEL(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, .run = sigmoid_bwd);
