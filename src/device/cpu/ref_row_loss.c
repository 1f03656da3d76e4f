/* The loss of each row of scores by itself, by which boxes are mined. */
#include <float.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref_math.h"
#include "device/cpu/ref_softmax.h"

/* The class of a row's label, of which a fraction is cut off; -1: none. */
static int64_t class_of(cr_real label, int64_t classes) {
  return label > -1 && label < (cr_real)classes ? (int64_t)label : -1;
}

/* ---- softmax ------------------------------------------------------------- */

/* own: the score of the label, from which top was taken off. */
CR_CLONES static void losses_of_sums(int64_t rows, const cr_real *own, const cr_real *sum,
                                     cr_real *loss) {
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
#pragma omp simd
  for (int64_t i = 0; i < rows; ++i) {
    const cr_real found = cr_ref_log(sum[i]) - own[i];
    loss[i] = found < most ? found : most;
  }
}

/* scores, label, loss: the rows of block b. */
static void loss_of_block(const cr_call *call, const cr_split *s, int64_t b) {
  cr_softmax_block block;
  cr_real own[CR_SOFTMAX_POSITIONS];
  const cr_value *x = cr_as_values(call->buffer, 0);
  cr_ref_softmax_block(s, b, x, NULL, &block);
  const cr_real *label = cr_as_reals(call->buffer, 1) + block.first;
  cr_real *loss = cr_as_reals(call->buffer, 2) + block.first;
  x += block.at;
  for (int64_t i = 0; i < block.count; ++i) {
    const int64_t truth = class_of(label[i], s->channels);
    own[i] = cr_get(x, i * s->channels + (truth < 0 ? 0 : truth)) - block.top[i];
  }
  losses_of_sums(block.count, own, block.sum, loss);
  for (int64_t i = 0; i < block.count; ++i) {
    if (class_of(label[i], s->channels) < 0) loss[i] = 0;
  }
}

/* ---- logistic regressions ------------------------------------------------ */

enum { LANES = 16 /* rows side by side in vectors */ };

/* So that the lanes' distances fit an int32_t. */
enum { MOST_CLASSES = INT32_MAX / LANES };

/* Of rows that begin row[i] behind x. */
CR_CLONES static void add_softplus(int64_t classes, const cr_value *x, const int32_t *row,
                                   cr_real *sum) {
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) sum[i] += cr_ref_softplus(cr_get(x + c, row[i]));
  }
}

/* scores, label, loss: the rows from `begin` on, at most LANES. */
static void logistic_loss_of_rows(const cr_call *call, int64_t classes, int64_t begin,
                                  int64_t rows) {
  const cr_value *x = cr_as_values(call->buffer, 0) + begin * classes;
  const cr_real *label = cr_as_reals(call->buffer, 1) + begin;
  cr_real *loss = cr_as_reals(call->buffer, 2) + begin;
  int32_t row[LANES];
  cr_real sum[LANES] = {0};
  for (int32_t i = 0; i < LANES; ++i) {
    row[i] = (i < rows ? i : (int32_t)rows - 1) * (int32_t)classes;
  }
  add_softplus(classes, x, row, sum);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t truth = class_of(label[i], classes);
    loss[i] = sum[i] - (truth < 0 ? 0 : cr_get(x, i * classes + truth));
  }
}

static crema_status plan_row_loss(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(cr_check_labels(plan));
  if (s.inner == 1 && s.channels <= MOST_CLASSES) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "rows of %lld x %lld scores", (long long)s.channels,
                 (long long)s.inner);
}

static crema_status row_loss(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  if (call->desc->u.logistic) {
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
    for (int64_t r = 0; r < s.outer; r += LANES) {
      logistic_loss_of_rows(call, s.channels, r, s.outer - r < LANES ? s.outer - r : LANES);
    }
  } else {
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
    for (int64_t b = 0; b < cr_ref_softmax_blocks(&s); ++b) loss_of_block(call, &s, b);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss, ROW_LOSS, .plan = plan_row_loss, .run = row_loss);
