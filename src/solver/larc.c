/* For weight w, gradient g, momentum m, and rate r of the schedule:
 *
 *   l = (1 - m) larc_eta |w| / |g|       1 if one of the norms is 0
 *   l = l (1 - 0.9 c)                    with larc_turbo, from iteration 2 on
 *   rate = r l, or min(r, l) for larc_policy clip
 *
 * where c = 0.95 c + 0.05 g.h / (|g| |h|), h the history of the momentum: parameters whose
 * gradients keep their direction learn slower, those whose gradients turn learn faster. */
#include "solver/larc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "ops/op.h"
#include "solver/fields.h"

/* Earlier, the history is empty or a gradient alone. */
enum { FIRST_CORRELATED = 2 };

static const double smoothing = 0.95, strength = 0.9;

/* What is summed over the elements of each parameter. */
typedef enum larc_sum { WEIGHT, GRADIENT, HISTORY, PRODUCT, SUMS } larc_sum;

/* The sums of the parameters of one block, one op for each kind. */
typedef struct block_sums {
  const cr_block *block; /* that learns */
  cr_op *op;
  cr_update_segment *segment; /* one per part */
  cr_tensor *history;         /* in the block's type; so are weights and gradients */
  bool owns_history;
  cr_tensor *result[SUMS]; /* one value per part */
} block_sums;

struct cr_larc {
  const cr_blocks *blocks;
  crema_blob *const *history;
  bool clips;
  double eta;
  double *correlation; /* NULL without larc_turbo */
  double *sum;         /* SUMS values per parameter */
  int count;
  block_sums *block;
};

static crema_status make_op(const cr_block *block, cr_op **out) {
  const crema_shape all = cr_shape_1(block->count), parts = cr_shape_1(block->parts);
  const cr_op_desc dots = {.kind = CR_OP_SEGMENT_DOTS, .type = block->type};
  cr_op_desc *desc = NULL;
  CR_TRY(cr_op_describe(&dots, 3, (const crema_shape *[]){&all, &all, &parts}, NULL, &desc));
  return cr_op_create(&desc, out);
}

static cr_block_tensors histories(const cr_larc *larc) {
  return (cr_block_tensors){larc->history, false};
}

static cr_block_tensors parameters(const cr_larc *larc, bool diff) {
  return (cr_block_tensors){larc->blocks->net->learnable, diff};
}

/* A history that is kept in another type than the weights is converted to an array of its own. */
static crema_status find_history(const cr_larc *larc, block_sums *sums, cr_tensor *whole) {
  const cr_block *block = sums->block;
  sums->history = whole;
  if (whole != NULL) return CREMA_OK;
  CR_TRY(cr_tensor_create(block->type, block->count, &sums->history));
  sums->owns_history = true;
  return cr_block_place(block, sums->history, histories(larc), larc->blocks->net->context);
}

static crema_status add_block(cr_larc *larc, const cr_block *block, cr_tensor *history) {
  block_sums *sums = &larc->block[larc->count++];
  const int kinds = larc->correlation != NULL ? SUMS : HISTORY;
  sums->block = block;
  CR_TRY(CR_NEW(sums->segment, block->parts, "a solver"));
  for (int i = 0; i < block->parts; ++i) {
    sums->segment[i].begin = block->part[i].begin;
    sums->segment[i].count = block->part[i].count;
  }
  CR_TRY(make_op(block, &sums->op));
  for (int k = 0; k < kinds; ++k) {
    CR_TRY(cr_tensor_create(CREMA_F64, block->parts, &sums->result[k]));
  }
  return larc->correlation != NULL ? find_history(larc, sums, history) : CREMA_OK;
}

static crema_status read_settings(cr_larc *larc, const Caffe__SolverParameter *param) {
  larc->eta = (double)param->larc_eta;
  larc->clips = strcmp(param->larc_policy, "clip") == 0;
  if (larc->clips || strcmp(param->larc_policy, "scale") == 0) return CREMA_OK;
  return cr_field_fail(CREMA_E_UNKNOWN_NAME, "larc_policy",
                       "unknown larc_policy '%s' (known: scale, clip)", param->larc_policy);
}

