/* The rules, per learnable parameter with gradient g, weight w, history h (all element-wise):
 *
 *   g  = what the diff holds, divided by the net's grad_scale
 *   g' = c g / iter_size + decay term    L2: d w, L1: d sign(w); d = weight_decay decay_mult
 *                                        WD: none, but w -= r d w besides
 *   c  = min(1, clip_gradients / |g|)    |g| over the gradients of all parameters together
 *   r  = rate lr_mult; with larc the rate is the parameter's own (larc.h)
 *
 *   SGD       h = m h + r g';                      w -= h
 *   Nesterov  h' = m h + r g';                     w -= (1 + m) h' - m h
 *   AdaGrad   h += g'^2;                           w -= r g' / (sqrt(h) + delta)
 *   RMSProp   h = k h + (1 - k) g'^2;              w -= r g' / (sqrt(h) + delta)
 *   AdaDelta  h0 = m h0 + (1 - m) g'^2;  u = g' sqrt((delta + h1) / (delta + h0));
 *             h1 = m h1 + (1 - m) u^2;             w -= r u
 *   Adam      h0 = m h0 + (1 - m) g';  h1 = m2 h1 + (1 - m2) g'^2;
 *             w -= r sqrt(1 - m2^t) / (1 - m^t) h0 / (sqrt(h1) + delta),  t = iteration + 1
 *
 * The arithmetic is in single precision, or in double where weight, gradient or history is; so are
 * rate, momentum and all that is computed from the fields of the solver file, which are floats. The
 * history is kept in the type of solver_data_type, to which it is rounded once per update; what is
 * too large for half precision becomes the largest half. Weights that the net has in 16 bits are
 * kept in single precision, from which the net makes its own: steps that are far smaller than the
 * weight's last bit of 16 add up. */
#include "solver/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/nearest.h"
#include "memory/math.h"
#include "ops/op.h"
#include "solver/fields.h"
#include "solver/larc.h"
#include "solver/solver.h"

typedef struct rule_row {
  const char *type;
  cr_update_rule rule;
  int histories;    /* blobs per parameter */
  bool no_momentum; /* the rule has no use for it */
  bool averages;    /* the first history is a mean of gradients */
} rule_row;

static const rule_row rules[] = {
    {"SGD", CR_UPDATE_SGD, 1, false, true},
    {"Nesterov", CR_UPDATE_NESTEROV, 1, false, true},
    {"AdaGrad", CR_UPDATE_ADAGRAD, 1, true, false},
    {"RMSProp", CR_UPDATE_RMSPROP, 1, true, false},
    {"AdaDelta", CR_UPDATE_ADADELTA, 2, false, false},
    {"Adam", CR_UPDATE_ADAM, 2, false, true},
};

enum { RULES = sizeof rules / sizeof *rules };

#define LARGEST_HALF 65504.0f

/* What holds for all parameters that are updated in one precision. */
typedef struct update_step {
  bool wide; /* double precision; else all numbers are rounded to single */
  double rate, decay, correction;
  cr_op_scalars scalars;
} update_step;

/* How the parameters of one block are updated. */
typedef struct block_update {
  /* The block as a whole: weights, gradients and history are of one element type. NULL: parameter
   * by parameter. */
  cr_op *op;
  cr_tensor *history[2];
  cr_update_segment *segment; /* room for one per part */
} block_update;

struct cr_updater {
  const rule_row *row;
  crema_net *net;
  const cr_blocks *blocks;
  block_update *block; /* one per block */
  int replicas;        /* whose gradients the diffs hold the sum of */
  bool l1, decoupled;  /* regularization_type; neither: L2 */
  bool keep_step;      /* leave the step in the diff, for snapshots with diffs and debug_info */
  const cr_schedule *schedule; /* of momentum and weight decay */
  float momentum2, rms_decay, delta, clip;
  int iter_size;
  int params;
  cr_larc *larc;            /* NULL without larc */
  crema_dtype history_type; /* of solver_data_type */
  cr_op **op;               /* one per parameter; NULL where its block is updated as a whole */
  cr_op **cut;              /* likewise; NULL unless the history is in half precision */
  crema_blob **history;     /* row->histories * params */
  /* Of the update that is under way: in single precision, in double. */
  update_step step[2];
  int64_t iteration;
};

