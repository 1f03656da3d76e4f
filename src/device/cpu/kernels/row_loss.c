/* The loss of each row of scores by itself, by which boxes are mined. */
#include <float.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/softmax.h"
#include "device/cpu/kernels/vector_math.h"

/* The number of rows whose logarithms are computed together. Each logarithm is a chain of dependent
 * steps, so many of them must overlap. */
enum { TOGETHER = 4 * CR_SOFTMAX_POSITIONS };

/* The parts of the losses of consecutive rows. */
typedef struct losses {
  int64_t first, count;
  cr_real own[TOGETHER], sum[TOGETHER]; /* own: the score of the label less the top */
} losses;

/* The positions of the labels' scores; for a row without a label, the position of any class. */
CR_REF_CLONES static void find_labels(int32_t rows, int32_t classes, const cr_real *label,
                                      int32_t *at) {
#pragma omp simd
  for (int32_t i = 0; i < rows; ++i) {
    const bool known = (label[i] > -1) & (label[i] < (cr_real)classes);
    const cr_real truth = known ? label[i] : 0;
    at[i] = i * classes + (int32_t)truth;
  }
}

/* The parts of the losses of a block, whose scores begin at x. Scores are read one by one, which is
 * faster than gathering them in vectors. */
static void find_parts(const cr_softmax_block *block, int32_t classes, const cr_real *label,
                       const cr_real *x, cr_real *own, cr_real *sum) {
  const int32_t rows = (int32_t)block->count;
  int32_t at[CR_SOFTMAX_POSITIONS];
  find_labels(rows, classes, label, at);
  for (int32_t i = 0; i < rows; ++i) own[i] = x[at[i]] - block->top[i];
  memcpy(sum, block->sum, (size_t)rows * sizeof *sum);
}

CR_INLINE void put_losses_in(bool fused, int64_t rows, cr_real classes, const cr_real *label,
                             const cr_real *own, const cr_real *sum, cr_real *loss) {
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
#pragma omp simd
  for (int64_t i = 0; i < rows; ++i) {
    const bool known = (label[i] > -1) & (label[i] < classes);
    const cr_real found = cr_ref_log_of_sum(fused, sum[i]) - own[i];
    const cr_real less = found < most ? found : most;
    loss[i] = known ? less : 0;
  }
}

CR_REF_CLONES static void put_losses(int64_t rows, cr_real classes, const cr_real *label,
                                     const cr_real *own, const cr_real *sum, cr_real *loss) {
  if (cr_fuses()) put_losses_in(true, rows, classes, label, own, sum, loss);
  else put_losses_in(false, rows, classes, label, own, sum, loss);
}

static void flush(const cr_call *call, const cr_split *s, losses *of) {
  put_losses(of->count, (cr_real)s->channels, cr_as_reals(call->buffer, 1) + of->first, of->own,
             of->sum, cr_as_reals(call->buffer, 2) + of->first);
  of->count = 0;
}

/* scores, label, loss: the rows of the blocks from begin to end - 1. */
static void loss_of_blocks(const cr_call *call, const cr_split *s, int64_t begin, int64_t end) {
  const cr_real *x = cr_as_reals(call->buffer, 0);
  losses of;
  of.first = of.count = 0;
  for (int64_t b = begin; b < end; ++b) {
    cr_softmax_block block;
    cr_softmax_block_of(s, b, x, NULL, &block);
    if (of.count == 0) of.first = block.first;
    find_parts(&block, (int32_t)s->channels, cr_as_reals(call->buffer, 1) + block.first,
               x + block.at, of.own + of.count, of.sum + of.count);
    of.count += block.count;
    if (of.count + CR_SOFTMAX_POSITIONS > TOGETHER) flush(call, s, &of);
  }
  flush(call, s, &of);
}

enum { LANES = 16 /* rows side by side in vectors */ };

/* So that the distances within a block of rows fit an int32_t. */
enum { MOST_CLASSES = INT32_MAX / CR_SOFTMAX_POSITIONS };

/* The class of a row's label, truncated to an integer; -1: none. */
static int64_t class_of(cr_real label, int64_t classes) {
  return label > -1 && label < (cr_real)classes ? (int64_t)label : -1;
}

/* Row i starts at x + row[i]. */
CR_REF_CLONES static void add_softplus(int64_t classes, const cr_real *x, const int32_t *row,
                                       cr_real *sum) {
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) sum[i] += cr_ref_softplus((x + c)[row[i]]);
  }
}

/* scores, label, loss: the rows from `begin` on, at most LANES. */
static void logistic_loss_of_rows(const cr_call *call, int64_t classes, int64_t begin,
                                  int64_t rows) {
  const cr_real *x = cr_as_reals(call->buffer, 0) + begin * classes;
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
    loss[i] = sum[i] - (truth < 0 ? 0 : x[i * classes + truth]);
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
    const int64_t blocks = cr_softmax_blocks(&s);
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
    for (int k = 0; k < CR_REF_PARTS; ++k) {
      loss_of_blocks(call, &s, cr_ref_part(blocks, k), cr_ref_part(blocks, k + 1));
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss, ROW_LOSS, .plan = plan_row_loss, .run = row_loss);
