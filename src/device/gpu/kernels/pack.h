/* Packs: adjacent values of an array that a thread reads or writes at once, as 128 bits. The
 * address of a pack is a multiple of 16 bytes. In the form for any type, a pack is read and written
 * value by value. */
#ifndef CR_GPU_KERNELS_PACK_H
#define CR_GPU_KERNELS_PACK_H

#include "device/gpu/kernels/values.h"

#ifndef CR_OPENCL
#include <string.h>
#endif

#ifdef CR_ONE_TYPE
enum { CR_PACK = CR_ONE_TYPE == CREMA_F32 ? 4 : 8 };
#else
enum { CR_PACK = 4 };
#endif

/* The first CR_PACK are in use. */
typedef struct cr_pack {
  float of[8];
} cr_pack;

/* For each value of a pack. Unrolled, so that the values stay in registers. */
#ifdef __CUDA_ARCH__
#define CR_FOR_PACK(k) _Pragma("unroll") for (int k = 0; k < CR_PACK; ++k)
#else
#define CR_FOR_PACK(k) for (int k = 0; k < CR_PACK; ++k)
#endif

CR_HD cr_pack cr_pack_of(float value) {
  cr_pack pack;
  for (int k = 0; k < 8; ++k) pack.of[k] = value;
  return pack;
}

typedef struct cr_quad {
  uint32_t word[4];
} cr_quad;

CR_HD cr_quad cr_load_quad(const CR_GLOBAL void *at) {
  cr_quad quad;
#ifdef __CUDACC__
  const uint4 words = *(const uint4 *)at;
#elif defined(CR_OPENCL)
  const uint4 words = *(const CR_GLOBAL uint4 *)at;
#endif
#if defined(__CUDACC__) || defined(CR_OPENCL)
  quad.word[0] = words.x;
  quad.word[1] = words.y;
  quad.word[2] = words.z;
  quad.word[3] = words.w;
#else
  memcpy(&quad, at, sizeof quad);
#endif
  return quad;
}

/* nvcc splits a store of floats' bits in four, and does not always join the parts again. */
CR_HD void cr_store_quad(CR_GLOBAL void *at, cr_quad quad) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)),
               "r"(quad.word[0]), "r"(quad.word[1]), "r"(quad.word[2]), "r"(quad.word[3])
               : "memory");
#elif defined(CR_OPENCL)
  uint4 words;
  words.x = quad.word[0];
  words.y = quad.word[1];
  words.z = quad.word[2];
  words.w = quad.word[3];
  *(CR_GLOBAL uint4 *)at = words;
#else
  memcpy(at, &quad, sizeof quad);
#endif
}

/* The pack of 16-bit values of `type` that begins at `at`. */
CR_HD void cr_unpack_halves(cr_quad quad, int type, float *value) {
  for (int k = 0; k < 4; ++k) {
    const uint32_t word = quad.word[k];
    value[2 * k] = type == CREMA_F16 ? cr_half_value((uint16_t)word) : cr_hd_from_bits(word << 16);
    value[2 * k + 1] = type == CREMA_F16 ? cr_half_value((uint16_t)(word >> 16))
                                         : cr_hd_from_bits(word & 0xffff0000u);
  }
}

CR_HD cr_quad cr_pack_halves(const float *value, int type) {
  cr_quad quad;
  for (int k = 0; k < 4; ++k) {
    const float low = value[2 * k], high = value[2 * k + 1];
    const uint32_t first = type == CREMA_F16 ? cr_half_bits(low) : cr_hd_to_bf16(low);
    const uint32_t second = type == CREMA_F16 ? cr_half_bits(high) : cr_hd_to_bf16(high);
    quad.word[k] = first | second << 16;
  }
  return quad;
}

/* Floats i ... i + 3. */
CR_HD void cr_get_floats(const CR_GLOBAL float *x, int64_t i, float *value) {
  const cr_quad quad = cr_load_quad(x + i);
  for (int k = 0; k < 4; ++k) value[k] = cr_hd_from_bits(quad.word[k]);
}

CR_HD void cr_put_floats(CR_GLOBAL float *y, int64_t i, const float *value) {
  cr_quad quad;
  for (int k = 0; k < 4; ++k) quad.word[k] = cr_hd_bits(value[k]);
  cr_store_quad(y + i, quad);
}

/* Values i ... i + CR_PACK - 1 of an array. */
CR_HD cr_pack cr_get_pack(cr_hd_values x, int64_t i) {
  cr_pack pack = cr_pack_of(0);
#ifdef CR_ONE_TYPE
  if (CR_IS_F32(x)) cr_get_floats((const CR_GLOBAL float *)x.at, i, pack.of);
  else cr_unpack_halves(cr_load_quad((const CR_GLOBAL uint16_t *)x.at + i), CR_ONE_TYPE, pack.of);
#else
  CR_FOR_PACK(k) pack.of[k] = cr_get(x, i + k);
#endif
  return pack;
}

CR_HD void cr_put_pack(cr_hd_values y, int64_t i, cr_pack pack) {
#ifdef CR_ONE_TYPE
  if (CR_IS_F32(y)) cr_put_floats((CR_GLOBAL float *)y.at, i, pack.of);
  else cr_store_quad((CR_GLOBAL uint16_t *)y.at + i, cr_pack_halves(pack.of, CR_ONE_TYPE));
#else
  CR_FOR_PACK(k) cr_put(y, i + k, pack.of[k]);
#endif
}

/* Copies a pack of `from`, which begins at element j, to element i of `to`. */
CR_HD void cr_copy_pack(cr_hd_values to, int64_t i, cr_hd_values from, int64_t j) {
#ifdef CR_ONE_TYPE
  cr_store_quad(cr_hd_values_from(to, i).at, cr_load_quad(cr_hd_values_from(from, j).at));
#else
  CR_FOR_PACK(k) cr_put(to, i + k, cr_get(from, j + k));
#endif
}

#endif
