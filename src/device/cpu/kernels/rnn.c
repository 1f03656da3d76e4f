/* A recurrent layer of hyperbolic tangents, h = tanh(z + W cont h'), and the gradient
 * of W for this layer and for the LSTM. */
#include "device/cpu/kernels/recurrent.h"

static crema_status rnn_fwd_plan(cr_plan *plan) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(plan->desc, 4);
  plan->workspace_bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  return cr_check_recurrence(plan, 4, 0, 1, 1, 2, 3);
}

CR_CLONES static void tangents(int64_t count, cr_real *h) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) h[i] = cr_ref_tanh(h[i]);
}

/* All steps of some sequences. */
static void rnn_steps(const cr_call *call, const cr_recurrent_extents *e, cr_strand of,
                      const void *state) {
  const int64_t cells = e->batch * e->units, at = of.begin * e->units, own = of.count * e->units;
  const cr_real *z = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *before = cr_as_reals(call->buffer, 3);
  cr_real *h = cr_as_reals(call->buffer, 4);
  for (int64_t t = 0; t < e->steps; ++t, h += cells, z += cells) {
    if (h != z) memcpy(h + at, z + at, (size_t)own * sizeof *h);
    cr_recurrent_add_hidden(call, e, of, state, cont + t * e->batch, before, h);
#pragma omp parallel for schedule(static) if (of.count == e->batch && \
                                              cells * 16 >= CR_REF_PARALLEL_MIN)
    for (int64_t n = of.begin; n < of.begin + of.count; ++n) tangents(e->units, h + n * e->units);
    before = h;
  }
}

/* z, cont, weights, h0, h. */
static crema_status rnn_fwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 4);
  const cr_hidden w = cr_recurrent_hidden_of(call, e.units);
  cr_recurrent_run_strands(call, &e, &w, rnn_steps);
  return CREMA_OK;
}

static crema_status rnn_bwd_plan(cr_plan *plan) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(plan->desc, 0);
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

/* All steps of some sequences, starting with the last. state: the gradient of h (N, D), at first 0.
 */
static void rnn_steps_back(const cr_call *call, const cr_recurrent_extents *e, cr_strand of,
                           const void *state) {
  const int64_t cells = e->batch * e->units, first = of.begin * e->units;
  const cr_real *h = cr_as_reals(call->buffer, 0), *cont = cr_as_reals(call->buffer, 1);
  const cr_real *weights = cr_as_reals(call->buffer, 2), *diff_h = cr_as_reals(call->buffer, 3);
  cr_real *diff_z = cr_as_reals(call->buffer, 4), *dh = *(cr_real *const *)state;
  for (int64_t t = e->steps - 1; t >= 0; --t) {
    const int64_t at = t * cells;
    tangents_back(of.count * e->units, h + at + first, diff_h + at + first, dh + first,
                  diff_z + at + first);
    cr_recurrent_hidden_gradient(call, e, of, e->units, cont + t * e->batch, diff_z + at, weights,
                                 dh);
  }
}

/* h, cont, weights, diff_h, diff_z, diff_h0. */
static crema_status rnn_bwd(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 0);
  const size_t bytes = (size_t)(e.batch * e.units) * sizeof(cr_real);
  cr_real *diff_h0 = cr_as_reals(call->buffer, 5), *dh = (cr_real *)call->workspace.address;
  memset(dh, 0, bytes);
  cr_recurrent_run_strands(call, &e, &dh, rnn_steps_back);
  if (diff_h0) memcpy(diff_h0, dh, bytes);
  return CREMA_OK;
}

static crema_status weights_plan(cr_plan *plan) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(plan->desc, 0);
  const int64_t per_unit = e.units > 0 ? cr_op_split(plan->desc, 3, 1).inner / e.units : 0;
  plan->workspace_bytes = (size_t)(e.steps * e.batch * e.units) * sizeof(cr_real);
  return cr_check_recurrence(plan, 0, 3, per_unit, 2, 4, 1);
}

/* h, h0, cont, diff_gates, diff_weights. */
static crema_status recurrent_bwd_weights(const cr_call *call) {
  const cr_recurrent_extents e = cr_recurrent_extents_of(call->desc, 0);
  const int64_t cells = e.batch * e.units, gates = cr_op_split(call->desc, 3, 1).inner;
  const cr_real *h = cr_as_reals(call->buffer, 0), *h0 = cr_as_reals(call->buffer, 1);
  const cr_real *cont = cr_as_reals(call->buffer, 2);
  cr_real *taken = (cr_real *)call->workspace.address;
#pragma omp parallel for schedule(static) if (e.steps * cells >= CR_REF_PARALLEL_MIN)
  for (int64_t t = 0; t < e.steps; ++t) {
    cr_recurrent_scale_rows(e.batch, e.units, cont + t * e.batch, t > 0 ? h + (t - 1) * cells : h0,
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
  cr_recurrent_product(call, &g);
  return CREMA_OK;
}

CR_REF_KERNEL(rnn_fwd, RNN_FWD, .plan = rnn_fwd_plan, .run = rnn_fwd);
CR_REF_KERNEL(rnn_bwd, RNN_BWD, .plan = rnn_bwd_plan, .run = rnn_bwd);
CR_REF_KERNEL(recurrent_bwd_weights, RECURRENT_BWD_WEIGHTS, .can_accumulate = true,
              .plan = weights_plan, .run = recurrent_bwd_weights);

#ifdef CR_REF_F32
CR_KERNEL(rnn_fwd_dnnl, RNN_FWD, .library = true, .plan = rnn_fwd_plan, .run = rnn_fwd);
CR_KERNEL(rnn_bwd_dnnl, RNN_BWD, .library = true, .plan = rnn_bwd_plan, .run = rnn_bwd);
CR_KERNEL(recurrent_bwd_weights_dnnl, RECURRENT_BWD_WEIGHTS, .library = true,
          .can_accumulate = true, .plan = weights_plan, .run = recurrent_bwd_weights);
#endif
