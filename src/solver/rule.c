#include "solver/rule.h"

#include <string.h>

#include "core/buffer.h"
#include "core/did_you_mean.h"
#include "core/fail.h"
#include "net/net.h"
#include "solver/fields.h"

static const cr_rule_row rules[] = {
    {.type = "SGD", .rule = CR_UPDATE_SGD, .histories = 1, .averages = true},
    {.type = "Nesterov", .rule = CR_UPDATE_NESTEROV, .histories = 1, .averages = true},
    {.type = "AdaGrad", .rule = CR_UPDATE_ADAGRAD, .histories = 1, .no_momentum = true},
    {.type = "RMSProp", .rule = CR_UPDATE_RMSPROP, .histories = 1, .no_momentum = true},
    {.type = "AdaDelta", .rule = CR_UPDATE_ADADELTA, .histories = 2},
    {.type = "Adam", .rule = CR_UPDATE_ADAM, .histories = 2, .averages = true},
    {.type = "AdamW", .rule = CR_UPDATE_ADAM, .histories = 2, .averages = true, .apart = true},
    {.type = "LAMB",
     .rule = CR_UPDATE_DIRECTION,
     .histories = 2,
     .apart = true,
     .local = CR_LOCAL_LAMB},
    {.type = "LARS", .rule = CR_UPDATE_SGD, .histories = 1, .local = CR_LOCAL_LARS},
};

enum { RULES = sizeof rules / sizeof *rules };

static crema_status fail_unknown(const char *type, const char *const *names) {
  const char *nearest = cr_did_you_mean(type, names, RULES);
  cr_buffer known = {0};
  crema_status status = CREMA_OK;
  if (nearest != NULL) {
    return cr_field_fail(CREMA_E_UNKNOWN_NAME, "type",
                         "unknown solver type '%s'; did you mean '%s'?", type, nearest);
  }
  for (size_t i = 0; i < RULES && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&known, "%s%s", i == 0 ? "" : ", ", names[i]);
  }
  if (status == CREMA_OK) {
    status = cr_field_fail(CREMA_E_UNKNOWN_NAME, "type", "unknown solver type '%s' (known: %s)",
                           type, known.data);
  }
  cr_buffer_free(&known);
  return status;
}

static crema_status find_rule(const char *type, const cr_rule_row **out) {
  const char *names[RULES];
  for (size_t i = 0; i < RULES; ++i) {
    names[i] = rules[i].type;
    if (strcmp(type, rules[i].type) == 0) {
      *out = &rules[i];
      return CREMA_OK;
    }
  }
  return fail_unknown(type, names);
}

static crema_status read_decay(const Caffe__SolverParameter *param, cr_rule_settings *out) {
  const Caffe__SolverParameter empty = CAFFE__SOLVER_PARAMETER__INIT;
  const char *decay = param->regularization_type;
  out->l1 = strcmp(decay, "L1") == 0;
  out->decoupled = strcmp(decay, "WD") == 0;
  if (!out->l1 && !out->decoupled && strcmp(decay, "L2") != 0) {
    return cr_field_fail(CREMA_E_UNKNOWN_NAME, "regularization_type",
                         "unknown regularization_type '%s' (known: L2, L1, WD)", decay);
  }
  if (!out->row->apart || out->decoupled) return CREMA_OK;
  if (decay != empty.regularization_type) {
    return cr_field_fail(CREMA_E_ARGUMENT, "regularization_type",
                         "%s lets weights decay apart from the gradient (WD); it has no "
                         "regularization_type '%s', as Adam has",
                         out->row->type, decay);
  }
  out->decoupled = true;
  return CREMA_OK;
}

