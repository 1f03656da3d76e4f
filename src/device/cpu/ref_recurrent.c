/* Recurrences over time: LSTM (Hochreiter and Schmidhuber, 1997, with forget gates), and a layer of
 * hyperbolic tangents. One matrix product per step; the rest is element-wise. */
#include "core/fail.h"
#include "device/cpu/dnnl_rows.h"
#include "device/cpu/gemm_f32.h"
#include "device/cpu/ref_gemm.h"
#include "device/cpu/ref_math.h"

/* T steps of N sequences, D units. */
typedef struct extents {
  int64_t steps, batch, units;
} extents;

/* `state`: the argument of shape (T,N,D). */
static extents extents_of(const cr_op_desc *desc, int state) {
  const cr_split s = cr_op_split(desc, state, 1);
  return (extents){s.outer, s.channels, s.inner};
}

static crema_status check(const cr_plan *plan, int state, int gates, int64_t gates_per_unit,
                          int cont, int weights, int first) {
  const cr_op_desc *desc = plan->desc;
  const extents e = extents_of(desc, state);
  const int64_t all = gates_per_unit * e.units, cells = e.batch * e.units;
  const int64_t weight_count = cr_op_arg_count(desc, weights);
  const int64_t first_count = cr_op_arg_count(desc, first);
  if (cr_op_arg_count(desc, gates) == e.steps * e.batch * all &&
      cr_op_arg_count(desc, cont) == e.steps * e.batch &&
      (weight_count == all * e.units || weight_count == 0) &&
      (first_count == cells || first_count == 0)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE,
                 "a recurrence of %lld steps, %lld sequences and %lld units, with arguments of "
                 "other shapes",
                 (long long)e.steps, (long long)e.batch, (long long)e.units);
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

CR_CLONES static void scale_row(int64_t units, cr_real cont, const cr_real *from, cr_real *to) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) to[d] = cont == 0 ? 0 : cont * from[d];
}

/* to (N, D) = cont (N) * from (N, D). */
static void scale_rows(const extents *e, const cr_real *cont, const cr_real *from, cr_real *to) {
  for (int64_t n = 0; n < e->batch; ++n) {
    scale_row(e->units, cont[n], from + n * e->units, to + n * e->units);
  }
}

/* The weights of the hidden state for the forward steps. With several steps they are transposed
 * once, which all products then need not do. */
typedef struct hidden {
  int64_t gates;
  const cr_real *weights; /* (G, D), or (D, G) */
  bool transposed;        /* (D, G) */
  cr_real *taken;         /* space for cont h' */
} hidden;

static size_t hidden_bytes(const extents *e, int64_t gates) {
  const int64_t transposed = e->steps > 1 ? gates * e->units : 0;
  return (size_t)(e->batch * e->units + transposed) * sizeof(cr_real);
}

enum { TILE = 16 };

/* to (columns, rows) = from (rows, columns), in tiles of whole cache lines. */
CR_CLONES static void transpose(int64_t rows, int64_t columns, const cr_real *from, cr_real *to) {
  for (int64_t i = 0; i < rows; i += TILE) {
    const int64_t height = rows - i < TILE ? rows - i : TILE;
    for (int64_t j = 0; j < columns; j += TILE) {
      const int64_t width = columns - j < TILE ? columns - j : TILE;
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t y = 0; y < height; ++y) {
          to[(j + x) * rows + i + y] = from[(i + y) * columns + j + x];
        }
      }
    }
  }
}

static hidden hidden_of(const cr_call *call, const extents *e, int64_t gates,
                        const cr_real *weights) {
  hidden out = {gates, weights, false, (cr_real *)call->workspace.address};
  if (e->steps < 2 || !weights) return out;
  cr_real *to = out.taken + e->batch * e->units;
  transpose(gates, e->units, weights, to);
  out.weights = to;
  out.transposed = true;
  return out;
}

