/* Update rules against the formulas in double precision, with clipping, iter_size, decay and
 * multipliers. */
#include <math.h>

#include "solver_case.h"

enum { WEIGHTS = 6, STEPS = 12 };

typedef struct rule_case {
  const char *text; /* of the solver file */
  cr_update_rule rule;
  double momentum, momentum2, rms_decay, delta, decay, clip;
  int iter_size;
  bool l1, decoupled;
} rule_case;

static const rule_case cases[] = {
    {"momentum: 0.9", CR_UPDATE_SGD, 0.9, 0.999, 0.99, 1e-8, 0, -1, 1, false, false},
    {"momentum: 0.9 weight_decay: 0.1 iter_size: 3", CR_UPDATE_SGD, 0.9, 0.999, 0.99, 1e-8, 0.1, -1,
     3, false, false},
    {"weight_decay: 0.1 regularization_type: 'L1' clip_gradients: 0.5", CR_UPDATE_SGD, 0, 0.999,
     0.99, 1e-8, 0.1, 0.5, 1, true, false},
    {"type: 'Nesterov' momentum: 0.8 weight_decay: 0.01", CR_UPDATE_NESTEROV, 0.8, 0.999, 0.99,
     1e-8, 0.01, -1, 1, false, false},
    {"type: 'AdaGrad' delta: 1e-4 iter_size: 2", CR_UPDATE_ADAGRAD, 0, 0.999, 0.99, 1e-4, 0, -1, 2,
     false, false},
    {"type: 'RMSProp' rms_decay: 0.9 delta: 1e-3 clip_gradients: 0.7", CR_UPDATE_RMSPROP, 0, 0.999,
     0.9, 1e-3, 0, 0.7, 1, false, false},
    {"type: 'AdaDelta' momentum: 0.95 delta: 1e-3 weight_decay: 0.02", CR_UPDATE_ADADELTA, 0.95,
     0.999, 0.99, 1e-3, 0.02, -1, 1, false, false},
    {"type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 1e-6 weight_decay: 0.02", CR_UPDATE_ADAM,
     0.9, 0.99, 0.99, 1e-6, 0.02, -1, 1, false, false},
    {"momentum: 0.9 weight_decay: 0.1 regularization_type: 'WD'", CR_UPDATE_SGD, 0.9, 0.999, 0.99,
     1e-8, 0.1, -1, 1, false, true},
    {"type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 1e-6 weight_decay: 0.2 "
     "regularization_type: 'WD'",
     CR_UPDATE_ADAM, 0.9, 0.99, 0.99, 1e-6, 0.2, -1, 1, false, true},
};

/* One weight; h holds its history. Returns the step. */
static double reference_step(const rule_case *k, double g, double h[2], double rate, int t) {
  switch (k->rule) {
    case CR_UPDATE_SGD: return h[0] = k->momentum * h[0] + rate * g;
    case CR_UPDATE_NESTEROV: {
      double old = h[0];
      h[0] = k->momentum * h[0] + rate * g;
      return (1 + k->momentum) * h[0] - k->momentum * old;
    }
    case CR_UPDATE_ADAGRAD: h[0] += g * g; return rate * g / (sqrt(h[0]) + k->delta);
    case CR_UPDATE_RMSPROP:
      h[0] = k->rms_decay * h[0] + (1 - k->rms_decay) * g * g;
      return rate * g / (sqrt(h[0]) + k->delta);
    case CR_UPDATE_ADADELTA: {
      h[0] = k->momentum * h[0] + (1 - k->momentum) * g * g;
      double u = g * sqrt((k->delta + h[1]) / (k->delta + h[0]));
      h[1] = k->momentum * h[1] + (1 - k->momentum) * u * u;
      return rate * u;
    }
    case CR_UPDATE_ADAM:
      h[0] = k->momentum * h[0] + (1 - k->momentum) * g;
      h[1] = k->momentum2 * h[1] + (1 - k->momentum2) * g * g;
      return rate * sqrt(1 - pow(k->momentum2, t)) / (1 - pow(k->momentum, t)) * h[0] /
             (sqrt(h[1]) + k->delta);
    case CR_UPDATE_DIRECTION:
    case CR_UPDATE_DESCENT: break; /* of LAMB: test_trajectories.c */
  }
  return 0;
}

