/* Learning-rate policies. */
#include <math.h>

#include "solver_case.h"

static Caffe__SolverParameter param_of(char *policy) {
  Caffe__SolverParameter param;
  caffe__solver_parameter__init(&param);
  param.lr_policy = policy;
  param.base_lr = 0.5f;
  param.gamma = 0.25f;
  param.power = 2;
  param.stepsize = 4;
  param.max_iter = 10;
  return param;
}

static cr_schedule read_schedule(const Caffe__SolverParameter *param) {
  cr_schedule schedule;
  ok(cr_schedule_read(param, &schedule));
  return schedule;
}

static double rate_of(const Caffe__SolverParameter *param, int64_t iteration, double loss,
                      cr_rate_state *state) {
  const cr_schedule schedule = read_schedule(param);
  return (double)cr_rate_at(&schedule, iteration, loss, state);
}

static double momentum_of(const Caffe__SolverParameter *param, int64_t iteration, float rate) {
  const cr_schedule schedule = read_schedule(param);
  return (double)cr_momentum_at(&schedule, iteration, rate);
}

static double decay_of(const Caffe__SolverParameter *param, int64_t iteration) {
  const cr_schedule schedule = read_schedule(param);
  return (double)cr_weight_decay_at(&schedule, iteration);
}

static void near(double found, double expected) {
  if (fabs(found - expected) > 1e-6 * fabs(expected)) {
    fail_msg("%.9g is not %.9g", found, expected);
  }
}

TEST(closed_formats) {
  char fixed[] = "fixed", step[] = "step", exponential[] = "exp", inv[] = "inv", poly[] = "poly",
       sigmoid[] = "sigmoid";
  for (int i = 0; i < 10; ++i) {
    cr_rate_state current = {0};
    Caffe__SolverParameter param = param_of(fixed);
    near(rate_of(&param, i, 0, &current), 0.5);
    param.lr_policy = step;
    near(rate_of(&param, i, 0, &current), 0.5 * pow(0.25, i / 4));
    assert_int_equal(current.step, i / 4);
    param.lr_policy = exponential;
    near(rate_of(&param, i, 0, &current), 0.5 * pow(0.25, i));
    param.lr_policy = inv;
    near(rate_of(&param, i, 0, &current), 0.5 / ((1 + 0.25 * i) * (1 + 0.25 * i)));
    param.lr_policy = poly;
    near(rate_of(&param, i, 0, &current), 0.5 * (1 - i / 10.0) * (1 - i / 10.0));
    param.lr_policy = sigmoid;
    near(rate_of(&param, i, 0, &current), 0.5 / (1 + exp(-0.25 * (i - 4))));
  }
}

TEST(multistep_moves_on) {
  char multistep[] = "multistep";
  int32_t at[] = {2, 5, 6};
  const double expected[] = {0.5,     0.5,       0.125,     0.125,    0.125,
                             0.03125, 0.0078125, 0.0078125, 0.0078125};
  Caffe__SolverParameter param = param_of(multistep);
  param.stepvalue = at;
  param.n_stepvalue = 3;
  cr_rate_state current = {0};
  for (int i = 0; i < 9; ++i) near(rate_of(&param, i, 0, &current), expected[i]);
  assert_int_equal(current.step, 3);
}

TEST(poly_ends_at_zero) {
  char poly[] = "poly";
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(poly);
  param.power = 0.5f;
  assert_true(rate_of(&param, 10, 0, &current) == 0);
  assert_true(rate_of(&param, 12, 0, &current) == 0);
}

/* SSD's policy: the minimum is found anew at 0, 1 and 4, so steps follow 3 and then 2 later. */
TEST(plateau_follows_the_loss) {
  static const double loss[] = {5, 3, 4, 3, 2, 2, 9, 2, 2, 2, 2, 1, 1};
  static const int steps[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2};
  char plateau[] = "plateau";
  int32_t size[] = {3, 2};
  cr_rate_state current = {.minimum_loss = 1e38f};
  Caffe__SolverParameter param = param_of(plateau);
  param.plateau_winsize = size;
  param.n_plateau_winsize = 2;
  for (int i = 0; i < 13; ++i) {
    near(rate_of(&param, i, loss[i], &current), 0.5 * pow(0.25, steps[i]));
    assert_int_equal(current.step, steps[i]);
  }
  assert_true(current.minimum_loss == 1);
  assert_int_equal(current.last_event, 11);
}