/* sums (N, G) += cont h' weights^T. */
static void add_hidden(const cr_call *call, const extents *e, const hidden *w, const cr_real *cont,
                       const cr_real *before, cr_real *sums) {
  scale_rows(e, cont, before, w->taken);
  const cr_gemm g = {.m = e->batch,
                     .n = w->gates,
                     .k = e->units,
                     .a = w->taken,
                     .a_row = e->units,
                     .a_column = 1,
                     .b = w->weights,
                     .b_row = w->transposed ? w->gates : e->units,
                     .b_transposed = !w->transposed,
                     .c = sums,
                     .c_row = w->gates,
                     .accumulate = true};
  product(call, &g);
}

/* diff_before (N, D) = cont (diff_sums (N, G) weights (G, D)). */
static void hidden_gradient(const cr_call *call, const extents *e, int64_t gates,
                            const cr_real *cont, const cr_real *diff_sums, const cr_real *weights,
                            cr_real *diff_before) {
  const cr_gemm g = {.m = e->batch,
                     .n = e->units,
                     .k = gates,
                     .a = diff_sums,
                     .a_row = gates,
                     .a_column = 1,
                     .b = weights,
                     .b_row = e->units,
                     .c = diff_before,
                     .c_row = e->units};
  product(call, &g);
  scale_rows(e, cont, diff_before, diff_before);
}

/* ---- LSTM ---------------------------------------------------------------- */

static crema_status lstm_fwd_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 6);
  plan->workspace_bytes = hidden_bytes(&e, 4 * e.units);
  CR_TRY(check(plan, 6, 0, 4, 1, 2, 3));
  return check(plan, 5, 7, 4, 1, 2, 4);
}

/* Units that are computed at a time. */
enum { STRIP = 64 };

/* What the next sequence's strip reads and writes. */
CR_INLINE void fetch_cells(int64_t units, const cr_real *c_before, const cr_real *sum,
                           const cr_real *gate, const cr_real *c, const cr_real *h) {
  for (int d = 0; d < STRIP; d += 64 / (int)sizeof *sum) {
    for (int k = 4; k < 8; ++k) {
      __builtin_prefetch(sum + k * units + d);
      __builtin_prefetch(gate + k * units + d, 1);
    }
    __builtin_prefetch(c_before + units + d);
    __builtin_prefetch(c + units + d, 1);
    __builtin_prefetch(h + units + d, 1);
  }
}

/* One sequence's step: of sums (4 D) the values of the gates, which may replace them. */
CR_INLINE void lstm_strip(int64_t count, int64_t units, cr_real cont, const cr_real *c_before,
                          const cr_real *sum, cr_real *gate, cr_real *c, cr_real *h) {
#pragma omp simd
  for (int64_t d = 0; d < count; ++d) {
    const cr_real i = cr_ref_sigmoid(sum[d]), f = cr_ref_sigmoid(sum[units + d]);
    const cr_real o = cr_ref_sigmoid(sum[2 * units + d]), g = cr_ref_tanh(sum[3 * units + d]);
    const cr_real kept = cont == 0 ? 0 : cont * f * c_before[d];
    gate[d] = i;
    gate[units + d] = f;
    gate[2 * units + d] = o;
    gate[3 * units + d] = g;
    c[d] = kept + i * g;
    h[d] = o * cr_ref_tanh(kept + i * g);
  }
}

CR_CLONES static void lstm_cells(int64_t units, cr_real cont, const cr_real *c_before,
                                 const cr_real *sum, cr_real *gate, cr_real *c, cr_real *h) {
  int64_t d = 0;
  for (; d + STRIP <= units; d += STRIP) {
    fetch_cells(units, c_before + d, sum + d, gate + d, c + d, h + d);
    lstm_strip(STRIP, units, cont, c_before + d, sum + d, gate + d, c + d, h + d);
  }
  lstm_strip(units - d, units, cont, c_before + d, sum + d, gate + d, c + d, h + d);
}

