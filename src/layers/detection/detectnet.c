#include "layers/detection/detectnet.h"

#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment.h"

crema_status cr_bgr_planes_reserve(cr_bgr_planes *planes, int height, int width) {
  planes->height = height;
  planes->width = width;
  cr_buffer_clear(&planes->memory);
  return cr_buffer_reserve(&planes->memory, (size_t)height * (size_t)width * 3 * sizeof(float));
}

float *cr_bgr_planes_values(const cr_bgr_planes *planes) {
  return (float *)(void *)planes->memory.data;
}

static size_t plane_size(const cr_bgr_planes *planes) {
  return (size_t)planes->height * (size_t)planes->width;
}

/* Hue in sixths of the circle, saturation and value in 0..1. */
static void to_hsv(const float bgr[3], float hsv[3]) {
  const float b = bgr[0], g = bgr[1], r = bgr[2];
  const float high = fmaxf(fmaxf(b, g), r), low = fminf(fminf(b, g), r), spread = high - low;
  const float unit = spread > 0 ? 1 / spread : 0;
  if (high == r) hsv[0] = (g - b) * unit;
  else if (high == g) hsv[0] = (b - r) * unit + 2;
  else hsv[0] = (r - g) * unit + 4;
  hsv[1] = high > 0 ? spread / high : 0;
  hsv[2] = high;
}

static void to_bgr(const float hsv[3], float bgr[3]) {
  static const int order[6][3] = {{1, 3, 0}, {1, 0, 2}, {3, 0, 1}, {0, 2, 1}, {0, 1, 3}, {2, 1, 0}};
  const float hue = hsv[0] - 6 * floorf(hsv[0] / 6);
  const int sector = hue < 6 ? (int)hue : 0;
  const float part = hue - (float)sector, s = hsv[1], v = hsv[2];
  const float level[4] = {v, v * (1 - s), v * (1 - s * part), v * (1 - s + s * part)};
  for (int c = 0; c < 3; ++c) bgr[c] = level[order[sector][c]];
}

void cr_bgr_planes_color(cr_bgr_planes *planes, double hue, double saturation) {
  const size_t size = plane_size(planes);
  float *value = cr_bgr_planes_values(planes);
  for (size_t i = 0; i < size; ++i) {
    float bgr[3] = {value[i], value[size + i], value[2 * size + i]}, hsv[3];
    to_hsv(bgr, hsv);
    hsv[0] += (float)(hue / 60);
    hsv[1] *= (float)saturation;
    to_bgr(hsv, bgr);
    for (size_t c = 0; c < 3; ++c) value[c * size + i] = bgr[c];
  }
}

void cr_bgr_planes_flip(cr_bgr_planes *planes) {
  for (int y = 0; y < 3 * planes->height; ++y) {
    float *row = cr_bgr_planes_values(planes) + (size_t)y * (size_t)planes->width;
    for (int left = 0, right = planes->width - 1; left < right; ++left, --right) {
      const float held = row[left];
      row[left] = row[right];
      row[right] = held;
    }
  }
}

/* Four neighbours along an axis, and their weights. */
typedef struct neighbours {
  int at[4];
  float weight[4];
} neighbours;

static neighbours around(int i, int out, int in) {
  const double position = (i + 0.5) * in / out - 0.5, whole = floor(position);
  neighbours n;
  cr_cubic_weights((float)(position - whole), n.weight);
  for (int k = 0; k < 4; ++k) {
    const int at = (int)whole + k - 1;
    n.at[k] = at < 0 ? 0 : at < in ? at : in - 1;
  }
  return n;
}

static float weighted(const float *plane, int width, const neighbours *row,
                      const neighbours *column) {
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const float *line = plane + (size_t)row->at[k] * (size_t)width;
    float along = 0;
    for (int j = 0; j < 4; ++j) along += column->weight[j] * line[column->at[j]];
    sum += row->weight[k] * along;
  }
  return sum;
}

