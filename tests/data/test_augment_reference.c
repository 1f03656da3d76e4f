/* Resizing, noise and colours against the formulae, written out pixel by pixel in double precision:
 * images of odd sizes and of one, three and four channels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/augment/augment.h"
#include "data/augment/augment_private.h"

#define MODE(name) CAFFE__RESIZE_PARAMETER__INTERP_MODE__##name
#define PAD(name) CAFFE__RESIZE_PARAMETER__PAD_MODE__##name
#define POLICY(name) CAFFE__RESIZE_PARAMETER__RESIZE_MODE__##name

static void make(cr_image *image, int height, int width, int channels) {
  uint32_t x = 12345u + (uint32_t)(height * 64 + width);
  ok(cr_image_reserve(image, height, width, channels));
  for (int i = 0; i < height * width * channels; ++i) {
    x = x * 1664525u + 1013904223u;
    image->pixels[i] = (uint8_t)(x >> 24);
  }
}

static int clamp(int value, int limit) {
  return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

static int mirror(int i, int limit) {
  while (limit > 1 && (i < 0 || i >= limit)) i = i < 0 ? -i : 2 * (limit - 1) - i;
  return limit > 1 ? i : 0;
}

static double cut(double value) {
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

static int at(const cr_image *image, int y, int x, int c) {
  return image->pixels[(y * image->width + x) * image->channels + c];
}

/* Rounded from a sum of floats. */
static void assert_rounded(int found, double exact, const char *what, int y, int x) {
  if (fabs(found - cut(exact)) > 0.501) {
    fail_msg("%s: (%d, %d) is %d, not %g", what, y, x, found, exact);
  }
}

/* ---- sizes --------------------------------------------------------------- */

static double sinc(double t) {
  return fabs(t) < 1e-9 ? 1 : sin(t) / t;
}

static double kernel(Caffe__ResizeParameter__InterpMode mode, double t) {
  const double pi = acos(-1);
  t = fabs(t);
  if (mode == MODE(LANCZOS4)) return t < 4 ? sinc(pi * t) * sinc(pi * t / 4) : 0;
  if (t <= 1) return (1.25 * t - 2.25) * t * t + 1;
  return t < 2 ? -0.75 * (((t - 5) * t + 8) * t - 4) : 0;
}

/* The weight of source pixel k, which may lie outside, in target pixel i. */
static double weight(Caffe__ResizeParameter__InterpMode mode, bool shrinks, int i, int k, int in,
                     int out) {
  const double scale = (double)in / out;
  if (mode == MODE(NEAREST)) return k == (int)floor(i * scale);
  if (mode != MODE(AREA)) {
    const double centre = (i + 0.5) * scale - 0.5;
    double sum = 1;
    if (mode == MODE(LANCZOS4)) {
      sum = 0;
      for (int n = -4; n < in + 4; ++n) sum += kernel(mode, centre - n);
    }
    return kernel(mode, centre - k) / sum;
  }
  if (shrinks) {
    const double start = fmax(k, i * scale), end = fmin(k + 1, (i + 1) * scale);
    return end > start ? (end - start) / scale : 0;
  }
  /* Linear between pixels at integer positions, from where a target pixel begins. */
  const int first = (int)floor(i * scale);
  double share = (i + 1) - (first + 1) / scale;
  share = share <= 0 ? 0 : share - floor(share);
  return k == first ? 1 - share : k == first + 1 ? share : 0;
}

static double resized(const cr_image *in, Caffe__ResizeParameter__InterpMode mode, int height,
                      int width, int y, int x, int c) {
  const bool shrinks = height <= in->height && width <= in->width;
  double sum = 0;
  for (int n = -4; n < in->height + 4; ++n) {
    const double down = weight(mode, shrinks, y, n, in->height, height);
    if (down == 0) continue;
    for (int m = -4; m < in->width + 4; ++m) {
      const double across = weight(mode, shrinks, x, m, in->width, width);
      if (across != 0) sum += down * across * at(in, clamp(n, in->height), clamp(m, in->width), c);
    }
  }
  return sum;
}

