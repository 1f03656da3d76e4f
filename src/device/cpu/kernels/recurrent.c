/* Recurrences over time: LSTM (Hochreiter and Schmidhuber, 1997, with forget gates), and a layer of
 * hyperbolic tangents. One matrix product per step; the rest is element-wise. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/gemm.h"
#include "device/cpu/kernels/vector_math.h"
#include "device/cpu/onednn/gemm.h"

/* T steps of N sequences, D units. */
typedef struct sequence_extents {
  int64_t steps, batch, units;
} sequence_extents;

/* `state`: the argument of shape (T,N,D). */
static sequence_extents extents_of(const cr_op_desc *desc, int state) {
  const cr_split s = cr_op_split(desc, state, 1);
  return (sequence_extents){s.outer, s.channels, s.inner};
}

/* ---- products ------------------------------------------------------------ */

static void product(const cr_call *call, const cr_gemm *g) {
#ifdef CR_REF_F32
  if (call->plan->kernel->library) {
    const cr_gemm_f32 fast = {.m = g->m,
                              .n = g->n,
                              .k = g->k,
                              .a = g->a,
                              .a_row = g->a_column == 1 ? g->a_row : g->a_column,
                              .a_transposed = g->a_column != 1,
                              .b = g->b,
                              .b_row = g->b_row,
                              .b_transposed = g->b_transposed,
                              .c = g->c,
                              .c_row = g->c_row,
                              .accumulate = g->accumulate};
    cr_cpu_gemm_f32(&fast);
    return;
  }
#else
  (void)call;
#endif
  cr_ref_gemm(g);
}

/* ---- sequences ----------------------------------------------------------- */

/* Some sequences, or all: they go through all steps without a look at the others. */
typedef struct strand {
  int64_t begin, count;
} strand;

/* The op on some sequences; `state`: what all of them share. */
typedef void strand_work(const cr_call *call, const sequence_extents *e, strand of,
                         const void *state);

enum { FEWEST = 4 /* sequences of a thread, for which a product is not much slower */ };

/* Each thread has sequences of its own, so that none waits for others between steps, or where
 * there are too few, all threads share each product of each step. */
static void run_strands(const cr_call *call, const sequence_extents *e, const void *state,
                        strand_work *work) {
  const int64_t threads = call->plan->threads;
  const int64_t parts = threads > 1 && e->batch >= FEWEST * threads ? threads : 1;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = e->batch * i / parts;
    work(call, e, (strand){begin, e->batch * (i + 1) / parts - begin}, state);
  }
}

/* ---- the hidden state ---------------------------------------------------- */

CR_CLONES static void scale_row(int64_t units, cr_real cont, const cr_real *from, cr_real *to) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) to[d] = cont == 0 ? 0 : cont * from[d];
}

/* to (rows, D) = cont (rows) * from (rows, D). */
static void scale_rows(int64_t rows, int64_t units, const cr_real *cont, const cr_real *from,
                       cr_real *to) {
  for (int64_t n = 0; n < rows; ++n) {
    scale_row(units, cont[n], from + n * units, to + n * units);
  }
}

/* The weights of the hidden state, (G, D), for the forward steps. */
typedef struct hidden {
  int64_t gates;
  const cr_real *weights;
  cr_real *scaled; /* space for cont h' */
} hidden;

static hidden hidden_of(const cr_call *call, int64_t gates) {
  return (hidden){gates, cr_as_reals(call->buffer, 2), (cr_real *)call->workspace.address};
}

/* sums (N, G) += cont h' weights^T, for some of the N sequences. */
static void add_hidden(const cr_call *call, const sequence_extents *e, strand of, const hidden *w,
                       const cr_real *cont, const cr_real *before, cr_real *sums) {
  const int64_t at = of.begin * e->units;
  scale_rows(of.count, e->units, cont + of.begin, before + at, w->scaled + at);
  const cr_gemm g = {.m = of.count,
                     .n = w->gates,
                     .k = e->units,
                     .a = w->scaled + at,
                     .a_row = e->units,
                     .a_column = 1,
                     .b = w->weights,
                     .b_row = e->units,
                     .b_transposed = true,
                     .c = sums + of.begin * w->gates,
                     .c_row = w->gates,
                     .accumulate = true};
  product(call, &g);
}

