/* Conversion between plain element types, with the results of cr_convert_plain. */
#ifndef CR_GPU_KERNELS_CONVERT_H
#define CR_GPU_KERNELS_CONVERT_H

#include "crema/types.h"
#include "device/gpu/kernels/hd.h"

CR_HD float cr_hd_from_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return cr_hd_from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  /* The exponent's bias is put right by a product, which is exact: 2^112. */
  const float value = cr_hd_from_bits(rest << 13) * 5192296858534827628530496329220096.0f;
  return cr_hd_from_bits(cr_hd_bits(value) | sign);
}

/* Nearest half, ties to even. */
CR_HD uint16_t cr_hd_to_f16(float value) {
  const uint32_t bits = cr_hd_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    /* Subnormal: adding 0.5 aligns the last place with FP16's last place, and the adder rounds. */
    const float shifted = cr_hd_from_bits(rest) + 0.5f;
    return (uint16_t)(sign | (cr_hd_bits(shifted) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
}

CR_HD uint16_t cr_hd_to_bf16(float value) {
  const uint32_t bits = cr_hd_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Every type but F64 fits a double exactly. */
CR_HD cr_wide cr_hd_load(int type, const CR_GLOBAL void *from, int64_t i) {
  switch (type) {
    case CREMA_F64: return cr_f64_value(((const CR_GLOBAL cr_f64 *)from)[i]);
    case CREMA_F32: return (cr_wide)((const CR_GLOBAL float *)from)[i];
    case CREMA_F16: return (cr_wide)cr_hd_from_f16(((const CR_GLOBAL uint16_t *)from)[i]);
    case CREMA_BF16:
      return (cr_wide)cr_hd_from_bits((uint32_t)((const CR_GLOBAL uint16_t *)from)[i] << 16);
    case CREMA_I32: return (cr_wide)((const CR_GLOBAL int32_t *)from)[i];
    case CREMA_U32: return (cr_wide)((const CR_GLOBAL uint32_t *)from)[i];
    case CREMA_I8: return (cr_wide)((const CR_GLOBAL int8_t *)from)[i];
    case CREMA_BOOL: return ((const CR_GLOBAL uint8_t *)from)[i] != 0;
    default: return (cr_wide)((const CR_GLOBAL uint8_t *)from)[i];
  }
}

/* Rounded to nearest even within lowest..highest; NaN gives 0. */
CR_HD cr_wide cr_hd_limit(cr_wide value, cr_wide lowest, cr_wide highest) {
  if (!(value >= lowest)) return value < lowest ? lowest : 0;
  return value > highest ? highest : nearbyint(value);
}

/* A double rounded to float and then to a half could be rounded twice; rounding to odd on the way
 * keeps the second rounding right. */
CR_HD float cr_hd_narrow_to_odd(cr_wide value) {
  const float nearest = (float)value;
  if ((cr_wide)nearest == value || !(fabsf(nearest) <= FLT_MAX)) return nearest;
  const uint32_t bits = cr_hd_bits(nearest);
  if ((bits & 1u) != 0) return nearest;
  return cr_hd_from_bits(fabs((cr_wide)nearest) > fabs(value) ? bits - 1 : bits + 1);
}

CR_HD void cr_hd_store(int type, CR_GLOBAL void *to, int64_t i, cr_wide v) {
  switch (type) {
    case CREMA_F64: ((CR_GLOBAL cr_f64 *)to)[i] = cr_f64_of(v); break;
    case CREMA_F32: ((CR_GLOBAL float *)to)[i] = (float)v; break;
    case CREMA_F16: ((CR_GLOBAL uint16_t *)to)[i] = cr_hd_to_f16(cr_hd_narrow_to_odd(v)); break;
    case CREMA_BF16: ((CR_GLOBAL uint16_t *)to)[i] = cr_hd_to_bf16(cr_hd_narrow_to_odd(v)); break;
    case CREMA_I32:
      ((CR_GLOBAL int32_t *)to)[i] = (int32_t)cr_hd_limit(v, -2147483648.0, 2147483647.0);
      break;
    case CREMA_U32:
      ((CR_GLOBAL uint32_t *)to)[i] = (uint32_t)cr_hd_limit(v, 0, 4294967295.0);
      break;
    case CREMA_I8: ((CR_GLOBAL int8_t *)to)[i] = (int8_t)cr_hd_limit(v, -128, 127); break;
    case CREMA_BOOL: ((CR_GLOBAL uint8_t *)to)[i] = v != 0; break;
    default: ((CR_GLOBAL uint8_t *)to)[i] = (uint8_t)cr_hd_limit(v, 0, 255); break;
  }
}

#endif
