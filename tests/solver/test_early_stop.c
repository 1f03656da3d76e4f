/* Early stopping. */
#include <math.h>

#include "solver_case.h"

/* A test output that follows a list, one value for each test: data of the test net's first input.
 */
static const char *const listed_net =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label' include { phase: TRAIN }\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' include { phase: TRAIN }\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'\n"
    "  include { phase: TRAIN } }\n"
    "layer { name: 'first' type: 'DummyData' top: 'other' loss_weight: 1 include { phase: TEST }\n"
    "  dummy_data_param { shape { dim: 2 } data_filler { value: 3 } } }\n"
    "layer { name: 'second' type: 'Input' top: 'v' include { phase: TEST }\n"
    "  input_param { shape { dim: 1 } } }\n"
    "layer { name: 'copy' type: 'Power' bottom: 'v' top: 'score' include { phase: TEST } }\n";

#define SETTINGS \
  "lr_policy: 'fixed' test_iter: 1 test_interval: 2 max_iter: 40 snapshot_after_train: false "

static double listed[32];

/* Before each iteration: the value of the test that comes next. */
static crema_status prepare(void *user) {
  const solver_case *c = user;
  float *value;
  crema_net *test = crema_solver_test_net(c->solver, 0);
  const int64_t next = crema_solver_iteration(c->solver) / 2 + 1;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(test, 0), &value));
  value[0] = (float)listed[next < 31 ? next : 31];
  return CREMA_OK;
}

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  CR_TRY(prepare(user));
  return case_feed(user, net, pass);
}

static void load(solver_case *c, const char *text) {
  char whole[512];
  float *value;
  snprintf(whole, sizeof whole, SETTINGS "%s", text);
  c->options.feed = feed;
  c->options.user = c;
  case_load(c, listed_net, whole);
  ok(crema_blob_mutable_cpu_data(crema_net_input(crema_solver_test_net(c->solver, 0), 0), &value));
  value[0] = (float)listed[0];
}

static void list(const double *value, size_t count) {
  for (size_t i = 0; i < 32; ++i) listed[i] = value[i < count ? i : count - 1];
}

/* Values from the first on; the last one is that of all later tests. Tests are at 0, 2, 4, ... */
TEST(training_ends_when_tests_get_no_better) {
  static const struct {
    const char *text;
    double value[6];
    int end; /* iteration */
    const char *says;
  } rows[] = {
      {"early_stop_patience: 3",
       {1, 2, 3, 2, 3, 3},
       10,
       "become higher than 3 of iteration 4 in 3"},
      {"early_stop_patience: 1", {1, 2, 3, 2, 9, 9}, 6, "become higher than 3 of iteration 4 in 1"},
      {"early_stop_patience: 2 early_stop_goal: LOWEST",
       {5, 4, 4, 3, 3, 3},
       10,
       "become lower than 3 of iteration 6 in 2"},
      {"early_stop_patience: 2 early_stop_min_change: 0.5",
       {1, 1.5, 1.75, 1.75, 1.75, 1.75},
       8,
       "become higher than 1.75 of iteration 4 in 2"},
      {"early_stop_patience: 2 early_stop_output: 'other'",
       {1, 2, 3, 4, 5, 6},
       4,
       "other of test net #0 has not become lower than 3 of iteration 0 in 2"},
      {"early_stop_patience: 2 early_stop_output: 'score' early_stop_goal: HIGHEST",
       {1, 1, 1, 1, 1, 1},
       4,
       "score of test net #0 has not"},
      /* A goal that is given counts, also for a loss. */
      {"early_stop_patience: 3 early_stop_output: 'other' early_stop_goal: HIGHEST",
       {1, 2, 3, 4, 5, 6},
       6,
       "other of test net #0 has not become higher than 3 of iteration 0 in 3"},
      /* Numbers after others that are none. */
      {"early_stop_patience: 2",
       {NAN, 4, NAN, 5, 5, 5},
       10,
       "become higher than 5 of iteration 6 in 2"},
      {"early_stop_patience: 3", {NAN, NAN, NAN, NAN, NAN, NAN}, 4, "not been a number in 3 tests"},
      {"early_stop_patience: 30", {1, 1, 1, 1, 1, 1}, 40, NULL},
      {"", {1, 1, 1, 1, 1, 1}, 40, NULL},
  };
  static log_lines lines;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    solver_case c;
    case_begin(&c);
    list(rows[i].value, 6);
    load(&c, rows[i].text);
    listen(&lines);
    ok(crema_solver_solve(c.solver));
    crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
    if (crema_solver_iteration(c.solver) != rows[i].end) {
      fail_msg("%s: iteration %d, not %d", rows[i].text, (int)crema_solver_iteration(c.solver),
               rows[i].end);
    }
    assert_int_equal(count_lines(&lines, "Early stopping: "), rows[i].says != NULL);
    if (rows[i].says != NULL) assert_int_equal(count_lines(&lines, rows[i].says), 1);
    assert_int_equal(count_lines(&lines, "Optimization stopped early."), rows[i].says != NULL);
    case_end(&c);
  }
}

