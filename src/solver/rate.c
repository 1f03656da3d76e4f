/* Learning-rate policies, with base_lr b, gamma g, power p, iteration i:
 *
 *     fixed       b
 *     step        b g^floor(i / stepsize)
 *     exp         b g^i
 *     inv         b (1 + g i)^-p
 *     multistep   b g^(number of stepvalues reached)
 *     poly        m + (b - m) (1 - i / max_iter)^p, m = min_lr
 *     sigmoid     b / (1 + exp(-g (i - stepsize)))
 *     plateau     b g^(steps), a step after plateau_winsize[steps] iterations without a step and
 *                 without a new minimum of the mean loss (SSD)
 *     multifixed  stagelr[s], s the first stage with i <= stageiter[s], or the last one (Intel)
 *     cosine      m + (b - m) (1 + cos(pi (i - u) / (max_iter - u))) / 2, m = min_lr, u the
 *                 iterations of the warm-up (Loshchilov and Hutter, 2017, without restarts)
 *     onecycle    from first = b / cycle_start_div to b at iteration cycle_rise max_iter - 1, then
 *                 to first / cycle_end_div at max_iter - 1, in half waves of a cosine (Smith and
 *                 Topin, 2018)
 *
 * At the start of training one of two schedules can replace the policy:
 *
 *     NVCaffe     r + (b - r) (i / rampup_interval)^2 for the first rampup_interval iterations,
 *                 r = rampup_lr
 *     Intel       s + (b - s) i / warmup_iter for the first warmup_iter iterations,
 *                 s = warmup_start_lr
 *
 * The rate is at least min_lr if that is above 0.
 *
 * Momentum m and weight decay d, each with its own q = min(1, i / max_iter)^power:
 *
 *     fixed       as given
 *     poly        m + (max_momentum - m) q; d + (max_weight_decay - d) q
 *     opt         momentum only: (1 - sqrt(rate) / 2)^2, at most max_momentum if given
 *     onecycle    momentum only: from max_momentum to m and back, as the rate of onecycle rises and
 *                 falls */
#include "solver/rate.h"

#include <math.h>
#include <string.h>

#include "core/buffer.h"
#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "solver/fields.h"

static const char *const rate_names[CR_RATE_POLICIES] = {
    [CR_RATE_FIXED] = "fixed",
    [CR_RATE_STEP] = "step",
    [CR_RATE_EXP] = "exp",
    [CR_RATE_INV] = "inv",
    [CR_RATE_MULTISTEP] = "multistep",
    [CR_RATE_POLY] = "poly",
    [CR_RATE_SIGMOID] = "sigmoid",
    [CR_RATE_PLATEAU] = "plateau",
    [CR_RATE_MULTIFIXED] = "multifixed",
    [CR_RATE_COSINE] = "cosine",
    [CR_RATE_ONECYCLE] = "onecycle",
};

static const char *const factor_names[CR_FACTOR_POLICIES] = {[CR_FACTOR_FIXED] = "fixed",
                                                             [CR_FACTOR_POLY] = "poly",
                                                             [CR_FACTOR_OPT] = "opt",
                                                             [CR_FACTOR_ONECYCLE] = "onecycle"};

/* Fails with the nearest name and all names. `name` NULL: the field is missing. */
static crema_status unknown_policy(const char *field, const char *name, const char *const *known,
                                   size_t count) {
  cr_buffer names = {0};
  crema_status status = CREMA_OK;
  for (size_t i = 0; i < count && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&names, "%s%s", i == 0 ? "" : ", ", known[i]);
  }
  if (status == CREMA_OK && name == NULL) {
    status = cr_fail(CREMA_E_PARSE, "%s is missing; known policies: %s", field, names.data);
  } else if (status == CREMA_OK) {
    const char *nearest = cr_did_you_mean(name, known, count);
    status =
        cr_field_fail(CREMA_E_UNKNOWN_NAME, field, "unknown %s '%.200s'%s%s%s; known policies: %s",
                      field, name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                      nearest ? "'?)" : "", names.data);
  }
  cr_buffer_free(&names);
  return status;
}

