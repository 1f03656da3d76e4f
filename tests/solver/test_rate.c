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

static void near(double found, double expected) {
  if (fabs(found - expected) > 1e-6 * fabs(expected)) {
    fail_msg("%.9g is not %.9g", found, expected);
  }
}

static void closed_forms(void **state) {
  char fixed[] = "fixed", step[] = "step", exponential[] = "exp", inv[] = "inv", poly[] = "poly",
       sigmoid[] = "sigmoid";
  (void)state;
  for (int i = 0; i < 10; ++i) {
    int current = 0;
    Caffe__SolverParameter param = param_of(fixed);
    near((double)cr_rate_at(&param, i, &current), 0.5);
    param.lr_policy = step;
    near((double)cr_rate_at(&param, i, &current), 0.5 * pow(0.25, i / 4));
    assert_int_equal(current, i / 4);
    param.lr_policy = exponential;
    near((double)cr_rate_at(&param, i, &current), 0.5 * pow(0.25, i));
    param.lr_policy = inv;
    near((double)cr_rate_at(&param, i, &current), 0.5 / ((1 + 0.25 * i) * (1 + 0.25 * i)));
    param.lr_policy = poly;
    near((double)cr_rate_at(&param, i, &current), 0.5 * (1 - i / 10.0) * (1 - i / 10.0));
    param.lr_policy = sigmoid;
    near((double)cr_rate_at(&param, i, &current), 0.5 / (1 + exp(-0.25 * (i - 4))));
  }
}

static void multistep_moves_on(void **state) {
  char multistep[] = "multistep";
  int32_t at[] = {2, 5, 6};
  const double expected[] = {0.5,     0.5,       0.125,     0.125,    0.125,
                             0.03125, 0.0078125, 0.0078125, 0.0078125};
  (void)state;
  Caffe__SolverParameter param = param_of(multistep);
  param.stepvalue = at;
  param.n_stepvalue = 3;
  int current = 0;
  for (int i = 0; i < 9; ++i) near((double)cr_rate_at(&param, i, &current), expected[i]);
  assert_int_equal(current, 3);
}

static void poly_ends_at_zero(void **state) {
  char poly[] = "poly";
  int current = 0;
  (void)state;
  Caffe__SolverParameter param = param_of(poly);
  param.power = 0.5f;
  assert_true(cr_rate_at(&param, 10, &current) == 0);
  assert_true(cr_rate_at(&param, 12, &current) == 0);
}

static void refuse(Caffe__SolverParameter *param, crema_status code, const char *words) {
  assert_int_equal(cr_rate_check(param), code);
  assert_non_null(strstr(crema_error_text(), words));
}

static void refuses(void **state) {
  char step[] = "step", poly[] = "poly", multistep[] = "multistep", wrong[] = "multstep";
  int32_t falling[] = {5, 3};
  (void)state;
  Caffe__SolverParameter param = param_of(NULL);
  refuse(&param, CREMA_E_PARSE, "lr_policy");
  param.lr_policy = wrong;
  refuse(&param, CREMA_E_UNKNOWN_NAME, "did you mean 'multistep'");
  param.lr_policy = step;
  param.stepsize = 0;
  refuse(&param, CREMA_E_RANGE, "stepsize");
  param.lr_policy = poly;
  param.max_iter = 0;
  refuse(&param, CREMA_E_RANGE, "max_iter");
  param.lr_policy = multistep;
  assert_int_equal(cr_rate_check(&param), CREMA_OK);
  param.stepvalue = falling;
  param.n_stepvalue = 2;
  refuse(&param, CREMA_E_RANGE, "found 3 after 5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closed_forms),
      cmocka_unit_test(multistep_moves_on),
      cmocka_unit_test(poly_ends_at_zero),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
