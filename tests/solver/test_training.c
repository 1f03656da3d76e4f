/* The training loop: callbacks, tests, reports, and what a solver file may say wrongly. */
#include <math.h>

#include "solver_case.h"

/* ---- callbacks ---- */

typedef struct witness {
  int64_t passes, progresses, polls;
  crema_solver_progress last;
  double losses[64];
  crema_solver_action answer;
  int64_t answer_at; /* poll that gets the answer */
} witness;

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  witness *w = user;
  assert_int_equal(pass, w->passes++);
  return case_feed(NULL, net, pass);
}

static void progress(void *user, const crema_solver_progress *p) {
  witness *w = user;
  if (w->progresses < 64) w->losses[w->progresses] = p->loss;
  ++w->progresses;
  w->last = *p;
}

static crema_solver_action poll(void *user) {
  witness *w = user;
  return ++w->polls == w->answer_at ? w->answer : CREMA_SOLVER_CONTINUE;
}

static void watch(solver_case *c, witness *w) {
  *w = (witness){.answer = CREMA_SOLVER_CONTINUE};
  c->options.feed = feed;
  c->options.progress = progress;
  c->options.poll = poll;
  c->options.user = w;
}

CASE_TEST(callbacks_see_every_iteration) {
  solver_case *c = *state;
  witness w;
  watch(c, &w);
  case_load(c, small_net,
            "lr_policy: 'step' stepsize: 4 gamma: 0.5 max_iter: 10 iter_size: 3 "
            "snapshot_after_train: false");
  ok(crema_solver_solve(c->solver));
  assert_int_equal(w.passes, 30);
  assert_int_equal(w.progresses, 10);
  assert_int_equal(w.polls, 10);
  assert_int_equal(w.last.iteration, 10);
  assert_int_equal(w.last.max_iterations, 10);
  assert_int_equal(w.last.samples, 120);
  assert_true(fabs(w.last.rate - 0.025) < 1e-8);
  assert_true(w.last.seconds > 0);
  assert_int_equal(crema_solver_iteration(c->solver), 10);
  ok(crema_solver_step(c->solver, 2));
  assert_int_equal(crema_solver_iteration(c->solver), 12);
  assert_int_equal(crema_solver_step(c->solver, -1), CREMA_E_RANGE);
}

static crema_status failing_feed(void *user, crema_net *net, int64_t pass) {
  (void)user, (void)net;
  return pass < 3 ? CREMA_OK : CREMA_E_INTERRUPTED;
}

CASE_TEST(a_failing_feed_ends_the_training) {
  solver_case *c = *state;
  c->options.feed = failing_feed;
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 10 snapshot_after_train: false");
  assert_int_equal(crema_solver_solve(c->solver), CREMA_E_INTERRUPTED);
  assert_int_equal(crema_solver_iteration(c->solver), 3);
}

CASE_TEST(poll_stops_and_snapshots) {
  solver_case *c = *state;
  witness w;
  char path[256];
  watch(c, &w);
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 100");
  w.answer = CREMA_SOLVER_SNAPSHOT;
  w.answer_at = 4;
  ok(crema_solver_step(c->solver, 6));
  assert_int_equal(crema_solver_iteration(c->solver), 6);
  assert_int_equal(access(case_path(c, "s_iter_4.solverstate", path), R_OK), 0);
  w.answer = CREMA_SOLVER_STOP;
  w.answer_at = 9;
  ok(crema_solver_solve(c->solver));
  assert_int_equal(crema_solver_iteration(c->solver), 9);
  assert_int_equal(access(case_path(c, "s_iter_9.solverstate", path), R_OK), 0);
}

/* ---- losses ---- */

CASE_TEST(mean_of_the_last_losses) {
  solver_case *c = *state;
  witness w;
  double single[10];
  watch(c, &w);
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 10 snapshot_after_train: false");
  ok(crema_solver_solve(c->solver));
  memcpy(single, w.losses, sizeof single);
  watch(c, &w);
  case_load(c, small_net,
            "lr_policy: 'fixed' max_iter: 10 average_loss: 4 snapshot_after_train: false");
  ok(crema_solver_solve(c->solver));
  for (int i = 0; i < 10; ++i) {
    int from = i < 3 ? 0 : i - 3;
    double sum = 0;
    for (int k = from; k <= i; ++k) sum += single[k];
    assert_true(fabs(w.losses[i] - sum / (i - from + 1)) < 1e-9);
  }
}