TEST(s4_46_rates_ramp_up_and_have_a_floor) {
  char fixed[] = "fixed", poly[] = "poly", exponential[] = "exp";
  for (int i = 0; i < 12; ++i) {
    cr_rate_state current = {0};
    Caffe__SolverParameter param = param_of(fixed);
    double ramp = i * i / 16.0;
    param.rampup_interval = 4;
    near(rate_of(&param, i, 0, &current), i < 4 ? 0.5 * ramp : 0.5);
    param.rampup_lr = 0.1f;
    near(rate_of(&param, i, 0, &current), i < 4 ? 0.1 + 0.4 * ramp : 0.5);
    param = param_of(exponential);
    param.min_lr = 0.01f;
    near(rate_of(&param, i, 0, &current), fmax(0.01, 0.5 * pow(0.25, i)));
    param.lr_policy = poly;
    near(rate_of(&param, i, 0, &current), 0.01 + 0.49 * pow(fmax(0, 1 - i / 10.0), 2));
  }
}

/* Only min_lr is a lower bound: a negative rate is raised to it, and one that is not a number does
 * not become zero. */
TEST(rates_below_zero_stay) {
  char inv[] = "inv", poly[] = "poly", fixed[] = "fixed";
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(fixed);
  param.base_lr = -0.5f;
  near(rate_of(&param, 3, 0, &current), -0.5);
  param.lr_policy = poly;
  (void)read_schedule(&param);
  near(rate_of(&param, 5, 0, &current), -0.5 * 0.25);
  param.lr_policy = inv;
  param.gamma = -0.5f;
  param.power = 0.75f;
  assert_true(isnan(rate_of(&param, 3, 0, &current)));
}

CASE_TEST(a_rate_that_is_no_number_ends_training) {
  solver_case *c = *state;
  case_load_fed(c, small_net, "lr_policy: 'inv' gamma: -0.5 power: 0.75 max_iter: 9");
  ok(crema_solver_step(c->solver, 2));
  float before[6], after[6];
  case_weights(c, before);
  assert_fails(crema_solver_step(c->solver, 3), CREMA_E_NUMERIC,
               "iteration 2: the learning rate is");
  case_weights(c, after);
  assert_memory_equal(before, after, sizeof before);
}

/* Intel's ways: a straight rise, and stages whose last iterations are given. */
TEST(rates_warm_up_in_a_straight_line) {
  char fixed[] = "fixed", exponential[] = "exp";
  for (int i = 0; i < 9; ++i) {
    cr_rate_state current = {0};
    Caffe__SolverParameter param = param_of(fixed);
    param.warmup_iter = 5;
    near(rate_of(&param, i, 0, &current), i < 5 ? 0.1 * i : 0.5);
    param.warmup_start_lr = 0.2f;
    near(rate_of(&param, i, 0, &current), i < 5 ? 0.2 + 0.06 * i : 0.5);
    param.lr_policy = exponential; /* it counts from the first iteration on */
    if (i >= 5) near(rate_of(&param, i, 0, &current), 0.5 * pow(0.25, i));
  }
}

TEST(stages_end_with_their_iterations) {
  static const double expected[] = {0.25, 0.25, 0.25, 0.5, 0.125, 0.125, 0.125, 0.125};
  char multifixed[] = "multifixed";
  int32_t last[] = {2, 3, 5};
  float rates[] = {0.25f, 0.5f, 0.125f};
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(multifixed);
  param.stagelr = rates;
  param.stageiter = last;
  param.n_stagelr = param.n_stageiter = 3;
  for (int i = 0; i < 8; ++i) near(rate_of(&param, i, 0, &current), expected[i]);
}

TEST(cosine_ends_at_the_lowest_rate) {
  char cosine[] = "cosine";
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(cosine);
  near(rate_of(&param, 0, 0, &current), 0.5);
  near(rate_of(&param, 5, 0, &current), 0.25);
  assert_true(fabs(rate_of(&param, 10, 0, &current)) < 1e-15);
  param.min_lr = 0.125f;
  param.warmup_iter = 2;
  near(rate_of(&param, 1, 0, &current), 0.25);
  near(rate_of(&param, 2, 0, &current), 0.5);
  near(rate_of(&param, 6, 0, &current), 0.3125);
  near(rate_of(&param, 10, 0, &current), 0.125);
  near(rate_of(&param, 15, 0, &current), 0.125);
  param.warmup_iter = 0;
  param.rampup_interval = 2;
  near(rate_of(&param, 6, 0, &current), 0.3125);
}

