/* One step of an LSTM, as in LSTMUnit of Caffe's RecurrentLayer. */
#include "device/cpu/kernels/lstm_cell.h"

/* gates, cont, c0, c, h. No values are kept for the gradient: recomputing them takes less time than
 * writing and reading them. */
static crema_status lstm_unit_fwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 2);
  const cr_real *sum = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 2);
  cr_real *c = cr_as_reals(call->buffer, 3), *h = cr_as_reals(call->buffer, 4);
#pragma omp parallel for schedule(static) if (e.batch * e.units * 16 >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < e.batch; ++n) {
    const int64_t at = n * e.units;
    cr_lstm_cells(e.units, cont[n], before + at, sum + 4 * at, NULL, c + at, h + at);
  }
  return CREMA_OK;
}

/* A row of each argument of the gradient. */
typedef struct unit_row {
  const cr_real *sum, *before, *diff_c, *diff_h;
  cr_real *dg, *dc;
} unit_row;

CR_CLONES static void unit_row_back(int64_t units, cr_real cont, const unit_row *r) {
  const cr_real *sum = r->sum, *before = r->before, *diff_c = r->diff_c, *diff_h = r->diff_h;
  cr_real *dg = r->dg, *dc = r->dc;
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_lstm_gates own = {cr_ref_sigmoid(sum[d]), cr_ref_sigmoid(sum[units + d]),
                               cr_ref_sigmoid(sum[2 * units + d]), cr_ref_tanh(sum[3 * units + d])};
    const cr_real kept = cont == 0 ? 0 : cont * own.f * before[d];
    dc[d] = cr_lstm_unit_back(units, cont, own, cr_ref_tanh(kept + own.i * own.g), before[d],
                              diff_h[d], diff_c[d], dg + d);
  }
}

/* gates, cont, c0, diff_c, diff_h, diff_gates, diff_c0. */
static crema_status lstm_unit_bwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 2);
  const cr_real *sum = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 2), *diff_c = cr_as_reals(call->buffer, 3);
  const cr_real *diff_h = cr_as_reals(call->buffer, 4);
  cr_real *dg = cr_as_reals(call->buffer, 5), *dc = cr_as_reals(call->buffer, 6);
#pragma omp parallel for schedule(static) if (e.batch * e.units * 16 >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < e.batch; ++n) {
    const int64_t at = n * e.units;
    const unit_row row = {sum + 4 * at, before + at, diff_c + at,
                          diff_h + at,  dg + 4 * at, dc + at};
    unit_row_back(e.units, cont[n], &row);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(lstm_unit_fwd, LSTM_UNIT_FWD, .plan = cr_check_lstm_unit, .run = lstm_unit_fwd);
CR_REF_KERNEL(lstm_unit_bwd, LSTM_UNIT_BWD, .plan = cr_check_lstm_unit, .run = lstm_unit_bwd);
