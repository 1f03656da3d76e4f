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
#include "ops/op.h"
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

struct cr_updater {
  const rule_row *row;
  crema_net *net;
  bool l1, decoupled; /* regularization_type; neither: L2 */
  bool keep_step;     /* leave the step in the diff, for snapshots with diffs and debug_info */
  const cr_schedule *schedule; /* of momentum and weight decay */
  float momentum2, rms_decay, delta, clip;
  int iter_size;
  int params;
  cr_larc *larc;            /* NULL without larc */
  crema_dtype history_type; /* of solver_data_type */
  cr_op **op;               /* one per parameter */
  cr_op **cut;              /* likewise; NULL unless the history is in half precision */
  crema_blob **history;     /* row->histories * params */
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
  return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown solver type '%s'%s%s%s", type,
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
    return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown regularization_type '%s' (known: L2, L1, WD)",
                   decay);
  }
  CR_TRY(cr_net_dtype("solver_data_type", param->solver_data_type, &updater->history_type));
  updater->momentum2 = param->momentum2;
  updater->rms_decay = param->rms_decay;
  updater->delta = param->delta;
  updater->clip = param->clip_gradients;
  updater->iter_size = param->iter_size;
  updater->keep_step = param->snapshot_diff || param->debug_info;
  if (updater->row->no_momentum && param->momentum != 0) {
    return cr_fail(CREMA_E_RANGE, "momentum cannot be used with %s, found %g", updater->row->type,
                   (double)param->momentum);
  }
  bool scheduled = updater->row->rule == CR_UPDATE_SGD || updater->row->rule == CR_UPDATE_NESTEROV;
  if (!scheduled && updater->schedule->momentum_policy != CR_FACTOR_FIXED) {
    return cr_fail(CREMA_E_ARGUMENT, "momentum_policy '%s' is for SGD and Nesterov, not for %s",
                   param->momentum_policy, updater->row->type);
  }
  if (param->larc && param->larc_turbo && !updater->row->averages) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "larc_turbo needs an average of gradients as SGD, Nesterov and Adam have it, "
                   "which %s has not",
                   updater->row->type);
  }
  if (updater->row->rule == CR_UPDATE_RMSPROP &&
      !(updater->rms_decay >= 0 && updater->rms_decay < 1)) {
    return cr_fail(CREMA_E_RANGE, "rms_decay must lie between 0 and 1 (1 excluded), found %g",
                   (double)updater->rms_decay);
  }
  if (updater->iter_size < 1) {
    return cr_fail(CREMA_E_RANGE, "iter_size must be at least 1, found %d", updater->iter_size);
  }
  return CREMA_OK;
}

/* The op that cuts a history of this shape to what half precision can hold. */
static crema_status make_cut(const crema_shape *shape, cr_op **out) {
  cr_op_desc desc = {.kind = CR_OP_UNARY_FWD, .type = CREMA_F32};
  crema_status status = CREMA_OK;
  desc.u.unary.function = CR_UNARY_CLIP;
  desc.u.unary.alpha = -LARGEST_HALF;
  desc.u.unary.beta = LARGEST_HALF;
  CR_TRY_GOTO(cr_op_desc_add(&desc, shape, CREMA_F32), fail);
  CR_TRY_GOTO(cr_op_desc_add(&desc, shape, CREMA_F32), fail);
  return cr_op_create(&desc, out);
fail:
  cr_op_desc_free(&desc);
  return status;
}

/* The ops and the history of parameter `i`. */
static crema_status add_param(cr_updater *updater, int i) {
  const crema_shape *shape = crema_blob_shape(updater->net->learnable[i]);
  cr_op_desc desc = {.kind = updater->keep_step ? CR_OP_UPDATE_KEEP : CR_OP_UPDATE,
                     .type = CREMA_F32};
  desc.u.update.rule = updater->row->rule;
  desc.u.update.l1 = updater->l1;
  desc.u.update.decoupled = updater->decoupled;
  crema_status status = CREMA_OK;
  if (updater->cut != NULL) CR_TRY(make_cut(shape, &updater->cut[i]));
  for (int h = 0; h < updater->row->histories; ++h) {
    CR_TRY(cr_blob_create_typed(shape, updater->history_type, CREMA_F32,
                                &updater->history[h * updater->params + i]));
  }
  for (int arg = 0; arg < 2 + updater->row->histories; ++arg) {
    CR_TRY_GOTO(cr_op_desc_add(&desc, shape, CREMA_F32), fail);
  }
  if (updater->row->histories == 1) CR_TRY_GOTO(cr_op_desc_add_absent(&desc), fail);
  return cr_op_create(&desc, &updater->op[i]);
fail:
  cr_op_desc_free(&desc);
  return status;
}

