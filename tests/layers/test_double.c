/* What layers in DOUBLE compute from numbers of their own, such as the logarithm of a base or a
 * number of items, is as exact as doubles are: gradients by differences cannot tell, because
 * forward and backward would err together. */
#include <math.h>

#include "layers/layer_rig.h"

enum { VALUES = 6 };

/* Far below what a float could tell apart. */
static void assert_exact(double found, double expected, const char *what) {
  if (fabs(found - expected) <= 1e-14 * fmax(1, fabs(expected))) return;
  print_error("%s: %.17g, should be %.17g\n", what, found, expected);
  fail();
}

/* Makes a layer of doubles and gives its first bottom VALUES values that floats do not have. */
static void make(rig *r, const char *type, const char *body, Caffe__Phase phase,
                 const char *shapes) {
  rig_make_of(r, CREMA_F64, type, body, phase, shapes, 1);
  ok(rig_setup(r));
  rig_values x = rig_data_of(r->bottom[0]);
  for (int i = 0; i < x.count; ++i) rig_set(x, i, 0.1 + 0.3 * i);
}

static double base_10(double x) {
  return log(x) / log(10.0);
}
static double power_of_10(double x) {
  return exp(x * log(10.0));
}
static double seventh_power(double x) {
  return pow((double)0.3f * x + (double)0.1f, (double)0.7f);
}

TEST(functions_use_doubles) {
  static const struct {
    const char *type, *body;
    double (*value)(double x);
  } cases[] = {{"Log", "log_param { base: 10 }", base_10},
               {"Exp", "exp_param { base: 10 }", power_of_10},
               {"Power", "power_param { power: 0.7 scale: 0.3 shift: 0.1 }", seventh_power},
               {"Sigmoid", "", NULL},
               {"TanH", "", tanh}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    rig r;
    make(&r, cases[k].type, cases[k].body, CAFFE__PHASE__TRAIN, "6");
    ok(rig_forward(&r));
    for (int i = 0; i < VALUES; ++i) {
      double x = 0.1 + 0.3 * i;
      double y = cases[k].value == NULL ? 1 / (1 + exp(-x)) : cases[k].value(x);
      assert_exact(rig_get(rig_data_of(r.top[0]), i), y, cases[k].type);
    }
    rig_free(&r);
  }
}

TEST(means_are_exact) {
  rig r;
  make(&r, "Reduction", "reduction_param { operation: MEAN axis: 1 coeff: 0.7 }",
       CAFFE__PHASE__TRAIN, "2 3");
  ok(rig_forward(&r));
  for (int i = 0; i < 2; ++i) {
    assert_exact(rig_get(rig_data_of(r.top[0]), i), (double)0.7f / 3 * (3 * 0.4 + 2.7 * i), "mean");
  }
  rig_free(&r);
}

/* The running sums over their weight, and what a batch adds to them. */
TEST(statistics_are_exact) {
  const double mean = 0.7 / 3, variance = 1.1 / 3;
  rig r;
  make(&r, "BatchNorm", "batch_norm_param { eps: 0.25 }", CAFFE__PHASE__TEST, "6 1");
  rig_set(rig_data_of(r.layer->blob[0]), 0, 0.7);
  rig_set(rig_data_of(r.layer->blob[1]), 0, 1.1);
  rig_set(rig_data_of(r.layer->blob[2]), 0, 3);
  ok(rig_forward(&r));
  for (int i = 0; i < VALUES; ++i) {
    assert_exact(rig_get(rig_data_of(r.top[0]), i), (0.1 + 0.3 * i - mean) / sqrt(variance + 0.25),
                 "value by running statistics");
  }
  rig_free(&r);
  make(&r, "BatchNorm", "batch_norm_param { moving_average_fraction: 0.5 }", CAFFE__PHASE__TRAIN,
       "6 1");
  ok(rig_forward(&r));
  assert_exact(rig_get(rig_data_of(r.layer->blob[0]), 0), 0.85, "sum of means");
  /* 0.09 (n^2 - 1) / 12 times n / (n - 1) of n values 0.3 apart. */
  assert_exact(rig_get(rig_data_of(r.layer->blob[1]), 0), 0.09 * 6 * 7 / 12, "sum of variances");
  rig_free(&r);
}

