/* Rows of bytes to rows of floats: scale * (value - mean), mirrored on wish, in one pass. */
#ifndef CR_DATA_TRANSFORM_ROWS_H
#define CR_DATA_TRANSFORM_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* What happens to a row of `width` places. With `mirror`, value x of the result comes from place
 * width - 1 - x. */
typedef struct cr_row_job {
  int width;
  bool mirror;
  float scale;
  bool stream; /* past the caches: worth it where nobody reads the values soon */
} cr_row_job;

/* The mean of one channel: `row`, one for each place, or where that is NULL `value`. */
typedef struct cr_row_mean {
  float value;
  const float *row;
} cr_row_mean;

/* Neighbours of a channel are `stride` bytes or floats apart. */
void cr_row_u8(const cr_row_job *job, const uint8_t *in, int stride, cr_row_mean mean, float *out);
void cr_row_f32(const cr_row_job *job, const float *in, int stride, cr_row_mean mean, float *out);

/* Three interleaved channels at once; `out` holds where each one goes. Either all means are rows or
 * none is. */
void cr_row_u8x3(const cr_row_job *job, const uint8_t *in, const cr_row_mean mean[3],
                 float *const out[3]);

/* To be called after rows with `stream`, before another thread may see the values. */
void cr_row_finish(const cr_row_job *job);

#endif
