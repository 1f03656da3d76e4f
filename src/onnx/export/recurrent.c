/* Recurrent layers, one group of nodes for each step.
 *
 * ONNX's LSTM and RNN have no marks of a sequence's start within the steps, which Caffe's cont is.
 * A file keeps no states between runs: without exposed states, each run begins with zeros, as the
 * first pass of a net does. */
#include "onnx/export/compose.h"

/* The sums of all steps are products of all inputs at once; steps add the products of the states.
 */
typedef struct recurrence {
  int64_t steps, batch, units;
  int first_own;            /* the layer's first own parameter; bottom of the first state */
  const char **sum, **cont; /* of each step: (N, gates), (N, 1) */
  const char *state[2];     /* before the next step (N, D); NULL: zeros */
} recurrence;

/* x (..., K) times the transposed weights, plus `bias` (may be NULL), as (rows, gates). */
static const char *multiply(cr_onnx_graph *g, const char *x, const char *weights,
                            const char *bias) {
  const char *out = CR_ONNX_VALUE(g, "Gemm", x, weights, bias);
  cr_onnx_int(g, "transB", 1);
  return out;
}

/* Cuts (T, N, K) or (T, N) into its steps (N, K) or (N, 1). */
static const char **cut_steps(cr_onnx_graph *g, const char *in, const recurrence *r, int64_t values,
                              const char *what) {
  const int64_t step[] = {r->batch, values};
  const char **part = cr_onnx_memory(g, ((size_t)r->steps + 1) * sizeof *part);
  int64_t *size = cr_onnx_memory(g, ((size_t)r->steps + 1) * sizeof *size);
  for (int64_t t = 0; size != NULL && t < r->steps; ++t) {
    part[t] = cr_onnx_name(g, what);
    size[t] = r->batch;
  }
  if (size == NULL) return NULL;
  const char *rows = cr_onnx_reshaped(g, in, (const int64_t[]){r->steps * r->batch, values}, 2);
  if (r->steps == 1) part[0] = cr_onnx_reshaped(g, rows, step, 2);
  else cr_onnx_split(g, part, rows, 0, size, (size_t)r->steps);
  return part;
}

/* The sums of all steps without the states, and the first states. */
static bool begin(cr_onnx_layer *l, int states, recurrence *r) {
  const Caffe__RecurrentParameter *param = l->param->recurrent_param;
  const crema_shape *x = cr_onnx_bottom_shape(l, 0);
  const bool exposed = param->expose_hidden;
  const bool fixed = l->bottoms == (exposed ? 3 + states : 3);
  const int64_t gates = l->layer->blob[0]->shape.dim[0];
  cr_onnx_graph *g = l->g;
  *r = (recurrence){.steps = x->dim[0],
                    .batch = x->dim[1],
                    .units = param->num_output,
                    .first_own = fixed ? 3 : 2};
  if (cr_onnx_rejects_any_batch(l)) return false;
  if (r->steps < 1 || r->batch < 1) {
    cr_onnx_reject(l, NULL, "it has no steps");
    return false;
  }
  const int64_t rows[] = {r->steps * r->batch, l->layer->blob[0]->shape.dim[1]};
  const char *sums = multiply(g, cr_onnx_reshaped(g, l->in[0], rows, 2),
                              cr_onnx_parameter(g, "weights", l->layer->blob[0], NULL),
                              cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL));
  if (fixed) {
    const int64_t values[] = {r->batch, l->layer->blob[2]->shape.dim[1]};
    const int64_t steps[] = {r->steps, r->batch, gates};
    const char *more =
        multiply(g, cr_onnx_reshaped(g, l->in[2], values, 2),
                 cr_onnx_parameter(g, "static_weights", l->layer->blob[2], NULL), NULL);
    sums = CR_ONNX_VALUE(g, "Add", cr_onnx_reshaped(g, sums, steps, 3), more);
  }
  r->sum = cut_steps(g, sums, r, gates, "sums");
  r->cont = cut_steps(g, l->in[1], r, 1, "cont");
  const int64_t cells[] = {r->batch, r->units};
  for (int i = 0; exposed && i < states; ++i) {
    r->state[i] = cr_onnx_reshaped(g, l->in[r->first_own + i], cells, 2);
  }
  return r->cont != NULL;
}

/* The sums of step t with the products of the state before. */
static const char *step_sums(cr_onnx_graph *g, const recurrence *r, int64_t t,
                             const char *weights) {
  if (r->state[0] == NULL) return r->sum[t];
  const char *before = CR_ONNX_VALUE(g, "Mul", r->state[0], r->cont[t]);
  return multiply(g, before, weights, r->sum[t]);
}

