/* Layer-wise rates that follow the correlation of gradient and momentum (larc_turbo); larc without
 * it is in test_update.c. */
#include <math.h>

#include "solver_case.h"

enum { WEIGHTS = 6, STEPS = 12 };

static double gradient(int step, int i) {
  return sin(0.4 * step + 0.7 * i) * (1 + 0.1 * i);
}

static void set_gradients(crema_net *net, int step) {
  for (int p = 0; p < net->learnables; ++p) {
    float *diff;
    assert_int_equal(crema_blob_mutable_cpu_diff(net->learnable[p], &diff), CREMA_OK);
    for (int i = 0; i < crema_blob_count(net->learnable[p]); ++i) {
      diff[i] = (float)gradient(step, i + WEIGHTS * p);
    }
  }
}

static double dot(const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < WEIGHTS; ++i) sum += a[i] * b[i];
  return sum;
}

static void run(const char *policy, bool clips, bool nesterov) {
  solver_case c;
  char text[256];
  double w[WEIGHTS], h[WEIGHTS] = {0}, correlation = 0;
  float start[WEIGHTS], found[WEIGHTS];
  case_begin(&c);
  snprintf(text, sizeof text,
           "lr_policy: 'fixed' momentum: 0.5 larc: true larc_eta: 0.3 larc_turbo: true %s %s",
           policy, nesterov ? "type: 'Nesterov'" : "");
  case_load(&c, small_net, text);
  case_weights(&c, start);
  for (int i = 0; i < WEIGHTS; ++i) w[i] = (double)start[i];
  for (int step = 0; step < STEPS; ++step) {
    double g[WEIGHTS];
    for (int i = 0; i < WEIGHTS; ++i) g[i] = (double)(float)gradient(step, i);
    double local = 0.5 * 0.3 * sqrt(dot(w, w) / dot(g, g));
    if (step > 1) {
      correlation = 0.95 * correlation + 0.05 * dot(g, h) / sqrt(dot(g, g) * dot(h, h));
      local *= 1 - 0.9 * correlation;
    }
    double rate = clips ? fmin(0.1, local) : 0.1 * local;
    set_gradients(crema_solver_net(c.solver), step);
    assert_int_equal(cr_updater_run(c.solver->updater, 0.1f, step), CREMA_OK);
    for (int i = 0; i < WEIGHTS; ++i) {
      double old = h[i];
      h[i] = 0.5 * old + rate * g[i];
      w[i] -= nesterov ? 1.5 * h[i] - 0.5 * old : h[i];
    }
    assert_true(fabs(cr_updater_correlation(c.solver->updater)[0] - correlation) < 1e-6);
  }
  assert_true(correlation > 0.2); /* it does matter */
  case_weights(&c, found);
  for (int i = 0; i < WEIGHTS; ++i) {
    if (fabs((double)found[i] - w[i]) < 1e-6) continue;
    fail_msg("%s: weight %d is %.8g, not %.8g", text, i, (double)found[i], w[i]);
  }
  case_end(&c);
}

TEST(s4_44_turbo_follows_its_formula) {
  run("", false, false);
  run("larc_policy: 'clip'", true, false);
  run("", false, true);
}

/* Parameters without a gradient or a history, and gradients that are no numbers, correlate with
 * nothing. */
TEST(s4_44_turbo_without_norms) {
  solver_case c;
  float *diff;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.5 larc: true larc_turbo: true");
  crema_net *net = crema_solver_net(c.solver);
  const double *correlation = cr_updater_correlation(c.solver->updater);
  crema_net_clear_param_diffs(net);
  assert_int_equal(cr_updater_run(c.solver->updater, 0.1f, 2), CREMA_OK);
  assert_true(correlation[0] == 0 && correlation[1] == 0);
  set_gradients(net, 1);
  assert_int_equal(cr_updater_run(c.solver->updater, 0.1f, 3), CREMA_OK);
  assert_true(correlation[0] == 0);
  set_gradients(net, 1);
  assert_int_equal(crema_blob_mutable_cpu_diff(net->learnable[0], &diff), CREMA_OK);
  diff[2] = INFINITY;
  assert_int_equal(cr_updater_run(c.solver->updater, 0.1f, 4), CREMA_OK);
  assert_true(correlation[0] == 0);
  case_end(&c);
}

/* The history is read where updates have it: nothing is copied back and forth. */
TEST(s4_44_turbo_moves_no_history) {
  solver_case c;
  const float *before, *after;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.5 larc: true larc_turbo: true");
  crema_blob *history = cr_updater_history(c.solver->updater, 0);
  ok(crema_blob_cpu_data(history, &before));
  for (int step = 0; step < 3; ++step) {
    set_gradients(crema_solver_net(c.solver), step);
    ok(cr_updater_run(c.solver->updater, 0.1f, step));
    ok(crema_blob_cpu_data(history, &after));
    assert_ptr_equal(after, before);
  }
  case_end(&c);
}