/* gates, cont, weights, h0, c0, h, c, values. */
static crema_status lstm_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 6);
  const int64_t cells = e.batch * e.units;
  const cr_real *cont = cr_as_reals(call->buffer, 1), *weights = cr_as_reals(call->buffer, 2);
  const cr_real *h_before = cr_as_reals(call->buffer, 3), *c_before = cr_as_reals(call->buffer, 4);
  const cr_real *sums = cr_as_reals(call->buffer, 0);
  cr_real *h = cr_as_reals(call->buffer, 5), *c = cr_as_reals(call->buffer, 6);
  cr_real *values = cr_as_reals(call->buffer, 7);
  const hidden w = hidden_of(call, &e, 4 * e.units, weights);
  for (int64_t t = 0; t < e.steps; ++t) {
    const bool adds = weights && h_before;
    if (adds && values != sums) memcpy(values, sums, (size_t)(4 * cells) * sizeof *values);
    if (adds) add_hidden(call, &e, &w, cont, h_before, values);
#pragma omp parallel for schedule(static) if (cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = 0; n < e.batch; ++n) {
      const int64_t at = n * e.units;
      lstm_cells(e.units, cont[n], c_before + at, (adds ? values : sums) + 4 * at, values + 4 * at,
                 c + at, h + at);
    }
    h_before = h;
    c_before = c;
    cont += e.batch;
    h += cells;
    c += cells;
    sums += 4 * cells;
    values += 4 * cells;
  }
  return CREMA_OK;
}

static crema_status lstm_bwd_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 1);
  plan->workspace_bytes = 2 * (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(check(plan, 1, 0, 4, 3, 4, 2));
  return check(plan, 1, 7, 4, 3, 4, 9);
}

/* One sequence's step: its states and gates, and what the top says of them. */
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
    const cr_real i = gate[d], f = gate[units + d], o = gate[2 * units + d];
    const cr_real g = gate[3 * units + d], y = cr_ref_tanh(c[d]);
    const cr_real of_h = dh[d] + diff_h[d], of_c = diff_c ? dc[d] + diff_c[d] : dc[d];
    const cr_real all = of_c + of_h * o * (1 - y * y);
    const cr_real through_f = cont == 0 ? 0 : all * cont * c_before[d];
    dg[d] = all * g * i * (1 - i);
    dg[units + d] = through_f * f * (1 - f);
    dg[2 * units + d] = of_h * y * o * (1 - o);
    dg[3 * units + d] = all * i * (1 - g * g);
    dc[d] = cont == 0 ? 0 : all * cont * f;
  }
}

/* Without gradients of c a loop of its own, so that none asks for them at each element. */
CR_CLONES static void lstm_cells_back(int64_t units, cr_real cont, const step *s, const cr_real *dh,
                                      cr_real *dc, cr_real *dg) {
  if (s->diff_c) cells_back(units, cont, s, s->diff_c, dh, dc, dg);
  else cells_back(units, cont, s, NULL, dh, dc, dg);
}

/* values, c, c0, cont, weights, diff_h, diff_c, diff_gates, diff_h0, diff_c0. */
static crema_status lstm_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 1);
  const int64_t cells = e.batch * e.units;
  const cr_real *values = cr_as_reals(call->buffer, 0), *c = cr_as_reals(call->buffer, 1);
  const cr_real *c0 = cr_as_reals(call->buffer, 2), *cont = cr_as_reals(call->buffer, 3);
  const cr_real *weights = cr_as_reals(call->buffer, 4), *diff_h = cr_as_reals(call->buffer, 5);
  const cr_real *diff_c = cr_as_reals(call->buffer, 6);
  cr_real *diff_gates = cr_as_reals(call->buffer, 7);
  cr_real *dh = (cr_real *)call->workspace.address, *dc = dh + cells;
  cr_real *results[2] = {cr_as_reals(call->buffer, 8), cr_as_reals(call->buffer, 9)};
  memset(dh, 0, 2 * (size_t)cells * sizeof *dh);
  for (int64_t t = e.steps - 1; t >= 0; --t) {
    const cr_real *before = t > 0 ? c + (t - 1) * cells : c0;
    const cr_real *rows = cont + t * e.batch;
    cr_real *dg = diff_gates + 4 * t * cells;
#pragma omp parallel for schedule(static) if (cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = 0; n < e.batch; ++n) {
      const int64_t row = n * e.units, at = t * cells + row;
      const step s = {values + 4 * at, c + at, before + row, diff_h + at,
                      diff_c ? diff_c + at : NULL};
      lstm_cells_back(e.units, rows[n], &s, dh + row, dc + row, dg + 4 * row);
    }
    if (weights) hidden_gradient(call, &e, 4 * e.units, rows, dg, weights, dh);
    else memset(dh, 0, (size_t)cells * sizeof *dh);
  }
  if (results[0]) memcpy(results[0], dh, (size_t)cells * sizeof *dh);
  if (results[1]) memcpy(results[1], dc, (size_t)cells * sizeof *dc);
  return CREMA_OK;
}

