/* Recurrences over time: LSTM (Hochreiter and Schmidhuber, 1997, with forget gates), and a layer of
 * hyperbolic tangents. One matrix product per step; the rest is element-wise. */
#include "core/fail.h"
#include "device/cpu/dnnl_rows.h"
#include "device/cpu/gemm_f32.h"
#include "device/cpu/ref_gemm.h"

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

/* ---- functions of the gates ---------------------------------------------- */

#ifdef CR_REF_F32
/* 2^n p(r) with x = n log 2 + r; the error is 2 ulp. Free of branches: loops over it are
 * vectorised, which those over expf are not. */
static inline float power(float x) {
  const float up = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float n = x * 1.44269504f + up - up;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  const int32_t bits = ((int32_t)n + 127) * (1 << 23);
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}
static inline float tangent(float x) {
  return 1 - 2 / (power(2 * x) + 1);
}
#else
static inline cr_real power(cr_real x) {
  return exp(x);
}
static inline cr_real tangent(cr_real x) {
  return tanh(x);
}
#endif

static inline cr_real logistic(cr_real x) {
  return 1 / (1 + power(-x));
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

/* to (N, D) = cont (N) * from (N, D). */
static void scale_rows(const extents *e, const cr_real *cont, const cr_real *from, cr_real *to) {
  for (int64_t n = 0; n < e->batch; ++n) {
#pragma omp simd
    for (int64_t d = 0; d < e->units; ++d) {
      to[n * e->units + d] = cont[n] == 0 ? 0 : cont[n] * from[n * e->units + d];
    }
  }
}

/* sums (N, G) += cont h' weights^T, weights (G, D). */
static void add_hidden(const cr_call *call, const extents *e, int64_t gates, const cr_real *cont,
                       const cr_real *before, const cr_real *weights, cr_real *sums) {
  cr_real *taken = (cr_real *)call->workspace.address;
  scale_rows(e, cont, before, taken);
  const cr_gemm g = {.m = e->batch,
                     .n = gates,
                     .k = e->units,
                     .a = taken,
                     .a_row = e->units,
                     .a_column = 1,
                     .b = weights,
                     .b_row = e->units,
                     .b_transposed = true,
                     .c = sums,
                     .c_row = gates,
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
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  CR_TRY(check(plan, 6, 0, 4, 1, 2, 3));
  return check(plan, 5, 7, 4, 1, 2, 4);
}

/* One sequence's step: sums (4 D) become the values of the gates. */
static void lstm_cells(int64_t units, cr_real cont, const cr_real *c_before, cr_real *gate,
                       cr_real *c, cr_real *h) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_real i = logistic(gate[d]), f = logistic(gate[units + d]);
    const cr_real o = logistic(gate[2 * units + d]), g = tangent(gate[3 * units + d]);
    const cr_real kept = cont == 0 ? 0 : cont * f * c_before[d];
    gate[d] = i;
    gate[units + d] = f;
    gate[2 * units + d] = o;
    gate[3 * units + d] = g;
    c[d] = kept + i * g;
    h[d] = o * tangent(c[d]);
  }
}

/* gates, cont, weights, h0, c0, h, c, values. */
static crema_status lstm_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 6);
  const int64_t cells = e.batch * e.units;
  const cr_real *cont = cr_as_reals(call->buffer, 1), *weights = cr_as_reals(call->buffer, 2);
  const cr_real *h_before = cr_as_reals(call->buffer, 3), *c_before = cr_as_reals(call->buffer, 4);
  cr_real *h = cr_as_reals(call->buffer, 5), *c = cr_as_reals(call->buffer, 6);
  cr_real *values = cr_as_reals(call->buffer, 7);
  memmove(values, cr_as_reals(call->buffer, 0), (size_t)(4 * e.steps * cells) * sizeof *values);
  for (int64_t t = 0; t < e.steps; ++t) {
    if (weights && h_before) {
      add_hidden(call, &e, 4 * e.units, cont, h_before, weights, values);
    }
#pragma omp parallel for schedule(static) if (cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = 0; n < e.batch; ++n) {
      lstm_cells(e.units, cont[n], c_before + n * e.units, values + 4 * n * e.units,
                 c + n * e.units, h + n * e.units);
    }
    h_before = h;
    c_before = c;
    cont += e.batch;
    h += cells;
    c += cells;
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

/* One sequence's step. dh: of h, from the top and the next step; dc: of c from the next step, then
 * of c before this one. */
static void lstm_cells_back(int64_t units, cr_real cont, const cr_real *gate, const cr_real *c,
                            const cr_real *c_before, const cr_real *dh, cr_real *dc, cr_real *dg) {
#pragma omp simd
  for (int64_t d = 0; d < units; ++d) {
    const cr_real i = gate[d], f = gate[units + d], o = gate[2 * units + d];
    const cr_real g = gate[3 * units + d], y = tangent(c[d]);
    const cr_real all = dc[d] + dh[d] * o * (1 - y * y);
    const cr_real through_f = cont == 0 ? 0 : all * cont * c_before[d];
    dg[d] = all * g * i * (1 - i);
    dg[units + d] = through_f * f * (1 - f);
    dg[2 * units + d] = dh[d] * y * o * (1 - o);
    dg[3 * units + d] = all * i * (1 - g * g);
    dc[d] = cont == 0 ? 0 : all * cont * f;
  }
}

static void add_to(int64_t count, const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
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
    const cr_real *rows = cont + t * e.batch, *gate = values + 4 * t * cells;
    cr_real *dg = diff_gates + 4 * t * cells;
    add_to(cells, diff_h + t * cells, dh);
    if (diff_c) add_to(cells, diff_c + t * cells, dc);
#pragma omp parallel for schedule(static) if (cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = 0; n < e.batch; ++n) {
      const int64_t at = n * e.units;
      lstm_cells_back(e.units, rows[n], gate + 4 * at, c + t * cells + at, before + at, dh + at,
                      dc + at, dg + 4 * at);
    }
    memset(dh, 0, (size_t)cells * sizeof *dh);
    if (weights) hidden_gradient(call, &e, 4 * e.units, rows, dg, weights, dh);
  }
  if (results[0]) memcpy(results[0], dh, (size_t)cells * sizeof *dh);
  if (results[1]) memcpy(results[1], dc, (size_t)cells * sizeof *dc);
  return CREMA_OK;
}

/* ---- RNN ----------------------------------------------------------------- */

static crema_status rnn_fwd_plan(cr_plan *plan) {
  const extents e = extents_of(plan->desc, 4);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  return check(plan, 4, 0, 1, 1, 2, 3);
}

/* z, cont, weights, h0, h. */
static crema_status rnn_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 4);
  const int64_t cells = e.batch * e.units;
  const cr_real *cont = cr_as_reals(call->buffer, 1), *weights = cr_as_reals(call->buffer, 2);
  const cr_real *before = cr_as_reals(call->buffer, 3);
  cr_real *h = cr_as_reals(call->buffer, 4);
  memmove(h, cr_as_reals(call->buffer, 0), (size_t)(e.steps * cells) * sizeof *h);
  for (int64_t t = 0; t < e.steps; ++t, h += cells) {
    add_hidden(call, &e, e.units, cont + t * e.batch, before, weights, h);
#pragma omp simd
    for (int64_t i = 0; i < cells; ++i) h[i] = tangent(h[i]);
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
#pragma omp simd
    for (int64_t i = 0; i < cells; ++i) {
      diff_z[at + i] = (dh[i] + diff_h[at + i]) * (1 - h[at + i] * h[at + i]);
    }
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