/* The index of `name` among the names of the policies that `field` may have. */
static crema_status find_policy(const char *field, const char *name, const char *const *known,
                                size_t count, size_t *out) {
  for (*out = 0; *out < count; ++*out) {
    if (strcmp(name, known[*out]) == 0) return CREMA_OK;
  }
  return unknown_policy(field, name, known, count);
}

static crema_status read_policies(const Caffe__SolverParameter *param, cr_schedule *out) {
  size_t rate, momentum, decay;
  if (param->lr_policy == NULL) {
    return unknown_policy("lr_policy", NULL, rate_names, CR_RATE_POLICIES);
  }
  CR_TRY(find_policy("lr_policy", param->lr_policy, rate_names, CR_RATE_POLICIES, &rate));
  CR_TRY(find_policy("momentum_policy", param->momentum_policy, factor_names, CR_FACTOR_POLICIES,
                     &momentum));
  CR_TRY(find_policy("weight_decay_policy", param->weight_decay_policy, factor_names, CR_FACTOR_OPT,
                     &decay));
  out->policy = (cr_rate_policy)rate;
  out->momentum_policy = (cr_factor_policy)momentum;
  out->weight_decay_policy = (cr_factor_policy)decay;
  return CREMA_OK;
}

static crema_status check_steps(const cr_schedule *s) {
  if (s->policy == CR_RATE_STEP && s->param->stepsize <= 0) {
    return cr_field_fail(CREMA_E_RANGE, "stepsize",
                         "lr_policy 'step' needs a stepsize above 0, found %d", s->param->stepsize);
  }
  if (s->policy == CR_RATE_PLATEAU && s->param->n_plateau_winsize == 0) {
    return cr_field_fail(CREMA_E_RANGE, "lr_policy", "lr_policy 'plateau' needs plateau_winsize");
  }
  for (size_t i = 1; i < s->param->n_stepvalue; ++i) {
    if (s->param->stepvalue[i] >= s->param->stepvalue[i - 1]) continue;
    return cr_field_fail(CREMA_E_RANGE, "stepvalue", "stepvalue must not fall, found %d after %d",
                         s->param->stepvalue[i], s->param->stepvalue[i - 1]);
  }
  return CREMA_OK;
}

static crema_status check_stages(const cr_schedule *s, size_t iterations) {
  if (s->policy != CR_RATE_MULTIFIXED) return CREMA_OK;
  if (s->param->n_stagelr == 0 || s->param->n_stagelr != iterations) {
    return cr_field_fail(CREMA_E_RANGE, s->param->n_stagelr == 0 ? "lr_policy" : "stagelr",
                         "lr_policy 'multifixed' needs a stageiter for each stagelr, found %zu "
                         "stagelr and %zu stageiter",
                         s->param->n_stagelr, iterations);
  }
  for (size_t i = 1; i < s->param->n_stagelr; ++i) {
    if (s->param->stageiter[i] > s->param->stageiter[i - 1]) continue;
    return cr_field_fail(CREMA_E_RANGE, "stageiter", "stageiter must rise, found %d after %d",
                         s->param->stageiter[i], s->param->stageiter[i - 1]);
  }
  return CREMA_OK;
}

static crema_status check_cycle(const cr_schedule *s) {
  const bool cycles = s->policy == CR_RATE_ONECYCLE || s->momentum_policy == CR_FACTOR_ONECYCLE;
  if (cycles && !((double)s->param->cycle_rise > 0 && (double)s->param->cycle_rise < 1)) {
    return cr_field_fail(CREMA_E_RANGE, "cycle_rise",
                         "cycle_rise must lie between 0 and 1, found %g",
                         (double)s->param->cycle_rise);
  }
  if (cycles && !((double)s->param->cycle_start_div >= 1)) {
    return cr_field_fail(CREMA_E_RANGE, "cycle_start_div",
                         "cycle_start_div must be at least 1, found %g",
                         (double)s->param->cycle_start_div);
  }
  if (cycles && !((double)s->param->cycle_end_div >= 1)) {
    return cr_field_fail(CREMA_E_RANGE, "cycle_end_div",
                         "cycle_end_div must be at least 1, found %g",
                         (double)s->param->cycle_end_div);
  }
  return CREMA_OK;
}

