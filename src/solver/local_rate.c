/* For weight w, gradient g, momentum m, and rate r of the schedule:
 *
 *   LARC  l = (1 - m) larc_eta |w| / |g|
 *         l = l (1 - 0.9 c)               with larc_turbo, from iteration 2 on
 *         rate = r l, or min(r, l) for larc_policy clip
 *   LARS  l = local_gw_ratio |w| / (|g| + d |w|),  d the decay as part of the gradient
 *         rate = r l
 *   LAMB  l = |w| / |u|,  u the direction of Adam with its decay
 *         rate = r l
 *
 * where l = 1 if one of the norms is 0, and c = 0.95 c + 0.05 g.h / (|g| |h|), h the history of the
 * momentum. A parameter learns slower while its gradient keeps its direction, faster while it
 * turns.
 */
#include "solver/local_rate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "ops/op.h"
#include "solver/fields.h"

/* In earlier iterations the history is empty or one gradient. */
enum { FIRST_CORRELATED = 2 };

static const double smoothing = 0.95, strength = 0.9;

/* Sums over the elements of each parameter. */
typedef enum local_sum { WEIGHT, GRADIENT, HISTORY, PRODUCT, SUMS } local_sum;

/* The sums of the parameters of one block, one op for each kind. */
typedef struct block_sums {
  const cr_param_block *block; /* that learns */
  cr_op *op;
  cr_update_segment *segment; /* one per part */
  cr_tensor *history;         /* in the block's type, as weights and gradients */
  bool owns_history;
  cr_tensor *result[SUMS]; /* one value per part */
} block_sums;

struct cr_local_rates {
  const cr_param_blocks *blocks;
  crema_blob *const *history;
  cr_local_kind kind;
  bool clips;
  double eta;          /* larc_eta or local_gw_ratio */
  double *correlation; /* NULL without larc_turbo */
  double *sum;         /* SUMS values per parameter */
  int count;
  block_sums *block;
};

static crema_status add_block(cr_local_rates *rates, const cr_param_block *block,
                              cr_tensor *history) {
  const crema_shape all = cr_shape_1(block->count), parts = cr_shape_1(block->parts);
  const cr_op_desc dots = {.kind = CR_OP_SEGMENT_DOTS, .type = block->type};
  const cr_param_block_tensors histories = {rates->history, false};
  const int kinds = rates->correlation != NULL ? SUMS : HISTORY;
  block_sums *sums = &rates->block[rates->count++];
  cr_op_desc *desc = NULL;
  sums->block = block;
  CR_TRY(CR_NEW(sums->segment, block->parts, "a solver"));
  for (int i = 0; i < block->parts; ++i) {
    sums->segment[i].begin = block->part[i].begin;
    sums->segment[i].count = block->part[i].count;
  }
  CR_TRY(cr_op_describe(&dots, 3, (const crema_shape *[]){&all, &all, &parts}, NULL, &desc));
  CR_TRY(cr_op_create(&desc, &sums->op));
  for (int k = 0; k < kinds; ++k) {
    CR_TRY(cr_tensor_create(CREMA_F64, block->parts, &sums->result[k]));
  }
  sums->history = history;
  if (rates->correlation == NULL || history != NULL) return CREMA_OK;
  /* A history of another type than the weights is converted to a separate array. */
  CR_TRY(cr_tensor_create(block->type, block->count, &sums->history));
  sums->owns_history = true;
  return cr_param_block_place(block, sums->history, histories, rates->blocks->net->context);
}

static crema_status read_settings(cr_local_rates *rates, const Caffe__SolverParameter *param) {
  rates->eta = (double)(rates->kind == CR_LOCAL_LARC ? param->larc_eta : param->local_gw_ratio);
  if (rates->kind != CR_LOCAL_LARC) return CREMA_OK;
  rates->clips = strcmp(param->larc_policy, "clip") == 0;
  if (rates->clips || strcmp(param->larc_policy, "scale") == 0) return CREMA_OK;
  return cr_field_fail(CREMA_E_UNKNOWN_NAME, "larc_policy",
                       "unknown larc_policy '%s' (known: scale, clip)", param->larc_policy);
}

crema_status cr_local_create(const Caffe__SolverParameter *param, cr_local_kind kind,
                             const cr_param_blocks *blocks, const cr_local_history *history,
                             cr_local_rates **out) {
  cr_local_rates *rates = calloc(1, sizeof *rates);
  if (rates == NULL) return cr_fail_memory(sizeof *rates, "a solver");
  const int params = blocks->net->learnables;
  crema_status status = CREMA_OK;
  rates->kind = kind;
  rates->blocks = blocks;
  rates->history = history->blob;
  CR_TRY_GOTO(read_settings(rates, param), fail);
  CR_TRY_GOTO(CR_NEW(rates->sum, SUMS * params + 1, "a solver"), fail);
  CR_TRY_GOTO(CR_NEW(rates->block, blocks->count + 1, "a solver"), fail);
  if (kind == CR_LOCAL_LARC && param->larc_turbo)
    CR_TRY_GOTO(CR_NEW(rates->correlation, params + 1, "a solver"), fail);
  for (int i = 0; i < blocks->count; ++i) {
    if (!blocks->block[i].learns) continue;
    CR_TRY_GOTO(add_block(rates, &blocks->block[i], history->whole(history->user, i)), fail);
  }
  *out = rates;
  return CREMA_OK;
fail:
  cr_local_destroy(rates);
  return status;
}