static double gradient(int step, int i) {
  return sin(1.3 * step + 0.7 * i) * (1 + 0.1 * i);
}

/* Fills the diffs of both parameters: weights (6) and bias (2). Returns the norm of all. */
static double set_gradients(crema_net *net, int step) {
  double squares = 0;
  for (int p = 0; p < net->learnables; ++p) {
    float *diff;
    ok(crema_blob_mutable_cpu_diff(net->learnable[p], &diff));
    for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i) {
      diff[i] = (float)gradient(step, i + WEIGHTS * p);
      squares += (double)diff[i] * (double)diff[i];
    }
  }
  return sqrt(squares);
}

static void run_case(const rule_case *k) {
  solver_case c;
  char net_text[2048], text[512];
  /* The weights learn at twice the rate and decay half as much. */
  snprintf(net_text, sizeof net_text, "%s", small_net);
  char *at = strstr(net_text, "inner_product_param");
  assert_non_null(at);
  char tail[1024];
  snprintf(tail, sizeof tail, "param { lr_mult: 2 decay_mult: 0.5 } param { } %s", at);
  strcpy(at, tail);
  case_begin(&c);
  snprintf(text, sizeof text, "lr_policy: 'fixed' %s", k->text);
  case_load(&c, net_text, text);
  crema_net *net = crema_solver_net(c.solver);
  double w[WEIGHTS], h[WEIGHTS][2] = {{0}};
  float start[WEIGHTS], found[WEIGHTS];
  case_weights(&c, start);
  for (int i = 0; i < WEIGHTS; ++i) w[i] = (double)start[i];
  for (int step = 0; step < STEPS; ++step) {
    double norm = set_gradients(net, step);
    double factor = k->clip >= 0 && norm > k->clip ? k->clip / norm : 1;
    ok(cr_updater_run(c.solver->updater, 0.1f, step));
    for (int i = 0; i < WEIGHTS; ++i) {
      double g = gradient(step, i) * factor / k->iter_size;
      double sign = (double)((w[i] > 0) - (w[i] < 0));
      double apart = k->decoupled ? 0.2 * k->decay * 0.5 * w[i] : 0;
      if (!k->decoupled) g += k->decay * 0.5 * (k->l1 ? sign : w[i]);
      w[i] -= reference_step(k, g, h[i], 0.2, step + 1) + apart;
    }
  }
  case_weights(&c, found);
  for (int i = 0; i < WEIGHTS; ++i) {
    if (fabs((double)found[i] - w[i]) < 2e-5) continue;
    fail_msg("%s: weight %d is %.8g, not %.8g", k->text, i, (double)found[i], w[i]);
  }
  case_end(&c);
}

/* NVCaffe's layer-wise rates, with schedules of momentum and decay. The weights have lr_mult 2; the
 * bias has 0 and stays. */
