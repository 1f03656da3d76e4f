/* The gradient of each row's loss. Only rows that count are computed, several at a time. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/softmax.h"
#include "device/cpu/kernels/vector_math.h"

enum { SCORES, LABEL, DIFF_LOSS, DIFF };

enum {
  BLOCK = 512,    /* rows that one thread works on at a time */
  ROOM = 3072,    /* scores that stay in the nearest cache with their gradients */
  MOST_ROWS = 64, /* whose softmax is computed together */
  AHEAD = 8       /* rows that count and are fetched before they are read */
};

/* Rows that count, one behind the other: their scores, then probabilities. */
typedef struct chosen {
  int64_t rows;
  int64_t row[MOST_ROWS];
  cr_real score[ROOM];
} chosen;

/* The class that a label stands for; -1: none. */
static int64_t class_of(cr_real label, int64_t classes) {
  return label > -1 && label < (cr_real)classes ? (int64_t)label : -1;
}

/* The gradients of the softmax loss from probabilities. */
CR_REF_CLONES static void put_softmax(const cr_call *call, int64_t classes, const chosen *of,
                                      const cr_real *prob) {
  const cr_real alpha = (cr_real)call->scalars->alpha;
  for (int64_t i = 0; i < of->rows; ++i, prob += classes) {
    const int64_t own = (int64_t)cr_as_reals(call->buffer, LABEL)[of->row[i]];
    const cr_real factor = alpha * cr_as_reals(call->buffer, DIFF_LOSS)[of->row[i]];
    const cr_real of_own = factor * (prob[own] - 1);
    cr_real *to = cr_as_reals(call->buffer, DIFF) + of->row[i] * classes;
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) to[c] = factor * prob[c];
    to[own] = of_own;
  }
}

CR_REF_CLONES static void put_logistic(int64_t classes, cr_real factor, int64_t own,
                                       const cr_real *score, cr_real *to) {
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) to[c] = factor * cr_ref_sigmoid(score[c]);
  if (own >= 0) to[own] = factor * (cr_ref_sigmoid(score[own]) - 1);
}

/* Computes the rows that were chosen, whose softmax takes the place of `prob`. */
static void flush(const cr_call *call, int64_t classes, chosen *of, const cr_real *score,
                  cr_real *prob) {
  const cr_split s = {of->rows, classes, 1};
  cr_softmax_block block;
  for (int64_t b = 0; b < cr_softmax_blocks(&s); ++b) {
    cr_softmax_block_of(&s, b, score, prob, &block);
  }
  put_softmax(call, classes, of, prob);
  of->rows = 0;
}

/* Rows that are too long to be copied become probabilities where the gradient belongs. */
static void choose(const cr_call *call, int64_t classes, int64_t row, chosen *of) {
  const cr_real *score = cr_as_reals(call->buffer, SCORES) + row * classes;
  cr_real *to = cr_as_reals(call->buffer, DIFF) + row * classes;
  of->row[of->rows++] = row;
  if (classes > ROOM) {
    flush(call, classes, of, score, to);
    return;
  }
  memcpy(of->score + (of->rows - 1) * classes, score, (size_t)classes * sizeof *score);
  if (of->rows == MOST_ROWS || (of->rows + 1) * classes > ROOM) {
    flush(call, classes, of, of->score, of->score);
  }
}

/* Asks for the scores of a row that counts: where few do, the processor does not foresee which. */
CR_INLINE void fetch_row(const cr_real *score, int64_t classes) {
  const char *from = (const char *)score;
  const int64_t bytes = classes * (int64_t)sizeof *score;
  for (int64_t at = 0; at < (bytes < 256 ? bytes : 256); at += 64) __builtin_prefetch(from + at);
  if (bytes < 256) __builtin_prefetch(from + bytes - 1);
}

/* The rows from begin to end - 1 whose gradient is not 0. Without branches, as nobody foresees
 * them; returns how many they are. */
static int64_t find_rows(const cr_call *call, int64_t classes, int64_t begin, int64_t end,
                         int64_t *row) {
  const cr_real *label = cr_as_reals(call->buffer, LABEL);
  const cr_real *diff_loss = cr_as_reals(call->buffer, DIFF_LOSS);
  const bool logistic = call->desc->u.logistic;
  int64_t found = 0;
  for (int64_t r = begin; r < end; ++r) {
    const bool known = (label[r] > -1) & (label[r] < (cr_real)classes);
    row[found] = r;
    found += (diff_loss[r] != 0) & (known | logistic);
  }
  return found;
}

static void gradient_of_rows(const cr_call *call, int64_t classes, int64_t begin, int64_t end) {
  const cr_real *score = cr_as_reals(call->buffer, SCORES);
  const cr_real *label = cr_as_reals(call->buffer, LABEL);
  const cr_real *diff_loss = cr_as_reals(call->buffer, DIFF_LOSS);
  cr_real *diff = cr_as_reals(call->buffer, DIFF);
  const cr_real alpha = (cr_real)call->scalars->alpha;
  int64_t row[BLOCK];
  chosen of;
  of.rows = 0;
  const int64_t rows = find_rows(call, classes, begin, end, row);
  memset(diff + begin * classes, 0, (size_t)((end - begin) * classes) * sizeof *diff);
  for (int64_t i = 0; i < rows; ++i) {
    if (i + AHEAD < rows) fetch_row(score + row[i + AHEAD] * classes, classes);
    if (call->desc->u.logistic) {
      put_logistic(classes, alpha * diff_loss[row[i]], class_of(label[row[i]], classes),
                   score + row[i] * classes, diff + row[i] * classes);
    } else {
      choose(call, classes, row[i], &of);
    }
  }
  if (of.rows > 0) flush(call, classes, &of, of.score, of.score);
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
  for (int64_t r = 0; r < s.outer; r += BLOCK) {
    gradient_of_rows(call, s.channels, r, s.outer - r < BLOCK ? s.outer : r + BLOCK);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss_bwd, ROW_LOSS_BWD, .plan = plan_row_loss_bwd, .run = row_loss_bwd);