/* The iterations of the warm-up. */
static int start_of(const cr_schedule *s) {
  return s->param->warmup_iter > 0 ? s->param->warmup_iter : s->param->rampup_interval;
}

static crema_status check_start(const cr_schedule *s) {
  if (s->param->warmup_iter > 0 && s->param->rampup_interval > 0) {
    return cr_field_fail(CREMA_E_ARGUMENT, "warmup_iter",
                         "warmup_iter and rampup_interval are two ways to begin; give one");
  }
  if (s->policy == CR_RATE_COSINE && start_of(s) >= s->max_iter) {
    return cr_field_fail(CREMA_E_RANGE, "max_iter",
                         "lr_policy 'cosine' needs a max_iter above the %d iterations of the "
                         "warm-up, found %d",
                         start_of(s), s->max_iter);
  }
  return CREMA_OK;
}

static crema_status check_rate(const cr_schedule *s) {
  const bool low = s->policy == CR_RATE_POLY || s->policy == CR_RATE_COSINE;
  CR_TRY(check_steps(s));
  if ((low || s->policy == CR_RATE_ONECYCLE) && s->max_iter <= 0) {
    return cr_field_fail(CREMA_E_RANGE, "max_iter",
                         "lr_policy '%s' needs a max_iter above 0, found %d", rate_names[s->policy],
                         s->max_iter);
  }
  if (!((double)s->param->min_lr >= 0) ||
      (low && (double)s->param->min_lr > 0 && (double)s->param->min_lr > s->base_lr)) {
    return cr_field_fail(CREMA_E_RANGE, "min_lr",
                         "min_lr must lie between 0 and base_lr (%g), found %g", s->base_lr,
                         (double)s->param->min_lr);
  }
  CR_TRY(check_cycle(s));
  return check_start(s);
}

crema_status cr_schedule_read(const Caffe__SolverParameter *param, cr_schedule *out) {
  *out =
      (cr_schedule){.param = param, .base_lr = (double)param->base_lr, .max_iter = param->max_iter};
  CR_TRY(read_policies(param, out));
  CR_TRY(check_rate(out));
  CR_TRY(check_stages(out, param->n_stageiter));
  const char *name = factor_names[out->momentum_policy];
  bool ends = out->momentum_policy == CR_FACTOR_POLY || out->momentum_policy == CR_FACTOR_ONECYCLE;
  if (!ends && out->weight_decay_policy == CR_FACTOR_POLY) {
    name = factor_names[CR_FACTOR_POLY];
    ends = true;
  }
  if (!ends || out->max_iter > 0) return CREMA_OK;
  return cr_field_fail(CREMA_E_RANGE, "max_iter",
                       "the policy '%s' needs a max_iter above 0, found %d", name, out->max_iter);
}

/* Advances the step of the plateau policy. */
static void follow_plateau(const cr_schedule *s, int64_t iteration, double loss,
                           cr_rate_state *state) {
  if ((float)loss < state->minimum_loss) {
    state->minimum_loss = (float)loss;
    state->last_event = iteration;
  }
  if ((size_t)state->step >= s->param->n_plateau_winsize) return;
  if (iteration < state->last_event + s->param->plateau_winsize[state->step]) return;
  ++state->step;
  state->last_event = iteration;
  cr_log_info("Plateau Status: Iteration %lld, step = %d", (long long)iteration, state->step);
}

/* From `a` to `b` along half a wave, `share` between 0 and 1. */
static double along_cosine(double a, double b, double share) {
  return b + (a - b) * (1 + cos(M_PI * share)) / 2;
}

/* In a cycle over all iterations from `first` to `middle`, at the highest rate, to `last`. */
static double in_cycle(const cr_schedule *s, int64_t iteration, double first, double middle,
                       double last) {
  const double peak = (double)s->param->cycle_rise * s->max_iter - 1, end = (double)s->max_iter - 1;
  const double at = fmin((double)iteration, end);
  if (at < peak) return along_cosine(first, middle, at / peak);
  return along_cosine(middle, last, (at - peak) / (end - peak));
}