static void run_larc(const char *policy, bool clips, const char *more, int iter_size) {
  solver_case c;
  char net_text[2048], text[512], tail[1024];
  snprintf(net_text, sizeof net_text, "%s", small_net);
  char *at = strstr(net_text, "inner_product_param");
  assert_non_null(at);
  snprintf(tail, sizeof tail, "param { lr_mult: 2 } param { lr_mult: 0 } %s", at);
  strcpy(at, tail);
  case_begin(&c);
  snprintf(
      text, sizeof text,
      "lr_policy: 'fixed' max_iter: %d momentum: 0.5 max_momentum: 0.8 momentum_policy: 'poly' "
      "weight_decay: 0.1 weight_decay_policy: 'poly' larc: true larc_eta: 0.3 %s %s",
      STEPS, policy, more);
  case_load(&c, net_text, text);
  double w[WEIGHTS], h[WEIGHTS] = {0};
  float start[WEIGHTS], found[WEIGHTS];
  case_weights(&c, start);
  for (int i = 0; i < WEIGHTS; ++i) w[i] = (double)start[i];
  for (int step = 0; step < STEPS; ++step) {
    double share = (double)step / STEPS, weight = 0, slope = 0;
    double momentum = 0.5 + 0.3 * share, decay = 0.1 * (1 - share);
    (void)set_gradients(crema_solver_net(c.solver), step);
    for (int i = 0; i < WEIGHTS; ++i) {
      double g = gradient(step, i) / iter_size;
      weight += w[i] * w[i];
      slope += g * g;
    }
    double local = (1 - momentum) * 0.3 * sqrt(weight) / sqrt(slope);
    double rate = 2 * (clips ? fmin(0.1, local) : 0.1 * local);
    ok(cr_updater_run(c.solver->updater, 0.1f, step));
    for (int i = 0; i < WEIGHTS; ++i) {
      h[i] = momentum * h[i] + rate * (gradient(step, i) / iter_size + decay * w[i]);
      w[i] -= h[i];
    }
  }
  case_weights(&c, found);
  for (int i = 0; i < WEIGHTS; ++i) {
    if (fabs((double)found[i] - w[i]) < 1e-6) continue;
    fail_msg("%s: weight %d is %.8g, not %.8g", policy, i, (double)found[i], w[i]);
  }
  const float *bias;
  ok(crema_blob_cpu_data(crema_solver_net(c.solver)->learnable[1], &bias));
  assert_true(bias[0] == 0 && bias[1] == 0);
  case_end(&c);
}

TEST(s4_44_larc_follows_its_formula) {
  run_larc("", false, "", 1);
  run_larc("larc_policy: 'scale'", false, "iter_size: 3", 3);
  run_larc("larc_policy: 'clip'", true, "", 1);
}

/* Norms of zero say nothing about the rate. */
CASE_TEST(s4_44_larc_without_norms_is_plain) {
  solver_case *c = *state;
  float *weight, found[WEIGHTS];
  case_load(c, small_net, "lr_policy: 'fixed' larc: true");
  crema_blob *blob = crema_solver_net(c->solver)->learnable[0];
  ok(crema_blob_mutable_cpu_data(blob, &weight));
  memset(weight, 0, WEIGHTS * sizeof *weight);
  (void)set_gradients(crema_solver_net(c->solver), 0);
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  case_weights(c, found);
  for (int i = 0; i < WEIGHTS; ++i) {
    assert_true(fabs((double)found[i] + 0.1 * gradient(0, i)) < 1e-6);
  }
}

TEST(rules_follow_their_formulas) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) run_case(&cases[i]);
}

CASE_TEST(keeps_the_step_for_snapshots_with_diffs) {
  solver_case *c = *state;
  float before[WEIGHTS], after[WEIGHTS];
  const float *diff;
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.5 snapshot_diff: true");
  case_weights(c, before);
  set_gradients(crema_solver_net(c->solver), 1);
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  case_weights(c, after);
  ok(crema_blob_cpu_diff(crema_solver_net(c->solver)->learnable[0], &diff));
  for (int i = 0; i < WEIGHTS; ++i) {
    assert_true(fabs((double)diff[i] - 0.1 * gradient(1, i)) < 1e-6);
    assert_true(fabs((double)(before[i] - after[i] - diff[i])) < 1e-6);
  }
}

