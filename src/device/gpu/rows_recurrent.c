/* Rows of recurrences over time: LSTM, and hyperbolic tangents. A step is a product of the hidden
 * state and the weights, and one kernel for the rest; all steps are queued, one after the other. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

/* T steps of N sequences, D units. */
typedef struct step_extents {
  int64_t steps, batch, units;
} step_extents;

/* `state`: the argument of shape (T,N,D). */
static step_extents extents_of(const cr_op_desc *desc, int state) {
  const cr_split s = cr_op_split(desc, state, 1);
  return (step_extents){s.outer, s.channels, s.inner};
}

/* The scratchpad: the product's own, then the product or its factor, then the row's. */
typedef struct recurrent_state {
  cr_gemm_plan *gemm; /* used for all steps; NULL: no product */
  size_t gemm_bytes, bytes;
} recurrent_state;

static void recurrent_destroy(cr_plan *plan) {
  recurrent_state *state = plan->state;
  if (state == NULL) return;
  cr_gemm_plan_destroy(state->gemm);
  free(state);
}

/* `count` values of shape->type follow the product's scratchpad, then `more` bytes. */
static crema_status keep(cr_plan *plan, const cr_gemm_shape *shape, int64_t count, size_t more) {
  recurrent_state *state = calloc(1, sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "the plan of a recurrence");
  if (count > 0 && shape->m > 0 && shape->n > 0 && shape->k > 0) {
    const crema_status status =
        cr_gemm_plan_create(plan->context, shape, &state->gemm, &state->gemm_bytes);
    if (status != CREMA_OK) {
      free(state);
      return status;
    }
  }
  state->gemm_bytes = cr_gpu_rounded(state->gemm_bytes);
  state->bytes = cr_gpu_rounded((size_t)count * crema_dtype_size(shape->type));
  plan->workspace_bytes = state->gemm_bytes + state->bytes + more;
  plan->state = state;
  return CREMA_OK;
}

/* The memory after the product's scratchpad. */
static void *products(const cr_call *call) {
  const recurrent_state *state = call->plan->state;
  return cr_gpu_scratchpad(call, state->gemm_bytes);
}

static crema_status multiply(const cr_call *call, const void *a, const void *b, bool accumulate,
                             void *out) {
  const recurrent_state *state = call->plan->state;
  return cr_gemm_plan_run(state->gemm, call->context, a, b, NULL, accumulate, out, call->workspace);
}

/* A step forward multiplies h' (N,D) by weights (G,D), G = per_unit D; a step back multiplies the
 * gradient of its sums (N,G) by the weights. */
static crema_status keep_steps(cr_plan *plan, const step_extents *e, int64_t per_unit, bool forward,
                               size_t more) {
  const cr_gemm_shape shape = {.type = CREMA_F32,
                               .m = e->batch,
                               .n = forward ? per_unit * e->units : e->units,
                               .k = forward ? e->units : per_unit * e->units,
                               .b_transposed = forward};
  return keep(plan, &shape, e->steps > 0 ? shape.m * shape.n : 0, more);
}

/* to (rows, D) = cont (rows) * from (rows, D). */
static crema_status carry(const cr_call *call, const step_extents *e, int64_t rows,
                          const float *cont, cr_hd_values from, cr_hd_values to) {
  const cr_carry_args args = {
      .from = from, .out = to, .cont = cont, .units = cr_divisor_of(e->units)};
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_carry, &args, rows * e->units);
}

/* The gradient of h0, argument i, after all steps: the first step's product in the scratchpad,
 * times its cont. */
static crema_status first_gradient(const cr_call *call, const step_extents *e, const float *cont,
                                   int i) {
  if (call->buffer[i].address == 0) return CREMA_OK;
  return carry(call, e, e->batch, cont, cr_float_values(products(call)), cr_gpu_values(call, i));
}

static crema_status lstm_fwd_plan(cr_plan *plan) {
  const step_extents e = extents_of(plan->desc, 6);
  CR_TRY(cr_check_recurrence(plan, 6, 0, 4, 1, 2, 3));
  CR_TRY(cr_check_recurrence(plan, 5, 7, 4, 1, 2, 4));
  return keep_steps(plan, &e, 4, true, 0);
}

/* gates, cont, weights, h0, c0, h, c, values. */
static crema_status lstm_fwd(const cr_call *call) {
  const step_extents e = extents_of(call->desc, 6);
  const int64_t cells = e.batch * e.units;
  const float *weights = cr_gpu_f32(call, 2), *h_before = cr_gpu_f32(call, 3);
  cr_lstm_args args = {.c_before = cr_gpu_values(call, 4),
                       .product = products(call),
                       .units = cr_divisor_of(e.units)};
  for (int64_t t = 0; t < e.steps && cells > 0; ++t) {
    float *h = cr_gpu_f32(call, 5) + t * cells;
    CR_TRY(multiply(call, h_before, weights, false, products(call)));
    args.sums = cr_hd_values_from(cr_gpu_values(call, 0), 4 * t * cells);
    args.cont = cr_gpu_f32(call, 1) + t * e.batch;
    args.h = cr_float_values(h);
    args.c = cr_hd_values_from(cr_gpu_values(call, 6), t * cells);
    args.gates = cr_hd_values_from(cr_gpu_values(call, 7), 4 * t * cells);
    CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_lstm_fwd, &args, cells));
    h_before = h;
    args.c_before = args.c;
  }
  return CREMA_OK;
}

