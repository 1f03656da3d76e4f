/* Learning-rate policies, with base_lr b, gamma g, power p, iteration i:
 *
 *   fixed      b
 *   step       b g^floor(i / stepsize)
 *   exp        b g^i
 *   inv        b (1 + g i)^-p
 *   multistep  b g^(number of stepvalues reached)
 *   poly       b (1 - i / max_iter)^p
 *   sigmoid    b / (1 + exp(-g (i - stepsize)))
 */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/nearest.h"
#include "solver/solver.h"

typedef enum policy { FIXED, STEP, EXP, INV, MULTISTEP, POLY, SIGMOID, POLICIES } policy;

static const char *const policy_names[POLICIES] = {
    [FIXED] = "fixed",         [STEP] = "step", [EXP] = "exp",         [INV] = "inv",
    [MULTISTEP] = "multistep", [POLY] = "poly", [SIGMOID] = "sigmoid",
};

static policy find_policy(const Caffe__SolverParameter *param) {
  const char *name = param->lr_policy == NULL ? "" : param->lr_policy;
  policy found = FIXED;
  while (found < POLICIES && strcmp(name, policy_names[found]) != 0) ++found;
  return found;
}

crema_status cr_rate_check(const Caffe__SolverParameter *param) {
  policy found = find_policy(param);
  if (param->lr_policy == NULL) {
    return cr_fail(CREMA_E_PARSE,
                   "lr_policy is missing (fixed, step, exp, inv, multistep, poly "
                   "or sigmoid)");
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
  for (size_t i = 1; i < param->n_stepvalue; ++i) {
    if (param->stepvalue[i] >= param->stepvalue[i - 1]) continue;
    return cr_fail(CREMA_E_RANGE, "stepvalue must not fall, found %d after %d", param->stepvalue[i],
                   param->stepvalue[i - 1]);
  }
  return CREMA_OK;
}

float cr_rate_at(const Caffe__SolverParameter *param, int64_t iteration, int *current_step) {
  double base = (double)param->base_lr, gamma = (double)param->gamma, at = (double)iteration;
  double power = (double)param->power;
  switch (find_policy(param)) {
    case STEP:
      *current_step = (int)(iteration / param->stepsize);
      return (float)(base * pow(gamma, *current_step));
    case EXP: return (float)(base * pow(gamma, at));
    case INV: return (float)(base * pow(1 + gamma * at, -power));
    case MULTISTEP:
      if ((size_t)*current_step < param->n_stepvalue &&
          iteration >= param->stepvalue[*current_step]) {
        ++*current_step;
        cr_log_info("MultiStep Status: Iteration %lld, step = %d", (long long)iteration,
                    *current_step);
      }
      return (float)(base * pow(gamma, *current_step));
    case POLY:
      /* Past max_iter the base would be negative and its power not a number. */
      return (float)(base * pow(fmax(0, 1 - at / (double)param->max_iter), power));
    case SIGMOID: return (float)(base / (1 + exp(-gamma * (at - (double)param->stepsize))));
    case FIXED:
    case POLICIES: break;
  }
  return (float)base;
}