CASE_TEST(iter_size_is_a_larger_batch) {
  /* The same four samples three times over: three passes of a third of the gradient each. */
  solver_case *c = *state;
  float one[6], three[6];
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01");
  ok(case_feed(NULL, crema_solver_net(c->solver), 0));
  ok(crema_solver_step(c->solver, 5));
  case_weights(c, one);
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 iter_size: 3");
  ok(case_feed(NULL, crema_solver_net(c->solver), 0));
  ok(crema_solver_step(c->solver, 5));
  case_weights(c, three);
  for (int i = 0; i < 6; ++i) assert_true(fabs((double)(one[i] - three[i])) < 1e-6);
}

static crema_status feed_nan(void *user, crema_net *net, int64_t pass) {
  crema_status status = case_feed(user, net, pass);
  float *data;
  if (status == CREMA_OK) status = crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data);
  if (status == CREMA_OK && pass == 4) data[5] = NAN;
  return status;
}

CASE_TEST(a_loss_that_is_not_finite) {
  solver_case *c = *state;
  float weights[6];
  char path[256];
  c->options.feed = feed_nan;
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 10");
  assert_fails(crema_solver_solve(c->solver), CREMA_E_NUMERIC, "iteration 4");
  assert_int_equal(strncmp(crema_error_text(), "iteration 4: the loss is ", 25), 0);
  assert_string_equal(strstr(crema_error_text(), "nan"), /* the system may show its sign */
                      "nan; the first values that are NaN or infinite are in "
                      "blob 'data' of layer 'in' (a lower base_lr or clip_gradients may help)");
  assert_string_equal(crema_error_layer(), "in");
  assert_int_equal(crema_solver_iteration(c->solver), 4);
  case_weights(c, weights);
  for (int i = 0; i < 6; ++i) assert_true(isfinite(weights[i]));
  assert_int_not_equal(access(case_path(c, "s_iter_4.solverstate", path), R_OK), 0);
}

/* ---- tests and reports ---- */

CASE_TEST(tests_run_when_they_are_due) {
  solver_case *c = *state;
  static log_lines lines;
  c->options.feed = case_feed;
  listen(&lines);
  case_load(c, small_net,
            "lr_policy: 'fixed' max_iter: 10 test_interval: 4 test_iter: 2 test_iter: 1 "
            "test_initialization: false display: 5 test_compute_loss: true "
            "snapshot_after_train: false debug_info: true");
  assert_int_equal(crema_solver_test_net_count(c->solver), 2);
  assert_ptr_not_equal(crema_solver_test_net(c->solver, 1), crema_solver_net(c->solver));
  ok(crema_solver_solve(c->solver));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(count_lines(&lines, "Testing net (#0)"), 2);
  assert_int_equal(count_lines(&lines, "Iteration 8, Testing net (#1)"), 1);
  assert_int_equal(count_lines(&lines, "Iteration 0, Testing"), 0);
  assert_int_equal(count_lines(&lines, "Test loss: "), 4);
  assert_int_equal(count_lines(&lines, "    Test net output #0: acc = "), 4);
  assert_int_equal(count_lines(&lines, "    Test net output #1: loss = "), 4);
  assert_int_equal(count_lines(&lines, "    Train net output #0: loss = "), 2);
  assert_int_equal(count_lines(&lines, "Iteration 5, lr = 0.1\n"), 1);
  assert_int_equal(count_lines(&lines, "Iteration 10, loss = "), 1);
  assert_int_equal(count_lines(&lines, "Optimization Done."), 1);
  /* debug_info logs only in displayed iterations, once per pass. */
  assert_int_equal(count_lines(&lines, "[Backward] Layer ip, param blob 0"), 2);
}

