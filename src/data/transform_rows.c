#include "data/transform_rows.h"

#include <stddef.h>

/* Mirroring goes through a few values on the stack: compilers make vector code of loading
 * interleaved bytes and of storing backwards, but not of both at once. */
enum { CHUNK = 128 };

/* Into every caller, so that each has code for its own processor. */
#define INLINE __attribute__((always_inline)) static inline

INLINE void backwards(const float *in, int count, float *end) {
#pragma omp simd
  for (int i = 0; i < count; ++i) end[-1 - i] = in[i];
}

/* ---- one channel --------------------------------------------------------- */

INLINE void plain_u8(const uint8_t *in, int count, int stride, float scale, float mean,
                     const float *mean_row, float *out) {
  if (mean_row != NULL) {
#pragma omp simd
    for (int x = 0; x < count; ++x) out[x] = ((float)in[x * stride] - mean_row[x]) * scale;
  } else {
#pragma omp simd
    for (int x = 0; x < count; ++x) out[x] = ((float)in[x * stride] - mean) * scale;
  }
}

INLINE void row_u8(const cr_row_job *job, const uint8_t *in, int stride, cr_row_mean mean,
                   float *out) {
  int width = job->width;
  if (!job->mirror) {
    plain_u8(in, width, stride, job->scale, mean.value, mean.row, out);
    return;
  }
  for (int x = 0; x < width; x += CHUNK) {
    float value[CHUNK];
    int count = width - x < CHUNK ? width - x : CHUNK;
    const float *mean_row = mean.row == NULL ? NULL : mean.row + x;
    plain_u8(in + x * stride, count, stride, job->scale, mean.value, mean_row, value);
    backwards(value, count, out + width - x);
  }
}

/* ---- three channels ------------------------------------------------------ */

INLINE void plain_u8x3(const uint8_t *in, int count, float scale, const cr_row_mean mean[3],
                       int first, float *o0, float *o1, float *o2) {
  if (mean[0].row != NULL) {
    const float *m0 = mean[0].row + first, *m1 = mean[1].row + first, *m2 = mean[2].row + first;
#pragma omp simd
    for (int x = 0; x < count; ++x) {
      o0[x] = ((float)in[3 * x] - m0[x]) * scale;
      o1[x] = ((float)in[3 * x + 1] - m1[x]) * scale;
      o2[x] = ((float)in[3 * x + 2] - m2[x]) * scale;
    }
    return;
  }
  float m0 = mean[0].value, m1 = mean[1].value, m2 = mean[2].value;
#pragma omp simd
  for (int x = 0; x < count; ++x) {
    o0[x] = ((float)in[3 * x] - m0) * scale;
    o1[x] = ((float)in[3 * x + 1] - m1) * scale;
    o2[x] = ((float)in[3 * x + 2] - m2) * scale;
  }
}

INLINE void row_u8x3(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                     float *const out[3]) {
  int width = job->width;
  if (!job->mirror) {
    plain_u8x3(in, width, job->scale, mean, 0, out[0], out[1], out[2]);
    return;
  }
  for (int x = 0; x < width; x += CHUNK) {
    float value[3][CHUNK];
    int count = width - x < CHUNK ? width - x : CHUNK;
    plain_u8x3(in + 3 * x, count, job->scale, mean, x, value[0], value[1], value[2]);
    for (int c = 0; c < 3; ++c) backwards(value[c], count, out[c] + width - x);
  }
}

/* ---- the same code for newer processors ---------------------------------- */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void row_u8_avx2(const cr_row_job *job, const uint8_t *in,
                                                        cr_row_mean mean, float *out) {
  row_u8(job, in, 1, mean, out);
}

__attribute__((target("avx2"))) static void row_u8x3_avx2(const cr_row_job *job, const uint8_t *in,
                                                          const cr_row_mean mean[3],
                                                          float *const out[3]) {
  row_u8x3(job, in, mean, out);
}

static bool run_u8_fast(const cr_row_job *job, const uint8_t *in, cr_row_mean mean, float *out) {
  if (!__builtin_cpu_supports("avx2")) return false;
  row_u8_avx2(job, in, mean, out);
  return true;
}

static bool run_u8x3_fast(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                          float *const out[3]) {
  if (!__builtin_cpu_supports("avx2")) return false;
  row_u8x3_avx2(job, in, mean, out);
  return true;
}
#else
static bool run_u8_fast(const cr_row_job *job, const uint8_t *in, cr_row_mean mean, float *out) {
  (void)job, (void)in, (void)mean, (void)out;
  return false;
}

static bool run_u8x3_fast(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                          float *const out[3]) {
  (void)job, (void)in, (void)mean, (void)out;
  return false;
}
#endif

void cr_row_u8(const cr_row_job *job, const uint8_t *in, int stride, cr_row_mean mean, float *out) {
  if (stride == 1 && run_u8_fast(job, in, mean, out)) return;
  row_u8(job, in, stride, mean, out);
}

void cr_row_u8x3(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                 float *const out[3]) {
  if (!run_u8x3_fast(job, in, mean, out)) row_u8x3(job, in, mean, out);
}

void cr_row_f32(const cr_row_job *job, const float *in, int stride, cr_row_mean mean, float *out) {
  int step = job->mirror ? -1 : 1;
  float *to = job->mirror ? out + job->width - 1 : out;
  for (int x = 0; x < job->width; ++x, to += step) {
    float m = mean.row != NULL ? mean.row[x] : mean.value;
    *to = (in[x * stride] - m) * job->scale;
  }
}
