/* The power of local response normalisation, without branches and calls: loops over it are
 * vectorised. */
#ifndef CR_DEVICE_CPU_KERNELS_LRN_POWER_H
#define CR_DEVICE_CPU_KERNELS_LRN_POWER_H

#include <float.h>
#include <math.h>

#include "core/cpu_dispatch.h"
#include "device/backend/half.h"

/* s^-3/4 of a normal number, with a relative error of 2e-7. A guess r of s^-1/4 (error 0.03) uses a
 * quarter of the logarithm in the bits of s. Let y = 1 - s r^4, with |y| < 0.1236. Then s^-3/4 =
 * r^3 (1 - y)^-3/4, and 1 + y polynomial approximates (1 - y)^-3/4 to 4e-9. */
CR_INLINE float cr_power_of_minus_3_4_normal(float s) {
  const float root = cr_f32_from_bits(0x4f581800u - (cr_f32_bits(s) >> 2)), square = root * root;
  const float y = 1 - s * square * square, y_2 = y * y, cube = root * square;
  const float highest = 0.527358736f * y + 0.549248957f;
  const float middle = 0.563844928f * y + 0.601458912f;
  const float lowest = 0.656250304f * y + 0.750000198f;
  return cube + cube * y * ((highest * y_2 + middle) * y_2 + lowest);
}

/* The same of any number. */
CR_INLINE float cr_power_of_minus_3_4(float s) {
  const bool subnormal = s < FLT_MIN;
  const float power = cr_power_of_minus_3_4_normal(subnormal ? s * 0x1p24f : s);
  const float edge = s == 0 ? INFINITY : s > 0 ? 0 : NAN;
  return s > 0 && s <= FLT_MAX ? subnormal ? power * 0x1p18f : power : edge;
}

#endif