/* diff_before (N, D) = cont (diff_sums (N, G) weights (G, D)), for some of the N sequences. */
static void hidden_gradient(const cr_call *call, const sequence_extents *e, strand of,
                            int64_t gates, const cr_real *cont, const cr_real *diff_sums,
                            const cr_real *weights, cr_real *diff_before) {
  cr_real *own = diff_before + of.begin * e->units;
  const cr_gemm g = {.m = of.count,
                     .n = e->units,
                     .k = gates,
                     .a = diff_sums + of.begin * gates,
                     .a_row = gates,
                     .a_column = 1,
                     .b = weights,
                     .b_row = e->units,
                     .c = own,
                     .c_row = e->units};
  product(call, &g);
  scale_rows(of.count, e->units, cont + of.begin, own, own);
}

/* ---- LSTM ---------------------------------------------------------------- */

static crema_status lstm_fwd_plan(cr_plan *plan) {
  const sequence_extents e = extents_of(plan->desc, 6);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(cr_check_recurrence(plan, 6, 0, 4, 1, 2, 3));
  return cr_check_recurrence(plan, 5, 7, 4, 1, 2, 4);
}

/* One sequence's step: of sums (4 D) the values of the gates, which may replace them or, where gate
 * is NULL, are not kept. */
CR_INLINE void lstm_units(int64_t units, cr_real cont, const cr_real *c_before, const cr_real *sum,
                          cr_real *gate, cr_real *c, cr_real *h) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_real i = cr_ref_sigmoid(sum[d]), f = cr_ref_sigmoid(sum[units + d]);
    const cr_real o = cr_ref_sigmoid(sum[2 * units + d]), g = cr_ref_tanh(sum[3 * units + d]);
    const cr_real kept = cont == 0 ? 0 : cont * f * c_before[d];
    if (gate != NULL) {
      gate[d] = i;
      gate[units + d] = f;
      gate[2 * units + d] = o;
      gate[3 * units + d] = g;
    }
    c[d] = kept + i * g;
    h[d] = o * cr_ref_tanh(kept + i * g);
  }
}

CR_CLONES static void lstm_cells(int64_t units, cr_real cont, const cr_real *c_before,
                                 const cr_real *sum, cr_real *gate, cr_real *c, cr_real *h) {
  if (gate != NULL) lstm_units(units, cont, c_before, sum, gate, c, h);
  else lstm_units(units, cont, c_before, sum, NULL, c, h);
}

