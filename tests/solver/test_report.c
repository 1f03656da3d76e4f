/* The lines of the log that parsers look for, word for word. The test sets the
 * clock. */
#include "check.h"
#include "crema/net.h"
#include "interpose.h"
#include "log_lines.h"
#include "solver/solver.h"

static double now;

INTERPOSED int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!from_program()) return REAL(clock_gettime)(clock, time);
  *time = (struct timespec){.tv_sec = (time_t)now};
  time->tv_nsec = (long)((now - (double)time->tv_sec) * 1e9);
  return 0;
}

static log_lines lines;

static int begin(void **state) {
  (void)state;
  listen_to(&lines, CREMA_LOG_INFO);
  return 0;
}

static int end(void **state) {
  (void)state;
  stop_listening();
  return 0;
}

#define REPORT_TEST(name) TEST_BETWEEN(name, begin, end)

/* Speed since the last report; an iteration per second where the clock stands still. */
REPORT_TEST(iterations_are_reported_with_their_speed) {
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  crema_solver solver = {
      .param = &param, .iteration = 40, .display_iteration = 20, .display_time = 100};
  param.display = 20;
  now = 104;
  cr_report_iteration(&solver, 0.25);
  assert_string_equal(last_line(&lines), "Iteration 40 (5 iter/s, 4s/20 iters), loss = 0.25\n");
  now = 114.5;
  solver.iteration = 61;
  cr_report_iteration(&solver, 2);
  assert_string_equal(last_line(&lines), "Iteration 61 (2 iter/s, 10.5s/20 iters), loss = 2\n");
  solver.iteration = 64;
  cr_report_iteration(&solver, 2);
  assert_string_equal(last_line(&lines), "Iteration 64 (3 iter/s, 0s/20 iters), loss = 2\n");
  assert_int_equal(lines.count, 3);
}

REPORT_TEST(outputs_are_reported_with_their_weight) {
  cr_report_output("Test", 3, "accuracy", 0.5, 0);
  assert_string_equal(last_line(&lines), "    Test net output #3: accuracy = 0.5\n");
  cr_report_output("Train", 0, "loss", 0.75, 4);
  assert_string_equal(last_line(&lines), "    Train net output #0: loss = 0.75 (* 4 = 3 loss)\n");
}

/* Each value of an output has a line and a number; outputs come in the order of their names. */
static const char net_text[] =
    "layer { name: 'd' type: 'DummyData' top: 'three' top: 'a' top: 'b' dummy_data_param {"
    "  shape { dim: 3 } shape { dim: 2 dim: 1 } shape { dim: 2 dim: 1 }"
    "  data_filler { value: 1.5 } data_filler { value: 3 } data_filler { value: 1 } } }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: 'loss' loss_weight: 0.5 "
    "}";

REPORT_TEST(all_values_of_outputs_are_reported) {
  crema_solver solver = {.iteration = 0};
  crema_net_options options;
  double loss = 0;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  ok(crema_net_parse(net_text, sizeof net_text - 1, "net", &options, &solver.net));
  ok(crema_net_forward(solver.net, &loss));
  listen_to(&lines, CREMA_LOG_INFO);
  ok(cr_report_train_outputs(&solver));
  assert_string_equal(lines.text,
                      "    Train net output #0: loss = 2 (* 0.5 = 1 loss)\n"
                      "    Train net output #1: three = 1.5\n"
                      "    Train net output #2: three = 1.5\n"
                      "    Train net output #3: three = 1.5\n");
  listen_to(&lines, CREMA_LOG_WARNING);
  ok(cr_report_train_outputs(&solver));
  assert_int_equal(lines.count, 0);
  crema_net_destroy(solver.net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
