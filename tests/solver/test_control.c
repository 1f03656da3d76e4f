/* What programs ask of a solver and change between iterations. */
#include "core/signals.h"
#include "solver_case.h"

static void train_by_hand(crema_solver *solver, float gradient) {
  float *diff = NULL;
  ok(crema_blob_mutable_cpu_diff(solver->net->learnable[0], &diff));
  for (int i = 0; i < 6; ++i) diff[i] = gradient;
}

TEST(an_update_by_itself) {
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net, "base_lr: 0.5 lr_policy: 'fixed' max_iter: 10");
  crema_view *weight = NULL;
  ok(crema_blob_view_data(c.solver->net->learnable[0], &weight));
  float *w = crema_view_values(weight);
  for (int i = 0; i < 6; ++i) w[i] = 0;
  train_by_hand(c.solver, 1);
  ok(crema_solver_apply_update(c.solver));
  for (int i = 0; i < 6; ++i) assert_true(w[i] == -0.5f);
  assert_int_equal(crema_solver_iteration(c.solver), 1);
  ok(crema_solver_set_base_lr(c.solver, 2));
  assert_true(crema_solver_base_lr(c.solver) == 2 && crema_solver_rate(c.solver) == 2);
  train_by_hand(c.solver, 1);
  ok(crema_solver_apply_update(c.solver));
  for (int i = 0; i < 6; ++i) assert_true(w[i] == -2.5f);
  assert_fails(crema_solver_set_base_lr(c.solver, 1e300), CREMA_E_RANGE, "base_lr");
  crema_view_release(weight);
  case_end(&c);
}

/* A program's own loop makes the updates that training makes: rates of every policy, the count that
 * Adam corrects its means by, and the factor of gradients in half precision. */
TEST(updates_by_hand_are_iterations) {
  static const struct {
    const char *head, *solver;
  } rows[] = {
      {"", "lr_policy: 'step' stepsize: 2 gamma: 0.5 momentum: 0.9"},
      {"", "lr_policy: 'multistep' stepvalue: 1 stepvalue: 3 gamma: 0.5"},
      {"", "lr_policy: 'inv' gamma: 1 power: 1 type: 'Adam' momentum: 0.9"},
      {"default_forward_type: FLOAT16 default_backward_type: FLOAT16 global_grad_scale: 100 "
       "global_grad_scale_adaptive: true\n",
       "lr_policy: 'fixed' momentum: 0.9"},
  };
  solver_case c;
  case_begin(&c);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    float expected[6], found[6];
    char net[2048];
    snprintf(net, sizeof net, "%s%s", rows[r].head, small_net);
    case_load_fed(&c, net, rows[r].solver);
    ok(crema_solver_step(c.solver, 5));
    case_weights(&c, expected);
    case_load_fed(&c, net, rows[r].solver);
    for (int i = 0; i < 5; ++i) {
      double loss;
      ok(case_feed(NULL, c.solver->net, i));
      crema_net_clear_param_diffs(c.solver->net);
      ok(crema_net_forward(c.solver->net, &loss));
      ok(crema_net_backward(c.solver->net));
      ok(crema_solver_apply_update(c.solver));
      assert_int_equal(crema_solver_iteration(c.solver), i + 1);
    }
    case_weights(&c, found);
    if (memcmp(found, expected, sizeof found) != 0) fail_msg("%s: other weights", rows[r].solver);
  }
  c.solver->iteration = INT32_MAX;
  assert_fails(crema_solver_apply_update(c.solver), CREMA_E_RANGE, "count up to 2147483647");
  case_end(&c);
}

/* The solver sees no losses: a plateau has a step after each window. */
TEST(a_plateau_counts_updates_by_hand) {
  static const double rates[] = {1, 1, 0.5, 0.5, 0.25, 0.25};
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net,
            "base_lr: 1 lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 2 plateau_winsize: 2");
  for (int i = 0; i < 6; ++i) {
    assert_true(crema_solver_rate(c.solver) == rates[i]);
    ok(crema_solver_apply_update(c.solver));
  }
  assert_int_equal(c.solver->rate.step, 2);
  case_end(&c);
}

/* Signals are held back once for all parameters, and let in again. */
TEST(an_update_holds_signals_once) {
  solver_case c;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.9 solver_data_type: FLOAT16");
  for (int i = 0; i < 3; ++i) {
    const unsigned before = cr_signals_hold_number();
    train_by_hand(c.solver, 1);
    ok(cr_replica_update(&c.solver->replica[0], 0.1, i));
    const unsigned after = cr_signals_hold_number();
    if (after != 0) assert_int_equal(after, before + 1);
  }
  case_end(&c);
}

typedef struct seen {
  crema_solver **solver;
  crema_view *weight;
  int starts, ready;
  float last;
} seen;

static crema_status start(void *user) {
  seen *s = user;
  ++s->starts;
  s->last = crema_view_values(s->weight)[0];
  return CREMA_OK;
}

/* Stops learning. */
static crema_status ready(void *user) {
  seen *s = user;
  float *diff = NULL;
  if (++s->ready == 3) return CREMA_E_CLOSED;
  if (s->ready == 2) return CREMA_OK;
  ok(crema_blob_mutable_cpu_diff((*s->solver)->net->learnable[0], &diff));
  for (int i = 0; i < 6; ++i) diff[i] = 0;
  return CREMA_OK;
}

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  float *data = NULL;
  (void)user, (void)pass;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 12; ++i) data[i] = (float)i / 12;
  return CREMA_OK;
}