/* All steps of some sequences. */
static void lstm_steps(const cr_call *call, const sequence_extents *e, strand of,
                       const void *state) {
  const int64_t cells = e->batch * e->units;
  const hidden *w = state;
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
    add_hidden(call, e, of, w, cont, h_before, values);
#pragma omp parallel for schedule(static) if (of.count == e->batch && \
                                              cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = of.begin; n < of.begin + of.count; ++n) {
      const int64_t at = n * e->units;
      lstm_cells(e->units, cont[n], c_before + at, values + 4 * at, values + 4 * at, c + at,
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
  const sequence_extents e = extents_of(call->desc, 6);
  const hidden w = hidden_of(call, 4 * e.units);
  run_strands(call, &e, &w, lstm_steps);
  return CREMA_OK;
}

static crema_status lstm_bwd_plan(cr_plan *plan) {
  const sequence_extents e = extents_of(plan->desc, 1);
  plan->workspace_bytes = 2 * (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(cr_check_recurrence(plan, 1, 0, 4, 3, 4, 2));
  return cr_check_recurrence(plan, 1, 7, 4, 3, 4, 9);
}

/* One sequence's step: its states and gates, and what the top says of them. */
typedef struct step {
  const cr_real *gate, *c, *c_before;
  const cr_real *diff_h, *diff_c; /* diff_c NULL: none */
} step;

typedef struct cell_gates {
  cr_real i, f, o, g;
} cell_gates;

/* The gradients of a unit's sums (dg, `units` apart), by those of its h and c; returns that of c
 * before. y: tanh of c. */
CR_INLINE cr_real unit_back(int64_t units, cr_real cont, cell_gates at, cr_real y, cr_real before,
                            cr_real of_h, cr_real of_c, cr_real *dg) {
  const cr_real i = at.i, f = at.f, o = at.o, g = at.g;
  const cr_real all = of_c + of_h * o * (1 - y * y);
  const cr_real through_f = cont == 0 ? 0 : all * cont * before;
  dg[0] = all * g * i * (1 - i);
  dg[units] = through_f * f * (1 - f);
  dg[2 * units] = of_h * y * o * (1 - o);
  dg[3 * units] = all * i * (1 - g * g);
  return cont == 0 ? 0 : all * cont * f;
}

/* dh: of h, from the next step; dc: of c from the next step, then of c before this one. */
CR_INLINE void cells_back(int64_t units, cr_real cont, const step *s, const cr_real *diff_c,
                          const cr_real *dh, cr_real *dc, cr_real *dg) {
  const cr_real *gate = s->gate, *c = s->c, *c_before = s->c_before, *diff_h = s->diff_h;
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cell_gates own = {gate[d], gate[units + d], gate[2 * units + d], gate[3 * units + d]};
    dc[d] = unit_back(units, cont, own, cr_ref_tanh(c[d]), c_before[d], dh[d] + diff_h[d],
                      diff_c ? dc[d] + diff_c[d] : dc[d], dg + d);
  }
}

/* Without gradients of c a loop of its own, so that none asks for them at each element. */
CR_CLONES static void lstm_cells_back(int64_t units, cr_real cont, const step *s, const cr_real *dh,
                                      cr_real *dc, cr_real *dg) {
  if (s->diff_c) cells_back(units, cont, s, s->diff_c, dh, dc, dg);
  else cells_back(units, cont, s, NULL, dh, dc, dg);
}

/* All steps of some sequences, from the last one on. state: the gradients of h and of c (N, D), at
 * first 0. */
static void lstm_steps_back(const cr_call *call, const sequence_extents *e, strand of,
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
    hidden_gradient(call, e, of, 4 * e->units, rows, dg, weights, dh);
  }
}

/* values, c, c0, cont, weights, diff_h, diff_c, diff_gates, diff_h0, diff_c0. */
static crema_status lstm_bwd(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 1);
  const size_t bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  cr_real *dh = (cr_real *)call->workspace.address, *dc = dh + e.batch * e.units;
  cr_real *results[2] = {cr_as_reals(call->buffer, 8), cr_as_reals(call->buffer, 9)};
  memset(dh, 0, 2 * bytes);
  run_strands(call, &e, &dh, lstm_steps_back);
  if (results[0]) memcpy(results[0], dh, bytes);
  if (results[1]) memcpy(results[1], dc, bytes);
  return CREMA_OK;
}

/* ---- one step of an LSTM ------------------------------------------------- */

/* gates, cont, c0, c, h: nothing is kept for the gradient, which computes it again in less time
 * than writing and reading it takes. */
static crema_status lstm_unit_fwd(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 2);
  const cr_real *sum = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 2);
  cr_real *c = cr_as_reals(call->buffer, 3), *h = cr_as_reals(call->buffer, 4);
