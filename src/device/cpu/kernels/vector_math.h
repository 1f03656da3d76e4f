/* The functions of core/float_math.h for the type that is being compiled; in double they are the C
 * library's. */
#ifndef CR_DEVICE_CPU_KERNELS_VECTOR_MATH_H
#define CR_DEVICE_CPU_KERNELS_VECTOR_MATH_H

#include "core/float_math.h"
#include "device/cpu/kernels/element_type.h"

#ifdef CR_REF_F64

CR_INLINE cr_real cr_ref_exp(cr_real x) {
  return exp(x);
}
CR_INLINE cr_real cr_ref_exp_below_0(bool fused, cr_real x) {
  (void)fused;
  return exp(x);
}
CR_INLINE cr_real cr_ref_add_exp(bool fused, cr_real x, cr_real sum) {
  (void)fused;
  return sum + exp(x);
}
CR_INLINE cr_real cr_ref_expm1(cr_real x) {
  return expm1(x);
}
CR_INLINE cr_real cr_ref_log(cr_real x) {
  return log(x);
}
CR_INLINE cr_real cr_ref_log_of_sum(bool fused, cr_real x) {
  (void)fused;
  return log(x);
}
CR_INLINE cr_real cr_ref_log1p(cr_real x) {
  return log1p(x);
}
CR_INLINE cr_real cr_ref_log1p_far(cr_real x) {
  return log1p(x);
}
CR_INLINE cr_real cr_ref_erfc_above_0(cr_real x) {
  return erfc(x);
}

#else

CR_INLINE cr_real cr_ref_exp(cr_real x) {
  return cr_float_exp(x);
}
CR_INLINE cr_real cr_ref_exp_below_0(bool fused, cr_real x) {
  return cr_float_exp_below_0(fused, x);
}
CR_INLINE cr_real cr_ref_add_exp(bool fused, cr_real x, cr_real sum) {
  return cr_float_add_exp(fused, x, sum);
}
CR_INLINE cr_real cr_ref_expm1(cr_real x) {
  return cr_float_expm1(x);
}
CR_INLINE cr_real cr_ref_log(cr_real x) {
  return cr_float_log(x);
}
CR_INLINE cr_real cr_ref_log_of_sum(bool fused, cr_real x) {
  return cr_float_log_of_sum(fused, x);
}
CR_INLINE cr_real cr_ref_log1p(cr_real x) {
  return cr_float_log1p(x);
}
CR_INLINE cr_real cr_ref_log1p_far(cr_real x) {
  return cr_float_log1p_far(x);
}

/* 1 - erf(x) for x >= 0: t exp(p - x^2) with t = 1 / (1 + x / 2), within 4e-7. The polynomial p is
 * the Chebyshev series of the exact exponent in t, for x up to 14. */
CR_INLINE cr_real cr_ref_erfc_above_0(cr_real x) {
  const cr_real t = 1 / (1 + x / 2), u = t * 2.2857143f - 1.2857143f; /* u: -1 to 1 */
  cr_real p = 9.719109764e-5f;
  p = p * u + 6.232040779e-5f;
  p = p * u - 0.0008072344135f;
  p = p * u - 3.24909575e-5f;
  p = p * u + 0.004794383739f;
  p = p * u - 0.002433233227f;
  p = p * u - 0.03376422675f;
  p = p * u + 0.02221334759f;
  p = p * u + 0.5969377403f;
  p = p * u - 0.587067732f;
  return t * cr_ref_exp(p - x * x);
}

#endif

/* 1 / (1 + exp(-x)). The power's exponent is never positive: no overflow, and full precision in
 * both tails. */
CR_INLINE cr_real cr_ref_sigmoid(cr_real x) {
  const cr_real power = cr_ref_exp_below_0(false, -fabs(x));
  return (x < 0 ? power : 1) / (1 + power);
}

/* The share of a normal distribution below x, which GELU multiplies x by. */
CR_INLINE cr_real cr_ref_normal_share(cr_real x) {
  const cr_real tail = (cr_real)0.5 * cr_ref_erfc_above_0(fabs(x) * (cr_real)0.70710678118654752);
  return x < 0 ? tail : 1 - tail;
}

/* The argument of the sigmoid by which GELU's approximation multiplies x: 2 sqrt(2 / pi) (x +
 * 0.044715 x^3), as 1 + tanh(u) = 2 sigmoid(2 u); and its derivative. */
CR_INLINE cr_real cr_ref_gelu_argument(cr_real x) {
  return (cr_real)1.5957691216057308 * x * (1 + (cr_real)0.044715 * x * x);
}
CR_INLINE cr_real cr_ref_gelu_argument_slope(cr_real x) {
  return (cr_real)1.5957691216057308 * (1 + (cr_real)0.134145 * x * x);
}

/* log(1 + exp(x)), written so that exp never overflows. */
CR_INLINE cr_real cr_ref_softplus(cr_real x) {
  return (x > 0 ? x : 0) + cr_ref_log1p(cr_ref_exp_below_0(false, -fabs(x)));
}

CR_INLINE cr_real cr_ref_tanh(cr_real x) {
#ifdef CR_REF_F64
  return tanh(x);
#else
  const float less = cr_ref_expm1(-2 * fabsf(x));
  return copysignf(less / (2 + less), x);
#endif
}

#endif
