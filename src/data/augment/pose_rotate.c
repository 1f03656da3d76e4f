/* Rotation of images, with OpenCV's formulae. */
#include <math.h>

#include "core/fail.h"
#include "data/augment/augment.h"
#include "data/augment/augment_private.h"
#include "data/augment/pose.h"

enum { FRACTION_BITS = 5, POSITIONS = 1 << FRACTION_BITS, TABLE_BITS = 10 };

/* The extents of the box around w x h pixels that are turned about their middle (x, y): width and
 * height. As in OpenCV's RotatedRect, of floats in this order. */
static void find_extents(float w, float h, double angle, float x, float y, int extent[2]) {
  const float a = (float)sin(angle) * 0.5f, b = (float)cos(angle) * 0.5f;
  const float px[2] = {x - a * h - b * w, x + a * h - b * w};
  const float py[2] = {y + b * h - a * w, y - b * h - a * w};
  const float across[4] = {px[0], px[1], 2 * x - px[0], 2 * x - px[1]};
  const float down[4] = {py[0], py[1], 2 * y - py[0], 2 * y - py[1]};
  float low[2] = {across[0], down[0]}, high[2] = {across[0], down[0]};
  for (int i = 1; i < 4; ++i) {
    low[0] = fminf(low[0], across[i]);
    high[0] = fmaxf(high[0], across[i]);
    low[1] = fminf(low[1], down[i]);
    high[1] = fmaxf(high[1], down[i]);
  }
  for (int i = 0; i < 2; ++i) extent[i] = (int)ceilf(high[i]) - (int)floorf(low[i]) + 1;
}

/* From target to source. */
static void invert(const double m[6], double back[6]) {
  const double d = m[0] * m[4] - m[1] * m[3], factor = d != 0 ? 1 / d : 0;
  back[0] = m[4] * factor;
  back[1] = -m[1] * factor;
  back[3] = -m[3] * factor;
  back[4] = m[0] * factor;
  back[2] = -back[0] * m[2] - back[1] * m[5];
  back[5] = -back[3] * m[2] - back[4] * m[5];
}

/* Sixteen neighbours of the position (x, y), in shares of a pixel. */
static void put_pixel(const cr_image *in, int64_t x, int64_t y, const float (*weights)[4],
                      uint8_t border, uint8_t *out) {
  const int left = (int)(x >> FRACTION_BITS) - 1, top = (int)(y >> FRACTION_BITS) - 1;
  const float *across = weights[x & (POSITIONS - 1)], *down = weights[y & (POSITIONS - 1)];
  for (int c = 0; c < in->channels; ++c) {
    float sum = 0;
    for (int j = 0; j < 4; ++j) {
      const int row = top + j;
      for (int i = 0; i < 4; ++i) {
        const int column = left + i;
        const bool inside = row >= 0 && row < in->height && column >= 0 && column < in->width;
        const size_t at = (size_t)row * (size_t)in->width + (size_t)column;
        const uint8_t value = inside ? in->pixels[at * (size_t)in->channels + (size_t)c] : border;
        sum += down[j] * across[i] * (float)value;
      }
    }
    out[c] = cr_saturate(sum);
  }
}

crema_status cr_image_rotate(const cr_image *in, float degree, uint8_t border, cr_image *out,
                             double move[6]) {
  const double pi = 3.14159265358979323846, angle = degree * pi / 180;
  const double c = cos(angle), s = sin(angle);
  const double x = (float)in->width / 2.0f, y = (float)in->height / 2.0f;
  int extent[2];
  find_extents((float)in->width, (float)in->height, angle, (float)x, (float)y, extent);
  const int width = extent[0], height = extent[1];
  const double turn[6] = {c,  s, (1 - c) * x - s * y + (width / 2.0 - x),
                          -s, c, s * x + (1 - c) * y + (height / 2.0 - y)};
  const double unit = 1 << TABLE_BITS, half = unit / POSITIONS / 2;
  double back[6];
  float weights[POSITIONS][4];
  for (int i = 0; i < 6; ++i) move[i] = turn[i];
  for (int i = 0; i < POSITIONS; ++i) cr_cubic_weights((float)i / POSITIONS, weights[i]);
  invert(turn, back);
  CR_TRY(cr_image_reserve(out, height, width, in->channels));
  uint8_t *to = out->pixels;
  for (int row = 0; row < height; ++row) {
    const int64_t from_x = (int64_t)(rint((back[1] * row + back[2]) * unit) + half);
    const int64_t from_y = (int64_t)(rint((back[4] * row + back[5]) * unit) + half);
    for (int column = 0; column < width; ++column, to += in->channels) {
      const int64_t at_x = from_x + (int64_t)rint(back[0] * column * unit);
      const int64_t at_y = from_y + (int64_t)rint(back[3] * column * unit);
      put_pixel(in, at_x >> (TABLE_BITS - FRACTION_BITS), at_y >> (TABLE_BITS - FRACTION_BITS),
                (const float(*)[4])weights, border, to);
    }
  }
  return CREMA_OK;
}
