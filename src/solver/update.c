/* The rules, per learnable parameter with gradient g, weight w, history h (all element-wise):
 *
 *     g  = the diff divided by the net's grad_scale
 *     g' = c g / iter_size + decay term    L2: d w, L1: d sign(w); d = weight_decay decay_mult
 *                                          WD: none, but w -= r d w in addition
 *     c  = min(1, clip_gradients / |g|)    |g| over the gradients of all parameters together
 *     r  = rate lr_mult; with larc, LARS and LAMB the rate is the parameter's own (local_rate.h)
 *
 *     SGD       h = m h + r g';                      w -= h
 *     Nesterov  h' = m h + r g';                     w -= (1 + m) h' - m h
 *     AdaGrad   h += g'^2;                           w -= r g' / (sqrt(h) + delta)
 *     RMSProp   h = k h + (1 - k) g'^2;              w -= r g' / (sqrt(h) + delta)
 *     AdaDelta  h0 = m h0 + (1 - m) g'^2;  u = g' sqrt((delta + h1) / (delta + h0));
 *               h1 = m h1 + (1 - m) u^2;             w -= r u
 *     Adam      h0 = m h0 + (1 - m) g';  h1 = m2 h1 + (1 - m2) g'^2;
 *               w -= r sqrt(1 - m2^t) / (1 - m^t) h0 / (sqrt(h1) + delta),  t = iteration + 1
 *     AdamW     as Adam, with decay WD and delta sqrt(1 - m2^t) as delta: the second mean is
 *               divided by 1 - m2^t, then delta is added (Loshchilov and Hutter, 2019)
 *
 *     LARS      as SGD
 *
 *     LAMB      u = the step of AdamW for r = 1, with d w added;  w -= r u
 *
 * The arithmetic is in single precision, or in double if weight, gradient or history is. The
 * history is rounded to solver_data_type once per update. A value too large for half precision
 * becomes the largest half. The net's 16-bit weights are copies of weights in single precision.
 * Otherwise steps smaller than the last of 16 bits would have no effect. */
#include "solver/update.h"

#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "memory/math.h"
#include "ops/op.h"
#include "solver/local_rate.h"
#include "solver/solver.h"

#define LARGEST_HALF 65504.0f

/* The settings of all parameters that are updated in one precision. */
typedef struct update_step {
  bool wide; /* double precision; else all numbers are rounded to single */
  double rate, decay, correction;
  cr_op_scalars scalars;
} update_step;

/* LAMB finds a direction for all parameters, then descends along it. Other rules have one stage. */
typedef enum update_stage { RULE, DESCENT, STAGES } update_stage;

typedef struct block_update {
  /* Updates the whole block, whose weights, gradients and history are of one type. NULL: each
   * parameter has an op, or there is no such stage. */
  cr_op *op[STAGES];
  cr_tensor *history[2];
  cr_update_segment *segment; /* room for one per part */
} block_update;

struct cr_updater {
  cr_rule_settings is;
  crema_net *net;
  const cr_param_blocks *blocks;
  block_update *block;         /* one per block */
  int replicas;                /* whose gradients are summed in the diffs */
  int rank;                    /* of the net's replica; rank 0 logs */
  const cr_schedule *schedule; /* of momentum and weight decay */
  int params;
  cr_local_rates *local; /* NULL: all parameters have the schedule's rate */
  cr_op **op[STAGES];    /* one per parameter; NULL if its block is updated as a whole */
  cr_op **cut;           /* one per parameter; NULL unless the history is in half precision */
  crema_blob **history;  /* is.row->histories * params */
  update_step step[2];   /* of the present update, in single and in double precision */
  int64_t iteration;
};