/* Wherever training is interrupted, a resumed run ends where the other one does and says the same;
 * the one that has ended ends again, and single steps go on. */
TEST(resumes_count_as_before) {
  static log_lines lines;
  static const double value[] = {1, 2, 3, 2, 2, 2, 2};
  for (int stop = 1; stop <= 10; ++stop) {
    solver_case c;
    char path[256], name[64];
    case_begin(&c);
    list(value, 7);
    load(&c, "early_stop_patience: 3");
    /* By steps, which tests do not end: at 10 the last test has yet to come. */
    ok(crema_solver_step(c.solver, stop));
    ok(crema_solver_snapshot(c.solver));
    load(&c, "early_stop_patience: 3");
    snprintf(name, sizeof name, "s_iter_%d.solverstate", stop);
    ok(crema_solver_restore(c.solver, case_path(&c, name, path)));
    ok(prepare(&c));
    if (stop % 2 == 0) {
      float *data;
      ok(crema_blob_mutable_cpu_data(crema_net_input(crema_solver_test_net(c.solver, 0), 0),
                                     &data));
      data[0] = (float)listed[stop / 2];
    }
    listen(&lines);
    ok(crema_solver_solve(c.solver));
    crema_log_set(NULL, NULL, CREMA_LOG_INFO);
    assert_int_equal(crema_solver_iteration(c.solver), 10);
    assert_int_equal(count_lines(&lines, "higher than 3 of iteration 4 in 3 tests"), 1);
    case_end(&c);
  }
}

TEST(what_has_ended_ends_again) {
  static const double value[] = {1, 2, 3, 2, 2, 2, 9};
  solver_case c;
  char path[256];
  case_begin(&c);
  list(value, 6);
  load(&c, "early_stop_patience: 3");
  ok(crema_solver_solve(c.solver));
  assert_int_equal(crema_solver_iteration(c.solver), 10);
  ok(crema_solver_snapshot(c.solver));
  load(&c, "early_stop_patience: 3");
  ok(crema_solver_restore(c.solver, case_path(&c, "s_iter_10.solverstate", path)));
  listed[5] = listed[6] = 9; /* too late: the test of iteration 10 is done */
  ok(crema_solver_solve(c.solver));
  assert_int_equal(crema_solver_iteration(c.solver), 10);
  ok(crema_solver_step(c.solver, 1));
  assert_int_equal(crema_solver_iteration(c.solver), 11);
  /* With more patience it goes on. */
  load(&c, "early_stop_patience: 4");
  ok(crema_solver_restore(c.solver, case_path(&c, "s_iter_10.solverstate", path)));
  listed[6] = 1;
  ok(crema_solver_solve(c.solver));
  assert_int_equal(crema_solver_iteration(c.solver), 12);
  case_end(&c);
}

/* Of detections, the score is their mean average precision: one object, found or not. */
CASE_TEST(detections_end_training) {
  static const float found[] = {-1, 1, 1, -1, -1, 0, 1, 0.9f, 1, 0};
  static log_lines lines;
  solver_case *c = *state;
  char net[2048];
  float *value;
  snprintf(net, sizeof net, "%.*s%s",
           (int)(strstr(listed_net, "layer { name: 'first'") - listed_net), listed_net,
           "layer { name: 'found' type: 'Input' top: 'mAP' include { phase: TEST }\n"
           "  input_param { shape { dim: 1 dim: 1 dim: 2 dim: 5 } } }\n");
  case_load_fed(c, net, SETTINGS "eval_type: 'detection' early_stop_patience: 2");
  ok(crema_blob_mutable_cpu_data(crema_net_input(crema_solver_test_net(c->solver, 0), 0), &value));
  memcpy(value, found, sizeof found);
  listen(&lines);
  ok(crema_solver_solve(c->solver));
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  assert_int_equal(crema_solver_iteration(c->solver), 4);
  assert_int_equal(count_lines(&lines, "mAP of test net #0 has not become higher than 1 of"), 1);
}