/* Without larc, larc_turbo changes nothing. */
TEST(turbo_alone_is_nothing) {
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' larc_turbo: true type: 'RMSProp'");
  assert_null(cr_updater_correlation(c.solver->updater));
  case_end(&c);
}

/* ---- states ---- */

static const char *const turbo =
    "lr_policy: 'fixed' momentum: 0.9 larc: true larc_eta: 0.5 larc_turbo: true";

TEST(states_resume_with_their_correlation) {
  solver_case c;
  float expected[WEIGHTS], found[WEIGHTS];
  char path[256];
  case_begin_fed(&c, small_net, turbo);
  case_train_and_save(&c, 6);
  double kept = cr_updater_correlation(c.solver->updater)[0];
  assert_true(kept != 0);
  assert_int_equal(crema_solver_step(c.solver, 5), CREMA_OK);
  case_weights(&c, expected);
  /* Also in a solver that has another one by now. */
  for (int fresh = 1; fresh >= 0; --fresh) {
    if (fresh) case_load(&c, small_net, turbo);
    assert_int_equal(crema_solver_restore(c.solver, case_path(&c, "s_iter_6.solverstate", path)),
                     CREMA_OK);
    assert_true(cr_updater_correlation(c.solver->updater)[0] == kept);
    assert_int_equal(crema_solver_step(c.solver, 5), CREMA_OK);
    case_weights(&c, found);
    assert_memory_equal(found, expected, sizeof found);
  }
  case_end(&c);
}

static void expect_restore(solver_case *c, const Caffe__SolverState *saved, crema_status code,
                           const char *words) {
  char path[256];
  assert_int_equal(cr_message_write_binary(&saved->base, case_path(c, "new.solverstate", path)),
                   CREMA_OK);
  assert_int_equal(crema_solver_restore(c->solver, path), code);
  if (words != NULL) assert_non_null(strstr(crema_error_text(), words));
}

TEST(altered_correlations) {
  static const double wrong[] = {NAN, 1.5, -2, INFINITY};
  solver_case c;
  char path[256];
  ProtobufCMessage *message = NULL;
  case_begin_fed(&c, small_net, turbo);
  case_train_and_save(&c, 4);
  assert_int_equal(cr_message_read_binary(&caffe__solver_state__descriptor,
                                          case_path(&c, "s_iter_4.solverstate", path), &message),
                   CREMA_OK);
  Caffe__SolverState *saved = (Caffe__SolverState *)message;
  Caffe__CremaState *extra = saved->crema_state;
  double value = extra->correlation[1];
  assert_int_equal(extra->n_correlation, 2);
  for (size_t i = 0; i < 2 * sizeof wrong / sizeof *wrong; ++i) {
    const double before = extra->correlation[i % 2];
    extra->correlation[i % 2] = wrong[i / 2];
    expect_restore(&c, saved, CREMA_E_CORRUPT, "correlation");
    extra->correlation[i % 2] = before;
  }
  extra->n_correlation = 1;
  expect_restore(&c, saved, CREMA_E_SHAPE, "correlations of 1 parameters");
  /* A state from before larc_turbo was asked for. */
  extra->n_correlation = 0;
  expect_restore(&c, saved, CREMA_OK, NULL);
  assert_true(cr_updater_correlation(c.solver->updater)[1] == 0);
  extra->n_correlation = 2;
  expect_restore(&c, saved, CREMA_OK, NULL);
  assert_true(cr_updater_correlation(c.solver->updater)[1] == value);
  /* So is one that Caffe wrote. */
  saved->crema_state = NULL;
  expect_restore(&c, saved, CREMA_OK, NULL);
  assert_true(cr_updater_correlation(c.solver->updater)[1] == 0);
  saved->crema_state = extra;
  cr_message_free(message);
  case_end(&c);
}

TEST(refuses) {
  static const char *const types[] = {"AdaGrad", "RMSProp", "AdaDelta"};
  solver_case c;
  char text[256], words[128];
  case_begin(&c);
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    snprintf(text, sizeof text, "lr_policy: 'fixed' larc: true larc_turbo: true type: '%s'",
             types[i]);
    snprintf(words, sizeof words, "which %s has not", types[i]);
    case_refuse(&c, text, CREMA_E_ARGUMENT, words);
  }
  case_load(&c, small_net,
            "lr_policy: 'fixed' larc: true larc_turbo: true type: 'Adam' momentum: 0.9");
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