crema_status cr_larc_create(const Caffe__SolverParameter *param, const cr_blocks *blocks,
                            const cr_larc_history *history, cr_larc **out) {
  cr_larc *larc = calloc(1, sizeof *larc);
  if (larc == NULL) return cr_fail_memory(sizeof *larc, "a solver");
  const int params = blocks->net->learnables;
  crema_status status = CREMA_OK;
  larc->blocks = blocks;
  larc->history = history->blob;
  CR_TRY_GOTO(read_settings(larc, param), fail);
  CR_TRY_GOTO(CR_NEW(larc->sum, SUMS * params + 1, "a solver"), fail);
  CR_TRY_GOTO(CR_NEW(larc->block, blocks->count + 1, "a solver"), fail);
  if (param->larc_turbo) CR_TRY_GOTO(CR_NEW(larc->correlation, params + 1, "a solver"), fail);
  for (int i = 0; i < blocks->count; ++i) {
    if (!blocks->block[i].learns) continue;
    CR_TRY_GOTO(add_block(larc, &blocks->block[i], history->whole(history->user, i)), fail);
  }
  *out = larc;
  return CREMA_OK;
fail:
  cr_larc_destroy(larc);
  return status;
}

void cr_larc_destroy(cr_larc *larc) {
  if (larc == NULL) return;
  for (int i = 0; i < larc->count; ++i) {
    block_sums *sums = &larc->block[i];
    for (int k = 0; k < SUMS; ++k) cr_tensor_destroy(sums->result[k]);
    if (sums->owns_history) cr_tensor_destroy(sums->history);
    cr_op_destroy(sums->op);
    free(sums->segment);
  }
  free(larc->block);
  free(larc->correlation);
  free(larc->sum);
  free(larc);
}

/* ---- an iteration -------------------------------------------------------- */

static bool correlates(const cr_larc *larc, int64_t iteration) {
  return larc->correlation != NULL && iteration >= FIRST_CORRELATED;
}

static crema_status run_sums(const cr_larc *larc, const block_sums *sums, int64_t iteration) {
  const cr_block *block = sums->block;
  crema_context *context = larc->blocks->net->context;
  cr_tensor *const first[SUMS] = {block->weight, block->diff, sums->history, block->diff};
  cr_tensor *const second[SUMS] = {block->weight, block->diff, sums->history, sums->history};
  const cr_op_scalars scalars = {.segment = sums->segment, .segments = block->parts};
  const bool all = correlates(larc, iteration);
  CR_TRY(cr_block_collect(block, block->weight, parameters(larc, false), 0, block->parts, context));
  CR_TRY(cr_block_collect(block, block->diff, parameters(larc, true), 0, block->parts, context));
  if (all) {
    CR_TRY(cr_block_collect(block, sums->history, histories(larc), 0, block->parts, context));
  }
  for (int k = 0; k < (all ? SUMS : HISTORY); ++k) {
    cr_tensor *tensors[] = {first[k], second[k], sums->result[k]};
    CR_TRY(cr_op_run(sums->op, context, tensors, &scalars));
  }
  return CREMA_OK;
}

static crema_status read_sums(cr_larc *larc, const block_sums *sums, int64_t iteration) {
  for (int k = 0; k < (correlates(larc, iteration) ? SUMS : HISTORY); ++k) {
    const void *value = NULL;
    CR_TRY(cr_tensor_host_read(sums->result[k], &value));
    for (int i = 0; i < sums->block->parts; ++i) {
      larc->sum[SUMS * sums->block->part[i].learnable + k] = ((const double *)value)[i];
    }
  }
  return CREMA_OK;
}

crema_status cr_larc_begin(cr_larc *larc, int64_t iteration) {
  for (int i = 0; i < larc->count; ++i) CR_TRY(run_sums(larc, &larc->block[i], iteration));
  for (int i = 0; i < larc->count; ++i) CR_TRY(read_sums(larc, &larc->block[i], iteration));
  return CREMA_OK;
}

/* Advances the correlation of parameter `i`. */
static void correlate(cr_larc *larc, int i) {
  const double *sum = &larc->sum[SUMS * i];
  double now = 0;
  if (sum[GRADIENT] > 0 && sum[HISTORY] > 0) {
    now = sum[PRODUCT] / (sqrt(sum[GRADIENT]) * sqrt(sum[HISTORY]));
  }
  if (!isfinite(now)) now = 0;
  larc->correlation[i] = smoothing * larc->correlation[i] + (1 - smoothing) * now;
}

float cr_larc_rate(cr_larc *larc, int i, const cr_larc_step *step) {
  const double *sum = &larc->sum[SUMS * i];
  const double rate = (double)step->rate;
  double local = 1;
  if (sum[WEIGHT] > 0 && sum[GRADIENT] > 0) {
    local = (1 - (double)step->momentum) * larc->eta * sqrt(sum[WEIGHT]) /
            (sqrt(sum[GRADIENT]) * (double)step->grad_scale);
  }
  if (correlates(larc, step->iteration)) {
    correlate(larc, i);
    local *= 1 - strength * larc->correlation[i];
  }
  return (float)(larc->clips ? fmin(rate, local) : rate * local);
}

double *cr_larc_correlation(cr_larc *larc) {
  return larc == NULL ? NULL : larc->correlation;
}
