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

#endif

/* 1 / (1 + exp(-x)). The power's exponent is never positive: no overflow, and full precision in
 * both tails. */
CR_INLINE cr_real cr_ref_sigmoid(cr_real x) {
  const cr_real power = cr_ref_exp_below_0(false, -fabs(x));
  return (x < 0 ? power : 1) / (1 + power);
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
