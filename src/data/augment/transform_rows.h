/* Rows of bytes to rows of floats: scale * (value - mean), optionally mirrored, in one pass. */
#ifndef CR_DATA_TRANSFORM_ROWS_H
#define CR_DATA_TRANSFORM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of a channel. Value x of row y is at in[y * pitch + x * stride], and its mean at mean_row[y
 * * mean_pitch + x]. If mean_row is NULL, `mean` is the mean of all values. With three interleaved
 * channels (stride 3), `in` is the first pixel and `channel` selects the value in each; otherwise
 * it is 0. */
typedef struct cr_rows {
  const void *in; /* uint8_t or float */
  int width, height;
  int stride, channel;
  size_t pitch, mean_pitch;
  const float *mean_row;
  float mean, scale;
  bool mirror; /* value x of the result is value width - 1 - x of the row */
} cr_rows;

enum { CR_ROW_LINE = 16 /* floats of a cache line */ };

/* The target of a channel's rows, without gaps. Values can be streamed past the caches, one cache
 * line at a time: values that do not fill a line wait for the next row. */
typedef struct cr_row_target {
  float *at;   /* the next value; with `stream` the beginning of its line */
  bool stream; /* past the caches */
  int held;    /* values of that line that are set */
  int foreign; /* the first of these, which belong to another channel */
  /* With space for full vectors around the ends of the line. */
  _Alignas(64) float line[3 * CR_ROW_LINE];
} cr_row_target;

/* Begins with the value at `at`, a multiple of 4 bytes. `stream`: write past the caches, for values
 * that are not read soon, if the processor can. */
void cr_row_begin(cr_row_target *target, float *at, bool stream);
/* Writes the remaining values; other threads may then read them. */
void cr_row_end(cr_row_target *target);

/* Writes the next rows of a target. */
void cr_rows_u8(const cr_rows *rows, cr_row_target *target);
void cr_rows_f32(const cr_rows *rows, cr_row_target *target);

/* Rows of bytes: for any processor, and with vector instructions: */

void cr_rows_u8_ref(const cr_rows *rows, cr_row_target *target);
/* Returns false and does nothing if the processor or the rows are unsuitable. */
bool cr_rows_u8_vector(const cr_rows *rows, cr_row_target *target);
/* Whether the function above can write targets past the caches. */
bool cr_row_can_stream(void);
/* Makes streamed values visible before all later writes. */
void cr_row_drain(void);

#endif