crema_status cr_bgr_planes_resize(const cr_bgr_planes *in, int height, int width,
                                  cr_bgr_planes *out) {
  cr_buffer columns = {0};
  CR_TRY(cr_bgr_planes_reserve(out, height, width));
  CR_TRY(cr_buffer_reserve(&columns, (size_t)width * sizeof(neighbours)));
  neighbours *column = (neighbours *)(void *)columns.data;
  for (int x = 0; x < width; ++x) column[x] = around(x, width, in->width);
  for (int y = 0; y < height; ++y) {
    const neighbours row = around(y, height, in->height);
    for (size_t c = 0; c < 3; ++c) {
      const float *plane = cr_bgr_planes_values(in) + c * plane_size(in);
      float *to = cr_bgr_planes_values(out) + c * plane_size(out) + (size_t)y * (size_t)width;
      for (int x = 0; x < width; ++x) to[x] = weighted(plane, in->width, &row, &column[x]);
    }
  }
  cr_buffer_free(&columns);
  return CREMA_OK;
}

/* The first pixel of the rectangle around the rotated image whose centre is at `middle`, and the
 * number of pixels: all that it touches, plus one. */
static void bounds(double middle, double reach, int *first, int *count) {
  *first = (int)floor(middle - reach);
  *count = (int)ceil(middle + reach) - *first + 1;
}

cr_detectnet_turn cr_detectnet_turn_of(int height, int width, double degrees) {
  const double angle = degrees * 3.14159265358979323846 / 180;
  cr_detectnet_turn turn = {
      .cosine = cos(angle), .sine = sin(angle), .middle = {width / 2.0, height / 2.0}};
  const double reach[2] = {(fabs(turn.cosine) * width + fabs(turn.sine) * height) / 2,
                           (fabs(turn.sine) * width + fabs(turn.cosine) * height) / 2};
  int first[2], unused = 0;
  for (int axis = 0; axis < 2; ++axis) {
    bounds(turn.middle[axis], reach[axis], &first[axis], &unused);
    turn.shift[axis] = turn.middle[axis] - first[axis];
  }
  /* The size is computed for a centre on a whole pixel. */
  bounds(floor(turn.middle[0]), reach[0], &unused, &turn.width);
  bounds(floor(turn.middle[1]), reach[1], &unused, &turn.height);
  return turn;
}

/* Between four pixels. */
static float between(const float *plane, int width, double x, double y) {
  const size_t left = (size_t)x, top = (size_t)y;
  const float right = (float)(x - (double)left), lower = (float)(y - (double)top);
  const float *at = plane + top * (size_t)width + left, *below = at + width;
  return (1 - lower) * ((1 - right) * at[0] + right * at[1]) +
         lower * ((1 - right) * below[0] + right * below[1]);
}

crema_status cr_bgr_planes_rotate(const cr_bgr_planes *in, double degrees, cr_bgr_planes *out) {
  const cr_detectnet_turn turn = cr_detectnet_turn_of(in->height, in->width, degrees);
  CR_TRY(cr_bgr_planes_reserve(out, turn.height, turn.width));
  memset(out->memory.data, 0, 3 * plane_size(out) * sizeof(float));
  for (int y = 0; y < turn.height; ++y) {
    for (int x = 0; x < turn.width; ++x) {
      const double dx = x - turn.shift[0], dy = y - turn.shift[1];
      const double from_x = turn.cosine * dx + turn.sine * dy + turn.middle[0];
      const double from_y = turn.cosine * dy - turn.sine * dx + turn.middle[1];
      if (!(from_x >= 0 && from_y >= 0 && from_x < in->width - 1 && from_y < in->height - 1)) {
        continue;
      }
      for (size_t c = 0; c < 3; ++c) {
        cr_bgr_planes_values(
            out)[c * plane_size(out) + (size_t)y * (size_t)turn.width + (size_t)x] =
            between(cr_bgr_planes_values(in) + c * plane_size(in), in->width, from_x, from_y);
      }
    }
  }
  return CREMA_OK;
}

void cr_bgr_planes_crop(const cr_bgr_planes *in, int top, int left, int height, int width,
                        float *out) {
  for (size_t c = 0; c < 3; ++c) {
    const float *plane = cr_bgr_planes_values(in) + c * plane_size(in);
    for (int64_t y = top; y < (int64_t)top + height; ++y) {
      for (int64_t x = left; x < (int64_t)left + width; ++x) {
        const bool inside = y >= 0 && y < in->height && x >= 0 && x < in->width;
        *out++ = inside ? plane[y * in->width + x] : 0;
      }
    }
  }
}