/* The states of all steps as one matrix (T N, D). */
static const char *join_steps(cr_onnx_graph *g, const char **steps) {
  const char *all = cr_onnx_value(g, "Concat", steps);
  cr_onnx_int(g, "axis", 0);
  return all;
}

/* The last states, which are further tops. */
static void write_last_states(cr_onnx_layer *l, const recurrence *r) {
  const int64_t one[] = {1, r->batch, r->units};
  for (int i = 1; i < l->tops; ++i) cr_onnx_reshape(l->g, l->out[i], r->state[i - 1], one, 3);
}

/* From the sums (..., 4 D) of a step to h; *c is c before (NULL: zeros), then after the step. */
static const char *write_cell(cr_onnx_graph *g, const char *sums, const char *cont, int64_t units,
                              int axis, const char **c) {
  const char *part[2] = {cr_onnx_name(g, "gates"), cr_onnx_name(g, "input")}, *gate[3];
  cr_onnx_split(g, part, sums, axis, (const int64_t[]){3 * units, units}, 2);
  const char *open = CR_ONNX_VALUE(g, "Sigmoid", part[0]);
  for (int i = 0; i < 3; ++i) gate[i] = cr_onnx_name(g, "gate");
  cr_onnx_split(g, gate, open, axis, (const int64_t[]){units, units, units}, 3);
  const char *added = CR_ONNX_VALUE(g, "Mul", gate[0], CR_ONNX_VALUE(g, "Tanh", part[1]));
  if (*c != NULL) {
    const char *kept = CR_ONNX_VALUE(g, "Mul", CR_ONNX_VALUE(g, "Mul", *c, cont), gate[1]);
    added = CR_ONNX_VALUE(g, "Add", kept, added);
  }
  *c = added;
  return CR_ONNX_VALUE(g, "Mul", gate[2], CR_ONNX_VALUE(g, "Tanh", added));
}

void cr_onnx_export_lstm(cr_onnx_layer *l) {
  recurrence r;
  cr_onnx_graph *g = l->g;
  if (!begin(l, 2, &r)) return;
  const char *weights = cr_onnx_parameter(g, "hidden_weights", l->layer->blob[r.first_own], NULL);
  const char **steps = cr_onnx_memory(g, ((size_t)r.steps + 1) * sizeof *steps);
  for (int64_t t = 0; steps != NULL && t < r.steps; ++t) {
    const char *sums = step_sums(g, &r, t, weights);
    steps[t] = r.state[0] = write_cell(g, sums, r.cont[t], r.units, 1, &r.state[1]);
  }
  if (steps == NULL) return;
  const int64_t all[] = {r.steps, r.batch, r.units};
  cr_onnx_reshape(g, l->out[0], join_steps(g, steps), all, 3);
  write_last_states(l, &r);
}

void cr_onnx_export_rnn(cr_onnx_layer *l) {
  recurrence r;
  cr_onnx_graph *g = l->g;
  if (!begin(l, 1, &r)) return;
  crema_blob *const *own = l->layer->blob + r.first_own;
  const char *weights = cr_onnx_parameter(g, "hidden_weights", own[0], NULL);
  const char **steps = cr_onnx_memory(g, ((size_t)r.steps + 1) * sizeof *steps);
  for (int64_t t = 0; steps != NULL && t < r.steps; ++t) {
    steps[t] = r.state[0] = CR_ONNX_VALUE(g, "Tanh", step_sums(g, &r, t, weights));
  }
  if (steps == NULL) return;
  const int64_t all[] = {r.steps, r.batch, r.units};
  const char *sums =
      multiply(g, join_steps(g, steps), cr_onnx_parameter(g, "output_weights", own[1], NULL),
               cr_onnx_parameter(g, "output_bias", own[2], NULL));
  cr_onnx_reshape(g, l->out[0], CR_ONNX_VALUE(g, "Tanh", sums), all, 3);
  write_last_states(l, &r);
}

void cr_onnx_export_lstm_unit(cr_onnx_layer *l) {
  const int64_t units = cr_onnx_bottom_shape(l, 0)->dim[2];
  cr_onnx_graph *g = l->g;
  const char *c = l->in[0], *cont = cr_onnx_unsqueezed(g, l->in[2], 2);
  const char *h = write_cell(g, l->in[1], cont, units, 2, &c);
  CR_ONNX_NODE(g, "Identity", l->out[0], c);
  CR_ONNX_NODE(g, "Identity", l->out[1], h);
}
