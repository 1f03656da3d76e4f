/* Exponentials and logarithms of floats without branches and calls, so that loops over them are
 * vectorised. Each is within 3 units in the last place, with the C library's results for nan and
 * infinities (polynomials for exp and log: Moshier, "Methods and programs for mathematical
 * functions", 1989). */
#ifndef CR_CORE_FLOAT_MATH_H
#define CR_CORE_FLOAT_MATH_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "core/cpu_dispatch.h"
#include "core/float_bits.h"

/* ln 2 in two parts; the product of the first with a small integer is exact. */
#define CR_LN2_HIGH 0.693359375f
#define CR_LN2_LOW -2.12194440e-4f

/* Adding this to a number rounds it to an integer, which is then in the lowest bits of the sum. */
#define CR_ROUNDING 0x1.8p23f

/* Bounds of arguments. Compilers do not see these numbers: to choose between a value and a bound
 * that it knows takes GCC a comparison of vectors and a choice, and one instruction otherwise. */
typedef struct cr_float_bounds {
  float exp_least, exp_most, below_0_least, term_least, expm1_least, expm1_most;
} cr_float_bounds;

extern const cr_float_bounds cr_float_bound;

/* x, or the bound that it is beyond; nan stays nan. */
CR_INLINE float cr_float_at_least(float least, float x) {
  return least > x ? least : x;
}

CR_INLINE float cr_float_at_most(float most, float x) {
  return most < x ? most : x;
}

/* 2^n for n in -126 ... 127. */
CR_INLINE float cr_float_power_of_2(int32_t n) {
  return cr_f32_from_bits((uint32_t)(n + 127) << 23);
}

/* a b + c, rounded once if it is fused (see cr_fuses). */
CR_INLINE float cr_float_multiply_add(bool fused, float a, float b, float c) {
#ifdef __GNUC__
  return fused ? __builtin_fmaf(a, b, c) : a * b + c;
#else
  return fused ? fmaf(a, b, c) : a * b + c;
#endif
}

/* x = n ln 2 + rest with |rest| <= ln 2 / 2; returns exp(rest) - 1. *shifted: CR_ROUNDING + n +
 * more, for an integer `more`. |x| < 2^20. */
CR_INLINE float cr_float_reduce(bool fused, float x, float more, float *shifted) {
  const float shift = CR_ROUNDING + more;
  *shifted = cr_float_multiply_add(fused, x, 1.44269504088896341f, shift);
  const float turns = *shifted - shift;
  const float most = cr_float_multiply_add(fused, turns, -CR_LN2_HIGH, x);
  const float r = cr_float_multiply_add(fused, turns, -CR_LN2_LOW, most);
  /* The polynomial of least relative error of exp, 4e-9, in pairs of terms, so that more than one
   * product is under way at a time. */
  const float square = r * r;
  const float middle = cr_float_multiply_add(fused, 8.369165473e-3f, r, 4.166810215e-2f);
  const float low = cr_float_multiply_add(fused, 1.666651666e-1f, r, 4.999999404e-1f);
  const float high = cr_float_multiply_add(fused, 1.383832423e-3f, square, middle);
  const float both = cr_float_multiply_add(fused, high, square, low);
  return cr_float_multiply_add(fused, both, square, r);
}

CR_INLINE float cr_float_exp(float x) {
  /* Beyond these bounds the result is 0 and infinity. */
  const float most = cr_float_at_most(cr_float_bound.exp_most, x);
  const float inside = cr_float_at_least(cr_float_bound.exp_least, most);
  float shifted;
  const float power = cr_float_reduce(false, inside, 0, &shifted) + 1;
  const int32_t n = (int32_t)(cr_f32_bits(shifted) - cr_f32_bits(CR_ROUNDING));
  /* In two factors, because each must be representable if the product is subnormal. */
  return power * cr_float_power_of_2(n >> 1) * cr_float_power_of_2(n - (n >> 1));
}

/* As above, for x <= 0 only, in fewer steps: one factor is normal for each n, and the second factor
 * is constant. */
CR_INLINE float cr_float_exp_below_0(bool fused, float x) {
  const float inside = cr_float_at_least(cr_float_bound.below_0_least, x);
  float shifted;
  const float power = cr_float_reduce(fused, inside, 25 + 127, &shifted) + 1;
  return power * cr_f32_from_bits(cr_f32_bits(shifted) << 23) * 0x1p-25f;
}

/* sum + exp(x), for x <= 0 and sums whose largest term is 1. exp(-87) for all x below that, and a
 * shorter polynomial, of relative error 9e-8. Horner's rule takes a product less than pairs of
 * terms, and sums have enough other powers to hide its latency. */