crema_status cr_updater_create(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                               crema_net *net, cr_updater **out) {
  crema_status status = CREMA_OK;
  cr_updater *updater = calloc(1, sizeof *updater);
  if (updater == NULL) return cr_fail_memory(sizeof *updater, "a solver");
  updater->net = net;
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
  for (int i = 0; i < updater->params; ++i) CR_TRY_GOTO(add_param(updater, i), fail);
  if (param->larc) {
    CR_TRY_GOTO(cr_larc_create(param, net, updater->history, &updater->larc), fail);
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
  if (updater->op != NULL) {
    for (int i = 0; i < updater->params; ++i) cr_op_destroy(updater->op[i]);
  }
  if (updater->cut != NULL) {
    for (int i = 0; i < updater->params; ++i) cr_op_destroy(updater->cut[i]);
  }
  free(updater->history);
  free(updater->cut);
  free(updater->op);
  free(updater);
}

/* The factor that brings the norm of all gradients down to clip_gradients; 1 when it is below. */
static crema_status clip_factor(const cr_updater *updater, double *out) {
  *out = 1;
  if (updater->clip < 0) return CREMA_OK;
  double sum = 0;
  for (int i = 0; i < updater->params; ++i) {
    double squares;
    CR_TRY(cr_blob_sumsq_diff(updater->net->learnable[i], &squares));
    sum += squares;
  }
  double norm = sqrt(sum) / updater->net->grad_scale;
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
static crema_status settle(cr_updater *updater, int i) {
  crema_context *context = updater->net->context;
  cr_tensor *weight = updater->net->learnable[i]->data;
  for (int h = 0; h < updater->row->histories; ++h) {
    cr_tensor *history = updater->history[h * updater->params + i]->data;
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

/* What holds for all parameters that are updated in one precision. */
typedef struct step {
  bool wide; /* double precision; else all numbers are rounded to single */
  double rate, decay, correction;
  cr_op_scalars scalars;
} step;

static double rounded(double value, bool wide) {
  return wide ? value : (double)(float)value;
}

static void find_step(const cr_updater *updater, double rate, int64_t iteration, double clip,
                      bool wide, step *out) {
  *out = (step){.wide = wide, .rate = rounded(rate, wide), .correction = 1};
  double momentum = rounded(cr_momentum_at(updater->schedule, iteration, out->rate), wide);
  out->decay = rounded(cr_weight_decay_at(updater->schedule, iteration), wide);
  if (updater->row->rule == CR_UPDATE_ADAM) {
    double t = (double)iteration + 1;
    double second = sqrt(1 - pow((double)updater->momentum2, t));
    out->correction = rounded(second / (1 - pow(momentum, t)), wide);
  }
  out->scalars = (cr_op_scalars){
      .momentum = momentum,
      .momentum2 = (double)updater->momentum2,
      .rms_decay = (double)updater->rms_decay,
      .delta = (double)updater->delta,
      .grad_scale = rounded(clip, wide) / updater->iter_size / updater->net->grad_scale};
}

/* Whether the update of parameter i computes in double precision. */
static bool is_wide(const cr_updater *updater, int i) {
  const crema_blob *blob = updater->net->learnable[i];
  return cr_tensor_type(blob->data) == CREMA_F64 || cr_tensor_type(blob->diff) == CREMA_F64 ||
         updater->history_type == CREMA_F64;
}

static crema_status local_rate(const cr_updater *updater, int i, int64_t iteration, const step *now,
                               double *out) {
  float multiple = updater->net->lr_mult[i], rate = 0;
  *out = now->rate;
  if (updater->larc != NULL && multiple != 0) {
    const cr_larc_step larc = {iteration, (float)now->rate, (float)now->scalars.momentum,
                               (float)now->scalars.grad_scale};
    CR_TRY(cr_larc_rate(updater->larc, i, &larc, &rate));
    *out = (double)rate;
  }
  *out = rounded(*out * (double)multiple, now->wide);
  return CREMA_OK;
}

static crema_status update_param(cr_updater *updater, int i, int64_t iteration, step *now) {
  crema_net *net = updater->net;
  crema_blob *blob = net->learnable[i];
  bool two = updater->row->histories == 2;
  cr_tensor *tensors[] = {blob->data, blob->diff, updater->history[i]->data,
                          two ? updater->history[updater->params + i]->data : NULL};
  double local = 0, taken = rounded(now->decay * (double)net->decay_mult[i], now->wide);
  CR_TRY(local_rate(updater, i, iteration, now, &local));
  if (updater->decoupled) taken = rounded(taken * local, now->wide);
  now->scalars.decay = taken;
  now->scalars.rate = rounded(local * now->correction, now->wide);
  CR_TRY(cr_op_run(updater->op[i], net->context, tensors, &now->scalars));
  return settle(updater, i);
}

crema_status cr_updater_run(cr_updater *updater, double rate, int64_t iteration) {
  double clip = 1;
  step now[2];
  CR_TRY(clip_factor(updater, &clip));
  for (int wide = 0; wide < 2; ++wide) {
    find_step(updater, rate, iteration, clip, wide == 1, &now[wide]);
  }
  for (int i = 0; i < updater->params; ++i) {
    if (stands_still(updater, i)) {
      if (updater->keep_step) cr_tensor_set_zero(updater->net->learnable[i]->diff);
      continue;
    }
    CR_TRY(update_param(updater, i, iteration, &now[is_wide(updater, i) ? 1 : 0]));
  }
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