static crema_status lstm_bwd_plan(cr_plan *plan) {
  const step_extents e = extents_of(plan->desc, 1);
  CR_TRY(cr_check_recurrence(plan, 1, 0, 4, 3, 4, 2));
  CR_TRY(cr_check_recurrence(plan, 1, 7, 4, 3, 4, 8));
  CR_TRY(cr_check_recurrence(plan, 1, 7, 4, 3, 4, 9));
  return keep_steps(plan, &e, 4, false, (size_t)(e.batch * e.units) * sizeof(float));
}

/* The arrays of step t. The array diff_c passes the gradient of c from step to step. */
static void lstm_bwd_step(const cr_call *call, const step_extents *e, int64_t t, float *diff_c,
                          cr_lstm_bwd_args *args) {
  const int64_t at = t * e->batch * e->units;
  args->gates = cr_hd_values_from(cr_gpu_values(call, 0), 4 * at);
  args->c = cr_hd_values_from(cr_gpu_values(call, 1), at);
  args->c_before = t > 0 ? cr_hd_values_from(cr_gpu_values(call, 1), at - e->batch * e->units)
                         : cr_gpu_values(call, 2);
  args->cont = cr_gpu_f32(call, 3) + t * e->batch;
  args->diff_h = cr_hd_values_from(cr_gpu_values(call, 5), at);
  if (call->buffer[6].address != 0) {
    args->diff_c = cr_hd_values_from(cr_gpu_values(call, 6), at);
  }
  args->diff_gates = cr_hd_values_from(cr_gpu_values(call, 7), 4 * at);
  args->diff_c_before =
      t > 0 || call->buffer[9].address == 0 ? cr_float_values(diff_c) : cr_gpu_values(call, 9);
}

/* values, c, c0, cont, weights, diff_h, diff_c, diff_gates, diff_h0, diff_c0. */
static crema_status lstm_bwd(const cr_call *call) {
  const step_extents e = extents_of(call->desc, 1);
  const recurrent_state *state = call->plan->state;
  const int64_t cells = e.batch * e.units;
  float *diff_c = cr_gpu_scratchpad(call, state->gemm_bytes + state->bytes);
  cr_lstm_bwd_args args = {.units = cr_divisor_of(e.units)};
  if (e.steps == 0) {
    CR_TRY(cr_gpu_clear(call, 8));
    return cr_gpu_clear(call, 9);
  }
  for (int64_t t = e.steps - 1; t >= 0 && cells > 0; --t) {
    lstm_bwd_step(call, &e, t, diff_c, &args);
    CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_lstm_bwd, &args, cells));
    if (t == 0 && call->buffer[8].address == 0) break;
    CR_TRY(multiply(call, args.diff_gates.at, cr_gpu_f32(call, 4), false, products(call)));
    args.product = products(call);
    args.next_cont = args.cont;
    args.next_diff_c = diff_c;
  }
  return first_gradient(call, &e, cr_gpu_f32(call, 3), 8);
}

/* gates, cont, c0, c, h. */
static crema_status lstm_unit_fwd(const cr_call *call) {
  const cr_lstm_args args = {.sums = cr_gpu_values(call, 0),
                             .cont = cr_gpu_f32(call, 1),
                             .c_before = cr_gpu_values(call, 2),
                             .c = cr_gpu_values(call, 3),
                             .h = cr_gpu_values(call, 4),
                             .units = cr_divisor_of(extents_of(call->desc, 2).units)};
  return cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_lstm_fwd, &args);
}

/* gates, cont, c0, diff_c, diff_h, diff_gates, diff_c0. */
static crema_status lstm_unit_bwd(const cr_call *call) {
  const cr_lstm_bwd_args args = {.gates = cr_gpu_values(call, 0),
                                 .cont = cr_gpu_f32(call, 1),
                                 .c_before = cr_gpu_values(call, 2),
                                 .diff_c = cr_gpu_values(call, 3),
                                 .diff_h = cr_gpu_values(call, 4),
                                 .diff_gates = cr_gpu_values(call, 5),
                                 .diff_c_before = cr_gpu_values(call, 6),
                                 .units = cr_divisor_of(extents_of(call->desc, 2).units)};
  return cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_lstm_unit_bwd, &args);
}

static crema_status rnn_fwd_plan(cr_plan *plan) {
  const step_extents e = extents_of(plan->desc, 4);
  CR_TRY(cr_check_recurrence(plan, 4, 0, 1, 1, 2, 3));
  return keep_steps(plan, &e, 1, true, 0);
}