CR_INLINE float cr_float_add_exp(bool fused, float x, float sum) {
  const float turn = 1.44269504088896341f, shift = CR_ROUNDING + 127;
  const float inside = cr_float_at_least(cr_float_bound.term_least, x);
  const float shifted = cr_float_multiply_add(fused, inside, turn, shift);
  const float r = cr_float_multiply_add(fused, inside, turn, -(shifted - shift));
  float power = cr_float_multiply_add(fused, 1.3264727206e-3f, r, 9.6715126548e-3f);
  power = cr_float_multiply_add(fused, power, r, 5.5507337434e-2f);
  power = cr_float_multiply_add(fused, power, r, 2.4022242085e-1f);
  power = cr_float_multiply_add(fused, power, r, 6.9314697760e-1f);
  power = cr_float_multiply_add(fused, power, r, 1);
  const float scale = cr_f32_from_bits(cr_f32_bits(shifted) << 23);
  return cr_float_multiply_add(fused, power, scale, sum);
}

/* exp(x) - 1 for x <= 0 (for larger x anything). */
CR_INLINE float cr_float_expm1(float x) {
  const float below = cr_float_at_most(cr_float_bound.expm1_most, x);
  const float inside = cr_float_at_least(cr_float_bound.expm1_least, below);
  float shifted;
  const float rest = cr_float_reduce(false, inside, 127, &shifted);
  const float power = cr_f32_from_bits(cr_f32_bits(shifted) << 23);
  return power * rest + (power - 1);
}

/* log(1 + f) + turns ln 2, for 1 + f between sqrt(1/2) and sqrt(2). */
CR_INLINE float cr_float_log_near(bool fused, float f, float turns) {
  const float square = f * f;
  const float first = cr_float_multiply_add(fused, -2.4999993993e-1f, f, 3.3333331174e-1f);
  const float second = cr_float_multiply_add(fused, -1.6668057665e-1f, f, 2.0000714765e-1f);
  const float third = cr_float_multiply_add(fused, -1.2420140846e-1f, f, 1.4249322787e-1f);
  const float fourth = cr_float_multiply_add(fused, -1.1514610310e-1f, f, 1.1676998740e-1f);
  float sum = cr_float_multiply_add(fused, 7.0376836292e-2f, square, fourth);
  sum = cr_float_multiply_add(fused, sum, square, third);
  sum = cr_float_multiply_add(fused, sum, square, second);
  sum = cr_float_multiply_add(fused, sum, square, first);
  const float rest = cr_float_multiply_add(fused, sum * f, square, turns * CR_LN2_LOW);
  const float low = cr_float_multiply_add(fused, -0.5f, square, rest);
  return cr_float_multiply_add(fused, turns, CR_LN2_HIGH, f + low);
}

/* The exponent n of a normal number 2^n m with m between sqrt(1/2), whose bits these are, and
 * sqrt(2); *f: m - 1. */
CR_INLINE int32_t cr_float_split(uint32_t bits, float *f) {
  const int32_t n = (int32_t)(bits - 0x3f3504f3u) >> 23;
  *f = cr_f32_from_bits(bits - ((uint32_t)n << 23)) - 1;
  return n;
}

/* log(x) for x >= FLT_MIN, as for sums whose largest term is 1; NaN for NaN. */
CR_INLINE float cr_float_log_of_sum(bool fused, float x) {
  float f;
  const int32_t n = cr_float_split(cr_f32_bits(x), &f);
  const float value = cr_float_log_near(fused, f, (float)n);
  return x <= FLT_MAX ? value : x;
}

CR_INLINE float cr_float_log(float x) {
  const bool subnormal = x < FLT_MIN;
  const uint32_t bits = cr_f32_bits(subnormal ? x * 0x1p23f : x);
  float f;
  const int32_t n = cr_float_split(bits, &f);
  const float value = cr_float_log_near(false, f, (float)(n - (subnormal ? 23 : 0)));
  const float edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x <= FLT_MAX ? value : edge;
}

/* log(1 + x) for x from 0 to 2^20, in more steps than below. For 1 + x < sqrt(2) it is computed
 * from x itself, so that small x keep their precision. */
CR_INLINE float cr_float_log1p_far(float x) {
  const int32_t n = (int32_t)(cr_f32_bits(1 + x) - 0x3f3504f3u) >> 23;
  const float scale = cr_float_power_of_2(-n), turns = (float)n;
  const float f = x * scale + (scale - 1);
  return cr_float_log_near(false, f, turns);
}

/* log(1 + x) for x in 0 ... 1: the polynomial of least relative error, 5e-9. */
CR_INLINE float cr_float_log1p(float x) {
  const float square = x * x;
  const float first = 3.332996368e-1f * x - 4.999990165e-1f;
  const float second = 1.967593879e-1f * x - 2.495413274e-1f;
  const float third = 1.060365140e-1f * x - 1.530559063e-1f;
  const float fourth = 1.985144429e-2f * x - 5.695949867e-2f;
  float sum = -3.244020976e-3f * square + fourth;
  sum = sum * square + third;
  sum = sum * square + second;
  sum = sum * square + first;
  return sum * square + x;
}

#endif