/* The loss of six scores of three classes, and its gradient, for labels 0, 1. */
TEST(losses_are_divided_exactly) {
  static const char *const bodies[] = {"loss_param { normalization: NONE }",
                                       "loss_param { normalization: VALID ignore_label: 5 }"};
  double loss[2], slope[2];
  for (int k = 0; k < 2; ++k) {
    rig r;
    make(&r, "SoftmaxWithLoss", bodies[k], CAFFE__PHASE__TRAIN, "3 2|3");
    for (int i = 0; i < 3; ++i) rig_set(rig_data_of(r.bottom[1]), i, i % 2);
    ok(rig_forward(&r));
    loss[k] = rig_get(rig_data_of(r.top[0]), 0);
    rig_set(rig_diff_of(r.top[0]), 0, 0.7);
    r.propagate_down[1] = false;
    ok(rig_backward(&r));
    slope[k] = rig_get(rig_diff_of(r.bottom[0]), 0);
    rig_free(&r);
  }
  assert_exact(loss[1], loss[0] / 3, "loss");
  assert_exact(slope[1], slope[0] / 3, "gradient");
  const double p = 1 / (1 + exp(0.3));
  assert_exact(slope[0], 0.7 * (p - 1), "gradient of the first score");
}

/* A pair's loss is divided by 2 N, the gradient of the second bottom is the opposite. */
TEST(other_losses_are_divided_exactly) {
  rig r;
  make(&r, "EuclideanLoss", "", CAFFE__PHASE__TRAIN, "3 2|3 2");
  for (int i = 0; i < VALUES; ++i) rig_set(rig_data_of(r.bottom[1]), i, 0);
  ok(rig_forward(&r));
  double sum = 0;
  for (int i = 0; i < VALUES; ++i) sum += (0.1 + 0.3 * i) * (0.1 + 0.3 * i);
  assert_exact(rig_get(rig_data_of(r.top[0]), 0), sum / 6, "loss");
  rig_set(rig_diff_of(r.top[0]), 0, 0.7);
  ok(rig_backward(&r));
  for (int i = 0; i < VALUES; ++i) {
    assert_exact(rig_get(rig_diff_of(r.bottom[0]), i), 0.7 / 3 * (0.1 + 0.3 * i), "gradient");
    assert_exact(rig_get(rig_diff_of(r.bottom[1]), i), -0.7 / 3 * (0.1 + 0.3 * i), "gradient");
  }
  rig_free(&r);
  make(&r, "HingeLoss", "", CAFFE__PHASE__TRAIN, "3 2|3");
  for (int i = 0; i < 3; ++i) rig_set(rig_data_of(r.bottom[1]), i, 0);
  ok(rig_forward(&r));
  rig_set(rig_diff_of(r.top[0]), 0, 0.7);
  r.propagate_down[1] = false;
  ok(rig_backward(&r));
  assert_exact(rig_get(rig_diff_of(r.bottom[0]), 1), 0.7 / 3, "gradient of a hinge");
  rig_free(&r);
}

/* A selector that a float would round to 0 selects. */
TEST(selectors_are_read_as_doubles) {
  rig r;
  make(&r, "Filter", "", CAFFE__PHASE__TRAIN, "3 2|3");
  for (int i = 0; i < 3; ++i) rig_set(rig_data_of(r.bottom[1]), i, i == 1 ? 1e-300 : 0);
  ok(rig_forward(&r));
  assert_int_equal(crema_blob_count(r.top[0]), 2);
  assert_exact(rig_get(rig_data_of(r.top[0]), 0), 0.1 + 0.3 * 2, "selected value");
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
