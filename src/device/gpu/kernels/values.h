/* Arrays of values in the element type that their tensor has: F32, F16 or BF16. Values are read and
 * computed as floats, and rounded to nearest when written. */
#ifndef CR_GPU_KERNELS_VALUES_H
#define CR_GPU_KERNELS_VALUES_H

#include "device/gpu/kernels/convert.h"

/* The type of an array, a constant where the form has one (hd.h). */
#ifdef CR_ONE_TYPE
#define CR_TYPE_IN(x) CR_ONE_TYPE
#else
#define CR_TYPE_IN(x) ((x).type)
#endif
#define CR_IS_F32(x) (CR_TYPE_IN(x) == CREMA_F32)

typedef struct cr_hd_values {
  CR_GLOBAL void *at; /* NULL: absent */
  int32_t type;
} cr_hd_values;

/* A device has instructions for these; they differ from the host's code only in the bits of NaN. */
CR_HD float cr_half_value(uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return cr_hd_from_f16(bits);
#endif
}

CR_HD uint16_t cr_half_bits(float value) {
#ifdef __CUDA_ARCH__
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return cr_hd_to_f16(value);
#endif
}

CR_HD float cr_get(cr_hd_values x, int64_t i) {
  if (CR_IS_F32(x)) return ((const CR_GLOBAL float *)x.at)[i];
  const uint16_t bits = ((const CR_GLOBAL uint16_t *)x.at)[i];
  return CR_TYPE_IN(x) == CREMA_F16 ? cr_half_value(bits) : cr_hd_from_bits((uint32_t)bits << 16);
}

CR_HD void cr_put(cr_hd_values y, int64_t i, float value) {
  if (CR_IS_F32(y)) ((CR_GLOBAL float *)y.at)[i] = value;
  else
    ((CR_GLOBAL uint16_t *)y.at)[i] =
        CR_TYPE_IN(y) == CREMA_F16 ? cr_half_bits(value) : cr_hd_to_bf16(value);
}

/* The array from element i on. */
CR_HD cr_hd_values cr_hd_values_from(cr_hd_values x, int64_t i) {
  x.at = (CR_GLOBAL char *)x.at + i * (CR_IS_F32(x) ? 4 : 2);
  return x;
}

CR_HD cr_hd_values cr_float_values(CR_GLOBAL float *at) {
  cr_hd_values x;
  x.at = at;
  x.type = CREMA_F32;
  return x;
}

#endif