CASE_TEST(frozen_parameters_stay) {
  solver_case *c = *state;
  float before[WEIGHTS], after[WEIGHTS];
  char net[2048];
  snprintf(net, sizeof net, "%s", small_net);
  char *at = strstr(net, "inner_product_param"), tail[1024];
  snprintf(tail, sizeof tail, "param { lr_mult: 0 } param { lr_mult: 1 } %s", at);
  strcpy(at, tail);
  case_load(c, net, "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.1");
  case_weights(c, before);
  for (int step = 0; step < 3; ++step) {
    set_gradients(crema_solver_net(c->solver), step);
    ok(cr_updater_run(c->solver->updater, 0.1f, step));
  }
  case_weights(c, after);
  assert_memory_equal(before, after, sizeof before);
  const float *bias;
  ok(crema_blob_cpu_data(crema_solver_net(c->solver)->learnable[1], &bias));
  assert_true(bias[0] != 0);
}

/* Gradients of all parameters count when they are clipped, also of several that are frozen. */
CASE_TEST(frozen_parameters_count_when_clipping) {
  static const char net_text[] =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
      "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
      "  param { lr_mult: 1 } param { lr_mult: 0 } inner_product_param { num_output: 2 } }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip' top: 'ip2'\n"
      "  param { lr_mult: 0 } param { lr_mult: 0 } inner_product_param { num_output: 2 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
  solver_case *c = *state;
  float found[WEIGHTS];
  case_load(c, net_text, "lr_policy: 'fixed' clip_gradients: 0.5");
  crema_net *net = crema_solver_net(c->solver);
  for (int only = -1; only < 4; ++only) {
    double squares = 0;
    float before[WEIGHTS];
    case_weights(c, before);
    for (int p = 0; p < 4; ++p) {
      float *diff;
      ok(crema_blob_mutable_cpu_diff(net->learnable[p], &diff));
      for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i) {
        diff[i] = only < 0 || p == only || p == 0 ? (float)gradient(p, i) : 0;
        squares += (double)diff[i] * (double)diff[i];
      }
    }
    ok(cr_updater_run(c->solver->updater, 0.1f, 0));
    case_weights(c, found);
    for (int i = 0; i < WEIGHTS; ++i) {
      const double step = 0.1 * gradient(0, i) * 0.5 / sqrt(squares);
      assert_true(fabs((double)found[i] - ((double)before[i] - step)) < 1e-6);
    }
  }
}

/* The step of a frozen parameter is zero, whatever its gradient was. */
TEST(frozen_parameters_have_no_step) {
  static const char *const types[] = {"SGD", "Nesterov", "RMSProp", "Adam", "LAMB"};
  char net[2048], text[256], tail[1024];
  snprintf(net, sizeof net, "%s", small_net);
  char *at = strstr(net, "inner_product_param");
  snprintf(tail, sizeof tail, "param { lr_mult: 0 } %s", at);
  strcpy(at, tail);
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
    solver_case c;
    const float *diff;
    case_begin(&c);
    snprintf(text, sizeof text, "lr_policy: 'fixed' snapshot_diff: true type: '%s'", types[k]);
    case_load(&c, net, text);
    set_gradients(crema_solver_net(c.solver), 1);
    if (strcmp(types[k], "LAMB") == 0) {
      float *strange;
      ok(crema_blob_mutable_cpu_diff(crema_solver_net(c.solver)->learnable[0], &strange));
      strange[1] = NAN;
    }
    ok(cr_updater_run(c.solver->updater, 0.1f, 0));
    ok(crema_blob_cpu_diff(crema_solver_net(c.solver)->learnable[0], &diff));
    for (int i = 0; i < WEIGHTS; ++i) assert_true(diff[i] == 0);
    float found[WEIGHTS];
    case_weights(&c, found);
    for (int i = 0; i < WEIGHTS; ++i) assert_true(isfinite(found[i]));
    case_end(&c);
  }
}

/* clip_gradients 0 leaves no gradient; only below 0 there is no limit. */
CASE_TEST(clipping_to_nothing) {
  solver_case *c = *state;
  float before[WEIGHTS], after[WEIGHTS];
  case_load(c, small_net, "lr_policy: 'fixed' clip_gradients: 0");
  case_weights(c, before);
  set_gradients(crema_solver_net(c->solver), 1);
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  case_weights(c, after);
  assert_memory_equal(before, after, sizeof before);
}

