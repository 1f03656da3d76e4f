#include "device/backend/half_blocks.h"

#include <string.h>

#include "device/backend/half.h"

static void from_f16(const uint16_t *src, int64_t count, float *dst, bool past_caches) {
  (void)past_caches;
  for (int64_t i = 0; i < count; ++i) dst[i] = cr_f16_to_f32(src[i]);
}

static void from_bf16(const uint16_t *src, int64_t count, float *dst, bool past_caches) {
  (void)past_caches;
  for (int64_t i = 0; i < count; ++i) dst[i] = cr_bf16_to_f32(src[i]);
}

static void to_f16(const float *src, int64_t count, uint16_t *dst, bool past_caches) {
  (void)past_caches;
  for (int64_t i = 0; i < count; ++i) dst[i] = cr_f32_to_f16(src[i]);
}

static void to_bf16(const float *src, int64_t count, uint16_t *dst, bool past_caches) {
  (void)past_caches;
  for (int64_t i = 0; i < count; ++i) dst[i] = cr_f32_to_bf16(src[i]);
}

static const cr_half_code any_processor = {"any processor", from_f16, from_bf16, to_f16, to_bf16};

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c"))) static inline
enum { LANES = 8 };

#define INLINE static inline __attribute__((always_inline))

/* Converts one vector of values. */
typedef void widen_vector(const uint16_t *src, float *dst, bool past_caches);
typedef void narrow_vector(const float *src, uint16_t *dst, bool past_caches);

/* The number of values before the first whose address is a multiple of `bytes`, as streaming stores
 * require. */
INLINE int64_t values_before(const void *memory, size_t bytes, size_t size, int64_t count) {
  const int64_t before = (int64_t)(-(uintptr_t)memory % bytes / size);
  return before < count ? before : count;
}

/* One vector of values at a time by `vector`; the first and the last values by `single`. */
INLINE void widen_all(const uint16_t *src, int64_t count, float *dst, bool past_caches,
                      widen_vector *vector, cr_widen *single) {
  int64_t i = past_caches ? values_before(dst, LANES * sizeof *dst, sizeof *dst, count) : 0;
  single(src, i, dst, false);
  for (; i + LANES <= count; i += LANES) vector(src + i, dst + i, past_caches);
  single(src + i, count - i, dst + i, false);
  if (past_caches) _mm_sfence();
}

INLINE void narrow_all(const float *src, int64_t count, uint16_t *dst, bool past_caches,
                       narrow_vector *vector, cr_narrow *single) {
  int64_t i = past_caches ? values_before(dst, LANES * sizeof *dst, sizeof *dst, count) : 0;
  single(src, i, dst, false);
  for (; i + LANES <= count; i += LANES) vector(src + i, dst + i, past_caches);
  single(src + i, count - i, dst + i, false);
  if (past_caches) _mm_sfence();
}

AVX2 void put_8_floats(float *dst, __m256 value, bool past_caches) {
  if (past_caches) _mm256_stream_ps(dst, value);
  else _mm256_storeu_ps(dst, value);
}

AVX2 void put_8_halves(uint16_t *dst, __m128i value, bool past_caches) {
  if (past_caches) _mm_stream_si128((__m128i *)dst, value);
  else _mm_storeu_si128((__m128i *)dst, value);
}

AVX2 void from_8_f16(const uint16_t *src, float *dst, bool past_caches) {
  put_8_floats(dst, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src)), past_caches);
}

AVX2 void from_8_bf16(const uint16_t *src, float *dst, bool past_caches) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)src));
  put_8_floats(dst, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)), past_caches);
}

AVX2 void to_8_f16(const float *src, uint16_t *dst, bool past_caches) {
  put_8_halves(dst, _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT), past_caches);
}

AVX2 void to_8_bf16(const float *src, uint16_t *dst, bool past_caches) {
  const __m256i bits = _mm256_loadu_si256((const __m256i *)src);
  const __m256i cut = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(cut, _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  const __m256i quiet = _mm256_or_si256(cut, _mm256_set1_epi32(0x40));
  const __m256i wide = _mm256_blendv_epi8(rounded, quiet, nan);
  const __m128i low = _mm256_castsi256_si128(wide), high = _mm256_extracti128_si256(wide, 1);
  put_8_halves(dst, _mm_packus_epi32(low, high), past_caches);
}

AVX2 void from_f16_avx2(const uint16_t *src, int64_t count, float *dst, bool past_caches) {
  widen_all(src, count, dst, past_caches, from_8_f16, from_f16);
}

AVX2 void from_bf16_avx2(const uint16_t *src, int64_t count, float *dst, bool past_caches) {
  widen_all(src, count, dst, past_caches, from_8_bf16, from_bf16);
}

AVX2 void to_f16_avx2(const float *src, int64_t count, uint16_t *dst, bool past_caches) {
  narrow_all(src, count, dst, past_caches, to_8_f16, to_f16);
}

AVX2 void to_bf16_avx2(const float *src, int64_t count, uint16_t *dst, bool past_caches) {
  narrow_all(src, count, dst, past_caches, to_8_bf16, to_bf16);
}

static const cr_half_code avx2 = {"AVX2", from_f16_avx2, from_bf16_avx2, to_f16_avx2, to_bf16_avx2};

const cr_half_code *cr_half_code_find(int n) {
  /* Every processor with AVX2 has F16C. */
  if (__builtin_cpu_supports("avx2") && n-- == 0) return &avx2;
  return n == 0 ? &any_processor : NULL;
}

#else

const cr_half_code *cr_half_code_find(int n) {
  return n == 0 ? &any_processor : NULL;
}

#endif

void cr_load_floats(crema_dtype type, const void *src, int64_t at, int64_t count, float *out) {
  if (type == CREMA_F32) {
    memcpy(out, (const float *)src + at, (size_t)count * sizeof *out);
    return;
  }
  const cr_half_code *code = cr_half_code_find(0);
  cr_widen *widen = type == CREMA_F16 ? code->from_f16 : code->from_bf16;
  widen((const uint16_t *)src + at, count, out, false);
}

void cr_store_floats(crema_dtype type, void *dst, int64_t at, int64_t count, const float *in) {
  if (type == CREMA_F32) {
    memcpy((float *)dst + at, in, (size_t)count * sizeof *in);
    return;
  }
  const cr_half_code *code = cr_half_code_find(0);
  cr_narrow *narrow = type == CREMA_F16 ? code->to_f16 : code->to_bf16;
  narrow(in, count, (uint16_t *)dst + at, false);
}