/* The highest rate meets the lowest momentum, at iteration 0.3 * 20 - 1. */
TEST(one_cycle_of_rate_and_momentum) {
  char onecycle[] = "onecycle";
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(onecycle);
  param.max_iter = 20;
  param.momentum = 0.85f;
  param.max_momentum = 0.95f;
  param.momentum_policy = onecycle;
  near(rate_of(&param, 0, 0, &current), 0.02);
  near(rate_of(&param, 5, 0, &current), 0.5);
  near(rate_of(&param, 12, 0, &current), (0.5 + 0.02 / 1e4) / 2);
  near(rate_of(&param, 19, 0, &current), 0.02 / 1e4);
  near(rate_of(&param, 25, 0, &current), 0.02 / 1e4);
  near(momentum_of(&param, 0, 0.5f), 0.95);
  near(momentum_of(&param, 5, 0.5f), 0.85);
  near(momentum_of(&param, 12, 0.5f), 0.9);
  near(momentum_of(&param, 19, 0.5f), 0.95);
  /* The rise may be shorter than one iteration. */
  param.max_iter = 2;
  near(rate_of(&param, 1, 0, &current), 0.02 / 1e4);
  param.cycle_rise = 0.5f;
  near(rate_of(&param, 0, 0, &current), 0.5);
}

TEST(s4_46_momentum_and_decay_have_schedules) {
  char fixed[] = "fixed", poly[] = "poly", opt[] = "opt";
  Caffe__SolverParameter param = param_of(fixed);
  param.momentum = 0.8f;
  param.weight_decay = 0.02f;
  near(momentum_of(&param, 7, 0.5f), 0.8);
  near(decay_of(&param, 7), 0.02);
  param.momentum_policy = param.weight_decay_policy = poly;
  param.weight_decay_power = 2;
  for (int i = 0; i < 12; ++i) {
    double share = fmin(1, i / 10.0);
    param.momentum_power = 1;
    near(momentum_of(&param, i, 0.5f), 0.8 + (0.99 - 0.8) * share);
    param.momentum_power = 0.5f;
    near(momentum_of(&param, i, 0.5f), 0.8 + (0.99 - 0.8) * sqrt(share));
    param.max_weight_decay = 0.07f;
    near(decay_of(&param, i), 0.02 + (0.07 - 0.02) * share * share);
    param.max_weight_decay = 0; /* as where it is not given: down to nothing */
    if (i < 10) near(decay_of(&param, i), 0.02 * (1 - share * share));
    else assert_true(decay_of(&param, i) == 0);
  }
  param.weight_decay_policy = fixed;
  near(decay_of(&param, 7), 0.02);
  param.momentum_policy = opt;
  near(momentum_of(&param, 3, 0.04f), 0.81);
  near(momentum_of(&param, 3, 0.0001f), 0.990025);
  param.has_max_momentum = true;
  param.max_momentum = 0.9f;
  near(momentum_of(&param, 3, 0.04f), 0.81);
  near(momentum_of(&param, 3, 0.0001f), 0.9);
}

static void refuse(Caffe__SolverParameter *param, crema_status code, const char *words) {
  cr_schedule schedule;
  assert_int_equal(cr_schedule_read(param, &schedule), code);
  assert_error_has(words);
}

static void refuse_stages(void) {
  char multifixed[] = "multifixed";
  int32_t standing[] = {4, 4};
  float rates[] = {1, 2};
  Caffe__SolverParameter param = param_of(multifixed);
  refuse(&param, CREMA_E_RANGE, "found 0 stagelr and 0 stageiter");
  param.stageiter = standing;
  param.stagelr = rates;
  param.n_stageiter = 2;
  refuse(&param, CREMA_E_RANGE, "found 0 stagelr and 2 stageiter");
  param.n_stagelr = 1;
  refuse(&param, CREMA_E_RANGE, "found 1 stagelr and 2 stageiter");
  param.n_stagelr = 2;
  refuse(&param, CREMA_E_RANGE, "stageiter must rise, found 4 after 4");
}