/* z, cont, weights, h0, h. */
static crema_status rnn_fwd(const cr_call *call) {
  const step_extents e = extents_of(call->desc, 4);
  const int64_t cells = e.batch * e.units;
  const float *before = cr_gpu_f32(call, 3);
  cr_rnn_args args = {.product = products(call), .units = cr_divisor_of(e.units)};
  for (int64_t t = 0; t < e.steps && cells > 0; ++t) {
    float *h = cr_gpu_f32(call, 4) + t * cells;
    CR_TRY(multiply(call, before, cr_gpu_f32(call, 2), false, products(call)));
    args.x = cr_hd_values_from(cr_gpu_values(call, 0), t * cells);
    args.cont = cr_gpu_f32(call, 1) + t * e.batch;
    args.out = cr_float_values(h);
    CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_rnn_fwd, &args, cells));
    before = h;
  }
  return CREMA_OK;
}

static crema_status rnn_bwd_plan(cr_plan *plan) {
  const step_extents e = extents_of(plan->desc, 0);
  CR_TRY(cr_check_recurrence(plan, 0, 3, 1, 1, 2, 5));
  CR_TRY(cr_check_recurrence(plan, 0, 4, 1, 1, 2, 5));
  return keep_steps(plan, &e, 1, false, 0);
}

/* h, cont, weights, diff_h, diff_z, diff_h0. */
static crema_status rnn_bwd(const cr_call *call) {
  const step_extents e = extents_of(call->desc, 0);
  const int64_t cells = e.batch * e.units;
  const float *cont = cr_gpu_f32(call, 1);
  cr_rnn_args args = {.units = cr_divisor_of(e.units)};
  if (e.steps == 0) return cr_gpu_clear(call, 5);
  for (int64_t t = e.steps - 1; t >= 0 && cells > 0; --t) {
    args.x = cr_hd_values_from(cr_gpu_values(call, 0), t * cells);
    args.dy = cr_hd_values_from(cr_gpu_values(call, 3), t * cells);
    args.out = cr_hd_values_from(cr_gpu_values(call, 4), t * cells);
    CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_rnn_bwd, &args, cells));
    if (t == 0 && call->buffer[5].address == 0) break;
    CR_TRY(multiply(call, args.out.at, cr_gpu_f32(call, 2), false, products(call)));
    args.product = products(call);
    args.cont = cont + t * e.batch;
  }
  return first_gradient(call, &e, cont, 5);
}

static crema_status weights_plan(cr_plan *plan) {
  const step_extents e = extents_of(plan->desc, 0);
  const int64_t gates = cr_op_split(plan->desc, 3, 1).inner;
  cr_gemm_shape shape = {.m = gates, .n = e.units, .k = e.steps * e.batch, .a_transposed = true};
  CR_TRY(cr_check_recurrence(plan, 0, 3, e.units > 0 ? gates / e.units : 0, 2, 4, 1));
  CR_TRY(cr_gpu_one_type(plan->desc, &shape.type));
  return keep(plan, &shape, shape.k * shape.n, 0);
}

/* h, h0, cont, diff_gates, diff_weights: the states that the steps took over, side by side, are
 * multiplied by the gradients of all steps at once. */
static crema_status recurrent_bwd_weights(const cr_call *call) {
  const step_extents e = extents_of(call->desc, 0);
  const recurrent_state *state = call->plan->state;
  const cr_hd_values taken = {products(call), (int32_t)call->desc->arg[0].type};
  const float *cont = cr_gpu_f32(call, 2);
  if (state->gemm == NULL) {
    return call->accumulate[4] ? CREMA_OK : cr_gpu_clear(call, 4);
  }
  CR_TRY(carry(call, &e, e.batch, cont, cr_gpu_values(call, 1), taken));
  CR_TRY(carry(call, &e, (e.steps - 1) * e.batch, cont + e.batch, cr_gpu_values(call, 0),
               cr_hd_values_from(taken, e.batch * e.units)));
  return multiply(call, cr_gpu_f32(call, 3), taken.at, call->accumulate[4], cr_gpu_f32(call, 4));
}

CR_GPU_ROW(lstm_unit_fwd, LSTM_UNIT_FWD, lstm_unit_fwd, .plan = cr_check_lstm_unit);
CR_GPU_ROW(lstm_unit_bwd, LSTM_UNIT_BWD, lstm_unit_bwd, .plan = cr_check_lstm_unit);
CR_GPU_ROW_OF(lstm_fwd_f32_gpu, LSTM_FWD, F32, lstm_fwd, false, .plan = lstm_fwd_plan,
              .destroy = recurrent_destroy);
CR_GPU_ROW_OF(lstm_bwd_f32_gpu, LSTM_BWD, F32, lstm_bwd, false, .plan = lstm_bwd_plan,
              .destroy = recurrent_destroy);
CR_GPU_ROW_OF(rnn_fwd_f32_gpu, RNN_FWD, F32, rnn_fwd, false, .plan = rnn_fwd_plan,
              .destroy = recurrent_destroy);
CR_GPU_ROW_OF(rnn_bwd_f32_gpu, RNN_BWD, F32, rnn_bwd, false, .plan = rnn_bwd_plan,
              .destroy = recurrent_destroy);
CR_GPU_ROW(recurrent_bwd_weights, RECURRENT_BWD_WEIGHTS, recurrent_bwd_weights,
           .plan = weights_plan, .destroy = recurrent_destroy, .can_accumulate = true);
