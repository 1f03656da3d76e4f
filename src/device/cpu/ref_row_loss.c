/* The loss of each row of scores by itself, by which boxes are mined. Rows are short: sixteen of
 * them lie side by side in vectors. */
#include <float.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref_math.h"

enum { LANES = 16 /* rows */, TILE = 32 /* classes */ };

/* So that the lanes' distances fit an int32_t. */
enum { MOST_CLASSES = INT32_MAX / LANES };

/* Scores of some classes of each lane's row. */
typedef struct tile {
  cr_real score[TILE][LANES];
} tile;

CR_INLINE void read_tile(const cr_value *x, const int32_t *row, int64_t classes, tile *out) {
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) out->score[c][i] = cr_get(x + c, row[i]);
  }
}

/* sum: of exp(x - top) with the maximum so far, to which the sum before is brought. */
CR_INLINE void add_powers(const tile *of, int64_t classes, cr_real *top, cr_real *sum) {
  cr_real peak[LANES];
  memcpy(peak, top, sizeof peak);
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) peak[i] = of->score[c][i] > peak[i] ? of->score[c][i] : peak[i];
  }
#pragma omp simd
  for (int i = 0; i < LANES; ++i) {
    sum[i] *= cr_ref_exp_below_0(top[i] - peak[i]);
    top[i] = peak[i];
  }
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) sum[i] += cr_ref_exp_below_0(of->score[c][i] - peak[i]);
  }
}

CR_INLINE void add_softplus(const tile *of, int64_t classes, cr_real *sum) {
  for (int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (int i = 0; i < LANES; ++i) sum[i] += cr_ref_softplus(of->score[c][i]);
  }
}

/* Each lane's row begins row[i] behind x; own: the score of its label. */
CR_CLONES static void loss_of_lanes(bool logistic, int64_t classes, const cr_value *x,
                                    const int32_t *row, const cr_real *own, cr_real *loss) {
  const cr_real most = (cr_real)87.33654475055310898657; /* -log(FLT_MIN) */
  cr_real top[LANES], sum[LANES] = {0};
  tile part;
  for (int i = 0; i < LANES; ++i) top[i] = -INFINITY;
  for (int64_t c = 0; c < classes; c += TILE) {
    const int64_t count = classes - c < TILE ? classes - c : TILE;
    read_tile(x + c, row, count, &part);
    if (logistic) add_softplus(&part, count, sum);
    else add_powers(&part, count, top, sum);
  }
  if (logistic) {
    for (int i = 0; i < LANES; ++i) loss[i] = sum[i] - own[i];
    return;
  }
#pragma omp simd
  for (int i = 0; i < LANES; ++i) {
    const cr_real found = cr_ref_log(sum[i]) - (own[i] - top[i]);
    loss[i] = found < most ? found : most;
  }
}

/* scores, label, loss: the rows from `begin` on, at most LANES. */
static void loss_of_rows(const cr_call *call, int64_t classes, int64_t begin, int64_t rows) {
  const cr_value *x = cr_as_values(call->buffer, 0) + begin * classes;
  const cr_real *label = cr_as_reals(call->buffer, 1) + begin;
  cr_real *to = cr_as_reals(call->buffer, 2) + begin;
  const bool logistic = call->desc->u.logistic;
  int32_t row[LANES], own_at[LANES];
  cr_real own[LANES], loss[LANES], is_class[LANES];
  for (int32_t i = 0; i < LANES; ++i) {
    const int32_t r = i < rows ? i : (int32_t)rows - 1;
    const bool known = label[r] > -1 && label[r] < (cr_real)classes; /* a fraction is cut off */
    row[i] = r * (int32_t)classes;
    own_at[i] = row[i] + (known ? (int32_t)label[r] : 0);
    is_class[i] = known;
  }
  for (int i = 0; i < LANES; ++i) own[i] = is_class[i] != 0 ? cr_get(x, own_at[i]) : 0;
  loss_of_lanes(logistic, classes, x, row, own, loss);
  for (int64_t i = 0; i < rows; ++i) to[i] = logistic || is_class[i] != 0 ? loss[i] : 0;
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
#pragma omp parallel for schedule(static) if (s.outer * s.channels >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t r = 0; r < s.outer; r += LANES) {
    loss_of_rows(call, s.channels, r, s.outer - r < LANES ? s.outer - r : LANES);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(row_loss, ROW_LOSS, .plan = plan_row_loss, .run = row_loss);
