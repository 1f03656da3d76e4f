/* 16-bit floating point: IEEE binary16 (f16) and bfloat16, as bit patterns. */
#ifndef CR_DEVICE_HALF_H
#define CR_DEVICE_HALF_H

#include <stdint.h>

#include "core/float_bits.h"

static inline float cr_f16_to_f32(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t rest = half & 0x7fffu;
  /* A NaN becomes quiet, as on processors. */
  if (rest > 0x7c00u) return cr_f32_from_bits(sign | 0x7fc00000u | ((rest & 0x3ffu) << 13));
  if (rest == 0x7c00u) return cr_f32_from_bits(sign | 0x7f800000u);
  /* Placing exponent and mantissa without changing the bias makes the value too small by 2^-112,
   * for normal and subnormal FP16 values. The product is exact. */
  float value = cr_f32_from_bits(rest << 13) * 0x1p112f;
  return cr_f32_from_bits(cr_f32_bits(value) | sign);
}

/* Nearest half, ties to even; beyond 65504 + half a unit: infinity. */
static inline uint16_t cr_f32_to_f16(float value) {
  uint32_t bits = cr_f32_bits(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    /* Subnormal FP16: adding 0.5 aligns the last bit with FP16's last bit, and the addition rounds.
     */
    float shifted = cr_f32_from_bits(rest) + 0.5f;
    return (uint16_t)(sign | (cr_f32_bits(shifted) - 0x3f000000u));
  }
  uint32_t odd = (rest >> 13) & 1u;
  return (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
}

static inline float cr_bf16_to_f32(uint16_t bits) {
  return cr_f32_from_bits((uint32_t)bits << 16);
}

/* Nearest bfloat16, ties to even. */
static inline uint16_t cr_f32_to_bf16(float value) {
  uint32_t bits = cr_f32_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
