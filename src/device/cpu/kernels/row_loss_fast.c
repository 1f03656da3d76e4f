/* The softmax loss of each row of floats, computed in vectors of many rows.
 *
 * Gain over row_loss.c on AMD EPYC (Zen 5), two threads: 6x in the MultiBoxLoss row of
 * bench/layers, 32 x 8,732 rows of 21 classes, as SSD300 has. */
#define CR_REF_F32

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/softmax_fast.h"
#include "device/cpu/kernels/vector_math.h"

/* Loss i is log(sum[i]) - own[i], with `own` the score of the label's class less the top. */
CR_INLINE void put_losses_in(bool fused, int64_t rows, float classes, const float *label,
                             const float *own, const float *sum, float *loss) {
  const float most = (float)87.33654475055310898657; /* -log(FLT_MIN) */
#pragma omp simd
  for (int64_t i = 0; i < rows; ++i) {
    const bool known = (label[i] > -1) & (label[i] < classes);
    const float found = cr_ref_log_of_sum(fused, sum[i]) - own[i];
    const float less = found < most ? found : most;
    loss[i] = known ? less : 0;
  }
}

CR_CLONES static void put_losses(int64_t rows, float classes, const float *label, const float *own,
                                 const float *sum, float *loss) {
  if (cr_fuses()) put_losses_in(true, rows, classes, label, own, sum, loss);
  else put_losses_in(false, rows, classes, label, own, sum, loss);
}

/* scores, label, loss: the rows of block b. */
static void loss_of_block(const cr_call *call, const cr_split *s, int64_t b) {
  cr_softmax_block block;
  cr_softmax_fast_block(s, b, cr_f32(call->buffer, 0), NULL, &block);
  const float *label = cr_f32(call->buffer, 1) + block.first, classes = (float)s->channels;
  const float *x = cr_f32(call->buffer, 0) + block.at;
  float own[CR_SOFTMAX_POSITIONS];
  for (int64_t i = 0; i < block.count; ++i, x += s->channels) {
    const bool known = (label[i] > -1) & (label[i] < classes);
    own[i] = known ? x[(int64_t)label[i]] - block.top[i] : 0;
  }
  put_losses(block.count, classes, label, own, block.sum, cr_f32(call->buffer, 2) + block.first);
}

static crema_status plan_row_loss(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(cr_check_labels(plan));
  if (plan->desc->u.logistic) return cr_fail(CREMA_E_UNSUPPORTED, "logistic losses");
  return s.inner == 1 ? CREMA_OK : cr_fail(CREMA_E_UNSUPPORTED, "not along rows");
}

static crema_status row_loss(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const int64_t blocks = cr_softmax_fast_blocks(&s);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t b = 0; b < blocks; ++b) loss_of_block(call, &s, b);
  return CREMA_OK;
}

CR_KERNEL(row_loss_fast, ROW_LOSS, .plan = plan_row_loss, .run = row_loss);