void cr_local_destroy(cr_local_rates *rates) {
  if (rates == NULL) return;
  for (int i = 0; i < rates->count; ++i) {
    block_sums *sums = &rates->block[i];
    for (int k = 0; k < SUMS; ++k) cr_tensor_destroy(sums->result[k]);
    if (sums->owns_history) cr_tensor_destroy(sums->history);
    cr_op_destroy(sums->op);
    free(sums->segment);
  }
  free(rates->block);
  free(rates->correlation);
  free(rates->sum);
  free(rates);
}

static bool correlates(const cr_local_rates *rates, int64_t iteration) {
  return rates->correlation != NULL && iteration >= FIRST_CORRELATED;
}

static crema_status run_sums(const cr_local_rates *rates, const block_sums *sums,
                             int64_t iteration) {
  const cr_param_block *block = sums->block;
  crema_context *context = rates->blocks->net->context;
  cr_tensor *const first[SUMS] = {block->weight, block->diff, sums->history, block->diff};
  cr_tensor *const second[SUMS] = {block->weight, block->diff, sums->history, sums->history};
  const cr_op_scalars scalars = {.segment = sums->segment, .segments = block->parts};
  const bool all = correlates(rates, iteration);
  crema_blob *const *learnable = rates->blocks->net->learnable;
  const cr_param_block_tensors collected[] = {[WEIGHT] = {learnable, false},
                                              [GRADIENT] = {learnable, true},
                                              [HISTORY] = {rates->history, false}};
  for (int k = WEIGHT; k <= (all ? HISTORY : GRADIENT); ++k) {
    CR_TRY(cr_param_block_collect(block, first[k], collected[k], 0, block->parts, context));
  }
  for (int k = 0; k < (all ? SUMS : HISTORY); ++k) {
    cr_tensor *tensors[] = {first[k], second[k], sums->result[k]};
    CR_TRY(cr_op_run(sums->op, context, tensors, &scalars));
  }
  return CREMA_OK;
}

static crema_status read_sums(cr_local_rates *rates, const block_sums *sums, int64_t iteration) {
  for (int k = 0; k < (correlates(rates, iteration) ? SUMS : HISTORY); ++k) {
    const void *value = NULL;
    CR_TRY(cr_tensor_host_read(sums->result[k], &value));
    for (int i = 0; i < sums->block->parts; ++i) {
      rates->sum[SUMS * sums->block->part[i].learnable + k] = ((const double *)value)[i];
    }
  }
  return CREMA_OK;
}

crema_status cr_local_begin(cr_local_rates *rates, int64_t iteration) {
  for (int i = 0; i < rates->count; ++i) CR_TRY(run_sums(rates, &rates->block[i], iteration));
  for (int i = 0; i < rates->count; ++i) CR_TRY(read_sums(rates, &rates->block[i], iteration));
  return CREMA_OK;
}

/* Advances the correlation of parameter `i`. */
static void correlate(cr_local_rates *rates, int i) {
  const double *sum = &rates->sum[SUMS * i];
  double now = 0;
  if (sum[GRADIENT] > 0 && sum[HISTORY] > 0) {
    now = sum[PRODUCT] / (sqrt(sum[GRADIENT]) * sqrt(sum[HISTORY]));
  }
  if (!isfinite(now)) now = 0;
  rates->correlation[i] = smoothing * rates->correlation[i] + (1 - smoothing) * now;
}

/* The factor of the rate, without correlation. */
static double find_factor(const cr_local_rates *rates, const double *sum, double decay,
                          const cr_local_step *step) {
  const double weight = sqrt(sum[WEIGHT]), found = sqrt(sum[GRADIENT]);
  const double gradient = found * (double)step->grad_scale;
  if (!(sum[WEIGHT] > 0 && sum[GRADIENT] > 0)) return 1;
  switch (rates->kind) {
    case CR_LOCAL_LARC: return (1 - (double)step->momentum) * rates->eta * weight / gradient;
    case CR_LOCAL_LARS: return rates->eta * weight / (gradient + decay * weight);
    case CR_LOCAL_LAMB: return weight / found;
    case CR_LOCAL_NONE: break;
  }
  return 1;
}

float cr_local_rate(cr_local_rates *rates, int i, double decay, const cr_local_step *step) {
  const double rate = (double)step->rate;
  double local = find_factor(rates, &rates->sum[SUMS * i], decay, step);
  if (correlates(rates, step->iteration)) {
    correlate(rates, i);
    local *= 1 - strength * rates->correlation[i];
  }
  return (float)(rates->clips ? fmin(rate, local) : rate * local);
}

double *cr_local_correlation(cr_local_rates *rates) {
  return rates == NULL ? NULL : rates->correlation;
}