static crema_status find_rule(const char *type, const rule_row **out) {
  const char *names[RULES];
  for (size_t i = 0; i < RULES; ++i) {
    names[i] = rules[i].type;
    if (strcmp(type, rules[i].type) == 0) {
      *out = &rules[i];
      return CREMA_OK;
    }
  }
  const char *nearest = cr_nearest(type, names, RULES);
  return cr_field_fail(CREMA_E_UNKNOWN_NAME, "type", "unknown solver type '%s'%s%s%s", type,
                       nearest != NULL ? "; did you mean '"
                                       : " (known: SGD, Nesterov, AdaGrad, RMSProp, "
                                         "AdaDelta, Adam",
                       nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ")");
}

static crema_status read_settings(cr_updater *updater, const Caffe__SolverParameter *param) {
  CR_TRY(find_rule(param->type, &updater->row));
  const char *decay = param->regularization_type;
  updater->l1 = strcmp(decay, "L1") == 0;
  updater->decoupled = strcmp(decay, "WD") == 0;
  if (!updater->l1 && !updater->decoupled && strcmp(decay, "L2") != 0) {
    return cr_field_fail(CREMA_E_UNKNOWN_NAME, "regularization_type",
                         "unknown regularization_type '%s' (known: L2, L1, WD)", decay);
  }
  CR_TRY(cr_net_dtype("solver_data_type", param->solver_data_type, &updater->history_type));
  updater->momentum2 = param->momentum2;
  updater->rms_decay = param->rms_decay;
  updater->delta = param->delta;
  updater->clip = param->clip_gradients;
  updater->iter_size = param->iter_size;
  updater->keep_step = param->snapshot_diff || param->debug_info;
  if (updater->row->no_momentum && param->momentum != 0) {
    return cr_field_fail(CREMA_E_RANGE, "momentum", "momentum cannot be used with %s, found %g",
                         updater->row->type, (double)param->momentum);
  }
  bool scheduled = updater->row->rule == CR_UPDATE_SGD || updater->row->rule == CR_UPDATE_NESTEROV;
  if (!scheduled && updater->schedule->momentum_policy != CR_FACTOR_FIXED) {
    return cr_field_fail(CREMA_E_ARGUMENT, "momentum_policy",
                         "momentum_policy '%s' is for SGD and Nesterov, not for %s",
                         param->momentum_policy, updater->row->type);
  }
  if (param->larc && param->larc_turbo && !updater->row->averages) {
    return cr_field_fail(
        CREMA_E_ARGUMENT, "larc_turbo",
        "larc_turbo needs an average of gradients as SGD, Nesterov and Adam have it, "
        "which %s has not",
        updater->row->type);
  }
  if (updater->row->rule == CR_UPDATE_RMSPROP &&
      !(updater->rms_decay >= 0 && updater->rms_decay < 1)) {
    return cr_field_fail(CREMA_E_RANGE, "rms_decay",
                         "rms_decay must lie between 0 and 1 (1 excluded), found %g",
                         (double)updater->rms_decay);
  }
  if (updater->iter_size < 1) {
    return cr_field_fail(CREMA_E_RANGE, "iter_size", "iter_size must be at least 1, found %d",
                         updater->iter_size);
  }
  return CREMA_OK;
}