static crema_status read_local(const Caffe__SolverParameter *param, cr_rule_settings *out) {
  out->local = out->row->local;
  if (out->local == CR_LOCAL_NONE && param->local_lr_auto) out->local = CR_LOCAL_LARS;
  if (param->larc && out->local != CR_LOCAL_NONE) {
    return cr_field_fail(CREMA_E_ARGUMENT, "larc",
                         "larc and %s are two ways to find the rate of a parameter; give one",
                         out->row->local == CR_LOCAL_NONE ? "local_lr_auto" : out->row->type);
  }
  if (param->local_lr_auto && out->local != CR_LOCAL_LARS) {
    return cr_field_fail(CREMA_E_ARGUMENT, "local_lr_auto",
                         "local_lr_auto and %s are two ways to find the rate of a parameter; give "
                         "one",
                         out->row->type);
  }
  if (param->larc) out->local = CR_LOCAL_LARC;
  if (out->local == CR_LOCAL_LARS && !(param->local_gw_ratio > 0)) {
    return cr_field_fail(CREMA_E_RANGE, "local_gw_ratio",
                         "local_gw_ratio must be above 0, found %g", (double)param->local_gw_ratio);
  }
  if (!param->larc || !param->larc_turbo || out->row->averages) return CREMA_OK;
  return cr_field_fail(CREMA_E_ARGUMENT, "larc_turbo",
                       "larc_turbo needs an average of gradients as SGD, Nesterov and Adam have "
                       "it, which %s has not",
                       out->row->type);
}

static crema_status check_momentum(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                                   const cr_rule_row *row) {
  const bool scheduled = row->rule == CR_UPDATE_SGD || row->rule == CR_UPDATE_NESTEROV;
  if (row->no_momentum && param->momentum != 0) {
    return cr_field_fail(CREMA_E_RANGE, "momentum", "momentum cannot be used with %s, found %g",
                         row->type, (double)param->momentum);
  }
  if (scheduled || schedule->momentum_policy == CR_FACTOR_FIXED) return CREMA_OK;
  return cr_field_fail(CREMA_E_ARGUMENT, "momentum_policy",
                       "momentum_policy '%s' is for SGD and Nesterov, not for %s",
                       param->momentum_policy, row->type);
}

/* The averages of Adam, AdamW and LAMB are divided by 1 - m^t, which must not be 0. */
static crema_status check_averages(const Caffe__SolverParameter *param, const cr_rule_row *row) {
  const struct {
    const char *name;
    float value;
  } fields[] = {{"momentum", param->momentum}, {"momentum2", param->momentum2}};
  const bool corrected = row->apart || row->rule == CR_UPDATE_ADAM;
  for (size_t i = 0; corrected && i < 2; ++i) {
    if (fields[i].value >= 0 && fields[i].value < 1) continue;
    return cr_field_fail(CREMA_E_RANGE, fields[i].name,
                         "%s of %s must lie between 0 and 1 (1 excluded), found %g", fields[i].name,
                         row->type, (double)fields[i].value);
  }
  if (!corrected || param->delta >= 0) return CREMA_OK;
  return cr_field_fail(CREMA_E_RANGE, "delta", "delta of %s must not be negative, found %g",
                       row->type, (double)param->delta);
}

crema_status cr_rule_read(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                          cr_rule_settings *out) {
  *out = (cr_rule_settings){.momentum2 = param->momentum2,
                            .rms_decay = param->rms_decay,
                            .delta = param->delta,
                            .clip = param->clip_gradients,
                            .iter_size = param->iter_size,
                            .keep_step = param->snapshot_diff || param->debug_info};
  CR_TRY(find_rule(param->type, &out->row));
  CR_TRY(read_decay(param, out));
  CR_TRY(cr_net_dtype("solver_data_type", param->solver_data_type, &out->history_type));
  CR_TRY(check_momentum(param, schedule, out->row));
  CR_TRY(check_averages(param, out->row));
  CR_TRY(read_local(param, out));
  if (out->row->rule == CR_UPDATE_RMSPROP && !(out->rms_decay >= 0 && out->rms_decay < 1)) {
    return cr_field_fail(CREMA_E_RANGE, "rms_decay",
                         "rms_decay must lie between 0 and 1 (1 excluded), found %g",
                         (double)out->rms_decay);
  }
  if (out->iter_size >= 1) return CREMA_OK;
  return cr_field_fail(CREMA_E_RANGE, "iter_size", "iter_size must be at least 1, found %d",
                       out->iter_size);
}
