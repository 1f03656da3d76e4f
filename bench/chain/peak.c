/* The processor's peak of multiply-adds. */
#include "chain/peak.h"

#include "chain/measure.h"

enum { PEAK_ROUNDS = 400000, CHAINS = 12 /* enough to hide the latency of an addition */ };

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static float multiply_512(void) {
  __m512 sum[CHAINS];
  for (int k = 0; k < CHAINS; ++k) sum[k] = _mm512_set1_ps((float)k);
  for (int i = 0; i < PEAK_ROUNDS; ++i) {
    for (int k = 0; k < CHAINS; ++k) {
      sum[k] = _mm512_fmadd_ps(sum[k], _mm512_set1_ps(0.5f), _mm512_set1_ps(1));
    }
  }
  for (int k = 1; k < CHAINS; ++k) sum[0] = _mm512_add_ps(sum[0], sum[k]);
  return _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) static float multiply_256(void) {
  __m256 sum[CHAINS];
  for (int k = 0; k < CHAINS; ++k) sum[k] = _mm256_set1_ps((float)k);
  for (int i = 0; i < PEAK_ROUNDS; ++i) {
    for (int k = 0; k < CHAINS; ++k) {
      sum[k] = _mm256_fmadd_ps(sum[k], _mm256_set1_ps(0.5f), _mm256_set1_ps(1));
    }
  }
  for (int k = 1; k < CHAINS; ++k) sum[0] = _mm256_add_ps(sum[0], sum[k]);
  return _mm256_cvtss_f32(sum[0]);
}

double measure_peak(int threads) {
  const bool wide = __builtin_cpu_supports("avx512f");
  double best = 0, operations = (double)threads * PEAK_ROUNDS * CHAINS * (wide ? 16 : 8) * 2;
  if (!wide && !__builtin_cpu_supports("avx2")) return 0;
  for (int trial = 0; trial < 7; ++trial) {
    volatile float result = 0;
    const double start = seconds_now();
#pragma omp parallel num_threads(threads)
    result = wide ? multiply_512() : multiply_256();
    const double rate = operations / (seconds_now() - start);
    (void)result;
    best = rate > best ? rate : best;
  }
  return best;
}
#else
double measure_peak(int threads) {
  (void)threads;
  return 0;
}
#endif
