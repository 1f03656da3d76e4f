#include "grad_check.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "core/rng.h"
#include "memory/blob.h"

/* Steps of the differences: in double precision, and where the layer has no such forward pass. */
static const double fine_step = 1e-5, coarse_step = 1e-2;

typedef struct check {
  crema_net *net, *oracle;
  cr_layer *layer, *exact; /* the layer in each of the two */
  const cli_grad_options *options;
  cr_mt19937 rng;
  double **weight; /* one array per top; NULL: the top takes no part */
  double step, tolerance;
} check;

/* A blob whose gradient is checked. */
typedef struct subject {
  char name[128];
  crema_blob *blob, *exact;
  int64_t values, wrong; /* that were checked; with an error above the tolerance */
  double largest;        /* error */
} subject;

static const cr_net_layer *last_layer(const crema_net *net) {
  return &net->layer[net->layers - 1];
}

/* ---- the function whose gradient is checked ------------------------------ */

/* Draws the weights of the tops' values, which are the gradients that the backward pass begins
 * with. A loss has its own. */
static crema_status draw_weights(check *c) {
  const cr_net_layer *layer = last_layer(c->net);
  for (int j = 0; j < c->layer->tops; ++j) {
    crema_blob *top = layer->top[j];
    const int64_t count = crema_blob_count(top);
    const double loss = (double)c->layer->loss_weight[j];
    if (!cr_dtype_is_floating(cr_tensor_type(top->data))) continue;
    if (loss == 0 && c->layer->kind->loss) continue;
    CR_TRY(CR_NEW(c->weight[j], count + 1, "weights"));
    for (int64_t k = 0; k < count; ++k) {
      c->weight[j][k] = loss != 0 ? loss : 2 * cr_mt19937_uniform_wide(&c->rng) - 1;
    }
    if (cr_tensor_type(last_layer(c->oracle)->top[j]->data) != CREMA_F64) c->step = coarse_step;
  }
  return CREMA_OK;
}

/* The layer draws the same numbers in each pass. */
static crema_status forward(crema_net *net, cr_layer *layer) {
  layer->pass = 0;
  return crema_net_forward(net, NULL);
}

static crema_status evaluate(check *c, double *out) {
  const cr_net_layer *layer = last_layer(c->oracle);
  CR_TRY(forward(c->oracle, c->exact));
  *out = 0;
  for (int j = 0; j < c->exact->tops; ++j) {
    const void *values;
    if (c->weight[j] == NULL) continue;
    CR_TRY(crema_blob_data_as(layer->top[j], CREMA_F64, &values));
    const int64_t count = crema_blob_count(layer->top[j]);
    for (int64_t k = 0; k < count; ++k) *out += c->weight[j][k] * ((const double *)values)[k];
  }
  return CREMA_OK;
}

static crema_status copy_values(crema_blob *from, crema_blob *to) {
  const void *values;
  void *out;
  CR_TRY(crema_blob_data_as(from, CREMA_F64, &values));
  CR_TRY(crema_blob_mutable_data_as(to, CREMA_F64, &out));
  memcpy(out, values, (size_t)crema_blob_count(from) * sizeof(double));
  return CREMA_OK;
}

/* Gives both nets the same parameters and inputs, and runs the one whose gradients are checked. Its
 * layer may have overwritten the inputs; the oracle does not work in place. */
static crema_status run_backward(check *c) {
  const cr_net_layer *layer = last_layer(c->net);
  for (int p = 0; p < c->layer->params; ++p) {
    CR_TRY(copy_values(c->layer->blob[p], c->exact->blob[p]));
  }
  for (int i = 0; i < crema_net_input_count(c->net); ++i) {
    CR_TRY(copy_values(crema_net_input(c->oracle, i), crema_net_input(c->net, i)));
  }
  crema_net_clear_param_diffs(c->net);
  CR_TRY(forward(c->net, c->layer));
  for (int j = 0; j < c->layer->tops; ++j) {
    void *diff;
    if (c->layer->loss_weight[j] != 0 || c->weight[j] == NULL) continue;
    CR_TRY(crema_blob_mutable_diff_as(layer->top[j], CREMA_F64, &diff));
    memcpy(diff, c->weight[j], (size_t)crema_blob_count(layer->top[j]) * sizeof(double));
  }
  return crema_net_backward(c->net);
}

/* ---- one blob ------------------------------------------------------------ */

/* Values of the oracle's blob with one of them moved. */
static crema_status put_values(crema_blob *blob, const double *values, int64_t at, double by) {
  void *out;
  CR_TRY(crema_blob_mutable_data_as(blob, CREMA_F64, &out));
  memcpy(out, values, (size_t)crema_blob_count(blob) * sizeof(double));
  ((double *)out)[at] += by;
  return CREMA_OK;
}

static crema_status difference(check *c, const subject *s, const double *values, int64_t at,
                               double *out) {
  double above, below;
  CR_TRY(put_values(s->exact, values, at, c->step));
  CR_TRY(evaluate(c, &above));
  CR_TRY(put_values(s->exact, values, at, -c->step));
  CR_TRY(evaluate(c, &below));
  *out = (above - below) / (2 * c->step);
  return CREMA_OK;
}