/* ---- RNN ----------------------------------------------------------------- */

static crema_status rnn_fwd_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 4);
  plan->workspace_bytes = hidden_bytes(&e, e.units);
  return check(plan, 4, 0, 1, 1, 2, 3);
}

CR_CLONES static void tangents(int64_t count, cr_real *h) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) h[i] = cr_ref_tanh(h[i]);
}

/* z, cont, weights, h0, h. */
static crema_status rnn_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 4);
  const int64_t cells = e.batch * e.units;
  const cr_real *z = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 3);
  cr_real *h = cr_as_reals(call->buffer, 4);
  if (h != z) memcpy(h, z, (size_t)(e.steps * cells) * sizeof *h);
  const hidden w = hidden_of(call, &e, e.units, cr_as_reals(call->buffer, 2));
  for (int64_t t = 0; t < e.steps; ++t, h += cells) {
    add_hidden(call, &e, &w, cont + t * e.batch, before, h);
#pragma omp parallel for schedule(static) if (cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = 0; n < e.batch; ++n) tangents(e.units, h + n * e.units);
    before = h;
  }
  return CREMA_OK;
}

static crema_status rnn_bwd_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 0);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(check(plan, 0, 3, 1, 1, 2, 5));
  return check(plan, 0, 4, 1, 1, 2, 5);
}

/* One step: dz = (dh of the next step + diff_h) (1 - h^2). */
CR_CLONES static void tangents_back(int64_t count, const cr_real *h, const cr_real *diff_h,
                                    const cr_real *dh, cr_real *dz) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dz[i] = (dh[i] + diff_h[i]) * (1 - h[i] * h[i]);
}

/* h, cont, weights, diff_h, diff_z, diff_h0. */
static crema_status rnn_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0);
  const int64_t cells = e.batch * e.units;
  const cr_real *h = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *weights = cr_as_reals(call->buffer, 2), *diff_h = cr_as_reals(call->buffer, 3);
  cr_real *diff_z = cr_as_reals(call->buffer, 4), *diff_h0 = cr_as_reals(call->buffer, 5);
  cr_real *dh = (cr_real *)call->workspace.address;
  memset(dh, 0, (size_t)cells * sizeof *dh);
  for (int64_t t = e.steps - 1; t >= 0; --t) {
    const int64_t at = t * cells;
    tangents_back(cells, h + at, diff_h + at, dh, diff_z + at);
    hidden_gradient(call, &e, e.units, cont + t * e.batch, diff_z + at, weights, dh);
  }
  if (diff_h0) memcpy(diff_h0, dh, (size_t)cells * sizeof *dh);
  return CREMA_OK;
}

/* ---- weights ------------------------------------------------------------- */

static crema_status weights_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 0);
  const int64_t per_unit = e.units > 0 ? cr_op_split(plan->desc, 3, 1).inner / e.units : 0;
  plan->workspace_bytes = (size_t)(e.steps * e.batch * e.units) * sizeof(cr_real);
  return check(plan, 0, 3, per_unit, 2, 4, 1);
}

/* h, h0, cont, diff_gates, diff_weights. */
static crema_status recurrent_bwd_weights(const cr_call *call) {
  const extents e = extents_of(call->desc, 0);
  const int64_t cells = e.batch * e.units, gates = cr_op_split(call->desc, 3, 1).inner;
  const cr_real *h = cr_as_reals(call->buffer, 0), *h0 = cr_as_reals(call->buffer, 1);
  const cr_real *cont = cr_as_reals(call->buffer, 2);
  cr_real *taken = (cr_real *)call->workspace.address;
#pragma omp parallel for schedule(static) if (e.steps * cells >= CR_REF_PARALLEL_MIN)
  for (int64_t t = 0; t < e.steps; ++t) {
    scale_rows(&e, cont + t * e.batch, t > 0 ? h + (t - 1) * cells : h0, taken + t * cells);
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
