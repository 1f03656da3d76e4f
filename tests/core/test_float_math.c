/* Functions of floats, against the C library's in double precision. */
#include <string.h>

#include "check.h"
#include "core/float_math.h"

typedef struct function {
  const char *name;
  float (*of)(float);
  double (*exact)(double);
  float least, most; /* of the arguments */
  double units;      /* in the last place, which the result may be wrong by */
} function;

#define FUNCTION(name)              \
  static float name##_of(float x) { \
    return cr_float_##name(x);      \
  }
/* Both as any processor computes them and fused. */
#define FUSED_FUNCTION(name)              \
  static float name##_of(float x) {       \
    return cr_float_##name(false, x);     \
  }                                       \
  static float name##_fused_of(float x) { \
    return cr_float_##name(true, x);      \
  }
FUNCTION(exp)
FUSED_FUNCTION(exp_below_0)
FUNCTION(expm1)
FUNCTION(log)
FUSED_FUNCTION(log_of_sum)
FUNCTION(log1p)
FUNCTION(log1p_far)

static float term_of(bool fused, float x) {
  return cr_float_add_exp(fused, x, 0);
}

static const function functions[] = {
    {"exp", exp_of, exp, -110, 88.7f, 1},
    {"exp below 0", exp_below_0_of, exp, -110, 0, 1},
    {"exp below 0, fused", exp_below_0_fused_of, exp, -110, 0, 1},
    {"expm1", expm1_of, expm1, -30, 0, 1},
    {"log", log_of, log, 0x1p-149f, FLT_MAX, 3},
    {"log of a sum", log_of_sum_of, log, FLT_MIN, FLT_MAX, 3},
    {"log of a sum, fused", log_of_sum_fused_of, log, FLT_MIN, FLT_MAX, 3},
    {"log1p", log1p_of, log1p, 0, 1, 3},
    {"log1p far", log1p_far_of, log1p, 0, 0x1p20f, 2}};

static double units_between(float found, double exact) {
  int power;
  (void)frexp(exact, &power);
  return fabs((double)found - exact) / ldexp(1, power < -125 ? -149 : power - 24);
}

/* Every 509th float, which leaves out no exponent and no range of a mantissa. */
TEST(test_errors_are_small) {
  for (size_t f = 0; f < sizeof functions / sizeof *functions; ++f) {
    const function *p = &functions[f];
    for (uint32_t bits = 0; bits <= 0xff800000u - 509; bits += 509) {
      const float x = cr_f32_from_bits(bits);
      if (!(x >= p->least && x <= p->most)) continue;
      const double units = units_between(p->of(x), p->exact((double)x));
      if (units <= p->units) continue;
      fail_msg("%s of %.9g is %.9g: wrong by %.3g units", p->name, (double)x, (double)p->of(x),
               units);
    }
  }
}

/* What is wrong with terms is small beside the largest one of their sum, which is 1. */
TEST(test_errors_of_terms_are_small) {
  for (float x = 0; x >= -87; x -= 0x1p-12f) {
    const double exact = exp((double)x);
    assert_true(fabs((double)term_of(false, x) - exact) <= 1.5e-7);
    assert_true(fabs((double)term_of(true, x) - exact) <= 1.5e-7);
    assert_true(fabs((double)cr_float_add_exp(true, x, 2) - exact - 2) <= 2.5e-7);
  }
}

TEST(test_edges) {
  assert_true(cr_float_exp(-INFINITY) == 0 && cr_float_exp(INFINITY) == INFINITY);
  assert_true(cr_float_exp(-1e30f) == 0 && cr_float_exp(1e30f) == INFINITY);
  assert_true(cr_float_exp_below_0(false, -INFINITY) == 0 &&
              cr_float_exp_below_0(false, -1e30f) == 0);
  assert_true(term_of(false, -INFINITY) == term_of(false, -87) && term_of(false, 0) == 1);
  assert_true(cr_float_expm1(-INFINITY) == -1 && cr_float_expm1(-1e30f) == -1);
  assert_true(cr_float_exp(0) == 1 && cr_float_exp_below_0(false, 0) == 1 &&
              cr_float_expm1(0) == 0);
  assert_true(cr_float_log(0) == -INFINITY && cr_float_log(INFINITY) == INFINITY);
  assert_true(cr_float_log_of_sum(false, INFINITY) == INFINITY &&
              cr_float_log_of_sum(true, INFINITY) == INFINITY && cr_float_log_of_sum(true, 1) == 0);
  assert_true(cr_float_log(1) == 0 && cr_float_log1p(0) == 0 && cr_float_log1p_far(0) == 0 &&
              isnan(cr_float_log(-1)));
  assert_true(isnan(term_of(false, NAN)) && isnan(term_of(true, -NAN)));
  for (size_t f = 0; f < sizeof functions / sizeof *functions; ++f) {
    assert_true(isnan(functions[f].of(NAN)) && isnan(functions[f].of(-NAN)));
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