static void refuse_cycles(void) {
  char onecycle[] = "onecycle", fixed[] = "fixed";
  Caffe__SolverParameter param = param_of(onecycle);
  (void)read_schedule(&param);
  param.cycle_rise = 1;
  refuse(&param, CREMA_E_RANGE, "cycle_rise must lie between 0 and 1, found 1");
  param.cycle_rise = 0;
  refuse(&param, CREMA_E_RANGE, "cycle_rise must lie between 0 and 1, found 0");
  param.cycle_rise = 0.25f;
  param.cycle_start_div = 0.5f;
  refuse(&param, CREMA_E_RANGE, "cycle_start_div must be at least 1, found 0.5");
  param.cycle_start_div = 1;
  param.cycle_end_div = 0;
  refuse(&param, CREMA_E_RANGE, "cycle_end_div must be at least 1, found 0");
  param = param_of(onecycle);
  param.max_iter = 0;
  refuse(&param, CREMA_E_RANGE, "lr_policy 'onecycle' needs a max_iter above 0");
  param.lr_policy = fixed;
  param.momentum_policy = onecycle;
  refuse(&param, CREMA_E_RANGE, "the policy 'onecycle' needs a max_iter above 0");
  param.momentum_policy = fixed;
  param.weight_decay_policy = onecycle;
  refuse(&param, CREMA_E_UNKNOWN_NAME, "unknown weight_decay_policy 'onecycle'");
}

/* What only just is within the bounds. */
TEST(bounds_are_allowed) {
  char fixed[] = "fixed", poly[] = "poly", cosine[] = "cosine", multistep[] = "multistep",
       onecycle[] = "onecycle";
  int32_t equal[] = {3, 3};
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(multistep);
  param.stepvalue = equal;
  param.n_stepvalue = 2;
  near(rate_of(&param, 2, 0, &current), 0.5);
  (void)rate_of(&param, 3, 0, &current);
  near(rate_of(&param, 4, 0, &current), 0.5 / 16);
  param = param_of(poly);
  param.min_lr = 0.5f;
  near(rate_of(&param, 7, 0, &current), 0.5);
  param.lr_policy = cosine;
  near(rate_of(&param, 7, 0, &current), 0.5);
  param.lr_policy = fixed;
  param.min_lr = 0.75f; /* only policies that fall to it need a higher base_lr */
  near(rate_of(&param, 7, 0, &current), 0.75);
  param = param_of(cosine);
  param.warmup_iter = 9;
  near(rate_of(&param, 9, 0, &current), 0.5);
  param.warmup_iter = 0;
  param.rampup_interval = 9;
  near(rate_of(&param, 9, 0, &current), 0.5);
  assert_true(fabs(rate_of(&param, 10, 0, &current)) < 1e-15);
  param = param_of(poly);
  param.max_iter = 1;
  near(rate_of(&param, 0, 0, &current), 0.5);
  param = param_of(onecycle);
  param.cycle_start_div = param.cycle_end_div = 1;
  near(rate_of(&param, 0, 0, &current), 0.5);
  near(rate_of(&param, 9, 0, &current), 0.5);
  param = param_of(fixed);
  param.max_iter = 0;
  near(rate_of(&param, 5, 0, &current), 0.5);
}

/* The floor also holds while the rate rises, and negative rates have none. */
TEST(floors_hold_from_the_beginning) {
  char fixed[] = "fixed";
  cr_rate_state current = {0};
  Caffe__SolverParameter param = param_of(fixed);
  param.min_lr = 0.25f;
  param.rampup_interval = 4;
  near(rate_of(&param, 0, 0, &current), 0.25);
  near(rate_of(&param, 3, 0, &current), 0.5 * 9 / 16);
  param.rampup_interval = 0;
  param.warmup_iter = 4;
  near(rate_of(&param, 1, 0, &current), 0.25);
  near(rate_of(&param, 3, 0, &current), 0.375);
}

