#include "device/cpu/kernels/draws.h"

#include "core/rng.h"

static void draw_singly(uint64_t key, uint64_t counter_high, uint64_t first, int64_t count,
                        uint32_t *words) {
  for (int64_t i = 0; i < count; ++i) {
    cr_philox(key, counter_high, first + (uint64_t)i, words + 4 * i);
  }
}

#ifdef __x86_64__
#include <immintrin.h>

/* A counter occupies a 64-bit lane, and products read its lower half. This lets compilers use the
 * single instruction for such products. The upper halves can have any value. */
#define AVX512 __attribute__((target("avx512f"))) static
#define AVX2 __attribute__((target("avx2"))) static

AVX512 __m512i all_512(uint64_t value) {
  return _mm512_set1_epi64((int64_t)value);
}

AVX512 void draw_avx512(uint64_t key, uint64_t counter_high, uint64_t first, int64_t count,
                        uint32_t *words) {
  /* This order makes the pairs of lanes that are combined below consecutive in memory. */
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i low = all_512(UINT32_MAX);
  for (int64_t i = 0; i < count; i += 8) {
    const __m512i counter = _mm512_add_epi64(all_512(first + (uint64_t)i), order);
    __m512i c0 = counter, c1 = _mm512_srli_epi64(counter, 32);
    __m512i c2 = all_512(counter_high), c3 = all_512(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m512i p0 = _mm512_mul_epu32(c0, all_512(0xD2511F53u));
      const __m512i p1 = _mm512_mul_epu32(c2, all_512(0xCD9E8D57u));
      c0 = _mm512_xor_si512(_mm512_srli_epi64(p1, 32), _mm512_xor_si512(c1, all_512(k0)));
      c1 = p1;
      c2 = _mm512_xor_si512(_mm512_srli_epi64(p0, 32), _mm512_xor_si512(c3, all_512(k1)));
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const __m512i a = _mm512_or_si512(_mm512_and_si512(c0, low), _mm512_slli_epi64(c1, 32));
    const __m512i b = _mm512_or_si512(_mm512_and_si512(c2, low), _mm512_slli_epi64(c3, 32));
    _mm512_storeu_si512(words + 4 * i, _mm512_unpacklo_epi64(a, b));
    _mm512_storeu_si512(words + 4 * i + 16, _mm512_unpackhi_epi64(a, b));
  }
}

AVX2 __m256i all_256(uint64_t value) {
  return _mm256_set1_epi64x((int64_t)value);
}

AVX2 void draw_avx2(uint64_t key, uint64_t counter_high, uint64_t first, int64_t count,
                    uint32_t *words) {
  const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3);
  const __m256i low = all_256(UINT32_MAX);
  for (int64_t i = 0; i < count; i += 4) {
    const __m256i counter = _mm256_add_epi64(all_256(first + (uint64_t)i), order);
    __m256i c0 = counter, c1 = _mm256_srli_epi64(counter, 32);
    __m256i c2 = all_256(counter_high), c3 = all_256(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m256i p0 = _mm256_mul_epu32(c0, all_256(0xD2511F53u));
      const __m256i p1 = _mm256_mul_epu32(c2, all_256(0xCD9E8D57u));
      c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1, all_256(k0)));
      c1 = p1;
      c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3, all_256(k1)));
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const __m256i a = _mm256_or_si256(_mm256_and_si256(c0, low), _mm256_slli_epi64(c1, 32));
    const __m256i b = _mm256_or_si256(_mm256_and_si256(c2, low), _mm256_slli_epi64(c3, 32));
    _mm256_storeu_si256((__m256i *)(words + 4 * i), _mm256_unpacklo_epi64(a, b));
    _mm256_storeu_si256((__m256i *)(words + 4 * i + 8), _mm256_unpackhi_epi64(a, b));
  }
}
#endif

void cr_cpu_draw(uint64_t key, uint64_t counter_high, uint64_t first, int64_t count,
                 uint32_t *words) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    draw_avx512(key, counter_high, first, count, words);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    draw_avx2(key, counter_high, first, count, words);
    return;
  }
#endif
  draw_singly(key, counter_high, first, count, words);
}