/* The op that limits a history of this shape to the range of half precision. */
static crema_status make_cut(const crema_shape *shape, cr_op **out) {
  cr_op_desc clip = {.kind = CR_OP_UNARY_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  clip.u.unary.function = CR_UNARY_CLIP;
  clip.u.unary.alpha = -LARGEST_HALF;
  clip.u.unary.beta = LARGEST_HALF;
  CR_TRY(cr_op_describe(&clip, 2, (const crema_shape *[]){shape, shape}, NULL, &desc));
  return cr_op_create(&desc, out);
}

static bool is_directed(const cr_updater *updater) {
  return updater->is.row->rule == CR_UPDATE_DIRECTION;
}

/* The last stage of this updater, which changes the weights. */
static update_stage last_stage(const cr_updater *updater) {
  return is_directed(updater) ? DESCENT : RULE;
}

/* The op that updates arrays of this shape; `type`: the first type to plan for. */
static crema_status make_stage(const cr_updater *updater, update_stage stage,
                               const crema_shape *shape, crema_dtype type, cr_op **out) {
  const bool keeps = updater->is.keep_step || stage != last_stage(updater);
  const crema_shape *second = stage == RULE && updater->is.row->histories == 2 ? shape : NULL;
  cr_op_desc update = {.kind = keeps ? CR_OP_UPDATE_KEEP : CR_OP_UPDATE, .type = type};
  cr_op_desc *desc = NULL;
  update.u.update.rule = stage == RULE ? updater->is.row->rule : CR_UPDATE_DESCENT;
  update.u.update.l1 = updater->is.l1;
  update.u.update.decoupled = updater->is.decoupled;
  CR_TRY(cr_op_describe(&update, 4, (const crema_shape *[]){shape, shape, shape, second}, NULL,
                        &desc));
  return cr_op_create(&desc, out);
}

static crema_status add_history(cr_updater *updater, int i) {
  const crema_shape *shape = crema_blob_shape(updater->net->learnable[i]);
  for (int h = 0; h < updater->is.row->histories; ++h) {
    CR_TRY(cr_blob_create_typed(shape, updater->is.history_type, CREMA_F32,
                                &updater->history[h * updater->params + i]));
  }
  return CREMA_OK;
}

static cr_tensor *history_of(const cr_updater *updater, int h, int learnable) {
  return updater->history[h * updater->params + learnable]->data;
}

static crema_status add_block(cr_updater *updater, int index) {
  const cr_param_block *block = &updater->blocks->block[index];
  block_update *update = &updater->block[index];
  /* One op can update the block if no value needs a conversion. An update computes in F64 if one of
   * its values is F64, else in F32. */
  const bool wide = block->diff_type == CREMA_F64 && block->type != CREMA_F64;
  const bool uniform = block->learns && !wide && updater->is.history_type == block->type;
  for (int i = 0; i < block->parts; ++i) CR_TRY(add_history(updater, block->part[i].learnable));
  if (uniform) {
    const crema_shape shape = cr_shape_1(block->count);
    CR_TRY(CR_NEW(update->segment, block->parts, "a solver"));
    for (int h = 0; h < updater->is.row->histories; ++h) {
      const cr_param_block_tensors tensors = {updater->history + h * updater->params, false};
      CR_TRY(cr_tensor_create(updater->is.history_type, block->count, &update->history[h]));
      CR_TRY(cr_param_block_place(block, update->history[h], tensors, updater->net->context));
    }
    for (int k = 0; k <= (int)last_stage(updater); ++k) {
      CR_TRY(make_stage(updater, (update_stage)k, &shape, block->type, &update->op[k]));
    }
    return CREMA_OK;
  }
  for (int i = 0; i < block->parts; ++i) {
    const int learnable = block->part[i].learnable;
    const crema_shape *shape = crema_blob_shape(updater->net->learnable[learnable]);
    if (updater->cut != NULL) CR_TRY(make_cut(shape, &updater->cut[learnable]));
    for (int k = 0; k <= (int)last_stage(updater); ++k) {
      CR_TRY(make_stage(updater, (update_stage)k, shape, CREMA_F32, &updater->op[k][learnable]));
    }
  }
  return CREMA_OK;
}

static cr_tensor *whole_history(const void *user, int block) {
  const cr_updater *updater = user;
  return updater->block[block].history[0];
}

static crema_status make_arrays(cr_updater *updater) {
  const int params = updater->params;
  for (int k = 0; k < STAGES; ++k) CR_TRY(CR_NEW(updater->op[k], params + 1, "a solver"));
  CR_TRY(CR_NEW(updater->history, 2 * params + 1, "a solver"));
  CR_TRY(CR_NEW(updater->block, updater->blocks->count + 1, "a solver"));
  if (updater->is.history_type != CREMA_F16) return CREMA_OK;
  return CR_NEW(updater->cut, params + 1, "a solver");
}

crema_status cr_updater_create(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                               const cr_param_blocks *blocks, int replicas, cr_updater **out) {
  crema_net *net = blocks->net;
  crema_status status = CREMA_OK;
  cr_updater *updater = calloc(1, sizeof *updater);
  if (updater == NULL) return cr_fail_memory(sizeof *updater, "a solver");
  updater->net = net;
  updater->blocks = blocks;
  updater->replicas = replicas;
  updater->schedule = schedule;
  updater->params = net->learnables;
  CR_TRY_GOTO(cr_rule_read(param, schedule, &updater->is), fail);
  CR_TRY_GOTO(make_arrays(updater), fail);
  for (int i = 0; i < blocks->count; ++i) CR_TRY_GOTO(add_block(updater, i), fail);
  if (updater->is.local != CR_LOCAL_NONE) {
    const cr_local_history history = {updater->history, whole_history, updater};
    CR_TRY_GOTO(cr_local_create(param, updater->is.local, blocks, &history, &updater->local), fail);
  }
  *out = updater;
  return CREMA_OK;
fail:
  cr_updater_destroy(updater);
  return status;
}

/* Accepts NULL for the array. */
static void destroy_ops(cr_op **op, int count) {
  for (int i = 0; op != NULL && i < count; ++i) cr_op_destroy(op[i]);
  free(op);
}

void cr_updater_destroy(cr_updater *updater) {
  if (updater == NULL) return;
  cr_local_destroy(updater->local);
  for (int i = 0; updater->history != NULL && i < cr_updater_history_count(updater); ++i) {
    crema_blob_destroy(updater->history[i]);
  }
  for (int i = 0; updater->block != NULL && i < updater->blocks->count; ++i) {
    block_update *update = &updater->block[i];
    for (int h = 0; h < 2; ++h) cr_tensor_destroy(update->history[h]);
    for (int k = 0; k < STAGES; ++k) cr_op_destroy(update->op[k]);
    free(update->segment);
  }
  for (int k = 0; k < STAGES; ++k) destroy_ops(updater->op[k], updater->params);
  destroy_ops(updater->cut, updater->params);
  free(updater->block);
  free(updater->history);
  free(updater);
}

void cr_updater_set_replicas(cr_updater *updater, int replicas, int rank) {
  updater->replicas = replicas;
  updater->rank = rank;
}

/* A diff divided by this is the gradient of one pass of one replica. */
static double diff_scale(const cr_updater *updater) {
  return updater->net->grad_scale * updater->replicas;
}

/* One sum over the array of a block, whose gaps are zero. A block that does not learn has none. */
static crema_status block_squares(const cr_updater *updater, const cr_param_block *block,
                                  double *out) {
  const cr_param_block_tensors gradients = {updater->net->learnable, true};
  if (block->learns) {
    CR_TRY(cr_param_block_collect(block, block->diff, gradients, 0, block->parts,
                                  updater->net->context));
    return cr_tensor_sumsq(block->diff, out);
  }
  *out = 0;
  for (int i = 0; i < block->parts; ++i) {
    double squares = 0;
    CR_TRY(cr_tensor_sumsq(updater->net->learnable[block->part[i].learnable]->diff, &squares));
    *out += squares;
  }
  return CREMA_OK;
}

/* The factor that brings the norm of all gradients down to clip_gradients; 1 when it is below. */
static crema_status clip_factor(const cr_updater *updater, double *out) {
  *out = 1;
  if (updater->is.clip < 0) return CREMA_OK;
  double sum = 0;
  for (int i = 0; i < updater->blocks->count; ++i) {
    double squares;
    CR_TRY(block_squares(updater, &updater->blocks->block[i], &squares));
    sum += squares;
  }
  double norm = sqrt(sum) / diff_scale(updater);
  if (!(norm > (double)updater->is.clip)) return CREMA_OK;
  *out = (double)updater->is.clip / norm;
  if (updater->rank != 0) return CREMA_OK; /* all replicas have the same gradients */
  cr_log_info("Gradient clipping: scaling down gradients (L2 norm %g > %g) by scale factor %g",
              norm, (double)updater->is.clip, *out);
  return CREMA_OK;
}

/* Rounds weights and history to the types in which they are kept. */
static crema_status settle(cr_updater *updater, int i, crema_context *context) {
  cr_tensor *weight = updater->net->learnable[i]->data;
  for (int h = 0; h < updater->is.row->histories; ++h) {
    cr_tensor *history = history_of(updater, h, i);
    if (updater->cut != NULL) {
      CR_TRY(cr_op_run(updater->cut[i], context, (cr_tensor *[]){history, history}, NULL));
    }
    CR_TRY(cr_tensor_settle(history, context));
  }
  /* Files and the net hold weights in single precision, unless they are doubles. */
  if (cr_tensor_type(weight) == CREMA_F64 || cr_tensor_head(weight).type != CREMA_F64) {
    return CREMA_OK;
  }
  return cr_tensor_update(weight, context, CR_PLAIN_F32, &(crema_devptr){0});
}

static double rounded(double value, bool wide) {
  return wide ? value : (double)(float)value;
}

static void find_step(const cr_updater *updater, double rate, int64_t iteration, double clip,
                      bool wide, update_step *out) {
  const cr_rule_settings *is = &updater->is;
  *out = (update_step){.wide = wide, .rate = rounded(rate, wide), .correction = 1};
  double momentum = rounded(cr_momentum_at(updater->schedule, iteration, out->rate), wide);
  double delta = (double)is->delta;
  out->decay = rounded(cr_weight_decay_at(updater->schedule, iteration), wide);
  if (is->row->rule == CR_UPDATE_ADAM || is_directed(updater)) {
    double t = (double)iteration + 1;
    double second = sqrt(1 - pow((double)is->momentum2, t));
    out->correction = rounded(second / (1 - pow(momentum, t)), wide);
    if (is->row->apart) delta = rounded(delta * second, wide);
  }
  out->scalars =
      (cr_op_scalars){.momentum = momentum,
                      .momentum2 = (double)is->momentum2,
                      .rms_decay = (double)is->rms_decay,
                      .delta = delta,
                      .grad_scale = rounded(clip, wide) / is->iter_size / diff_scale(updater)};
}

/* The settings for the parameters of a block. */
static const update_step *step_of(const cr_updater *updater, int block) {
  const cr_param_block *b = &updater->blocks->block[block];
  const bool wide =
      b->type == CREMA_F64 || b->diff_type == CREMA_F64 || updater->is.history_type == CREMA_F64;
  return &updater->step[wide ? 1 : 0];
}

/* The rate and the decay of one parameter. */
static void factors_of(const cr_updater *updater, int i, const update_step *now, update_stage stage,
                       double *rate, double *decay) {
  const float multiple = updater->net->lr_mult[i];
  double local = now->rate;
  *decay = rounded(now->decay * (double)updater->net->decay_mult[i], now->wide);
  *rate = now->correction;
  if (stage != last_stage(updater)) return; /* a direction has no rate yet */
  if (updater->local != NULL && multiple != 0) {
    const cr_local_step step = {updater->iteration, (float)now->rate, (float)now->scalars.momentum,
                                (float)now->scalars.grad_scale};
    const double inside = updater->is.l1 || updater->is.decoupled ? 0 : *decay;
    local = (double)cr_local_rate(updater->local, i, inside, &step);
  }
  local = rounded(local * (double)multiple, now->wide);
  if (updater->is.decoupled) *decay = rounded(*decay * local, now->wide);
  *rate = rounded(local * now->correction, now->wide);
  if (stage != DESCENT) return;
  *rate = local; /* the direction has all else */
  *decay = 0;
}

static cr_op_scalars scalars_of(const update_step *now, update_stage stage) {
  cr_op_scalars scalars = now->scalars;
  if (stage == DESCENT) scalars.grad_scale = 1;
  return scalars;
}

static crema_status update_parameter(cr_updater *updater, int i, const update_step *now,
                                     update_stage stage, crema_context *context) {
  crema_blob *blob = updater->net->learnable[i];
  const cr_update_rule rule = updater->is.row->rule;
  const bool momentum_only = rule == CR_UPDATE_SGD || rule == CR_UPDATE_NESTEROV;
  /* A fixed parameter costs no memory traffic if its step and history stay zero. */
  if (updater->net->lr_mult[i] == 0 &&
      (rule == CR_UPDATE_DIRECTION ||
       (momentum_only && cr_tensor_is_zero(updater->history[i]->data)))) {
    if (updater->is.keep_step) cr_tensor_set_zero(blob->diff);
    return CREMA_OK;
  }
  const bool two = stage == RULE && updater->is.row->histories == 2;
  cr_tensor *tensors[] = {blob->data, blob->diff, history_of(updater, 0, i),
                          two ? history_of(updater, 1, i) : NULL};
  cr_op_scalars scalars = scalars_of(now, stage);
  factors_of(updater, i, now, stage, &scalars.rate, &scalars.decay);
  CR_TRY(cr_op_run(updater->op[stage][i], context, tensors, &scalars));
  return settle(updater, i, context);
}

/* An array of a block and the tensors stored in it. */
typedef struct block_array {
  cr_tensor *whole;
  cr_param_block_tensors tensors;
} block_array;

/* Weights, gradients, history 0, history 1 (NULL if there is none). */
static void arrays_of(const cr_updater *updater, int index, block_array array[4]) {
  const cr_param_block *block = &updater->blocks->block[index];
  const block_update *update = &updater->block[index];
  crema_blob *const *learnable = updater->net->learnable;
  array[0] = (block_array){block->weight, {learnable, false}};
  array[1] = (block_array){block->diff, {learnable, true}};
  for (int h = 0; h < 2; ++h) {
    array[2 + h] =
        (block_array){update->history[h], {updater->history + h * updater->params, false}};
  }
}

bool cr_updater_needs_all(const cr_updater *updater) {
  if (updater->is.clip >= 0 || updater->local != NULL) return true;
  for (int i = 0; i < updater->blocks->count; ++i) {
    const cr_param_block *block = &updater->blocks->block[i];
    if (block->learns && updater->block[i].op[RULE] == NULL) return true;
  }
  return false;
}

/* `exchanged`: the gradients are in `sent`, or will be. */
static crema_status prepare(cr_updater *updater, const cr_bucket *bucket, update_stage stage,
                            bool exchanged, crema_context *context) {
  const cr_param_block *block = &updater->blocks->block[bucket->block];
  const block_update *update = &updater->block[bucket->block];
  const update_step *now = step_of(updater, bucket->block);
  block_array array[4];
  if (update->op[stage] == NULL) return CREMA_OK;
  for (int i = bucket->first; i < bucket->last; ++i) {
    const cr_param_block_part *part = &block->part[i];
    cr_update_segment *segment = &update->segment[i];
    *segment = (cr_update_segment){.begin = part->begin, .count = part->count};
    factors_of(updater, part->learnable, now, stage, &segment->rate, &segment->decay);
  }
  arrays_of(updater, bucket->block, array);
  for (int k = 0; k < 4; ++k) {
    if (array[k].whole == NULL || (k == 1 && exchanged)) continue;
    CR_TRY(cr_param_block_collect(block, array[k].whole, array[k].tensors, bucket->first,
                                  bucket->last, context));
  }
  return CREMA_OK;
}

static crema_status run_bucket(cr_updater *updater, const cr_bucket *bucket, update_stage stage,
                               crema_context *context) {
  const cr_param_block *block = &updater->blocks->block[bucket->block];
  const block_update *update = &updater->block[bucket->block];
  const update_step *now = step_of(updater, bucket->block);
  if (update->op[stage] == NULL) {
    for (int i = bucket->first; i < bucket->last; ++i) {
      CR_TRY(update_parameter(updater, block->part[i].learnable, now, stage, context));
    }
    return CREMA_OK;
  }
  cr_tensor *tensors[] = {block->weight, block->diff, update->history[0],
                          stage == RULE ? update->history[1] : NULL};
  cr_op_scalars scalars = scalars_of(now, stage);
  scalars.segment = update->segment + bucket->first;
  scalars.segments = bucket->last - bucket->first;
  return cr_op_run(update->op[stage], context, tensors, &scalars);
}

static crema_status finish(cr_updater *updater, const cr_bucket *bucket, update_stage stage,
                           crema_context *context) {
  const cr_param_block *block = &updater->blocks->block[bucket->block];
  const bool keeps = updater->is.keep_step || stage != last_stage(updater);
  block_array array[4];
  if (updater->block[bucket->block].op[stage] == NULL) return CREMA_OK;
  arrays_of(updater, bucket->block, array);
  for (int k = 0; k < 4; ++k) {
    if (array[k].whole == NULL || (k == 1 && !keeps)) continue;
    CR_TRY(cr_param_block_changed(block, array[k].whole, array[k].tensors, bucket->first,
                                  bucket->last, context));
  }
  return CREMA_OK;
}

static crema_status run_stage(cr_updater *updater, int index, update_stage stage) {
  crema_context *context = updater->net->context;
  const cr_bucket all = {.block = index, .first = 0, .last = updater->blocks->block[index].parts};
  CR_TRY(prepare(updater, &all, stage, false, context));
  CR_TRY(run_bucket(updater, &all, stage, context));
  return finish(updater, &all, stage, context);
}

crema_status cr_updater_begin(cr_updater *updater, double rate, int64_t iteration) {
  double clip;
  CR_TRY(clip_factor(updater, &clip));
  updater->iteration = iteration;
  for (int wide = 0; wide < 2; ++wide) {
    find_step(updater, rate, iteration, clip, wide == 1, &updater->step[wide]);
  }
  for (int i = 0; is_directed(updater) && i < updater->blocks->count; ++i) {
    if (updater->blocks->block[i].learns) CR_TRY(run_stage(updater, i, RULE));
  }
  return updater->local != NULL ? cr_local_begin(updater->local, iteration) : CREMA_OK;
}

crema_status cr_updater_prepare(cr_updater *updater, const cr_bucket *bucket,
                                crema_context *context) {
  return prepare(updater, bucket, last_stage(updater), true, context);
}

crema_status cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                   crema_context *context) {
  const cr_param_block *block = &updater->blocks->block[bucket->block];
  CR_TRY(cr_param_block_convert_sent(block, bucket->first, bucket->last, context));
  return run_bucket(updater, bucket, last_stage(updater), context);
}

crema_status cr_updater_finish(cr_updater *updater, const cr_bucket *bucket,
                               crema_context *context) {
  return finish(updater, bucket, last_stage(updater), context);
}

crema_status cr_updater_run_still(cr_updater *updater) {
  for (int i = 0; i < updater->blocks->count; ++i) {
    if (!updater->blocks->block[i].learns) CR_TRY(run_stage(updater, i, last_stage(updater)));
  }
  return CREMA_OK;
}

crema_status cr_updater_run(cr_updater *updater, double rate, int64_t iteration) {
  CR_TRY(cr_updater_begin(updater, rate, iteration));
  for (int i = 0; i < updater->blocks->count; ++i) {
    CR_TRY(run_stage(updater, i, last_stage(updater)));
  }
  return CREMA_OK;
}

int cr_updater_history_count(const cr_updater *updater) {
  return updater->is.row->histories * updater->params;
}

crema_blob *cr_updater_history(cr_updater *updater, int index) {
  return updater->history[index];
}

const char *cr_updater_type(const cr_updater *updater) {
  return updater->is.row->type;
}

double *cr_updater_correlation(cr_updater *updater) {
  return cr_local_correlation(updater->local);
}