static int clippings;

static void count_clippings(void *user, crema_log_level level, const char *file, int line,
                            const char *text) {
  (void)user, (void)level, (void)file, (void)line;
  clippings += strstr(text, "Gradient clipping") != NULL;
}

/* Gradients are scaled when their norm is above the limit: not at the limit, nor where both are
 * 0. */
/* Rates and decays are rounded to single precision before anything is made of them. */
TEST(numbers_are_rounded_before_they_are_used) {
  enum { STEPS_RUN = 20 };
  int rates = 0, decays = 0;
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net,
            "lr_policy: 'fixed' weight_decay: 0.3 weight_decay_policy: 'poly' max_iter: 20");
  crema_net *net = crema_solver_net(c.solver);
  for (int step = 0; step < STEPS_RUN; ++step) {
    const double rate = 0.1 * pow(0.9, step), decay = (double)0.3f * (1 - (double)step / STEPS_RUN);
    float before[WEIGHTS], after[WEIGHTS], *diff;
    for (int decays_now = 0; decays_now < 2; ++decays_now) {
      net->lr_mult[0] = decays_now ? 1 : 3;
      net->decay_mult[0] = decays_now ? 3 : 0;
      case_weights(&c, before);
      crema_net_clear_param_diffs(net);
      ok(crema_blob_mutable_cpu_diff(net->learnable[0], &diff));
      for (int i = 0; i < WEIGHTS; ++i) diff[i] = decays_now ? 0 : (float)(i + 1) / 7.0f;
      ok(cr_updater_run(c.solver->updater, decays_now ? 1 : rate, step));
      case_weights(&c, after);
      const float factor = (float)((double)(float)(decays_now ? decay : rate) * 3);
      for (int i = 0; i < WEIGHTS; ++i) {
        const float moved = factor * (decays_now ? before[i] : (float)(i + 1) / 7.0f);
        assert_true(after[i] == before[i] - moved);
      }
    }
    rates += (float)((double)(float)rate * 3) != (float)(rate * 3);
    decays += (float)((double)(float)decay * 3) != (float)(decay * 3);
  }
  assert_true(rates > 0 && decays > 0); /* else nothing was shown */
  case_end(&c);
}

TEST(clipping_at_the_limit) {
  static const struct {
    float limit, gradient;
    int clippings;
  } rows[] = {{0.5f, 0.5f, 0}, {0.5f, 0.5000001f, 1}, {0, 0, 0}, {0, 0.25f, 1}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
    solver_case c;
    char text[64];
    float before[WEIGHTS], after[WEIGHTS], *diff;
    case_begin(&c);
    snprintf(text, sizeof text, "lr_policy: 'fixed' clip_gradients: %g", (double)rows[k].limit);
    case_load(&c, small_net, text);
    case_weights(&c, before);
    crema_net_clear_param_diffs(crema_solver_net(c.solver));
    crema_blob *blob = crema_solver_net(c.solver)->learnable[0];
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    for (int i = 0; i < WEIGHTS; ++i) diff[i] = i == 1 ? rows[k].gradient : 0;
    clippings = 0;
    crema_log_set(count_clippings, NULL, CREMA_LOG_INFO);
    ok(cr_updater_run(c.solver->updater, 1, 0));
    crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
    assert_int_equal(clippings, rows[k].clippings);
    case_weights(&c, after);
    for (int i = 0; i < WEIGHTS; ++i) {
      assert_true(after[i] == before[i] - (i == 1 ? rows[k].limit : 0));
    }
    case_end(&c);
  }
}