/* A step for each stepvalue that is reached, which the log tells; a plateau's, too. */
CASE_TEST(steps_are_told) {
  static log_lines lines;
  solver_case *c = *state;
  listen(&lines);
  case_load_fed(c, small_net,
                "lr_policy: 'multistep' stepvalue: 2 stepvalue: 4 gamma: 0.5 max_iter: 9");
  ok(crema_solver_step(c->solver, 6));
  assert_int_equal(count_lines(&lines, "MultiStep Status: Iteration "), 2);
  assert_int_equal(count_lines(&lines, "MultiStep Status: Iteration 2, step = 1\n"), 1);
  assert_int_equal(count_lines(&lines, "MultiStep Status: Iteration 4, step = 2\n"), 1);
  listen(&lines);
  case_load_fed(c, small_net,
                "lr_policy: 'plateau' plateau_winsize: 3 gamma: 0.5 max_iter: 9 base_lr: 0");
  ok(crema_solver_step(c->solver, 6));
  stop_listening();
  assert_int_equal(count_lines(&lines, "Plateau Status: Iteration "), 1);
}

TEST(refuses) {
  char step[] = "step", poly[] = "poly", multistep[] = "multistep", wrong[] = "multstep",
       plateau[] = "plateau", cosine[] = "cosine", unlike[] = "quadratic";
  int32_t falling[] = {5, 3};
  Caffe__SolverParameter param = param_of(NULL);
  refuse(&param, CREMA_E_PARSE,
         "lr_policy is missing; known policies: fixed, step, exp, inv, "
         "multistep, poly, sigmoid, plateau, multifixed, cosine, onecycle");
  param.lr_policy = wrong;
  refuse(&param, CREMA_E_UNKNOWN_NAME,
         "unknown lr_policy 'multstep' (did you mean 'multistep'?); known policies: fixed, step, ");
  param.lr_policy = unlike;
  refuse(&param, CREMA_E_UNKNOWN_NAME, "unknown lr_policy 'quadratic'; known policies: fixed, ");
  param.lr_policy = step;
  param.stepsize = 0;
  refuse(&param, CREMA_E_RANGE, "stepsize");
  param.lr_policy = poly;
  param.max_iter = 0;
  refuse(&param, CREMA_E_RANGE, "max_iter");
  param.lr_policy = multistep;
  (void)read_schedule(&param);
  param.stepvalue = falling;
  param.n_stepvalue = 2;
  refuse(&param, CREMA_E_RANGE, "found 3 after 5");
  param = param_of(plateau);
  refuse(&param, CREMA_E_RANGE, "plateau_winsize");
  param = param_of(poly);
  param.min_lr = 0.6f;
  refuse(&param, CREMA_E_RANGE, "min_lr");
  param.min_lr = -1;
  refuse(&param, CREMA_E_RANGE, "min_lr");
  param = param_of(cosine);
  param.min_lr = 0.6f;
  refuse(&param, CREMA_E_RANGE, "min_lr");
  param.min_lr = 0;
  param.warmup_iter = 10;
  refuse(&param, CREMA_E_RANGE, "above the 10 iterations of the warm-up, found 10");
  param.rampup_interval = 3;
  refuse(&param, CREMA_E_ARGUMENT, "two ways to begin");
  refuse_stages();
  refuse_cycles();
  param = param_of(multistep);
  param.momentum_policy = wrong;
  refuse(&param, CREMA_E_UNKNOWN_NAME,
         "unknown momentum_policy 'multstep'; known policies: fixed, poly, opt, onecycle");
  param.momentum_policy = poly;
  (void)read_schedule(&param);
  param.weight_decay_policy = wrong;
  refuse(&param, CREMA_E_UNKNOWN_NAME, "unknown weight_decay_policy 'multstep'");
  param.weight_decay_policy = poly;
  param.max_iter = 0;
  refuse(&param, CREMA_E_RANGE, "the policy 'poly' needs a max_iter above 0, found 0");
  for (int k = 0; k < 2; ++k) {
    char opt[] = "opt", fixed[] = "fixed";
    param = param_of(fixed);
    param.momentum_policy = k == 0 ? fixed : opt;
    param.max_iter = 0;
    (void)read_schedule(&param);
    param.weight_decay_policy = poly;
    refuse(&param, CREMA_E_RANGE, "the policy 'poly' needs a max_iter above 0, found 0");
  }
  param = param_of(step);
  param.min_lr = NAN;
  refuse(&param, CREMA_E_RANGE, "min_lr must lie between 0 and base_lr (0.5), found nan");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