/* The op that cuts a history of this shape to what half precision can hold. */
static crema_status make_cut(const crema_shape *shape, cr_op **out) {
  cr_op_desc clip = {.kind = CR_OP_UNARY_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  clip.u.unary.function = CR_UNARY_CLIP;
  clip.u.unary.alpha = -LARGEST_HALF;
  clip.u.unary.beta = LARGEST_HALF;
  CR_TRY(cr_op_describe(&clip, 2, (const crema_shape *[]){shape, shape}, NULL, &desc));
  return cr_op_create(&desc, out);
}

/* The op of an update of `count` elements; `type` is what it is planned for first. */
static crema_status make_update(const cr_updater *updater, const crema_shape *shape,
                                crema_dtype type, cr_op **out) {
  const crema_shape *second = updater->row->histories == 2 ? shape : NULL;
  cr_op_desc update = {.kind = updater->keep_step ? CR_OP_UPDATE_KEEP : CR_OP_UPDATE, .type = type};
  cr_op_desc *desc = NULL;
  update.u.update.rule = updater->row->rule;
  update.u.update.l1 = updater->l1;
  update.u.update.decoupled = updater->decoupled;
  CR_TRY(cr_op_describe(&update, 4, (const crema_shape *[]){shape, shape, shape, second}, NULL,
                        &desc));
  return cr_op_create(&desc, out);
}

static crema_status add_history(cr_updater *updater, int i) {
  const crema_shape *shape = crema_blob_shape(updater->net->learnable[i]);
  for (int h = 0; h < updater->row->histories; ++h) {
    CR_TRY(cr_blob_create_typed(shape, updater->history_type, CREMA_F32,
                                &updater->history[h * updater->params + i]));
  }
  return CREMA_OK;
}

static cr_tensor *history_of(const cr_updater *updater, int h, int learnable) {
  return updater->history[h * updater->params + learnable]->data;
}

/* Moves the history of a block's parameters to one array. */
static crema_status gather_history(const cr_updater *updater, const cr_block *block, int h,
                                   cr_tensor **out) {
  const cr_block_tensors tensors = {updater->history + h * updater->params, false};
  CR_TRY(cr_tensor_create(updater->history_type, block->count, out));
  return cr_block_place(block, *out, tensors, updater->net->context);
}

/* An update computes in F64 where one of its values is F64, else in F32; what is held in another
 * type is converted parameter by parameter. */
static bool is_uniform(const cr_updater *updater, const cr_block *block) {
  const bool wide = block->diff_type == CREMA_F64 && block->type != CREMA_F64;
  return block->learns && !wide && updater->history_type == block->type;
}

static crema_status add_block(cr_updater *updater, int index) {
  const cr_block *block = &updater->blocks->block[index];
  block_update *update = &updater->block[index];
  for (int i = 0; i < block->parts; ++i) CR_TRY(add_history(updater, block->part[i].learnable));
  if (is_uniform(updater, block)) {
    const crema_shape shape = cr_shape_1(block->count);
    CR_TRY(CR_NEW(update->segment, block->parts, "a solver"));
    for (int h = 0; h < updater->row->histories; ++h) {
      CR_TRY(gather_history(updater, block, h, &update->history[h]));
    }
    return make_update(updater, &shape, block->type, &update->op);
  }
  for (int i = 0; i < block->parts; ++i) {
    const int learnable = block->part[i].learnable;
    const crema_shape *shape = crema_blob_shape(updater->net->learnable[learnable]);
    if (updater->cut != NULL) CR_TRY(make_cut(shape, &updater->cut[learnable]));
    CR_TRY(make_update(updater, shape, CREMA_F32, &updater->op[learnable]));
  }
  return CREMA_OK;
}

static cr_tensor *whole_history(const void *user, int block) {
  const cr_updater *updater = user;
  return updater->block[block].history[0];
}

crema_status cr_updater_create(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                               const cr_blocks *blocks, int replicas, cr_updater **out) {
  crema_net *net = blocks->net;
  crema_status status = CREMA_OK;
  cr_updater *updater = calloc(1, sizeof *updater);
  if (updater == NULL) return cr_fail_memory(sizeof *updater, "a solver");
  updater->net = net;
  updater->blocks = blocks;
  updater->replicas = replicas;
  updater->schedule = schedule;
  CR_TRY_GOTO(read_settings(updater, param), fail);
  updater->params = net->learnables;
  size_t params = (size_t)net->learnables;
  updater->op = calloc(params + 1, sizeof *updater->op);
  updater->history = calloc(2 * params + 1, sizeof *updater->history);
  bool cuts = updater->history_type == CREMA_F16;
  if (cuts) updater->cut = calloc(params + 1, sizeof *updater->cut);
  if (updater->op == NULL || updater->history == NULL || (cuts && updater->cut == NULL)) {
    status = cr_fail_memory(params * sizeof *updater->op, "a solver");
    goto fail;
  }
  CR_TRY_GOTO(CR_NEW(updater->block, blocks->count + 1, "a solver"), fail);
  for (int i = 0; i < blocks->count; ++i) CR_TRY_GOTO(add_block(updater, i), fail);
  if (param->larc) {
    const cr_larc_history history = {updater->history, whole_history, updater};
    CR_TRY_GOTO(cr_larc_create(param, blocks, &history, &updater->larc), fail);
  }
  *out = updater;
  return CREMA_OK;
fail:
  cr_updater_destroy(updater);
  return status;
}

void cr_updater_destroy(cr_updater *updater) {
  if (updater == NULL) return;
  cr_larc_destroy(updater->larc);
  if (updater->history != NULL) {
    for (int i = 0; i < cr_updater_history_count(updater); ++i) {
      crema_blob_destroy(updater->history[i]);
    }
  }
  for (int i = 0; updater->block != NULL && i < updater->blocks->count; ++i) {
    cr_tensor_destroy(updater->block[i].history[0]);
    cr_tensor_destroy(updater->block[i].history[1]);
    cr_op_destroy(updater->block[i].op);
    free(updater->block[i].segment);
  }
  if (updater->op != NULL) {
    for (int i = 0; i < updater->params; ++i) cr_op_destroy(updater->op[i]);
  }
  if (updater->cut != NULL) {
    for (int i = 0; i < updater->params; ++i) cr_op_destroy(updater->cut[i]);
  }
  free(updater->block);
  free(updater->history);
  free(updater->cut);
  free(updater->op);
  free(updater);
}

/* What the diffs are to be divided by to give the gradient of one pass of one replica. */
static double diff_scale(const cr_updater *updater) {
  return updater->net->grad_scale * updater->replicas;
}

/* One sum over the array of a block, whose gaps are zero. What does not learn has no array. */
static crema_status block_squares(const cr_updater *updater, const cr_block *block, double *out) {
  const cr_block_tensors gradients = {updater->net->learnable, true};
  if (block->learns) {
    CR_TRY(cr_block_collect(block, block->diff, gradients, 0, block->parts, updater->net->context));
    return cr_tensor_sumsq(block->diff, out);
  }
  *out = 0;
  for (int i = 0; i < block->parts; ++i) {
    double squares = 0;
    CR_TRY(cr_blob_sumsq_diff(updater->net->learnable[block->part[i].learnable], &squares));
    *out += squares;
  }
  return CREMA_OK;
}

/* The factor that brings the norm of all gradients down to clip_gradients; 1 when it is below. */
static crema_status clip_factor(const cr_updater *updater, double *out) {
  *out = 1;
  if (updater->clip < 0) return CREMA_OK;
  double sum = 0;
  for (int i = 0; i < updater->blocks->count; ++i) {
    double squares = 0;
    CR_TRY(block_squares(updater, &updater->blocks->block[i], &squares));
    sum += squares;
  }
  double norm = sqrt(sum) / diff_scale(updater);
  if (!(norm > (double)updater->clip)) return CREMA_OK;
  *out = (double)updater->clip / norm;
  cr_log_info("Gradient clipping: scaling down gradients (L2 norm %g > %g) by scale factor %g",
              norm, (double)updater->clip, *out);
  return CREMA_OK;
}

/* Parameters that are fixed (lr_mult 0) need no pass over memory while their momentum is zero, too:
 * step and history stay zero. */
static bool stands_still(const cr_updater *updater, int i) {
  cr_update_rule rule = updater->row->rule;
  if (rule != CR_UPDATE_SGD && rule != CR_UPDATE_NESTEROV) return false;
  return updater->net->lr_mult[i] == 0 && cr_tensor_is_zero(updater->history[i]->data);
}

/* Rounds what was computed to the types in which it is kept. */
static crema_status settle(cr_updater *updater, int i, crema_context *context) {
  cr_tensor *weight = updater->net->learnable[i]->data;
  for (int h = 0; h < updater->row->histories; ++h) {
    cr_tensor *history = history_of(updater, h, i);
    if (updater->cut != NULL) {
      CR_TRY(cr_op_run(updater->cut[i], context, (cr_tensor *[]){history, history}, NULL));
    }
    CR_TRY(cr_tensor_settle(history, context));
  }
  /* Files and the net have no more of a weight than single precision, unless it is a double. */
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
  *out = (update_step){.wide = wide, .rate = rounded(rate, wide), .correction = 1};
  double momentum = rounded(cr_momentum_at(updater->schedule, iteration, out->rate), wide);
  out->decay = rounded(cr_weight_decay_at(updater->schedule, iteration), wide);
  if (updater->row->rule == CR_UPDATE_ADAM) {
    double t = (double)iteration + 1;
    double second = sqrt(1 - pow((double)updater->momentum2, t));
    out->correction = rounded(second / (1 - pow(momentum, t)), wide);
  }
  out->scalars =
      (cr_op_scalars){.momentum = momentum,
                      .momentum2 = (double)updater->momentum2,
                      .rms_decay = (double)updater->rms_decay,
                      .delta = (double)updater->delta,
                      .grad_scale = rounded(clip, wide) / updater->iter_size / diff_scale(updater)};
}

/* What holds for the parameters of a block. */
static const update_step *step_of(const cr_updater *updater, int block) {
  const cr_block *b = &updater->blocks->block[block];
  const bool wide =
      b->type == CREMA_F64 || b->diff_type == CREMA_F64 || updater->history_type == CREMA_F64;
  return &updater->step[wide ? 1 : 0];
}

/* The rate and the decay of one parameter. */
static void factors_of(const cr_updater *updater, int i, const update_step *now, double *rate,
                       double *decay) {
  const float multiple = updater->net->lr_mult[i];
  double local = now->rate;
  if (updater->larc != NULL && multiple != 0) {
    const cr_larc_step larc = {updater->iteration, (float)now->rate, (float)now->scalars.momentum,
                               (float)now->scalars.grad_scale};
    local = (double)cr_larc_rate(updater->larc, i, &larc);
  }
  local = rounded(local * (double)multiple, now->wide);
  *decay = rounded(now->decay * (double)updater->net->decay_mult[i], now->wide);
  if (updater->decoupled) *decay = rounded(*decay * local, now->wide);
  *rate = rounded(local * now->correction, now->wide);
}

static crema_status update_parameter(cr_updater *updater, int i, const update_step *now,
                                     crema_context *context) {
  crema_blob *blob = updater->net->learnable[i];
  if (stands_still(updater, i)) {
    if (updater->keep_step) cr_tensor_set_zero(blob->diff);
    return CREMA_OK;
  }
  const bool two = updater->row->histories == 2;
  cr_tensor *tensors[] = {blob->data, blob->diff, history_of(updater, 0, i),
                          two ? history_of(updater, 1, i) : NULL};
  cr_op_scalars scalars = now->scalars;
  factors_of(updater, i, now, &scalars.rate, &scalars.decay);
  CR_TRY(cr_op_run(updater->op[i], context, tensors, &scalars));
  return settle(updater, i, context);
}

/* An array of a block and the tensors that lie in it. */
typedef struct block_array {
  cr_tensor *whole;
  cr_block_tensors tensors;
} block_array;

/* Weights, gradients, history 0, history 1; the last one is NULL where there is none. */
static void arrays_of(const cr_updater *updater, int index, block_array array[4]) {
  const cr_block *block = &updater->blocks->block[index];
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
  if (updater->clip >= 0 || updater->larc != NULL) return true;
  for (int i = 0; i < updater->blocks->count; ++i) {
    const cr_block *block = &updater->blocks->block[i];
    if (!block->learns) continue;
    if (updater->block[i].op == NULL || block->diff_type != block->type) return true;
  }
  return false;
}

crema_status cr_updater_begin(cr_updater *updater, double rate, int64_t iteration) {
  double clip = 1;
  CR_TRY(clip_factor(updater, &clip));
  if (updater->larc != NULL) CR_TRY(cr_larc_begin(updater->larc, iteration));
  updater->iteration = iteration;
  for (int wide = 0; wide < 2; ++wide) {
    find_step(updater, rate, iteration, clip, wide == 1, &updater->step[wide]);
  }
  return CREMA_OK;
}

crema_status cr_updater_prepare(cr_updater *updater, const cr_bucket *bucket,
                                crema_context *context) {
  const cr_block *block = &updater->blocks->block[bucket->block];
  const block_update *update = &updater->block[bucket->block];
  const update_step *now = step_of(updater, bucket->block);
  block_array array[4];
  if (update->op == NULL) return CREMA_OK;
  for (int i = bucket->first; i < bucket->last; ++i) {
    const cr_block_part *part = &block->part[i];
    cr_update_segment *segment = &update->segment[i];
    *segment = (cr_update_segment){.begin = part->begin, .count = part->count};
    factors_of(updater, part->learnable, now, &segment->rate, &segment->decay);
  }
  arrays_of(updater, bucket->block, array);
  for (int k = 0; k < 4; ++k) {
    if (array[k].whole == NULL) continue;
    CR_TRY(cr_block_collect(block, array[k].whole, array[k].tensors, bucket->first, bucket->last,
                            context));
  }
  return CREMA_OK;
}

crema_status cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                   crema_context *context) {
  const cr_block *block = &updater->blocks->block[bucket->block];
  const block_update *update = &updater->block[bucket->block];
  const update_step *now = step_of(updater, bucket->block);
  if (update->op == NULL) {
    for (int i = bucket->first; i < bucket->last; ++i) {
      CR_TRY(update_parameter(updater, block->part[i].learnable, now, context));
    }
    return CREMA_OK;
  }
  cr_tensor *tensors[] = {block->weight, block->diff, update->history[0], update->history[1]};
  cr_op_scalars scalars = now->scalars;
  scalars.segment = update->segment + bucket->first;
  scalars.segments = bucket->last - bucket->first;
  return cr_op_run(update->op, context, tensors, &scalars);
}

