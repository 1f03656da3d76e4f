/* The power of local response normalisation, without branches and calls: loops over it are
 * vectorised. */
#ifndef CR_DEVICE_CPU_LRN_POWER_H
#define CR_DEVICE_CPU_LRN_POWER_H

#include <float.h>
#include <math.h>

#include "core/clones.h"
#include "device/backend/half.h"

/* s^-3/4 of a normal number, to 6e-7 of it: the cube of the inverse fourth root, which Newton's
 * method finds from a guess (to 0.03) that takes a quarter of what the bits of s say of its
 * logarithm. */
CR_INLINE float cr_power_of_minus_3_4_normal(float s) {
  float root = cr_f32_from_bits(0x4f586000u - (cr_f32_bits(s) >> 2));
  for (int i = 0; i < 3; ++i) {
    const float square = root * root;
    root = root * (1.25f - 0.25f * (s * square * square));
  }
  return root * root * root;
}

/* The same of any number. */
CR_INLINE float cr_power_of_minus_3_4(float s) {
  const bool subnormal = s < FLT_MIN;
  const float power = cr_power_of_minus_3_4_normal(subnormal ? s * 0x1p24f : s);
  const float edge = s == 0 ? INFINITY : s > 0 ? 0 : NAN;
  return s > 0 && s <= FLT_MAX ? subnormal ? power * 0x1p18f : power : edge;
}

/* Of `count` numbers, of which few are not normal; y is not s. */
CR_INLINE void cr_powers_of_minus_3_4(const float *s, int64_t count, float *y) {
  const uint32_t least = 0x00800000u, most = 0x7f7fffffu;
  uint32_t furthest = 0;
#pragma omp simd reduction(max : furthest)
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t from = cr_f32_bits(s[i]) - least;
    furthest = from > furthest ? from : furthest;
    y[i] = cr_power_of_minus_3_4_normal(s[i]);
  }
  if (furthest <= most - least) return;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = cr_power_of_minus_3_4(s[i]);
}

#endif
