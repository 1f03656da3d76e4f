/* Conversion of arrays between plain element types. */
#ifndef CR_GPU_KERNELS_CONVERT_ARRAY_H
#define CR_GPU_KERNELS_CONVERT_ARRAY_H

#include "device/gpu/kernels/pack.h"

typedef struct cr_convert_args {
  const CR_GLOBAL void *from;
  CR_GLOBAL void *to;
  int from_type, to_type;
} cr_convert_args;

CR_HD void cr_convert_device(const void *args, int64_t i) {
  const cr_convert_args *a = (const cr_convert_args *)args;
  cr_hd_store(a->to_type, a->to, i, cr_hd_load(a->from_type, a->from, i));
}

/* Between floats and the form's 16-bit type. NaN keeps its bits, as on the host. */
CR_HD float cr_half_exactly(uint32_t bits, int type) {
  return type == CREMA_F16 ? cr_hd_from_f16((uint16_t)bits) : cr_hd_from_bits(bits << 16);
}

CR_HD uint32_t cr_half_of(float value, int type) {
  return type == CREMA_F16 ? cr_hd_to_f16(value) : cr_hd_to_bf16(value);
}

/* Values i ... i + 7 from 16 to 32 bits. */
CR_HD void cr_widen(const CR_GLOBAL void *from, CR_GLOBAL void *to, int64_t i, int type) {
  const cr_quad halves = cr_load_quad((const CR_GLOBAL uint16_t *)from + i);
  float value[8];
  for (int k = 0; k < 4; ++k) {
    value[2 * k] = cr_half_exactly(halves.word[k] & 0xffffu, type);
    value[2 * k + 1] = cr_half_exactly(halves.word[k] >> 16, type);
  }
  cr_put_floats((CR_GLOBAL float *)to, i, value);
  cr_put_floats((CR_GLOBAL float *)to, i + 4, value + 4);
}

/* Values i ... i + 7 from 32 to 16 bits. */
CR_HD void cr_narrow(const CR_GLOBAL void *from, CR_GLOBAL void *to, int64_t i, int type) {
  cr_quad halves;
  float value[8];
  cr_get_floats((const CR_GLOBAL float *)from, i, value);
  cr_get_floats((const CR_GLOBAL float *)from, i + 4, value + 4);
  for (int k = 0; k < 4; ++k) {
    halves.word[k] = cr_half_of(value[2 * k], type) | cr_half_of(value[2 * k + 1], type) << 16;
  }
  cr_store_quad((CR_GLOBAL uint16_t *)to + i, halves);
}

/* In the forms for 16-bit types: from or to floats. */
CR_HD void cr_convert_pack(const void *args, int64_t i) {
  const cr_convert_args *a = (const cr_convert_args *)args;
  if (CR_PACK < 8) {
    CR_FOR_PACK(k) cr_convert_device(a, i + k);
  } else if (a->to_type == CREMA_F32) {
    cr_widen(a->from, a->to, i, a->from_type);
  } else {
    cr_narrow(a->from, a->to, i, a->to_type);
  }
}

#endif
