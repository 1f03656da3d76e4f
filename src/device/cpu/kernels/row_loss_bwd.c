/* The gradient of each row's loss, of scores x with the label's class k: factor (softmax(x) - 1_k),
 * or with u.logistic factor (sigmoid(x) - 1_k). The factor is alpha times the row's diff_loss. A
 * row without a class has no softmax loss. Rows that do not count are 0. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/vector_math.h"

enum { SCORES, LABEL, DIFF_LOSS, DIFF };

/* The class of a label; -1: none. */
static int64_t class_of(cr_real label, int64_t classes) {
  return label > -1 && label < (cr_real)classes ? (int64_t)label : -1;
}

CR_REF_CLONES static void softmax_row(int64_t classes, cr_real factor, const cr_real *x,
                                      cr_real *to) {
  cr_real top = -INFINITY;
  double sum = 0;
#pragma omp simd reduction(max : top)
  for (int64_t c = 0; c < classes; ++c) top = x[c] > top ? x[c] : top;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) {
    to[c] = cr_ref_exp_below_0(false, x[c] - top);
    sum += (double)to[c];
  }
  const cr_real scale = factor * (cr_real)(1 / sum);
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) to[c] *= scale;
}

CR_REF_CLONES static void logistic_row(int64_t classes, cr_real factor, const cr_real *x,
                                       cr_real *to) {
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) to[c] = factor * cr_ref_sigmoid(x[c]);
}

/* The rows from `begin` to end - 1. */
static void gradient_of_rows(const cr_call *call, int64_t classes, int64_t begin, int64_t end) {
  const cr_real *score = cr_as_reals(call->buffer, SCORES);
  const cr_real *label = cr_as_reals(call->buffer, LABEL);
  const cr_real *diff_loss = cr_as_reals(call->buffer, DIFF_LOSS);
  const bool logistic = call->desc->u.logistic;
  cr_real *diff = cr_as_reals(call->buffer, DIFF);
  memset(diff + begin * classes, 0, (size_t)((end - begin) * classes) * sizeof *diff);
  for (int64_t r = begin; r < end; ++r) {
    if (diff_loss[r] == 0) continue;
    const int64_t own = class_of(label[r], classes);
    const cr_real factor = (cr_real)call->scalars->alpha * diff_loss[r];
    cr_real *to = diff + r * classes;
    if (logistic) logistic_row(classes, factor, score + r * classes, to);
    else if (own >= 0) softmax_row(classes, factor, score + r * classes, to);
    if (own >= 0) to[own] -= factor;
  }
}

static crema_status plan_row_loss_bwd(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, SCORES, 1);
  CR_TRY(cr_check_labels(plan));
  if (s.inner == 1 && cr_op_arg_count(plan->desc, DIFF_LOSS) == s.outer) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "gradients of rows of %lld x %lld scores", (long long)s.channels,
                 (long long)s.inner);
}

/* scores, label, diff_loss, diff_scores. */
static crema_status row_loss_bwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "the gradient of rows lacks its factor");
  const cr_split s = cr_op_split(call->desc, SCORES, 1);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    gradient_of_rows(call, s.channels, cr_ref_part(s.outer, part), cr_ref_part(s.outer, part + 1));
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss_bwd, ROW_LOSS_BWD, .plan = plan_row_loss_bwd, .run = row_loss_bwd);
