#include "data/transform_rows.h"

#include <string.h>

#include "data/transform_rows_private.h"

/* ---- targets ------------------------------------------------------------- */

void cr_row_begin(cr_row_target *target, float *at, bool stream) {
  target->stream = stream && cr_row_can_stream();
  target->foreign = 0;
  if (target->stream) target->foreign = (int)((uintptr_t)at / sizeof *at % CR_ROW_LINE);
  target->held = target->foreign;
  target->at = at - target->foreign;
}

/* Values that do not fill a line are written as others are. What was sent off is no longer in
 * `line`, so the target then goes on as one that is not streamed. */
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

/* ---- rows ---------------------------------------------------------------- */

/* The first value goes to out[0], the next one to out[step]. */
static void plain_u8(const cr_rows *rows, int y, float *out, int step) {
  const uint8_t *in = (const uint8_t *)rows->in + (size_t)y * rows->pitch + rows->channel;
  float mean = rows->mean, scale = rows->scale;
  int stride = rows->stride;
  if (rows->mean_row != NULL) {
    const float *row = rows->mean_row + (size_t)y * rows->mean_pitch;
    for (int x = 0; x < rows->width; ++x) out[x * step] = ((float)in[x * stride] - row[x]) * scale;
  } else {
    for (int x = 0; x < rows->width; ++x) out[x * step] = ((float)in[x * stride] - mean) * scale;
  }
}

void cr_rows_u8(const cr_rows *rows, cr_row_target *target) {
  if (cr_rows_u8_vector(rows, target)) return;
  stop_stream(target);
  for (int y = 0; y < rows->height; ++y, target->at += rows->width) {
    if (rows->mirror) plain_u8(rows, y, target->at + rows->width - 1, -1);
    else plain_u8(rows, y, target->at, 1);
  }
}

void cr_rows_f32(const cr_rows *rows, cr_row_target *target) {
  stop_stream(target);
  int step = rows->mirror ? -1 : 1;
  for (int y = 0; y < rows->height; ++y, target->at += rows->width) {
    const float *in = (const float *)rows->in + (size_t)y * rows->pitch + rows->channel;
    const float *row = rows->mean_row;
    if (row != NULL) row += (size_t)y * rows->mean_pitch;
    float *to = rows->mirror ? target->at + rows->width - 1 : target->at;
    for (int x = 0; x < rows->width; ++x, to += step) {
      *to = (in[x * rows->stride] - (row != NULL ? row[x] : rows->mean)) * rows->scale;
    }
  }
}