TEST(every_mode_and_size) {
  static const struct {
    Caffe__ResizeParameter__InterpMode mode;
    const char *name;
  } modes[] = {{MODE(NEAREST), "nearest"},
               {MODE(AREA), "area"},
               {MODE(CUBIC), "cubic"},
               {MODE(LANCZOS4), "lanczos"}};
  static const int sizes[][4] = {{7, 9, 3, 4},   {7, 9, 14, 11}, {7, 9, 7, 5},  {7, 9, 5, 9},
                                 {12, 8, 6, 4},  {12, 8, 6, 3},  {12, 8, 4, 4}, {1, 5, 3, 2},
                                 {5, 1, 2, 3},   {11, 13, 1, 1}, {1, 1, 2, 3},  {6, 10, 9, 5},
                                 {12, 9, 6, 18}, {13, 12, 7, 6}, {16, 15, 8, 5}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const int height = sizes[s][2], width = sizes[s][3], channels = 1 + (int)(s % 3);
    cr_image in = {0}, out = {0};
    make(&in, sizes[s][0], sizes[s][1], channels);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
      ok(cr_image_resize_with(&in, height, width, modes[m].mode, &out));
      for (int i = 0; i < height * width * channels; ++i) {
        const int y = i / channels / width, x = i / channels % width;
        assert_rounded(out.pixels[i],
                       resized(&in, modes[m].mode, height, width, y, x, i % channels),
                       modes[m].name, y, x);
      }
    }
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

/* AREA at half the size: halves upwards, in each channel, unlike elsewhere. */
TEST(half_the_size) {
  for (int channels = 1; channels <= 4; ++channels) {
    cr_image in = {0}, out = {0};
    make(&in, 6, 10, channels);
    ok(cr_image_resize_with(&in, 3, 5, MODE(AREA), &out));
    for (int i = 0; i < 15 * channels; ++i) {
      const int y = i / channels / 5, x = i / channels % 5, c = i % channels;
      const int sum = at(&in, 2 * y, 2 * x, c) + at(&in, 2 * y, 2 * x + 1, c) +
                      at(&in, 2 * y + 1, 2 * x, c) + at(&in, 2 * y + 1, 2 * x + 1, c);
      assert_int_equal(out.pixels[i], (sum + 2) / 4);
    }
    cr_image_free(&in);
    cr_image_free(&out);
  }
}

TEST(sizes_that_cannot_be) {
  cr_image in = {0}, out = {0};
  assert_int_equal(cr_image_resize_with(&in, 2, 2, MODE(AREA), &out), CREMA_E_ARGUMENT);
  make(&in, 2, 3, 1);
  assert_int_equal(cr_image_resize_with(&in, 2, 2, MODE(AREA), &in), CREMA_E_ARGUMENT);
  assert_int_equal(cr_image_resize_with(&in, 0, 2, MODE(AREA), &out), CREMA_E_RANGE);
  assert_int_equal(cr_image_resize_with(&in, 2, CR_IMAGE_MAX_SIDE + 1, MODE(CUBIC), &out),
                   CREMA_E_RANGE);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* The extents of the policies: (height, width) of the image, of the field, and what is wanted. */
TEST(policies) {
  static const struct {
    Caffe__ResizeParameter__ResizeMode policy;
    int in[2], field[2], inner[2];
  } cases[] = {
      {POLICY(WARP), {30, 50}, {20, 10}, {20, 10}},
      {POLICY(FIT_SMALL_SIZE), {40, 80}, {20, 20}, {20, 40}},
      {POLICY(FIT_SMALL_SIZE), {80, 40}, {20, 20}, {40, 20}},
      {POLICY(FIT_SMALL_SIZE), {30, 30}, {20, 20}, {20, 20}},
      {POLICY(FIT_SMALL_SIZE), {30, 40}, {15, 30}, {22, 30}},
      {POLICY(FIT_SMALL_SIZE), {64, 16}, {4, 8}, {32, 8}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {40, 80}, {20, 20}, {10, 20}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {80, 40}, {20, 20}, {20, 10}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {30, 30}, {20, 20}, {20, 20}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {1, 64}, {8, 8}, {1, 8}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {64, 1}, {8, 8}, {8, 1}},
      {POLICY(FIT_LARGE_SIZE_AND_PAD), {16, 24}, {9, 8}, {5, 8}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    Caffe__ResizeParameter param = CAFFE__RESIZE_PARAMETER__INIT;
    const bool padded = cases[i].policy == POLICY(FIT_LARGE_SIZE_AND_PAD);
    int out[2];
    param.resize_mode = cases[i].policy;
    param.height = (uint32_t)cases[i].field[0];
    param.width = (uint32_t)cases[i].field[1];
    ok(cr_resize_check(&param));
    cr_resize_extent(&param, cases[i].in, out);
    assert_int_equal(out[0], padded ? cases[i].field[0] : cases[i].inner[0]);
    assert_int_equal(out[1], padded ? cases[i].field[1] : cases[i].inner[1]);
  }
}

/* Where the image lies in the padded one, and what is around it. */
static void check_padding(int height, int width, int channels, Caffe__ResizeParameter__PadMode mode,
                          int values) {
  enum { SIDE = 11 };
  float value[4] = {3, 50.4f, 300, -4};
  Caffe__ResizeParameter param = CAFFE__RESIZE_PARAMETER__INIT;
  Caffe__ResizeParameter__InterpMode nearest = MODE(NEAREST);
  cr_random random = cr_random_begin(1, 2, CR_STAGE_RESIZE);
  cr_image in = {0}, inner = {0}, out = {0};
  param.resize_mode = POLICY(FIT_LARGE_SIZE_AND_PAD);
  param.height = param.width = SIDE;
  param.pad_mode = mode;
  param.n_pad_value = (size_t)values;
  param.pad_value = value;
  param.n_interp_mode = 1;
  param.interp_mode = &nearest;
  make(&in, height, width, channels);
  const int rows = height < width ? SIDE * height / width : SIDE;
  const int columns = height < width ? SIDE : SIDE * width / height;
  const int top = (SIDE - rows) / 2, left = (SIDE - columns) / 2;
  ok(cr_image_resize_with(&in, rows, columns, MODE(NEAREST), &inner));
  ok(cr_resize(&param, &random, &in, &out));
  assert_true(out.height == SIDE && out.width == SIDE && out.channels == channels);
  for (int i = 0; i < SIDE * SIDE * channels; ++i) {
    const int y = i / channels / SIDE - top, x = i / channels % SIDE - left, c = i % channels;
    const bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
    int wanted;
    if (inside) wanted = at(&inner, y, x, c);
    else if (mode == PAD(MIRRORED)) wanted = at(&inner, mirror(y, rows), mirror(x, columns), c);
    else if (mode == PAD(CONSTANT)) {
      wanted = values == 0 ? 0 : (int)cut(lrint((double)value[values > 1 ? c : 0]));
    } else wanted = at(&inner, clamp(y, rows), clamp(x, columns), c);
    assert_int_equal(out.pixels[i], wanted);
  }
  cr_image_free(&in);
  cr_image_free(&inner);
  cr_image_free(&out);
}

TEST(padding) {
  static const int sizes[][2] = {{22, 11}, {11, 22}, {4, 32}, {32, 4}, {5, 5}, {8, 1}, {16, 6}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int channels = 1; channels <= 4; ++channels) {
      check_padding(sizes[s][0], sizes[s][1], channels, PAD(MIRRORED), 0);
      check_padding(sizes[s][0], sizes[s][1], channels, PAD(REPEAT_NEAREST), 0);
      check_padding(sizes[s][0], sizes[s][1], channels, PAD(CONSTANT), 0);
      check_padding(sizes[s][0], sizes[s][1], channels, PAD(CONSTANT), 1);
      check_padding(sizes[s][0], sizes[s][1], channels, PAD(CONSTANT), channels);
    }
  }
}

/* ---- noise --------------------------------------------------------------- */

static void apply(const Caffe__NoiseParameter *param, cr_image *image) {
  cr_image scratchpad = {0};
  cr_random random = cr_random_begin(1, 2, CR_STAGE_NOISE);
  ok(cr_noise(param, &random, image, &scratchpad));
  cr_image_free(&scratchpad);
}

static const int noise_sizes[][3] = {{9, 11, 3},  {8, 8, 1}, {1, 7, 3}, {6, 1, 1},
                                     {16, 24, 3}, {2, 3, 3}, {1, 1, 3}, {24, 9, 1}};
enum { NOISE_SIZES = sizeof noise_sizes / sizeof noise_sizes[0] };

/* The value that a channel of a pixel gets. */
typedef double exact_noise(const cr_image *old, int y, int x, int c);

/* Images of all sizes have these values after the noise. */
static void check_noise(const Caffe__NoiseParameter *param, const char *what, exact_noise *exact) {
  for (int s = 0; s < NOISE_SIZES; ++s) {
    const int height = noise_sizes[s][0], width = noise_sizes[s][1], channels = noise_sizes[s][2];
    cr_image old = {0}, image = {0};
    make(&old, height, width, channels);
    make(&image, height, width, channels);
    apply(param, &image);
    for (int i = 0; i < height * width * channels; ++i) {
      const int y = i / channels / width, x = i / channels % width;
      assert_rounded(image.pixels[i], exact(&old, y, x, i % channels), what, y, x);
    }
    cr_image_free(&old);
    cr_image_free(&image);
  }
}

static double exact_blur(const cr_image *old, int y, int x, int c) {
  double w[7], sum = 0, exact = 0;
  for (int i = 0; i < 7; ++i) sum += w[i] = exp(-(i - 3) * (i - 3) / 4.5);
  for (int k = 0; k < 49; ++k) {
    exact += w[k / 7] * w[k % 7] / (sum * sum) *
             at(old, mirror(y + k / 7 - 3, old->height), mirror(x + k % 7 - 3, old->width), c);
  }
  return exact;
}

TEST(blur) {
  Caffe__NoiseParameter param = CAFFE__NOISE_PARAMETER__INIT;
  param.gauss_blur = 1;
  check_noise(&param, "blur", exact_blur);
}

static double exact_erosion(const cr_image *old, int y, int x, int c) {
  int low = 255;
  for (int k = 0; k < 9; ++k) {
    const int v = y + k / 3 - 1, u = x + k % 3 - 1;
    if (k % 2 == 0 && k != 4) continue; /* the corners */
    if (v < 0 || v >= old->height || u < 0 || u >= old->width) continue;
    if (at(old, v, u, c) < low) low = at(old, v, u, c);
  }
  return low;
}

TEST(erosion) {
  Caffe__NoiseParameter param = CAFFE__NOISE_PARAMETER__INIT;
  param.erode = 1;
  check_noise(&param, "erosion", exact_erosion);
}

/* Values that occur get 255 times the share of the pixels above the lowest value that are not
 * above them. */
TEST(equalized_histograms) {
  for (int stride = 1; stride <= 3; ++stride) {
    for (int levels = 2; levels <= 256; levels = levels * 3 / 2 + 1) {
      enum { COUNT = 500 };
      uint8_t old[COUNT * 3], values[COUNT * 3];
      int lowest = 255, base = 0;
      uint32_t random = (uint32_t)levels;
      for (int i = 0; i < COUNT * stride; ++i) {
        random = random * 1664525u + 1013904223u;
        old[i] = values[i] = (uint8_t)(255 - (random >> 16) % (uint32_t)levels);
      }
      for (int i = 0; i < COUNT; ++i) {
        if (old[i * stride] < lowest) lowest = old[i * stride];
      }
      for (int i = 0; i < COUNT; ++i) base += old[i * stride] == lowest;
      cr_equalize(values, stride, COUNT);
      for (int i = 0; i < COUNT * stride; ++i) {
        int below = -base;
        if (i % stride != 0) {
          assert_int_equal(values[i], old[i]);
          continue;
        }
        for (int k = 0; k < COUNT; ++k) below += old[k * stride] <= old[i];
        assert_rounded(values[i], 255.0 * below / (COUNT - base), "histogram", i, levels);
      }
    }
  }
}

/* The table of a tile: value -> share of clipped pixels, as in Zuiderveld's article. */
static void tile_table(const uint8_t *values, int height, int width, const int side[2], int tile,
                       double limit, int table[256]) {
  int histogram[256] = {0}, excess = 0, area = side[0] * side[1], sum = 0;
  int bound = (int)(limit * area / 256) < 1 ? 1 : (int)(limit * area / 256);
  for (int i = 0; i < area; ++i) {
    const int y = tile / 8 * side[0] + i / side[1], x = tile % 8 * side[1] + i % side[1];
    ++histogram[values[mirror(y, height) * width + mirror(x, width)]];
  }
  for (int v = 0; v < 256; ++v) {
    excess += histogram[v] > bound ? histogram[v] - bound : 0;
    histogram[v] = histogram[v] > bound ? bound : histogram[v];
  }
  const int rest = excess % 256;
  for (int v = 0; v < 256; ++v) {
    histogram[v] += excess / 256;
    if (rest > 0 && v % (256 / rest) == 0 && v / (256 / rest) < rest) ++histogram[v];
    sum += histogram[v];
    table[v] = (int)lrint(cut(255.0 * sum / area));
  }
}

static void check_tiles(int height, int width, int levels, float limit) {
  static int table[64][256];
  uint8_t old[40 * 40], values[40 * 40];
  const bool fits = height % 8 == 0 && width % 8 == 0;
  const int side[2] = {height / 8 + !fits, width / 8 + !fits};
  uint32_t random = (uint32_t)(height * width);
  for (int i = 0; i < height * width; ++i) {
    random = random * 1664525u + 1013904223u;
    old[i] = values[i] = (uint8_t)((random >> 16) % (uint32_t)levels * 5 + (uint32_t)i / 50);
  }
  for (int t = 0; t < 64; ++t) tile_table(old, height, width, side, t, (double)limit, table[t]);
  ok(cr_equalize_tiles(values, 1, height, width, limit));
  for (int i = 0; i < height * width; ++i) {
    const double at_y = (double)(i / width) / side[0] - 0.5;
    const double at_x = (double)(i % width) / side[1] - 0.5;
    const int row = (int)floor(at_y), column = (int)floor(at_x);
    double exact = 0;
    for (int k = 0; k < 4; ++k) {
      const int r = clamp(row + k / 2, 8), c = clamp(column + k % 2, 8);
      const double down = k / 2 == 0 ? 1 - (at_y - row) : at_y - row;
      const double across = k % 2 == 0 ? 1 - (at_x - column) : at_x - column;
      exact += down * across * table[r * 8 + c][old[i]];
    }
    assert_rounded(values[i], exact, "tiles", i / width, i % width);
  }
}

TEST(equalized_tiles) {
  check_tiles(16, 24, 40, 4);
  check_tiles(40, 32, 3, 4);
  check_tiles(40, 40, 1, 40);
  check_tiles(17, 23, 12, 4);
  check_tiles(24, 23, 40, 30);
  check_tiles(23, 24, 2, 100);
  check_tiles(9, 5, 40, 4);
  check_tiles(1, 1, 2, 4);
  check_tiles(8, 40, 7, 0);
}

/* All effects at once are the single ones in their order. */
TEST(order_of_effects) {
  Caffe__NoiseParameter all = CAFFE__NOISE_PARAMETER__INIT;
  cr_image together = {0}, apart = {0};
  make(&together, 19, 18, 3);
  make(&apart, 19, 18, 3);
  all.decolorize = all.gauss_blur = all.hist_eq = all.clahe = all.erode = all.posterize = 1;
  all.inverse = all.convert_to_hsv = 1;
  all.jpeg = 40;
  apply(&all, &together);
  for (int i = 0; i < 9; ++i) {
    Caffe__NoiseParameter one = CAFFE__NOISE_PARAMETER__INIT;
    switch (i) {
      case 0: one.decolorize = 1; break;
      case 1: one.gauss_blur = 1; break;
      case 2: one.hist_eq = 1; break;
      case 3: one.clahe = 1; break;
      case 4: one.jpeg = 40; break;
      case 5: one.erode = 1; break;
      case 6: one.posterize = 1; break;
      case 7: one.inverse = 1; break;
      default: one.convert_to_hsv = 1;
    }
    apply(&one, &apart);
  }
  assert_memory_equal(together.pixels, apart.pixels, 19 * 18 * 3);
  cr_image_free(&together);
  cr_image_free(&apart);
}

/* ---- colours ------------------------------------------------------------- */

static void assert_close(int found, double exact, double error, const char *what) {
  if (fabs(found - exact) > error) fail_msg("%s: %d, not %g", what, found, exact);
}

/* Every 17th value of each channel, 4096 colours. */
TEST(colours) {
  for (int i = 0; i < 4096; ++i) {
    const uint8_t old[3] = {(uint8_t)(i % 16 * 17), (uint8_t)(i / 16 % 16 * 17),
                            (uint8_t)(i / 256 * 17)};
    const double b = old[0], g = old[1], r = old[2];
    uint8_t p[3] = {old[0], old[1], old[2]};
    cr_bgr_to_ycrcb(p, 1);
    const double y = 0.299 * r + 0.587 * g + 0.114 * b;
    assert_close(p[0], y, 0.51, "Y");
    assert_close(p[1], cut(0.713 * (r - y) + 128), 1.01, "Cr");
    assert_close(p[2], cut(0.564 * (b - y) + 128), 1.01, "Cb");
    const int ycc[3] = {p[0], p[1], p[2]};
    cr_ycrcb_to_bgr(p, 1);
    assert_close(p[0], cut(ycc[0] + 1.773 * (ycc[2] - 128)), 0.51, "blue");
    assert_close(p[1], cut(ycc[0] - 0.714 * (ycc[1] - 128) - 0.344 * (ycc[2] - 128)), 0.51,
                 "green");
    assert_close(p[2], cut(ycc[0] + 1.403 * (ycc[1] - 128)), 0.51, "red");
  }
}

TEST(hues) {
  for (int i = 0; i < 4096; ++i) {
    const uint8_t old[3] = {(uint8_t)(i % 16 * 17), (uint8_t)(i / 16 % 16 * 17),
                            (uint8_t)(i / 256 * 17)};
    const double b = old[0], g = old[1], r = old[2];
    const double high = fmax(r, fmax(g, b)), low = fmin(r, fmin(g, b)), spread = high - low;
    double hue = 0;
    uint8_t p[3] = {old[0], old[1], old[2]};
    cr_bgr_to_hsv(p, 1);
    if (spread > 0) {
      if (high == r) hue = (g - b) / spread;
      else if (high == g) hue = (b - r) / spread + 2;
      else hue = (r - g) / spread + 4;
    }
    hue = hue < 0 ? hue * 30 + 180 : hue * 30;
    /* 179.6 and 0 lie side by side. */
    const double apart = fabs(p[0] - hue) > 90 ? 180 - fabs(p[0] - hue) : fabs(p[0] - hue);
    if (apart > 0.6 || p[0] >= 180 + (hue > 179.4)) fail_msg("hue %d, not %g", p[0], hue);
    assert_close(p[1], high > 0 ? 255 * spread / high : 0, 0.6, "saturation");
    assert_int_equal(p[2], (int)high);
  }
}

TEST(back_from_hues) {
  for (int i = 0; i < 256 * 16; ++i) {
    uint8_t p[3] = {(uint8_t)(i / 16), (uint8_t)(i % 4 * 85), (uint8_t)(i / 4 % 4 * 85)};
    const double h = fmod(p[0] / 30.0, 6), s = p[1] / 255.0, v = p[2];
    double wanted[3]; /* red, green, blue: how far each is from its full sixths */
    for (int c = 0; c < 3; ++c) {
      const double k = fmod(5 - 2 * c + h, 6);
      wanted[c] = v - v * s * fmax(0, fmin(1, fmin(k, 4 - k)));
    }
    cr_hsv_to_bgr(p, 1);
    assert_close(p[2], wanted[0], 0.51, "red");
    assert_close(p[1], wanted[1], 0.51, "green");
    assert_close(p[0], wanted[2], 0.51, "blue");
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