static double by_policy(const cr_schedule *s, int64_t iteration, double loss,
                        cr_rate_state *state) {
  double at = (double)iteration;
  switch (s->policy) {
    case CR_RATE_STEP:
      state->step = (int)(iteration / s->param->stepsize);
      return s->base_lr * pow((double)s->param->gamma, state->step);
    case CR_RATE_EXP: return s->base_lr * pow((double)s->param->gamma, at);
    case CR_RATE_INV:
      return s->base_lr * pow(1 + (double)s->param->gamma * at, -(double)s->param->power);
    case CR_RATE_MULTISTEP:
      if ((size_t)state->step < s->param->n_stepvalue &&
          iteration >= s->param->stepvalue[state->step]) {
        ++state->step;
        cr_log_info("MultiStep Status: Iteration %lld, step = %d", (long long)iteration,
                    state->step);
      }
      return s->base_lr * pow((double)s->param->gamma, state->step);
    case CR_RATE_POLY:
      /* Beyond max_iter the base would be negative and its power NaN. */
      return (double)s->param->min_lr +
             (s->base_lr - (double)s->param->min_lr) *
                 pow(fmax(0, 1 - at / (double)s->max_iter), (double)s->param->power);
    case CR_RATE_SIGMOID:
      return s->base_lr / (1 + exp(-(double)s->param->gamma * (at - (double)s->param->stepsize)));
    case CR_RATE_PLATEAU:
      follow_plateau(s, iteration, loss, state);
      return s->base_lr * pow((double)s->param->gamma, state->step);
    case CR_RATE_MULTIFIXED: {
      size_t stage = 0;
      while (stage + 1 < s->param->n_stagelr && iteration > s->param->stageiter[stage]) ++stage;
      return (double)s->param->stagelr[stage];
    }
    case CR_RATE_COSINE: {
      const double start = start_of(s), all = (double)s->max_iter - start;
      return along_cosine(s->base_lr, (double)s->param->min_lr, fmin(1, (at - start) / all));
    }
    case CR_RATE_ONECYCLE: {
      const double first = s->base_lr / (double)s->param->cycle_start_div;
      return in_cycle(s, iteration, first, s->base_lr, first / (double)s->param->cycle_end_div);
    }
    case CR_RATE_FIXED:
    case CR_RATE_POLICIES: break;
  }
  return s->base_lr;
}

double cr_rate_at(const cr_schedule *s, int64_t iteration, double loss, cr_rate_state *state) {
  double rate;
  if (iteration < s->param->rampup_interval) {
    double share = (double)iteration / s->param->rampup_interval;
    rate = (double)s->param->rampup_lr + (s->base_lr - (double)s->param->rampup_lr) * share * share;
  } else if (iteration < s->param->warmup_iter) {
    rate = (double)s->param->warmup_start_lr + (s->base_lr - (double)s->param->warmup_start_lr) *
                                                   ((double)iteration / s->param->warmup_iter);
  } else {
    rate = by_policy(s, iteration, loss, state);
  }
  return (double)s->param->min_lr > 0 ? fmax(rate, (double)s->param->min_lr) : rate;
}

double cr_momentum_at(const cr_schedule *s, int64_t iteration, double rate) {
  if (s->momentum_policy == CR_FACTOR_POLY) {
    double share = fmin(1, (double)iteration / s->max_iter);
    return (double)s->param->momentum +
           ((double)s->param->max_momentum - (double)s->param->momentum) *
               pow(share, (double)s->param->momentum_power);
  }
  if (s->momentum_policy == CR_FACTOR_OPT) {
    double root = 1 - 0.5 * sqrt(rate), best = root * root;
    return s->param->has_max_momentum ? fmin(best, (double)s->param->max_momentum) : best;
  }
  if (s->momentum_policy == CR_FACTOR_ONECYCLE) {
    return in_cycle(s, iteration, (double)s->param->max_momentum, (double)s->param->momentum,
                    (double)s->param->max_momentum);
  }
  return (double)s->param->momentum;
}

double cr_weight_decay_at(const cr_schedule *s, int64_t iteration) {
  if (s->weight_decay_policy != CR_FACTOR_POLY) return (double)s->param->weight_decay;
  const double share = fmin(1, (double)iteration / s->max_iter);
  return (double)s->param->weight_decay +
         ((double)s->param->max_weight_decay - (double)s->param->weight_decay) *
             pow(share, (double)s->param->weight_decay_power);
}
