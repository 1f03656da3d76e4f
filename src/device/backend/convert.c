/* Conversion between plain element types: through a small block of doubles, or of floats if no
 * precision is lost. */
#include "device/backend/convert.h"

#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/half.h"
#include "device/backend/half_blocks.h"

enum {
  BLOCK = 512,
  SPAN = 1 << 14, /* number of 16-bit values that a thread converts at a time */
  PARALLEL_COUNT = 1 << 16,
  PAST_CACHES =
      1 << 23 /* bytes; results from this size on do not fit the caches next to the source */
};

/* True when every value of the type is a float. */
static bool fits_float(crema_dtype type) {
  switch (type) {
    case CREMA_F32:
    case CREMA_F16:
    case CREMA_BF16:
    case CREMA_I8:
    case CREMA_BOOL:
    case CREMA_U8: return true;
    default: return false;
  }
}

static bool is_half(crema_dtype type) {
  return type == CREMA_F16 || type == CREMA_BF16;
}

static void load_floats(crema_dtype type, const void *src, int64_t at, int n, float *out) {
  switch (type) {
    case CREMA_I8:
      for (int i = 0; i < n; ++i) out[i] = ((const int8_t *)src)[at + i];
      break;
    case CREMA_U8:
      for (int i = 0; i < n; ++i) out[i] = ((const uint8_t *)src)[at + i];
      break;
    case CREMA_BOOL:
      for (int i = 0; i < n; ++i) out[i] = ((const uint8_t *)src)[at + i] != 0;
      break;
    default: cr_load_floats(type, src, at, n, out); break;
  }
}

/* Rounds to nearest even within lowest..highest; NaN gives 0. */
static double limit(double value, double lowest, double highest) {
  if (!(value >= lowest)) return value < lowest ? lowest : 0;
  return value > highest ? highest : nearbyint(value);
}

static void store_floats(crema_dtype type, void *dst, int64_t at, int n, const float *in) {
  switch (type) {
    case CREMA_I8:
      for (int i = 0; i < n; ++i) ((int8_t *)dst)[at + i] = (int8_t)limit(in[i], -128, 127);
      break;
    case CREMA_U8:
      for (int i = 0; i < n; ++i) ((uint8_t *)dst)[at + i] = (uint8_t)limit(in[i], 0, 255);
      break;
    case CREMA_BOOL:
      for (int i = 0; i < n; ++i) ((uint8_t *)dst)[at + i] = in[i] != 0;
      break;
    default: cr_store_floats(type, dst, at, n, in); break;
  }
}

static void load_doubles(crema_dtype type, const void *src, int64_t at, int n, double *out) {
  switch (type) {
    case CREMA_F64: memcpy(out, (const double *)src + at, (size_t)n * sizeof *out); break;
    case CREMA_I32:
      for (int i = 0; i < n; ++i) out[i] = ((const int32_t *)src)[at + i];
      break;
    case CREMA_U32:
      for (int i = 0; i < n; ++i) out[i] = ((const uint32_t *)src)[at + i];
      break;
    default: {
      float block[BLOCK];
      load_floats(type, src, at, n, block);
      for (int i = 0; i < n; ++i) out[i] = block[i];
    }
  }
}

/* A double rounded to float and then to a half or a short integer could be rounded twice. Rounding
 * to odd on the way keeps the second rounding right, and non-zero values non-zero. */
static float narrow_to_odd(double value) {
  float nearest = (float)value;
  if ((double)nearest == value || !isfinite(nearest)) return nearest;
  uint32_t bits = cr_f32_bits(nearest);
  if ((bits & 1u) != 0) return nearest;
  bool away = fabs((double)nearest) > fabs(value);
  return cr_f32_from_bits(away ? bits - 1 : bits + 1);
}

static void store_doubles(crema_dtype type, void *dst, int64_t at, int n, const double *in) {
  switch (type) {
    case CREMA_F64: memcpy((double *)dst + at, in, (size_t)n * sizeof *in); break;
    case CREMA_I32:
      for (int i = 0; i < n; ++i) {
        ((int32_t *)dst)[at + i] = (int32_t)limit(in[i], INT32_MIN, INT32_MAX);
      }
      break;
    case CREMA_U32:
      for (int i = 0; i < n; ++i) {
        ((uint32_t *)dst)[at + i] = (uint32_t)limit(in[i], 0, UINT32_MAX);
      }
      break;
    case CREMA_F32:
      for (int i = 0; i < n; ++i) ((float *)dst)[at + i] = (float)in[i];
      break;
    default: {
      float block[BLOCK];
      for (int i = 0; i < n; ++i) block[i] = narrow_to_odd(in[i]);
      store_floats(type, dst, at, n, block);
    }
  }
}

static void convert_block(crema_dtype dst_type, void *dst, crema_dtype src_type, const void *src,
                          int64_t at, int n) {
  if (fits_float(src_type) && fits_float(dst_type)) {
    float block[BLOCK];
    load_floats(src_type, src, at, n, block);
    store_floats(dst_type, dst, at, n, block);
  } else {
    double block[BLOCK];
    load_doubles(src_type, src, at, n, block);
    store_doubles(dst_type, dst, at, n, block);
  }
}

/* Between floats and one of the two 16-bit types. */
static void convert_halves(int64_t count, crema_dtype dst_type, void *dst, crema_dtype src_type,
                           const void *src) {
  const cr_half_code *code = cr_half_code_find(0);
  const bool past_caches = (size_t)count * crema_dtype_size(dst_type) >= PAST_CACHES;
#pragma omp parallel for schedule(static) if (count >= PARALLEL_COUNT)
  for (int64_t at = 0; at < count; at += SPAN) {
    const int64_t n = count - at < SPAN ? count - at : SPAN;
    if (is_half(src_type)) {
      cr_widen *widen = src_type == CREMA_F16 ? code->from_f16 : code->from_bf16;
      widen((const uint16_t *)src + at, n, (float *)dst + at, past_caches);
    } else {
      cr_narrow *narrow = dst_type == CREMA_F16 ? code->to_f16 : code->to_bf16;
      narrow((const float *)src + at, n, (uint16_t *)dst + at, past_caches);
    }
  }
}

crema_status cr_convert_plain(int64_t count, crema_dtype dst_type, void *dst, crema_dtype src_type,
                              const void *src) {
  size_t size = crema_dtype_size(dst_type);
  if (size == 0 || crema_dtype_size(src_type) == 0) {
    return cr_fail(CREMA_E_TYPE, "there is no conversion from %s to %s", crema_dtype_name(src_type),
                   crema_dtype_name(dst_type));
  }
  if (count <= 0 || (dst == src && dst_type == src_type)) return CREMA_OK;
  if (dst_type == src_type) {
    memcpy(dst, src, (size_t)count * size);
    return CREMA_OK;
  }
  if ((is_half(src_type) && dst_type == CREMA_F32) ||
      (is_half(dst_type) && src_type == CREMA_F32)) {
    convert_halves(count, dst_type, dst, src_type, src);
    return CREMA_OK;
  }
#pragma omp parallel for if (count >= PARALLEL_COUNT)
  for (int64_t at = 0; at < count; at += BLOCK) {
    convert_block(dst_type, dst, src_type, src, at, count - at < BLOCK ? (int)(count - at) : BLOCK);
  }
  return CREMA_OK;
}