CASE_TEST(altered_states) {
  solver_case *c = *state;
  char path[256];
  ProtobufCMessage *message = NULL;
  list((double[]){1}, 1);
  load(c, "early_stop_patience: 3");
  case_train_and_save(c, 3);
  ok(cr_message_read_binary(&caffe__solver_state__descriptor,
                            case_path(c, "s_iter_3.solverstate", path), &message));
  Caffe__CremaState *extra = ((Caffe__SolverState *)message)->crema_state;
  assert_int_equal(extra->tested_iteration, 2);
  assert_int_equal(extra->tests_since_best, 1);
  extra->tests_since_best = -1;
  ok(cr_message_write_binary(message, path));
  assert_fails(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT, "is not possible");
  extra->tests_since_best = 1;
  extra->best = NAN;
  ok(cr_message_write_binary(message, path));
  assert_fails(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT, "best value of nan");
  extra->best = 1;
  int64_t *const iterations[] = {&extra->tested_iteration, &extra->best_iteration};
  for (int i = 0; i < 2; ++i) {
    const int64_t before = *iterations[i];
    *iterations[i] = -1;
    ok(cr_message_write_binary(message, path));
    assert_fails(crema_solver_restore(c->solver, path), CREMA_E_CORRUPT, "iteration -1");
    *iterations[i] = before;
  }
  /* 0 is possible for all of them; a state without a test forgets the solver's. */
  extra->tested_iteration = extra->best_iteration = extra->tests_since_best = 0;
  ok(cr_message_write_binary(message, path));
  ok(crema_solver_restore(c->solver, path));
  assert_int_equal(c->solver->early_stop.tested_iteration, 0);
  assert_true(c->solver->early_stop.has_best && c->solver->early_stop.best == 1);
  extra->has_tested_iteration = false;
  ok(cr_message_write_binary(message, path));
  ok(crema_solver_restore(c->solver, path));
  assert_int_equal(c->solver->early_stop.tested_iteration, -1);
  assert_false(c->solver->early_stop.has_best);
  cr_message_free(message);
}

/* An output of the second test net, behind one of several values; the first net's tests and its
 * output of that number do not count. */
CASE_TEST(later_nets_and_values_are_followed) {
  static const char second[] =
      "layer { name: 'a' type: 'DummyData' top: 'a' include { phase: TEST stage: 'second' }\n"
      "  dummy_data_param { shape { dim: 3 } data_filler { value: 7 } } }\n"
      "layer { name: 'z' type: 'DummyData' top: 'z' include { phase: TEST stage: 'second' }\n"
      "  dummy_data_param { shape { dim: 2 } data_filler { value: 2 } } }\n";
  static log_lines lines;
  solver_case *c = *state;
  char net[4096];
  snprintf(net, sizeof net, "%s%s", listed_net, second);
  list((double[]){1, 2, 3, 4, 5, 6}, 6);
  c->options.feed = feed;
  c->options.user = c;
  case_load(c, net,
            SETTINGS
            "test_iter: 1 test_state { } test_state { stage: 'second' }\n"
            "early_stop_patience: 2 early_stop_output: 'z'");
  assert_int_equal(c->solver->early_stop.net, 1);
  assert_string_equal(
      crema_net_output_name(crema_solver_test_net(c->solver, 1), c->solver->early_stop.output),
      "z");
  listen(&lines);
  ok(crema_solver_solve(c->solver));
  stop_listening();
  assert_int_equal(crema_solver_iteration(c->solver), 4);
  assert_int_equal(
      count_lines(&lines, "z of test net #1 has not become higher than 2 of iteration 0 in 2"), 1);
}