/* With test_offset 3, after 3 and 7 iterations. */
CASE_TEST(tests_begin_later) {
  solver_case *c = *state;
  static log_lines lines;
  c->options.feed = case_feed;
  listen(&lines);
  case_load(c, small_net,
            "lr_policy: 'fixed' max_iter: 10 test_interval: 4 test_offset: 3 test_iter: 2 "
            "test_iter: 1 snapshot_after_train: false");
  ok(crema_solver_solve(c->solver));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(count_lines(&lines, "Testing net (#0)"), 2);
  assert_int_equal(count_lines(&lines, "Iteration 3, Testing net (#0)"), 1);
  assert_int_equal(count_lines(&lines, "Iteration 7, Testing net (#0)"), 1);
}

CASE_TEST(weights_that_are_not_updated) {
  solver_case *c = *state;
  float before[6], after[6];
  case_load_fed(c, small_net, "lr_policy: 'fixed' momentum: 0.9 disabled_update: true");
  case_weights(c, before);
  ok(crema_solver_step(c->solver, 3));
  case_weights(c, after);
  assert_memory_equal(after, before, sizeof after);
  assert_int_equal(crema_solver_iteration(c->solver), 3);
}

CASE_TEST(test_nets_follow_the_trained_weights) {
  solver_case *c = *state;
  const float *trained, *tested;
  case_load_fed(c, small_net, "lr_policy: 'fixed' test_interval: 100 test_iter: 1");
  ok(crema_solver_step(c->solver, 3));
  crema_net *train = crema_solver_net(c->solver), *test = crema_solver_test_net(c->solver, 0);
  ok(crema_blob_cpu_data(train->learnable[0], &trained));
  ok(crema_blob_cpu_data(test->learnable[0], &tested));
  assert_memory_equal(trained, tested, 6 * sizeof *trained);
}

CASE_TEST(states_reach_the_rules) {
  solver_case *c = *state;
  const char *stages[] = {"noisy"};
  char net[4096];
  snprintf(net, sizeof net,
           "%s layer { name: 'extra' type: 'Silence' bottom: 'data' include { stage: 'noisy' "
           "min_level: 3 } }\n"
           "layer { name: 'other' type: 'Silence' bottom: 'data' include { stage: 'quiet' } }\n",
           small_net);
  c->options.stages = stages;
  c->options.stage_count = 1;
  c->options.level = 3;
  case_load(c, net,
            "lr_policy: 'fixed' test_interval: 9 test_iter: 1 "
            "test_state { stage: 'quiet' }");
  assert_true(cr_net_find_layer(crema_solver_net(c->solver), "extra") >= 0);
  assert_int_equal(cr_net_find_layer(crema_solver_net(c->solver), "other"), -1);
  assert_int_equal(cr_net_find_layer(crema_solver_test_net(c->solver, 0), "extra"), -1);
  assert_true(cr_net_find_layer(crema_solver_test_net(c->solver, 0), "other") >= 0);
  c->options.stages = NULL;
  c->options.stage_count = 0;
  c->options.level = 0;
  case_load(c, net, "lr_policy: 'fixed' train_state { stage: 'noisy' level: 4 }");
  assert_true(cr_net_find_layer(crema_solver_net(c->solver), "extra") >= 0);
}

/* However many stages there are. */
CASE_TEST(many_stages_reach_the_rules) {
  enum { STAGES = 400 };
  static char name[STAGES][24];
  static const char *stages[STAGES];
  solver_case *c = *state;
  char net[4096];
  for (int i = 0; i < STAGES; ++i) {
    snprintf(name[i], sizeof name[i], "stage%d", i);
    stages[i] = name[i];
  }
  snprintf(net, sizeof net,
           "state { stage: 'own' } %s layer { name: 'extra' type: 'Silence' bottom: 'data'\n"
           "  include { stage: 'own' stage: 'file' stage: 'stage0' stage: 'stage399' } }\n",
           small_net);
  c->options.stages = stages;
  c->options.stage_count = STAGES;
  case_load(c, net, "lr_policy: 'fixed' train_state { stage: 'file' }");
  assert_true(cr_net_find_layer(crema_solver_net(c->solver), "extra") >= 0);
}