/* Compares differences with the gradient at `n` places. An error is relative to the larger of the
 * two, or to a hundredth of the largest difference if that is more. */
static void compare(const check *c, subject *s, const double *got, const double *want, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i) most = fmax(most, fabs(want[i]));
  for (int64_t i = 0; i < n; ++i) {
    const double scale = fmax(fmax(fabs(got[i]), fabs(want[i])), fmax(most / 100, 1e-6));
    const double error = fabs(got[i] - want[i]) / scale;
    if (!(error <= c->tolerance)) s->wrong += 1;
    if (!(error <= s->largest)) s->largest = error;
  }
  s->values = n;
}

/* `values`, `got` and `want` have room for all of the blob's values. */
static crema_status check_values(check *c, subject *s, double *values, double *got, double *want) {
  const int64_t count = crema_blob_count(s->blob);
  const int64_t n = count < c->options->values ? count : c->options->values;
  const void *data, *diff;
  CR_TRY(crema_blob_data_as(s->exact, CREMA_F64, &data));
  memcpy(values, data, (size_t)count * sizeof *values);
  CR_TRY(crema_blob_diff_as(s->blob, CREMA_F64, &diff));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = n == count ? i : (int64_t)cr_mt19937_below(&c->rng, (uint32_t)count);
    got[i] = ((const double *)diff)[at];
    CR_TRY(difference(c, s, values, at, &want[i]));
  }
  compare(c, s, got, want, n);
  return put_values(s->exact, values, 0, 0);
}

static crema_status check_blob(check *c, subject *s, bool *good) {
  const int64_t count = crema_blob_count(s->blob);
  double *room = NULL;
  if (count == 0 || count > UINT32_MAX) return CREMA_OK;
  CR_TRY(CR_NEW(room, 3 * count, "gradients"));
  crema_status status = check_values(c, s, room, room + count, room + 2 * count);
  free(room);
  if (status != CREMA_OK) return status;
  printf("check   %-16s %" PRId64 " of %" PRId64 " values, largest error %.2g%s\n", s->name,
         s->values, count, s->largest, s->wrong > 0 ? "  FAIL" : "");
  if (s->wrong > 0) *good = false;
  return CREMA_OK;
}

/* ---- all ----------------------------------------------------------------- */

/* Whether the layer gives a bottom that is input `blob` a gradient. In place, the input's gradient
 * is the top's until the backward pass overwrites it. */
static bool has_gradient(const crema_net *net, const crema_blob *blob) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      if (layer->bottom[j] == blob) return layer->propagate_down[j];
    }
  }
  return false;
}

static crema_status check_all(check *c, bool *good) {
  int subjects = 0;
  CR_TRY(draw_weights(c));
  CR_TRY(run_backward(c));
  if (c->step == coarse_step) {
    printf("check   the layer computes in single precision: differences are coarse\n");
    c->tolerance = fmax(c->tolerance, 0.05);
  }
  for (int i = 0; i < crema_net_input_count(c->net); ++i) {
    subject s = {.blob = crema_net_input(c->net, i), .exact = crema_net_input(c->oracle, i)};
    if (!has_gradient(c->net, s.blob)) continue;
    snprintf(s.name, sizeof s.name, "bottom %s", crema_net_input_name(c->net, i));
    CR_TRY(check_blob(c, &s, good));
    ++subjects;
  }
  for (int p = 0; p < c->layer->params && !c->layer->kind->graph.statistics; ++p) {
    subject s = {.blob = c->layer->blob[p], .exact = c->exact->blob[p]};
    snprintf(s.name, sizeof s.name, "param %d", p);
    CR_TRY(check_blob(c, &s, good));
    ++subjects;
  }
  if (subjects > 0) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "layer '%s' (%s) gives no gradient to a bottom or parameter",
                 c->layer->name, c->layer->kind->type);
}

crema_status cli_grad_check(crema_net *net, crema_net *oracle, const cli_grad_options *options,
                            bool *good) {
  check c = {.net = net,
             .oracle = oracle,
             .layer = last_layer(net)->layer,
             .exact = last_layer(oracle)->layer,
             .options = options,
             .step = fine_step,
             .tolerance = options->tolerance};
  *good = true;
  if (c.layer->kind->backward == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "layer '%s' (%s) has no backward pass", c.layer->name,
                   c.layer->kind->type);
  }
  /* Weights that equal the inputs could hide a gradient: another seed than theirs. */
  cr_mt19937_seed(&c.rng, (uint32_t)cr_mix_key(options->seed, 1));
  CR_TRY(CR_NEW(c.weight, c.layer->tops + 1, "weights"));
  crema_status status = check_all(&c, good);
  for (int j = 0; j < c.layer->tops; ++j) free(c.weight[j]);
  free(c.weight);
  return status;
}
