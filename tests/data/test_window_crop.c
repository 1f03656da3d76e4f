/* Where windows lie in the image and in the square: the bounds of what is accepted, and every plan
 * against the arithmetic of R-CNN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/pipeline/window_crop.h"

enum { HEIGHT = 10, WIDTH = 12, FAR = 1 << 24 };

static crema_status plan(int x1, int y1, int x2, int y2, const cr_window_crop_options *options,
                         bool mirror, cr_window_crop *out) {
  const cr_listed_window window = {.x1 = x1, .y1 = y1, .x2 = x2, .y2 = y2};
  return cr_window_crop_plan(&window, HEIGHT, WIDTH, options, mirror, out);
}

/* Without context a window must be in the image, to the last pixel. */
TEST(windows_in_the_image) {
  static const struct {
    int x1, y1, x2, y2;
    bool fits;
  } cases[] = {{0, 0, 11, 9, true},   {11, 9, 11, 9, true},  {0, 0, 0, 0, true},
               {-1, 0, 11, 9, false}, {0, -1, 11, 9, false}, {0, 0, 12, 9, false},
               {0, 0, 11, 10, false}, {5, 3, 4, 6, false},   {4, 6, 5, 5, false}};
  const cr_window_crop_options options = {.crop_size = 7};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const int x1 = cases[i].x1, y1 = cases[i].y1, x2 = cases[i].x2, y2 = cases[i].y2;
    cr_window_crop crop;
    char words[128];
    crema_status status = plan(x1, y1, x2, y2, &options, false, &crop);
    snprintf(words, sizeof words, "window %d %d %d %d of an image of 10 x 12 pixels", x1, y1, x2,
             y2);
    if (!cases[i].fits) {
      assert_int_equal(status, CREMA_E_RANGE);
      assert_string_equal(crema_error_text(), words);
      assert_int_equal(crop.width, 0);
      continue;
    }
    ok(status);
    assert_true(crop.x == x1 && crop.y == y1);
    assert_true(crop.width == x2 - x1 + 1 && crop.height == y2 - y1 + 1);
    assert_true(crop.out_width == 7 && crop.out_height == 7);
    assert_true(crop.pad_x == 0 && crop.pad_y == 0);
  }
}

/* With context, or as a square, windows may reach outside, but not as far as 2^24 pixels. */
TEST(far_windows) {
  static const cr_window_crop_options allowed[] = {{.crop_size = 7, .context_pad = 1},
                                                   {.crop_size = 7, .square = true}};
  for (size_t i = 0; i < 2; ++i) {
    cr_window_crop crop;
    const cr_window_crop_options *o = &allowed[i];
    ok(plan(-1, -1, 12, 10, o, false, &crop));
    ok(plan(1 - FAR, 1 - FAR, FAR - 1, FAR - 1, o, false, &crop));
    assert_int_equal(plan(-FAR, 0, 5, 5, o, false, &crop), CREMA_E_RANGE);
    assert_int_equal(plan(0, -FAR, 5, 5, o, false, &crop), CREMA_E_RANGE);
    assert_int_equal(plan(0, 0, FAR, 5, o, false, &crop), CREMA_E_RANGE);
    assert_int_equal(plan(0, 0, 5, FAR, o, false, &crop), CREMA_E_RANGE);
    assert_int_equal(plan(6, 0, 5, 5, o, false, &crop), CREMA_E_RANGE);
    assert_int_equal(plan(0, 6, 5, 5, o, false, &crop), CREMA_E_RANGE);
    ok(plan(5, 5, 5, 5, o, false, &crop));
  }
}

/* One direction of R-CNN's crop. */
typedef struct span {
  int first, last, before, after, out;
  bool inside;
} span;

static span reference(int first, int last, float half, int size,
                      const cr_window_crop_options *options) {
  const int crop = options->crop_size;
  const float context = (float)crop / (float)(crop - 2 * options->context_pad);
  const float centre = (float)first + (float)(last - first + 1) * 0.5f;
  span s = {.first = (int)roundf(centre - half * context),
            .last = (int)roundf(centre + half * context)};
  const float scale = (float)crop / (float)(s.last - s.first + 1);
  s.before = s.first < 0 ? -s.first : 0;
  s.after = s.last >= size ? s.last - size + 1 : 0;
  s.first += s.before;
  s.last -= s.after;
  s.inside = s.first <= s.last;
  s.out = (int)roundf((float)(s.last - s.first + 1) * scale);
  s.before = (int)roundf((float)s.before * scale);
  s.after = (int)roundf((float)s.after * scale);
  return s;
}

static int fit(int out, int pad, int crop) {
  return pad + out > crop ? (crop - pad < 0 ? 0 : crop - pad) : out;
}

TEST(every_window) {
  static const cr_window_crop_options options[] = {
      {.crop_size = 8, .context_pad = 2},
      {.crop_size = 16, .square = true},
      {.crop_size = 8, .context_pad = 1, .square = true},
      {.crop_size = 4, .context_pad = 1},
      {.crop_size = 32, .context_pad = 8}};
  for (int i = 0; i < 5 * 2 * 9 * 9 * 8 * 8; ++i) {
    const cr_window_crop_options *o = &options[i % 5];
    const bool mirror = i / 5 % 2 == 1;
    const int x1 = i / 10 % 9 * 2 - 3, y1 = i / 90 % 9 * 2 - 4;
    const int x2 = x1 + i / 810 % 8, y2 = y1 + i / 6480 % 8 * 2;
    float half_x = (float)(x2 - x1 + 1) * 0.5f, half_y = (float)(y2 - y1 + 1) * 0.5f;
    cr_window_crop crop;
    ok(plan(x1, y1, x2, y2, o, mirror, &crop));
    if (o->square) half_x = half_y = fmaxf(half_x, half_y);
    const span x = reference(x1, x2, half_x, WIDTH, o), y = reference(y1, y2, half_y, HEIGHT, o);
    if (!x.inside || !y.inside) {
      assert_true(crop.out_width == 0 && crop.out_height == 0);
      continue;
    }
    const int pad_x = mirror ? x.after : x.before;
    assert_int_equal(crop.x, x.first);
    assert_int_equal(crop.y, y.first);
    assert_int_equal(crop.width, x.last - x.first + 1);
    assert_int_equal(crop.height, y.last - y.first + 1);
    assert_int_equal(crop.pad_x, pad_x);
    assert_int_equal(crop.pad_y, y.before);
    assert_int_equal(crop.out_width, fit(x.out, pad_x, o->crop_size));
    assert_int_equal(crop.out_height, fit(y.out, y.before, o->crop_size));
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