/* What is asked of the solver about its nets is asked of all of them. */
CASE_TEST(options_reach_the_nets) {
  static const char *const net_text =
      "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
      "  data_param { source: 'db' batch_size: 2 backend: LMDB } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
      "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'relu' }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'relu' bottom: 'label' }\n";
  static const char *const text = "lr_policy: 'fixed' test_iter: 1 test_interval: 9";
  solver_case *c = *state;
  case_make_database(c, "lmdb", 6, 2, 2);
  for (int asked = 0; asked < 2; ++asked) {
    c->options.skip_corrupt = c->options.no_memory_plan = c->options.recompute = asked == 1;
    if (asked == 1) c->options.no_memory_plan = false;
    case_load(c, net_text, text);
    for (int i = 0; i < 2; ++i) {
      crema_net *net = i == 0 ? crema_solver_net(c->solver) : crema_solver_test_net(c->solver, 0);
      assert_int_equal(net->param->layer[0]->data_param->skip_corrupt, asked);
      assert_true(net->plans);
      if (i == 0) assert_int_equal(net->recomputes, asked);
    }
  }
  c->options.recompute = false;
  c->options.no_memory_plan = true;
  case_load(c, net_text, text);
  assert_false(crema_solver_net(c->solver)->plans);
  assert_false(crema_solver_test_net(c->solver, 0)->plans);
}

CASE_TEST(inline_nets) {
  solver_case *c = *state;
  char solver[8192], path[256];
  c->options.feed = case_feed;
  snprintf(solver, sizeof solver,
           "base_lr: 0.1 lr_policy: 'fixed' solver_type: ADAM momentum: 0.9 solver_mode: CPU\n"
           "train_net_param { %s } test_net_param { %s } test_iter: 1 test_interval: 2 max_iter: 4 "
           "snapshot_after_train: false",
           small_net, small_net);
  case_write(c, "solver.prototxt", solver);
  ok(crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver));
  assert_string_equal(cr_updater_type(c->solver->updater), "Adam");
  ok(crema_solver_solve(c->solver));
}

CASE_TEST(refuses) {
  solver_case *c = *state;
  char path[256];
  case_refuse(c, "lr_policy: 'fixed' average_loss: 0", CREMA_E_RANGE, "average_loss");
  case_refuse(c, "lr_policy: 'fixed' train_net: 'x'", CREMA_E_PARSE, "train_net");
  case_refuse(c, "lr_policy: 'fixed' test_iter: 1", CREMA_E_PARSE, "test_interval");
  case_refuse(c, "lr_policy: 'fixed' test_iter: -1 test_interval: 1", CREMA_E_RANGE, "test_iter");
  case_refuse(c, "lr_policy: 'fixed' test_net: 'x'", CREMA_E_PARSE, "test_iter");
  case_refuse(c, "lr_policy: 'fixed' test_iter: 1 test_interval: 1 test_net: 'absent'",
              CREMA_E_NOT_FOUND, "absent");
  case_refuse(c, "lr_policy: 'fixed' test_state { }", CREMA_E_PARSE, "test_state");
  case_refuse(c, "lr_policy: 'fixed' base_rl: 1", CREMA_E_PARSE, "base_rl");
  case_refuse(c, "lr_policy: 'fixed' weights: 'absent.caffemodel'", CREMA_E_NOT_FOUND, "absent");
  c->options.warn_unknown_fields = true;
  case_load(c, small_net, "lr_policy: 'fixed' base_rl: 1");
  crema_solver_destroy(c->solver);
  assert_int_equal(crema_solver_load(case_path(c, "absent", path), NULL, &c->solver),
                   CREMA_E_NOT_FOUND);
  assert_null(c->solver);
  crema_solver_destroy(NULL);
}

CASE_TEST(the_prefix_is_checked_before_training) {
  solver_case *c = *state;
  witness w;
  watch(c, &w);
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 3");
  free(c->solver->snapshot_prefix);
  c->solver->snapshot_prefix = strdup("/tmp/crema/no/such/folder/s");
  assert_fails(crema_solver_solve(c->solver), CREMA_E_IO, "/tmp/crema/no/such/folder/s");
  assert_int_equal(w.passes, 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
