/* The loss of each row of scores x by itself, by which boxes are mined. Let k be the label's class.
 * The softmax loss is log(sum of exp(x_c)) - x_k, at most -log(FLT_MIN). It is 0 if the label names
 * no class. With u.logistic the loss is the sum of log(1 + exp(x_c)), less x_k if the label names a
 * class. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/vector_math.h"

enum { SCORES, LABEL, LOSS };

/* The class that a label stands for; -1: none. */
static int64_t class_of(cr_real label, int64_t classes) {
  return label > -1 && label < (cr_real)classes ? (int64_t)label : -1;
}

/* No power overflows, as the largest exponent is 0. */
CR_REF_CLONES static cr_real softmax_loss(int64_t classes, const cr_real *x, int64_t own) {
  cr_real top = -INFINITY;
  double sum = 0;
#pragma omp simd reduction(max : top)
  for (int64_t c = 0; c < classes; ++c) top = x[c] > top ? x[c] : top;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += (double)cr_ref_exp_below_0(false, x[c] - top);
  return cr_ref_log((cr_real)sum) + (top - x[own]);
}

CR_REF_CLONES static cr_real softplus_sum(int64_t classes, const cr_real *x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += (double)cr_ref_softplus(x[c]);
  return (cr_real)sum;
}

static crema_status plan_row_loss(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, SCORES, 1);
  CR_TRY(cr_check_labels(plan));
  if (s.inner == 1) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "rows of %lld x %lld scores", (long long)s.channels,
                 (long long)s.inner);
}

/* scores, label, loss. */
static crema_status row_loss(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
  const cr_real *label = cr_as_reals(call->buffer, LABEL);
  cr_real *loss = cr_as_reals(call->buffer, LOSS);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t r = 0; r < s.outer; ++r) {
    const cr_real *x = cr_as_reals(call->buffer, SCORES) + r * s.channels;
    const int64_t own = class_of(label[r], s.channels);
    if (call->desc->u.logistic) {
      loss[r] = softplus_sum(s.channels, x) - (own < 0 ? 0 : x[own]);
    } else {
      const cr_real found = own < 0 ? 0 : softmax_loss(s.channels, x, own);
      loss[r] = found < most ? found : most;
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss, ROW_LOSS, .plan = plan_row_loss, .run = row_loss);
