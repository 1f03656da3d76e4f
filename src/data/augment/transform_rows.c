#include "data/augment/transform_rows.h"

#include <string.h>

void cr_row_begin(cr_row_target *target, float *at, bool stream) {
  target->stream = stream && cr_row_can_stream();
  target->foreign = 0;
  if (target->stream) target->foreign = (int)((uintptr_t)at / sizeof *at % CR_ROW_LINE);
  target->held = target->foreign;
  target->at = at - target->foreign;
}

/* Writes values that do not fill a line and ends streaming, as streamed values are not in `line`.
 */
static void stop_stream(cr_row_target *target) {
  if (!target->stream) return;
  size_t own = (size_t)(target->held - target->foreign);
  memcpy(target->at + target->foreign, target->line + CR_ROW_LINE + target->foreign,
         own * sizeof *target->at);
  target->at += target->held;
  target->stream = false;
  cr_row_drain();
}

void cr_row_end(cr_row_target *target) {
  stop_stream(target);
}

/* Inlined, so that strides and steps are constants. */
#define INLINE __attribute__((always_inline)) static inline

/* The first value goes to out[0], the next one to out[step]. */
INLINE void plain_u8(const cr_rows *rows, int y, int stride, int step, float *out) {
  const uint8_t *in = (const uint8_t *)rows->in + (size_t)y * rows->pitch + rows->channel;
  int width = rows->width;
  float mean = rows->mean, scale = rows->scale;
  if (rows->mean_row != NULL) {
    const float *row = rows->mean_row + (size_t)y * rows->mean_pitch;
#pragma omp simd
    for (int x = 0; x < width; ++x) out[x * step] = ((float)in[x * stride] - row[x]) * scale;
  } else {
#pragma omp simd
    for (int x = 0; x < width; ++x) out[x * step] = ((float)in[x * stride] - mean) * scale;
  }
}

void cr_rows_u8_ref(const cr_rows *rows, cr_row_target *target) {
  stop_stream(target);
  for (int y = 0; y < rows->height; ++y, target->at += rows->width) {
    float *first = target->at, *last = first + rows->width - 1;
    if (rows->mirror && rows->stride == 1) plain_u8(rows, y, 1, -1, last);
    else if (rows->mirror) plain_u8(rows, y, rows->stride, -1, last);
    else if (rows->stride == 1) plain_u8(rows, y, 1, 1, first);
    else if (rows->stride == 3) plain_u8(rows, y, 3, 1, first);
    else plain_u8(rows, y, rows->stride, 1, first);
  }
}

void cr_rows_u8(const cr_rows *rows, cr_row_target *target) {
  if (!cr_rows_u8_vector(rows, target)) cr_rows_u8_ref(rows, target);
}

INLINE void plain_f32(const cr_rows *rows, int y, int stride, int step, float *out) {
  const float *in = (const float *)rows->in + (size_t)y * rows->pitch + rows->channel;
  int width = rows->width;
  float mean = rows->mean, scale = rows->scale;
  if (rows->mean_row != NULL) {
    const float *row = rows->mean_row + (size_t)y * rows->mean_pitch;
#pragma omp simd
    for (int x = 0; x < width; ++x) out[x * step] = (in[x * stride] - row[x]) * scale;
  } else {
#pragma omp simd
    for (int x = 0; x < width; ++x) out[x * step] = (in[x * stride] - mean) * scale;
  }
}

void cr_rows_f32(const cr_rows *rows, cr_row_target *target) {
  stop_stream(target);
  for (int y = 0; y < rows->height; ++y, target->at += rows->width) {
    float *first = target->at, *last = first + rows->width - 1;
    if (rows->mirror && rows->stride == 1) plain_f32(rows, y, 1, -1, last);
    else if (rows->mirror) plain_f32(rows, y, rows->stride, -1, last);
    else if (rows->stride == 1) plain_f32(rows, y, 1, 1, first);
    else plain_f32(rows, y, rows->stride, 1, first);
  }
}