/* One gradient that is not a number affects its own weight and no other. */
CASE_TEST(a_norm_that_is_no_number_clips_nothing) {
  solver_case *c = *state;
  float before[WEIGHTS], after[WEIGHTS], *diff;
  case_load(c, small_net, "lr_policy: 'fixed' clip_gradients: 0.01");
  case_weights(c, before);
  set_gradients(crema_solver_net(c->solver), 1);
  crema_blob *blob = crema_solver_net(c->solver)->learnable[0];
  ok(crema_blob_mutable_cpu_diff(blob, &diff));
  diff[2] = NAN;
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  case_weights(c, after);
  for (int i = 0; i < WEIGHTS; ++i) {
    double expected = (double)before[i] - 0.1 * gradient(1, i);
    if (i == 2) assert_true(isnan(after[i]));
    else assert_true(fabs((double)after[i] - expected) < 1e-6);
  }
}

/* A parameter that is frozen while it moves, as by a resume with lr_mult 0, comes to rest. */
CASE_TEST(frozen_parameters_come_to_rest) {
  solver_case *c = *state;
  float start[WEIGHTS], found[WEIGHTS];
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.5");
  crema_net *net = crema_solver_net(c->solver);
  case_weights(c, start);
  set_gradients(net, 1);
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  net->lr_mult[0] = 0;
  for (int step = 1; step < 3; ++step) {
    set_gradients(net, 7);
    ok(cr_updater_run(c->solver->updater, 0.1f, step));
  }
  case_weights(c, found);
  for (int i = 0; i < WEIGHTS; ++i) {
    double expected = (double)start[i] - 0.1 * gradient(1, i) * (1 + 0.5 + 0.25);
    assert_true(fabs((double)found[i] - expected) < 1e-6);
  }
}

CASE_TEST(refuses) {
  solver_case *c = *state;
  case_refuse(c, "lr_policy: 'fixed' larc: true larc_policy: 'clamp'", CREMA_E_UNKNOWN_NAME,
              "unknown larc_policy 'clamp'");
  case_refuse(c, "lr_policy: 'fixed' type: 'Adam' momentum_policy: 'opt'", CREMA_E_ARGUMENT,
              "momentum_policy 'opt' is for SGD and Nesterov, not for Adam");
  case_refuse(c, "lr_policy: 'fixed' type: 'Nestorov'", CREMA_E_UNKNOWN_NAME, "'Nesterov'");
  case_refuse(c, "lr_policy: 'fixed' type: 'x'", CREMA_E_UNKNOWN_NAME,
              "unknown solver type 'x' (known: SGD, Nesterov, AdaGrad, RMSProp, AdaDelta, Adam, "
              "AdamW, LAMB, LARS)");
  case_refuse(c, "lr_policy: 'fixed' regularization_type: 'L3'", CREMA_E_UNKNOWN_NAME,
              "'L3' (known: L2, L1, WD)");
  case_refuse(c, "lr_policy: 'fixed' iter_size: 0", CREMA_E_RANGE, "iter_size");
  case_refuse(c, "lr_policy: 'fixed' type: 'RMSProp' rms_decay: 1", CREMA_E_RANGE, "rms_decay");
  case_refuse(c, "lr_policy: 'fixed' type: 'AdaGrad' momentum: 0.9", CREMA_E_RANGE,
              "momentum cannot be used with AdaGrad, found 0.9");
  case_refuse(c, "lr_policy: 'fixed' type: 'RMSProp' momentum: 0.9", CREMA_E_RANGE,
              "momentum cannot be used with RMSProp, found 0.9");
  cr_updater_destroy(NULL);
}

/* All types but those that are refused above, and what the first history has to be. */
CASE_TEST(types_have_momentum_and_larc) {
  static const char *const types[] = {"SGD",   "Nesterov", "AdaDelta", "Adam",
                                      "AdamW", "LAMB",     "LARS"};
  solver_case *c = *state;
  char text[256];
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    snprintf(text, sizeof text, "lr_policy: 'fixed' type: '%s' momentum: 0.9", types[i]);
    case_load(c, small_net, text);
    assert_int_equal(cr_updater_history_count(c->solver->updater),
                     i == 0 || i == 1 || i == 6 ? 2 : 4);
    snprintf(text, sizeof text, "lr_policy: 'fixed' type: '%s' larc: true larc_turbo: true",
             types[i]);
    const crema_status status = case_try_load(c, small_net, text);
    assert_int_equal(status, i == 2 || i > 4 ? CREMA_E_ARGUMENT : CREMA_OK);
  }
}