crema_status cr_updater_finish(cr_updater *updater, const cr_bucket *bucket,
                               crema_context *context) {
  const cr_block *block = &updater->blocks->block[bucket->block];
  block_array array[4];
  if (updater->block[bucket->block].op == NULL) return CREMA_OK;
  arrays_of(updater, bucket->block, array);
  for (int k = 0; k < 4; ++k) {
    if (array[k].whole == NULL || (k == 1 && !updater->keep_step)) continue;
    CR_TRY(cr_block_changed(block, array[k].whole, array[k].tensors, bucket->first, bucket->last,
                            context));
  }
  return CREMA_OK;
}

static crema_status update_block(cr_updater *updater, int index) {
  crema_context *context = updater->net->context;
  const cr_bucket all = {.block = index, .first = 0, .last = updater->blocks->block[index].parts};
  CR_TRY(cr_updater_prepare(updater, &all, context));
  CR_TRY(cr_updater_run_bucket(updater, &all, context));
  return cr_updater_finish(updater, &all, context);
}

crema_status cr_updater_run_still(cr_updater *updater) {
  for (int i = 0; i < updater->blocks->count; ++i) {
    if (!updater->blocks->block[i].learns) CR_TRY(update_block(updater, i));
  }
  return CREMA_OK;
}

crema_status cr_updater_run(cr_updater *updater, double rate, int64_t iteration) {
  CR_TRY(cr_updater_begin(updater, rate, iteration));
  for (int i = 0; i < updater->blocks->count; ++i) CR_TRY(update_block(updater, i));
  return CREMA_OK;
}

int cr_updater_history_count(const cr_updater *updater) {
  return updater->row->histories * updater->params;
}

crema_blob *cr_updater_history(cr_updater *updater, int index) {
  return updater->history[index];
}

const char *cr_updater_type(const cr_updater *updater) {
  return updater->row->type;
}

double *cr_updater_correlation(cr_updater *updater) {
  return cr_larc_correlation(updater->larc);
}
