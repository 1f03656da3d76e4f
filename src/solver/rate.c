/* Learning-rate policies, with base_lr b, gamma g, power p, iteration i:
 *
 *   fixed      b
 *   step       b g^floor(i / stepsize)
 *   exp        b g^i
 *   inv        b (1 + g i)^-p
 *   multistep  b g^(number of stepvalues reached)
 *   poly       m + (b - m) (1 - i / max_iter)^p, m = min_lr
 *   sigmoid    b / (1 + exp(-g (i - stepsize)))
 *   plateau    b g^(steps), a step whenever the mean loss has found no new minimum, nor was there
 *              a step, for plateau_winsize[steps] iterations (SSD)
 *
 * and, as NVCaffe does it: during the first rampup_interval iterations r + (b - r) (i /
 * rampup_interval)^2 with r = rampup_lr instead; never less than min_lr, where that is above 0.
 */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/nearest.h"
#include "solver/solver.h"

typedef enum policy { FIXED, STEP, EXP, INV, MULTISTEP, POLY, SIGMOID, PLATEAU, POLICIES } policy;

static const char *const policy_names[POLICIES] = {
    [FIXED] = "fixed",         [STEP] = "step", [EXP] = "exp",         [INV] = "inv",
    [MULTISTEP] = "multistep", [POLY] = "poly", [SIGMOID] = "sigmoid", [PLATEAU] = "plateau",
};

static policy find_policy(const Caffe__SolverParameter *param) {
  const char *name = param->lr_policy == NULL ? "" : param->lr_policy;
  policy found = FIXED;
  while (found < POLICIES && strcmp(name, policy_names[found]) != 0) ++found;
  return found;
}

static crema_status check_policy(const char *field, const char *found, const char *known[],
                                 size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(found, known[i]) == 0) return CREMA_OK;
  }
  const char *nearest = cr_nearest(found, known, count);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown %s '%s'; did you mean '%s'?", field, found,
                 nearest == NULL ? known[0] : nearest);
}

/* The schedules of momentum and weight decay. */
static crema_status check_factors(const Caffe__SolverParameter *param) {
  const char *momentum[] = {"fixed", "poly", "opt"}, *decay[] = {"fixed", "poly"};
  CR_TRY(check_policy("momentum_policy", param->momentum_policy, momentum, 3));
  CR_TRY(check_policy("weight_decay_policy", param->weight_decay_policy, decay, 2));
  bool poly = strcmp(param->momentum_policy, "poly") == 0 ||
              strcmp(param->weight_decay_policy, "poly") == 0;
  if (!poly || param->max_iter > 0) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "the policy 'poly' needs a max_iter above 0, found %d",
                 param->max_iter);
}

crema_status cr_rate_check(const Caffe__SolverParameter *param) {
  policy found = find_policy(param);
  if (param->lr_policy == NULL) {
    return cr_fail(CREMA_E_PARSE,
                   "lr_policy is missing (fixed, step, exp, inv, multistep, poly, sigmoid "
                   "or plateau)");
  }
  if (found == POLICIES) {
    const char *nearest = cr_nearest(param->lr_policy, policy_names, POLICIES);
    if (nearest == NULL) nearest = "fixed";
    return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown lr_policy '%s'; did you mean '%s'?",
                   param->lr_policy, nearest);
  }
  if (found == STEP && param->stepsize <= 0) {
    return cr_fail(CREMA_E_RANGE, "lr_policy 'step' needs a stepsize above 0, found %d",
                   param->stepsize);
  }
  if (found == POLY && param->max_iter <= 0) {
    return cr_fail(CREMA_E_RANGE, "lr_policy 'poly' needs a max_iter above 0, found %d",
                   param->max_iter);
  }
  if (found == PLATEAU && param->n_plateau_winsize == 0) {
    return cr_fail(CREMA_E_RANGE, "lr_policy 'plateau' needs plateau_winsize");
  }
  for (size_t i = 1; i < param->n_stepvalue; ++i) {
    if (param->stepvalue[i] >= param->stepvalue[i - 1]) continue;
    return cr_fail(CREMA_E_RANGE, "stepvalue must not fall, found %d after %d", param->stepvalue[i],
                   param->stepvalue[i - 1]);
  }
  if (!(param->min_lr >= 0) ||
      (found == POLY && param->min_lr > 0 && param->min_lr > param->base_lr)) {
    return cr_fail(CREMA_E_RANGE, "min_lr must lie between 0 and base_lr (%g), found %g",
                   (double)param->base_lr, (double)param->min_lr);
  }
  return check_factors(param);
}