/* The value of a test is the mean of its batches. */
CASE_TEST(means_are_what_counts) {
  solver_case *c = *state;
  list((double[]){5}, 1);
  c->options.feed = feed;
  c->options.user = c;
  for (int first = 0; first < 2; ++first) {
    char text[256];
    snprintf(text, sizeof text,
             "lr_policy: 'fixed' test_iter: 4 test_interval: 2 early_stop_patience: 2 "
             "early_stop_output: '%s'",
             first ? "other" : "score");
    case_load(c, listed_net, text);
    ok(prepare(c));
    ok(cr_solver_test_all(c->solver));
    assert_true(c->solver->early_stop.has_best);
    assert_float_equal(c->solver->early_stop.best, first ? 3 : 5, 1e-6);
    assert_int_equal(c->solver->early_stop.best_iteration, 0);
    assert_int_equal(c->solver->early_stop.tests, 0);
  }
}

/* Where no output is named, the first that is no loss is the one, of losses alone the first. */
CASE_TEST(outputs_are_chosen) {
  static const struct {
    const char *outputs, *more;
    int output;
    bool lowest;
  } rows[] = {
      {"top: 'a' loss_weight: 1", "", 0, true},
      {"top: 'a' loss_weight: 1 top: 'b' loss_weight: 2", "", 0, true},
      {"top: 'a' loss_weight: 1 top: 'b' loss_weight: 0", "", 1, false},
      {"top: 'a' top: 'b'", "early_stop_goal: LOWEST", 0, true},
      {"top: 'a' top: 'b' loss_weight: 0 loss_weight: 1", "early_stop_output: 'b'", 1, true},
      {"top: 'a' loss_weight: 1 top: 'b' loss_weight: 0", "eval_type: 'detection'", 0, true},
  };
  solver_case *c = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char net[2048], text[512];
    snprintf(net, sizeof net,
             "%.*slayer { name: 'd' type: 'DummyData' include { phase: TEST } %s\n%s",
             (int)(strstr(listed_net, "layer { name: 'first'") - listed_net), listed_net,
             rows[i].outputs, "dummy_data_param { shape { dim: 1 } } }\n");
    snprintf(text, sizeof text, "%s early_stop_patience: 2 %s", SETTINGS, rows[i].more);
    case_load(c, net, text);
    assert_int_equal(c->solver->early_stop.output, rows[i].output);
    assert_int_equal(c->solver->early_stop.lowest, rows[i].lowest);
  }
}

/* The outputs after the first are no part of what detections are judged by. */
CASE_TEST(detections_have_one_score) {
  solver_case *c = *state;
  char net[2048], text[256];
  snprintf(net, sizeof net, "%.*s%s",
           (int)(strstr(listed_net, "layer { name: 'first'") - listed_net), listed_net,
           "layer { name: 'found' type: 'Input' top: 'a' top: 'b' include { phase: TEST }\n"
           "  input_param { shape { dim: 1 dim: 5 } shape { dim: 1 dim: 5 } } }\n");
  snprintf(text, sizeof text,
           "%s eval_type: 'detection' early_stop_patience: 2 early_stop_output:", SETTINGS);
  char first[512], other[512];
  snprintf(first, sizeof first, "%s 'a'", text);
  snprintf(other, sizeof other, "%s 'b'", text);
  case_load(c, net, first);
  assert_fails(case_try_load(c, net, other), CREMA_E_UNSUPPORTED,
               "for detections, only the first output has a score");
}

CASE_TEST(refuses) {
  solver_case *c = *state;
  case_refuse(c, "lr_policy: 'fixed' early_stop_patience: 2", CREMA_E_ARGUMENT,
              "solver.prototxt:3: early_stop_patience needs a test net");
  case_refuse(c,
              "lr_policy: 'fixed' test_iter: 1 test_interval: 5 early_stop_patience: 2\n"
              "early_stop_output: 'ack'",
              CREMA_E_UNKNOWN_NAME, "solver.prototxt:4: early_stop_output: no test net has");
  case_refuse(c,
              "lr_policy: 'fixed' test_iter: 1 test_interval: 5 early_stop_patience: 2\n"
              "early_stop_output: 'ack'",
              CREMA_E_UNKNOWN_NAME, "no test net has an output 'ack'; did you mean 'acc'?");
  case_refuse(c,
              "lr_policy: 'fixed' test_iter: 1 test_interval: 5 early_stop_patience: 2\n"
              "early_stop_output: 'something'",
              CREMA_E_UNKNOWN_NAME, "early_stop_output: no test net has an output 'something'");
  assert_null(strstr(crema_error_text(), "did you mean"));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
