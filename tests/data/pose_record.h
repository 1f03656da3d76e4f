/* Records of people, as CPMData reads them. */
#ifndef CR_TESTS_DATA_POSE_RECORD_H
#define CR_TESTS_DATA_POSE_RECORD_H

#include <string.h>

#include "check.h"
#include "data/fixture.h"

typedef struct pose_record {
  int channels, height, width, joints;
  int others;        /* other people */
  float scale, x, y; /* of the person; joint i is at (x + i, y) */
} pose_record;

/* Floats from byte `at` of row `row` on, if they fit. */
static inline void pose_put(uint8_t *rows, const pose_record *r, int row, int at, const float *from,
                            int count) {
  const size_t offset = (size_t)(row * r->width + at), size = (size_t)count * sizeof *from;
  if (offset + size <= (size_t)r->height * (size_t)r->width) memcpy(rows + offset, from, size);
}

static inline void pose_put_joints(uint8_t *rows, const pose_record *r, int row, float x, float y) {
  for (int i = 0; i < r->joints; ++i) {
    const float joint[3] = {x + (float)i, y, 1};
    for (int k = 0; k < 3; ++k) pose_put(rows, r, row + k, 4 * i, &joint[k], 1);
  }
}

/* Pixels are 7 (y + x) + 50 channel; person p is p pixels to the right of the first. */
static inline void pose_write(const pose_record *r, cr_buffer *out) {
  const size_t plane = (size_t)r->height * (size_t)r->width;
  uint8_t *bytes = calloc(plane, (size_t)r->channels), *rows = bytes + 3 * plane;
  assert_non_null(bytes);
  for (size_t i = 0; i < 3 * plane && r->channels > 2; ++i) {
    const size_t at = i % plane, width = (size_t)r->width;
    bytes[i] = (uint8_t)(7 * (at / width + at % width) + 50 * (i / plane));
  }
  if (r->channels > 4) memset(rows + plane, 255, plane);
  if (r->channels > 3) {
    const float extent[2] = {(float)r->height, (float)r->width}, centre[2] = {r->x, r->y};
    pose_put(rows, r, 1, 0, extent, 2);
    rows[2 * r->width + 1] = (uint8_t)r->others;
    pose_put(rows, r, 3, 0, centre, 2);
    pose_put(rows, r, 4, 0, &r->scale, 1);
    pose_put_joints(rows, r, 5, r->x, r->y);
    for (int p = 0; p < r->others; ++p) {
      pose_put_joints(rows, r, 9 + r->others + 3 * p, r->x + (float)p + 1, r->y);
    }
  }
  const cr_datum datum = {.channels = r->channels,
                          .height = r->height,
                          .width = r->width,
                          .data = bytes,
                          .size = plane * (size_t)r->channels};
  ok(cr_datum_append(&datum, out));
  free(bytes);
}

#endif