/* The types with rates of their own, and those that decay apart from the gradient. */
CASE_TEST(refuses_mixtures) {
  static const struct {
    const char *text;
    crema_status code;
    const char *words;
  } rows[] = {
      {"type: 'AdamW' regularization_type: 'L2'", CREMA_E_ARGUMENT, "no regularization_type 'L2'"},
      {"type: 'LAMB' regularization_type: 'L1'", CREMA_E_ARGUMENT, "no regularization_type 'L1'"},
      {"type: 'AdamW' momentum: 1", CREMA_E_RANGE, "momentum of AdamW must lie between 0 and 1"},
      {"type: 'AdamW' momentum: -0.1", CREMA_E_RANGE, "momentum of AdamW must lie between 0 and 1"},
      {"type: 'Adam' momentum: 1", CREMA_E_RANGE, "momentum of Adam must lie between 0 and 1"},
      {"type: 'Adam' momentum2: 2", CREMA_E_RANGE, "momentum2 of Adam must lie between 0 and 1"},
      {"type: 'Adam' delta: -1", CREMA_E_RANGE, "delta of Adam must not be negative"},
      {"type: 'LAMB' momentum2: 1", CREMA_E_RANGE, "momentum2 of LAMB must lie between 0 and 1"},
      {"type: 'LAMB' delta: -1", CREMA_E_RANGE, "delta of LAMB must not be negative"},
      {"type: 'LAMB' momentum_policy: 'opt'", CREMA_E_ARGUMENT, "not for LAMB"},
      {"type: 'LARS' larc: true", CREMA_E_ARGUMENT, "larc and LARS are two ways"},
      {"type: 'LAMB' larc: true", CREMA_E_ARGUMENT, "larc and LAMB are two ways"},
      {"larc: true local_lr_auto: true", CREMA_E_ARGUMENT, "larc and local_lr_auto are two ways"},
      {"type: 'LAMB' local_lr_auto: true", CREMA_E_ARGUMENT, "local_lr_auto and LAMB are two ways"},
      {"type: 'LARS' local_gw_ratio: 0", CREMA_E_RANGE, "local_gw_ratio must be above 0"},
      {"type: 'LAMP'", CREMA_E_UNKNOWN_NAME, "did you mean 'LAMB'?"},
  };
  solver_case *c = *state;
  char text[256];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    snprintf(text, sizeof text, "lr_policy: 'fixed' %s", rows[i].text);
    case_refuse(c, text, rows[i].code, rows[i].words);
  }
  case_load(c, small_net, "lr_policy: 'fixed' type: 'AdamW' regularization_type: 'WD'");
  case_load(c, small_net, "lr_policy: 'fixed' type: 'LARS' local_lr_auto: true momentum: 0.9");
}

/* Without norms there is no ratio: LAMB takes its direction, LARS its gradient as it is. A frozen
 * parameter of LAMB stays, whatever its directions were, and its step is zero. */
