#include "data/transform_rows.h"

#include <stddef.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Mirroring goes through a few values on the stack: compilers make vector code of loading
 * interleaved bytes and of storing backwards, but not of both at once. */
enum { CHUNK = 256 };

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
enum { LINE = 16 /* floats of a cache line */ };

/* Copies so that whole lines of `out` are written without being read before. */
__attribute__((target("avx2"))) static inline void stream_out(const float *in, int count,
                                                              float *out) {
  int i = 0;
  for (; i < count && ((uintptr_t)(out + i) & 63) != 0; ++i) out[i] = in[i];
  for (; i + LINE <= count; i += LINE) {
    _mm256_stream_ps(out + i, _mm256_loadu_ps(in + i));
    _mm256_stream_ps(out + i + LINE / 2, _mm256_loadu_ps(in + i + LINE / 2));
  }
  for (; i < count; ++i) out[i] = in[i];
}

/* Values first..first + count - 1 of a row, not mirrored yet. */
__attribute__((target("avx2"))) static inline void stream_chunk(const cr_row_job *job,
                                                                const float *value, int first,
                                                                int count, float *out) {
  float turned[CHUNK];
  if (!job->mirror) {
    stream_out(value, count, out + first);
    return;
  }
  backwards(value, count, turned + count);
  stream_out(turned, count, out + job->width - first - count);
}

__attribute__((target("avx2"))) static void stream_u8_avx2(const cr_row_job *job, const uint8_t *in,
                                                           cr_row_mean mean, float *out) {
  for (int x = 0; x < job->width; x += CHUNK) {
    float value[CHUNK];
    int count = job->width - x < CHUNK ? job->width - x : CHUNK;
    plain_u8(in + x, count, 1, job->scale, mean.value, mean.row == NULL ? NULL : mean.row + x,
             value);
    stream_chunk(job, value, x, count, out);
  }
}

__attribute__((target("avx2"))) static void stream_u8x3_avx2(const cr_row_job *job,
                                                             const uint8_t *in,
                                                             const cr_row_mean mean[3],
                                                             float *const out[3]) {
  for (int x = 0; x < job->width; x += CHUNK) {
    float value[3][CHUNK];
    int count = job->width - x < CHUNK ? job->width - x : CHUNK;
    plain_u8x3(in + 3 * x, count, job->scale, mean, x, value[0], value[1], value[2]);
    for (int c = 0; c < 3; ++c) stream_chunk(job, value[c], x, count, out[c]);
  }
}

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
  if (job->stream) stream_u8_avx2(job, in, mean, out);
  else row_u8_avx2(job, in, mean, out);
  return true;
}

static bool run_u8x3_fast(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                          float *const out[3]) {
  if (!__builtin_cpu_supports("avx2")) return false;
  if (job->stream) stream_u8x3_avx2(job, in, mean, out);
  else row_u8x3_avx2(job, in, mean, out);
  return true;
}

void cr_row_finish(const cr_row_job *job) {
  if (job->stream) _mm_sfence();
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

void cr_row_finish(const cr_row_job *job) {
  (void)job;
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