/* The plateau policy's step at `iteration`. */
static void follow_plateau(const Caffe__SolverParameter *param, int64_t iteration, double loss,
                           cr_rate_state *state) {
  if ((float)loss < state->minimum_loss) {
    state->minimum_loss = (float)loss;
    state->last_event = iteration;
  }
  if ((size_t)state->step >= param->n_plateau_winsize) return;
  if (iteration < state->last_event + param->plateau_winsize[state->step]) return;
  ++state->step;
  state->last_event = iteration;
  cr_log_info("Plateau Status: Iteration %lld, step = %d", (long long)iteration, state->step);
}

static double by_policy(const Caffe__SolverParameter *param, int64_t iteration, double loss,
                        cr_rate_state *state) {
  double base = (double)param->base_lr, gamma = (double)param->gamma, at = (double)iteration;
  double power = (double)param->power, least = (double)param->min_lr;
  switch (find_policy(param)) {
    case STEP:
      state->step = (int)(iteration / param->stepsize);
      return base * pow(gamma, state->step);
    case EXP: return base * pow(gamma, at);
    case INV: return base * pow(1 + gamma * at, -power);
    case MULTISTEP:
      if ((size_t)state->step < param->n_stepvalue && iteration >= param->stepvalue[state->step]) {
        ++state->step;
        cr_log_info("MultiStep Status: Iteration %lld, step = %d", (long long)iteration,
                    state->step);
      }
      return base * pow(gamma, state->step);
    case POLY:
      /* Past max_iter the base would be negative and its power not a number. */
      return least + (base - least) * pow(fmax(0, 1 - at / (double)param->max_iter), power);
    case SIGMOID: return base / (1 + exp(-gamma * (at - (double)param->stepsize)));
    case PLATEAU:
      follow_plateau(param, iteration, loss, state);
      return base * pow(gamma, state->step);
    case FIXED:
    case POLICIES: break;
  }
  return base;
}

float cr_rate_at(const Caffe__SolverParameter *param, int64_t iteration, double loss,
                 cr_rate_state *state) {
  double rate;
  if (iteration < param->rampup_interval) {
    double share = (double)iteration / param->rampup_interval, from = (double)param->rampup_lr;
    rate = from + ((double)param->base_lr - from) * share * share;
  } else {
    rate = by_policy(param, iteration, loss, state);
  }
  return (float)(param->min_lr > 0 ? fmax(rate, (double)param->min_lr) : rate);
}

float cr_momentum_at(const Caffe__SolverParameter *param, int64_t iteration, float rate) {
  double base = (double)param->momentum, most = (double)param->max_momentum;
  if (strcmp(param->momentum_policy, "poly") == 0) {
    double share = fmin(1, (double)iteration / param->max_iter);
    return (float)(base + (most - base) * pow(share, (double)param->momentum_power));
  }
  if (strcmp(param->momentum_policy, "opt") == 0) {
    double root = 1 - 0.5 * sqrt((double)rate), best = root * root;
    return (float)(param->has_max_momentum ? fmin(best, most) : best);
  }
  return param->momentum;
}

float cr_weight_decay_at(const Caffe__SolverParameter *param, int64_t iteration) {
  if (strcmp(param->weight_decay_policy, "poly") != 0) return param->weight_decay;
  double share = fmin(1, (double)iteration / param->max_iter);
  return (float)((double)param->weight_decay * pow(share, (double)param->weight_decay_power));
}