CASE_TEST(layer_wise_rates_without_norms) {
  solver_case *c = *state;
  float *weight, found[WEIGHTS];
  const float *diff;
  for (int lamb = 0; lamb < 2; ++lamb) {
    case_load(c, small_net,
              lamb ? "lr_policy: 'fixed' type: 'LAMB' momentum: 0.9 delta: 0"
                   : "lr_policy: 'fixed' type: 'LARS' momentum: 0.9 local_gw_ratio: 0.5");
    crema_net *net = crema_solver_net(c->solver);
    ok(crema_blob_mutable_cpu_data(net->learnable[0], &weight));
    memset(weight, 0, WEIGHTS * sizeof *weight);
    (void)set_gradients(net, 0);
    ok(cr_updater_run(c->solver->updater, 0.1f, 0));
    case_weights(c, found);
    for (int i = 1; i < WEIGHTS; ++i) {
      const double g = gradient(0, i), step = lamb ? (g > 0 ? 0.1 : -0.1) : 0.1 * g;
      assert_true(fabs((double)found[i] + step) < 1e-5);
    }
  }
  case_load(c, small_net, "lr_policy: 'fixed' type: 'LAMB' momentum: 0.9 snapshot_diff: true");
  crema_net *net = crema_solver_net(c->solver);
  float before[WEIGHTS];
  net->lr_mult[0] = 0;
  case_weights(c, before);
  (void)set_gradients(net, 1);
  ok(cr_updater_run(c->solver->updater, 0.1f, 0));
  case_weights(c, found);
  assert_memory_equal(before, found, sizeof before);
  ok(crema_blob_cpu_diff(net->learnable[0], &diff));
  for (int i = 0; i < WEIGHTS; ++i) assert_true(diff[i] == 0);
}

/* The rate of LARS knows of a decay that is part of the gradient, and of no other. */
CASE_TEST(rates_of_lars_and_decays) {
  static const char *const kinds[] = {"L2", "L1", "WD"};
  solver_case *c = *state;
  for (int k = 0; k < 3; ++k) {
    char text[256];
    float before[WEIGHTS], after[WEIGHTS];
    double weight = 0, slope = 0;
    snprintf(text, sizeof text,
             "lr_policy: 'fixed' type: 'LARS' local_gw_ratio: 0.5 weight_decay: 0.25 "
             "regularization_type: '%s'",
             kinds[k]);
    case_load(c, small_net, text);
    case_weights(c, before);
    set_gradients(crema_solver_net(c->solver), 1);
    ok(cr_updater_run(c->solver->updater, 0.1f, 0));
    case_weights(c, after);
    for (int i = 0; i < WEIGHTS; ++i) {
      weight += (double)before[i] * (double)before[i];
      slope += gradient(1, i) * gradient(1, i);
    }
    const double decay = k == 0 ? 0.25 : 0;
    const double rate = 0.1 * 0.5 * sqrt(weight) / (sqrt(slope) + decay * sqrt(weight));
    for (int i = 0; i < WEIGHTS; ++i) {
      const double w = (double)before[i], sign = (w > 0) - (w < 0);
      const double step = rate * (gradient(1, i) + 0.25 * (k == 1 ? sign : w));
      assert_true(fabs((double)after[i] - (w - step)) < 1e-6);
    }
  }
}

/* The new types resume bit for bit, from binary and HDF5 states, in every type of history. */
CASE_TEST(new_types_resume) {
  static const char *const types[] = {"AdamW", "LAMB", "LARS"};
  static const char *const more[] = {"", "snapshot_format: HDF5", "solver_data_type: FLOAT16",
                                     "solver_data_type: DOUBLE iter_size: 2 clip_gradients: 0.3"};
  solver_case *c = *state;
  char text[256], path[256];
  float expected[WEIGHTS], found[WEIGHTS];
  for (size_t i = 0; i < 12; ++i) {
    const bool hdf5 = i / 3 == 1;
    snprintf(text, sizeof text, "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 type: '%s' %s",
             types[i % 3], more[i / 3]);
    case_load_fed(c, small_net, text);
    assert_int_equal(cr_updater_history_count(c->solver->updater), i % 3 == 2 ? 2 : 4);
    case_train_and_save(c, 4);
    ok(crema_solver_step(c->solver, 5));
    case_weights(c, expected);
    case_load_fed(c, small_net, text);
    ok(crema_solver_restore(
        c->solver, case_path(c, hdf5 ? "s_iter_4.solverstate.h5" : "s_iter_4.solverstate", path)));
    ok(crema_solver_step(c->solver, 5));
    case_weights(c, found);
    assert_memory_equal(found, expected, sizeof found);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
