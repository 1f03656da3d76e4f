/* Rows of bytes to rows of floats: scale * (value - mean), mirrored if asked, in one pass. */
#ifndef CR_DATA_TRANSFORM_ROWS_H
#define CR_DATA_TRANSFORM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of a channel: value x of row y is at in[y * pitch + x * stride], its mean at mean_row[y *
 * mean_pitch + x], or `mean` for all when mean_row is NULL. With three interleaved channels (stride
 * 3), `in` is the first pixel and `channel` selects the value in each; otherwise it is 0. */
typedef struct cr_rows {
  const void *in; /* uint8_t or float */
  int width, height;
  int stride, channel;
  size_t pitch, mean_pitch;
  const float *mean_row;
  float mean, scale;
  bool mirror; /* value x of the result comes from value width - 1 - x */
} cr_rows;

enum { CR_ROW_LINE = 16 /* floats of a cache line */ };

/* Where the rows of a channel go, one after the other without gaps. Values can be streamed past the
 * caches, a cache line at a time: those that do not fill a line wait for the next row. */
typedef struct cr_row_target {
  float *at;   /* the next value; with `stream` the beginning of its line */
  bool stream; /* past the caches */
  int held;    /* values of that line that are set, of which the first `foreign` */
  int foreign; /* are not this channel's */
  /* Room before and after the line, so that whole vectors can be written around its ends. */
  _Alignas(64) float line[3 * CR_ROW_LINE];
} cr_row_target;

/* Begins with the value at `at`, a multiple of 4 bytes. `stream` asks to write past the caches,
 * which pays when nobody reads the values soon; processors that cannot do so ignore it. */
void cr_row_begin(cr_row_target *target, float *at, bool stream);
/* Writes what is left; the values may then be read by other threads. */
void cr_row_end(cr_row_target *target);

/* Writes the next rows of a target. */
void cr_rows_u8(const cr_rows *rows, cr_row_target *target);
void cr_rows_f32(const cr_rows *rows, cr_row_target *target);

#endif