#pragma omp parallel for schedule(static) if (e.batch * e.units * 16 >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < e.batch; ++n) {
    const int64_t at = n * e.units;
    lstm_cells(e.units, cont[n], before + at, sum + 4 * at, NULL, c + at, h + at);
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
    const cell_gates own = {cr_ref_sigmoid(sum[d]), cr_ref_sigmoid(sum[units + d]),
                            cr_ref_sigmoid(sum[2 * units + d]), cr_ref_tanh(sum[3 * units + d])};
    const cr_real kept = cont == 0 ? 0 : cont * own.f * before[d];
    dc[d] = unit_back(units, cont, own, cr_ref_tanh(kept + own.i * own.g), before[d], diff_h[d],
                      diff_c[d], dg + d);
  }
}

/* gates, cont, c0, diff_c, diff_h, diff_gates, diff_c0. */
static crema_status lstm_unit_bwd(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 2);
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

/* ---- RNN ----------------------------------------------------------------- */

static crema_status rnn_fwd_plan(cr_plan *plan) {
  const sequence_extents e = extents_of(plan->desc, 4);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  return cr_check_recurrence(plan, 4, 0, 1, 1, 2, 3);
}

CR_CLONES static void tangents(int64_t count, cr_real *h) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) h[i] = cr_ref_tanh(h[i]);
}

/* All steps of some sequences. */
static void rnn_steps(const cr_call *call, const sequence_extents *e, strand of,
                      const void *state) {
  const int64_t cells = e->batch * e->units, at = of.begin * e->units, own = of.count * e->units;
  const cr_real *z = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 3);
  cr_real *h = cr_as_reals(call->buffer, 4);
  for (int64_t t = 0; t < e->steps; ++t, h += cells, z += cells) {
    if (h != z) memcpy(h + at, z + at, (size_t)own * sizeof *h);
    add_hidden(call, e, of, state, cont + t * e->batch, before, h);
#pragma omp parallel for schedule(static) if (of.count == e->batch && \
                                              cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = of.begin; n < of.begin + of.count; ++n) tangents(e->units, h + n * e->units);
    before = h;
  }
}

/* z, cont, weights, h0, h. */
static crema_status rnn_fwd(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 4);
  const hidden w = hidden_of(call, e.units);
  run_strands(call, &e, &w, rnn_steps);
  return CREMA_OK;
}

static crema_status rnn_bwd_plan(cr_plan *plan) {
  const sequence_extents e = extents_of(plan->desc, 0);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(cr_check_recurrence(plan, 0, 3, 1, 1, 2, 5));
  return cr_check_recurrence(plan, 0, 4, 1, 1, 2, 5);
}

/* One step: dz = (dh of the next step + diff_h) (1 - h^2). */
CR_CLONES static void tangents_back(int64_t count, const cr_real *h, const cr_real *diff_h,
                                    const cr_real *dh, cr_real *dz) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dz[i] = (dh[i] + diff_h[i]) * (1 - h[i] * h[i]);
}

/* All steps of some sequences, from the last one on. state: the gradient of h (N, D), at first 0.
 */
static void rnn_steps_back(const cr_call *call, const sequence_extents *e, strand of,
                           const void *state) {
  const int64_t cells = e->batch * e->units, first = of.begin * e->units;
  const cr_real *h = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *weights = cr_as_reals(call->buffer, 2), *diff_h = cr_as_reals(call->buffer, 3);
  cr_real *diff_z = cr_as_reals(call->buffer, 4), *dh = *(cr_real *const *)state;
  for (int64_t t = e->steps - 1; t >= 0; --t) {
    const int64_t at = t * cells;
    tangents_back(of.count * e->units, h + at + first, diff_h + at + first, dh + first,
                  diff_z + at + first);
    hidden_gradient(call, e, of, e->units, cont + t * e->batch, diff_z + at, weights, dh);
  }
}

/* h, cont, weights, diff_h, diff_z, diff_h0. */
static crema_status rnn_bwd(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 0);
  const size_t bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  cr_real *diff_h0 = cr_as_reals(call->buffer, 5), *dh = (cr_real *)call->workspace.address;
  memset(dh, 0, bytes);
  run_strands(call, &e, &dh, rnn_steps_back);
  if (diff_h0) memcpy(diff_h0, dh, bytes);
  return CREMA_OK;
}