TEST(calls_within_an_iteration) {
  solver_case c;
  case_begin(&c);
  seen s = {.solver = &c.solver};
  c.options.feed = feed;
  c.options.iteration_start = start;
  c.options.gradients_ready = ready;
  c.options.user = &s;
  case_load(&c, small_net, "lr_policy: 'fixed' max_iter: 10");
  ok(crema_blob_view_data(c.solver->net->learnable[0], &s.weight));
  const float before = crema_view_values(s.weight)[0];
  ok(crema_solver_step(c.solver, 1));
  assert_true(crema_view_values(s.weight)[0] == before);
  ok(crema_solver_step(c.solver, 1));
  assert_true(s.last == before && crema_view_values(s.weight)[0] != before);
  assert_int_equal(crema_solver_step(c.solver, 1), CREMA_E_CLOSED);
  assert_int_equal(s.starts, 3);
  assert_true(s.last == crema_view_values(s.weight)[0]);
  crema_view_release(s.weight);
  case_end(&c);
}

TEST(options_and_limits) {
  solver_case c;
  case_begin(&c);
  c.options.type = "Adam";
  case_load(&c, small_net, "type: 'SGD' lr_policy: 'fixed' max_iter: 10");
  char *text = NULL;
  ok(crema_solver_text(c.solver, &text));
  assert_non_null(strstr(text, "type: \"Adam\""));
  crema_free(text);
  assert_string_equal(cr_updater_type(c.solver->updater), "Adam");
  assert_int_equal(crema_solver_max_iterations(c.solver), 10);
  ok(crema_solver_set_max_iterations(c.solver, 3));
  ok(crema_solver_solve(c.solver));
  assert_int_equal(crema_solver_iteration(c.solver), 3);
  assert_fails(crema_solver_set_max_iterations(c.solver, -1), CREMA_E_RANGE, "max_iter");
  case_end(&c);
}

/* The rate that the next iteration will have, which asking for does not change. Before the first
 * loss a plateau has not ended. */
TEST(the_present_rate) {
  solver_case c;
  case_begin(&c);
  c.options.feed = case_feed;
  case_load(&c, small_net,
            "base_lr: 0.5 lr_policy: 'plateau' plateau_winsize: 2 plateau_winsize: 2 gamma: 0.5 "
            "average_loss: 3");
  c.solver->iteration = 5;
  assert_true(crema_solver_rate(c.solver) == 0.5);
  c.solver->window.count = 2;
  c.solver->window.loss[0] = 1;
  c.solver->window.loss[1] = 4;
  c.solver->rate = (cr_rate_state){.minimum_loss = 2, .last_event = 1};
  const cr_rate_state before = c.solver->rate;
  assert_true(crema_solver_rate(c.solver) == 0.25); /* a mean of 2.5 is no new minimum */
  c.solver->rate.minimum_loss = 3;
  assert_true(crema_solver_rate(c.solver) == 0.5);
  assert_int_equal(c.solver->rate.step, before.step);
  assert_int_equal(c.solver->rate.last_event, before.last_event);
  assert_true(crema_solver_rate(NULL) == 0);
  assert_true(crema_solver_base_lr(NULL) == 0);
  assert_int_equal(crema_solver_max_iterations(NULL), 0);
  case_end(&c);
}

/* Both ends of what a state can count, and the rates that a float can hold. */
TEST(limits_of_what_is_set) {
  solver_case c;
  char *text = NULL;
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'poly' power: 1 max_iter: 10");
  ok(crema_solver_set_max_iterations(c.solver, INT32_MAX));
  assert_int_equal(crema_solver_max_iterations(c.solver), INT32_MAX);
  assert_fails(crema_solver_set_max_iterations(c.solver, (int64_t)INT32_MAX + 1), CREMA_E_RANGE,
               "max_iter cannot be 2147483648");
  assert_int_equal(crema_solver_max_iterations(c.solver), INT32_MAX);
  ok(crema_solver_set_max_iterations(c.solver, 4));
  c.solver->iteration = 1;
  assert_true(crema_solver_rate(c.solver) == (double)0.1f * 0.75); /* schedules follow */
  ok(crema_solver_set_max_iterations(c.solver, 0));
  ok(crema_solver_set_base_lr(c.solver, 0.25));
  ok(crema_solver_text(c.solver, &text));
  assert_non_null(strstr(text, "base_lr: 0.25\n"));
  assert_non_null(strstr(text, "max_iter: 0\n"));
  crema_free(text);
  case_end(&c);
}

/* A solver is one of several processes where these were started together and it is asked to be. */
TEST(processes_are_joined_when_asked) {
  solver_case c;
  case_begin(&c);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("PMIX_NAMESPACE");
  unsetenv("PMI_SIZE");
  c.options.with_processes = true;
  case_load(&c, small_net, "lr_policy: 'fixed'");
  assert_null(c.solver->world);
  c.options.with_processes = false;
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  case_load(&c, small_net, "lr_policy: 'fixed'");
  assert_null(c.solver->world);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
