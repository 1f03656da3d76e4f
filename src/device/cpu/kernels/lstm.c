/* LSTM over T steps, forward and backward. */
#include "device/cpu/kernels/lstm_cell.h"

static crema_status lstm_fwd_plan(cr_plan *plan) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(plan->desc, 6);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(cr_check_recurrence(plan, 6, 0, 4, 1, 2, 3));
  return cr_check_recurrence(plan, 5, 7, 4, 1, 2, 4);
}

/* All steps of some sequences. */
static void lstm_steps(const cr_call *call, const cr_recurrent_extents *e, cr_strand of,
                       const void *state) {
  const int64_t cells = e->batch * e->units;
  const cr_hidden *w = state;
  const cr_real *cont = cr_as_reals(call->buffer, 1);
  const cr_real *h_before = cr_as_reals(call->buffer, 3), *c_before = cr_as_reals(call->buffer, 4);
  const cr_real *sums = cr_as_reals(call->buffer, 0);
  cr_real *h = cr_as_reals(call->buffer, 5), *c = cr_as_reals(call->buffer, 6);
  cr_real *values = cr_as_reals(call->buffer, 7);
  for (int64_t t = 0; t < e->steps; ++t) {
    if (values != sums) {
      const int64_t at = 4 * of.begin * e->units, count = 4 * of.count * e->units;
      memcpy(values + at, sums + at, (size_t)count * sizeof *values);
    }
    cr_recurrent_add_hidden(call, e, of, w, cont, h_before, values);
#pragma omp parallel for schedule(static) if (of.count == e->batch && \
                                              cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = of.begin; n < of.begin + of.count; ++n) {
      const int64_t at = n * e->units;
      cr_lstm_cells(e->units, cont[n], c_before + at, values + 4 * at, values + 4 * at, c + at,
                    h + at);
    }
    h_before = h;
    c_before = c;
    cont += e->batch;
    h += cells;
    c += cells;
    sums += 4 * cells;
    values += 4 * cells;
  }
}

/* gates, cont, weights, h0, c0, h, c, values. */
static crema_status lstm_fwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 6);
  const cr_hidden w = cr_recurrent_hidden_of(call, 4 * e.units);
  cr_recurrent_run_strands(call, &e, &w, lstm_steps);
  return CREMA_OK;
}

static crema_status lstm_bwd_plan(cr_plan *plan) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(plan->desc, 1);
  plan->workspace_bytes = 2 * (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(cr_check_recurrence(plan, 1, 0, 4, 3, 4, 2));
  return cr_check_recurrence(plan, 1, 7, 4, 3, 4, 9);
}

/* One sequence's step: its states and gates, and the gradients from the top. */
typedef struct step {
  const cr_real *gate, *c, *c_before;
  const cr_real *diff_h, *diff_c; /* diff_c NULL: none */
} step;

/* dh: of h, from the next step; dc: of c from the next step, then of c before this one. */
CR_INLINE void cells_back(int64_t units, cr_real cont, const step *s, const cr_real *diff_c,
                          const cr_real *dh, cr_real *dc, cr_real *dg) {
  const cr_real *gate = s->gate, *c = s->c, *c_before = s->c_before, *diff_h = s->diff_h;
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_lstm_gates own = {gate[d], gate[units + d], gate[2 * units + d], gate[3 * units + d]};
    dc[d] = cr_lstm_unit_back(units, cont, own, cr_ref_tanh(c[d]), c_before[d], dh[d] + diff_h[d],
                              diff_c ? dc[d] + diff_c[d] : dc[d], dg + d);
  }
}

/* Two loops keep the branch on gradients of c out of the inner loop. */
CR_CLONES static void lstm_cells_back(int64_t units, cr_real cont, const step *s, const cr_real *dh,
                                      cr_real *dc, cr_real *dg) {
  if (s->diff_c) cells_back(units, cont, s, s->diff_c, dh, dc, dg);
  else cells_back(units, cont, s, NULL, dh, dc, dg);
}

/* All steps of some sequences, starting with the last. state: the gradients of h and of c (N, D),
 * at first 0. */
static void lstm_steps_back(const cr_call *call, const cr_recurrent_extents *e, cr_strand of,
                            const void *state) {
  const int64_t cells = e->batch * e->units;
  const cr_real *values = cr_as_reals(call->buffer, 0), *c = cr_as_reals(call->buffer, 1);
  const cr_real *c0 = cr_as_reals(call->buffer, 2), *cont = cr_as_reals(call->buffer, 3);
  const cr_real *weights = cr_as_reals(call->buffer, 4), *diff_h = cr_as_reals(call->buffer, 5);
  const cr_real *diff_c = cr_as_reals(call->buffer, 6);
  cr_real *diff_gates = cr_as_reals(call->buffer, 7);
  cr_real *dh = *(cr_real *const *)state, *dc = dh + cells;
  for (int64_t t = e->steps - 1; t >= 0; --t) {
    const cr_real *before = t > 0 ? c + (t - 1) * cells : c0;
    const cr_real *rows = cont + t * e->batch;
    cr_real *dg = diff_gates + 4 * t * cells;
#pragma omp parallel for schedule(static) if (of.count == e->batch && \
                                              cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = of.begin; n < of.begin + of.count; ++n) {
      const int64_t row = n * e->units, at = t * cells + row;
      const step s = {values + 4 * at, c + at, before + row, diff_h + at,
                      diff_c ? diff_c + at : NULL};
      lstm_cells_back(e->units, rows[n], &s, dh + row, dc + row, dg + 4 * row);
    }
    cr_recurrent_hidden_gradient(call, e, of, 4 * e->units, rows, dg, weights, dh);
  }
}

/* values, c, c0, cont, weights, diff_h, diff_c, diff_gates, diff_h0, diff_c0. */
static crema_status lstm_bwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 1);
  const size_t bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  cr_real *dh = (cr_real *)call->workspace.address, *dc = dh + e.batch * e.units;
  cr_real *results[2] = {cr_as_reals(call->buffer, 8), cr_as_reals(call->buffer, 9)};
  memset(dh, 0, 2 * bytes);
  cr_recurrent_run_strands(call, &e, &dh, lstm_steps_back);
  if (results[0]) memcpy(results[0], dh, bytes);
  if (results[1]) memcpy(results[1], dc, bytes);
  return CREMA_OK;
}

CR_REF_KERNEL(lstm_fwd, LSTM_FWD, .plan = lstm_fwd_plan, .run = lstm_fwd);
CR_REF_KERNEL(lstm_bwd, LSTM_BWD, .plan = lstm_bwd_plan, .run = lstm_bwd);

#ifdef CR_REF_F32
CR_KERNEL(lstm_fwd_dnnl, LSTM_FWD, .library = true, .plan = lstm_fwd_plan, .run = lstm_fwd);
CR_KERNEL(lstm_bwd_dnnl, LSTM_BWD, .library = true, .plan = lstm_bwd_plan, .run = lstm_bwd);
#endif