/* ---- weights ------------------------------------------------------------- */

static crema_status weights_plan(cr_plan *plan) {
  const sequence_extents e = extents_of(plan->desc, 0);
  const int64_t per_unit = e.units > 0 ? cr_op_split(plan->desc, 3, 1).inner / e.units : 0;
  plan->workspace_bytes = (size_t)(e.steps * e.batch * e.units) * sizeof(cr_real);
  return cr_check_recurrence(plan, 0, 3, per_unit, 2, 4, 1);
}

/* h, h0, cont, diff_gates, diff_weights. */
static crema_status recurrent_bwd_weights(const cr_call *call) {
  const sequence_extents e = extents_of(call->desc, 0);
  const int64_t cells = e.batch * e.units, gates = cr_op_split(call->desc, 3, 1).inner;
  const cr_real *h = cr_as_reals(call->buffer, 0), *h0 = cr_as_reals(call->buffer, 1);
  const cr_real *cont = cr_as_reals(call->buffer, 2);
  cr_real *taken = (cr_real *)call->workspace.address;
#pragma omp parallel for schedule(static) if (e.steps * cells >= CR_REF_PARALLEL_MIN)
  for (int64_t t = 0; t < e.steps; ++t) {
    scale_rows(e.batch, e.units, cont + t * e.batch, t > 0 ? h + (t - 1) * cells : h0,
               taken + t * cells);
  }
  const cr_gemm g = {.m = gates,
                     .n = e.units,
                     .k = e.steps * e.batch,
                     .a = cr_as_reals(call->buffer, 3),
                     .a_row = 1,
                     .a_column = gates,
                     .b = taken,
                     .b_row = e.units,
                     .c = cr_as_reals(call->buffer, 4),
                     .c_row = e.units,
                     .accumulate = call->accumulate[4]};
  product(call, &g);
  return CREMA_OK;
}

CR_REF_KERNEL(lstm_fwd, LSTM_FWD, .plan = lstm_fwd_plan, .run = lstm_fwd);
CR_REF_KERNEL(lstm_bwd, LSTM_BWD, .plan = lstm_bwd_plan, .run = lstm_bwd);
CR_REF_KERNEL(lstm_unit_fwd, LSTM_UNIT_FWD, .plan = cr_check_lstm_unit, .run = lstm_unit_fwd);
CR_REF_KERNEL(lstm_unit_bwd, LSTM_UNIT_BWD, .plan = cr_check_lstm_unit, .run = lstm_unit_bwd);
CR_REF_KERNEL(rnn_fwd, RNN_FWD, .plan = rnn_fwd_plan, .run = rnn_fwd);
CR_REF_KERNEL(rnn_bwd, RNN_BWD, .plan = rnn_bwd_plan, .run = rnn_bwd);
CR_REF_KERNEL(recurrent_bwd_weights, RECURRENT_BWD_WEIGHTS, .can_accumulate = true,
              .plan = weights_plan, .run = recurrent_bwd_weights);

#ifdef CR_REF_F32
CR_KERNEL(lstm_fwd_dnnl, LSTM_FWD, .library = true, .plan = lstm_fwd_plan, .run = lstm_fwd);
CR_KERNEL(lstm_bwd_dnnl, LSTM_BWD, .library = true, .plan = lstm_bwd_plan, .run = lstm_bwd);
CR_KERNEL(rnn_fwd_dnnl, RNN_FWD, .library = true, .plan = rnn_fwd_plan, .run = rnn_fwd);
CR_KERNEL(rnn_bwd_dnnl, RNN_BWD, .library = true, .plan = rnn_bwd_plan, .run = rnn_bwd);
CR_KERNEL(recurrent_bwd_weights_dnnl, RECURRENT_BWD_WEIGHTS, .library = true,
          .can_accumulate = true, .plan = weights_plan, .run = recurrent_bwd_weights);
#endif
