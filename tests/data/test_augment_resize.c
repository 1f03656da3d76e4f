/* Resizing in all modes, and the policies of resize_param. */
#include <stdlib.h>
#include <string.h>

#include "data/augment/augment_private.h"
#include "transform_text.h"

#define MODE(name) CAFFE__RESIZE_PARAMETER__INTERP_MODE__##name

static void set(cr_image *image, int height, int width, const uint8_t *values) {
  ok(cr_image_reserve(image, height, width, 1));
  memcpy(image->pixels, values, (size_t)(height * width));
}

static void resize(const cr_image *in, int height, int width,
                   Caffe__ResizeParameter__InterpMode mode, cr_image *out) {
  ok(cr_image_resize_with(in, height, width, mode, out));
  assert_int_equal(out->height, height);
  assert_int_equal(out->width, width);
}

TEST(test_nearest) {
  cr_image in = {0}, out = {0};
  set(&in, 1, 3, (const uint8_t[]){10, 20, 30});
  resize(&in, 2, 6, MODE(NEAREST), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){10, 10, 20, 20, 30, 30}), 6);
  assert_memory_equal(out.pixels + 6, out.pixels, 6);
  /* 5 -> 3: positions 0, 5/3, 10/3 rounded down. */
  set(&in, 1, 5, (const uint8_t[]){1, 2, 3, 4, 5});
  resize(&in, 1, 3, MODE(NEAREST), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){1, 2, 4}), 3);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* Pixel 17 of 34 comes from 17 * (6 / 34) = 3, but OpenCV multiplies by 1 / (34 / 6), which is a
 * little less. */
TEST(scales_are_reciprocals_as_in_opencv) {
  cr_image in = {0}, out = {0};
  set(&in, 1, 6, (const uint8_t[]){10, 50, 90, 130, 170, 210});
  resize(&in, 1, 34, MODE(NEAREST), &out);
  assert_int_equal(out.pixels[17], 90);
  assert_int_equal(out.pixels[18], 130);
  resize(&in, 1, 34, MODE(AREA), &out);
  static const uint8_t wanted[] = {90, 90, 90, 90, 90, 90, 130, 130, 130, 130, 143};
  assert_memory_equal(out.pixels + 12, wanted, sizeof wanted);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* Shrinking averages what a pixel covers; growing is linear, starting at integer positions. */
TEST(test_area) {
  cr_image in = {0}, out = {0};
  set(&in, 2, 4, (const uint8_t[]){0, 10, 100, 200, 20, 30, 50, 51});
  resize(&in, 1, 2, MODE(AREA), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){15, 100}), 2);
  /* 3 -> 2: (a + b / 2) / 1.5 and (b / 2 + c) / 1.5. */
  set(&in, 1, 3, (const uint8_t[]){30, 60, 90});
  resize(&in, 1, 2, MODE(AREA), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){40, 80}), 2);
  /* 2 -> 3: pixel 1 starts in source 0 and ends in source 1: (1 + 1) - (0 + 1) * 1.5 = 0.5. */
  set(&in, 1, 2, (const uint8_t[]){10, 40});
  resize(&in, 1, 3, MODE(AREA), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){10, 25, 40}), 3);
  /* Exactly half: halves upwards, 2 of 4 and 6 of 4; at other factors to even. */
  set(&in, 2, 4, (const uint8_t[]){0, 0, 1, 2, 1, 1, 2, 1});
  resize(&in, 1, 2, MODE(AREA), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){1, 2}), 2);
  set(&in, 1, 4, (const uint8_t[]){0, 1, 1, 2});
  resize(&in, 1, 2, MODE(AREA), &out);
  assert_memory_equal(out.pixels, ((const uint8_t[]){0, 2}), 2);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* 4001 -> 2000: pixel 0 covers two pixels and 0.0005 of the third, which counts for nothing. */
TEST(slivers_are_left_out) {
  cr_image in = {0}, out = {0};
  ok(cr_image_reserve(&in, 1, 4001, 1));
  memset(in.pixels, 255, 4001);
  memcpy(in.pixels, ((const uint8_t[]){0, 1}), 2);
  resize(&in, 1, 2000, MODE(AREA), &out);
  assert_int_equal(out.pixels[0], 0); /* 1 / 2.0005; with the third pixel 0.56 */
  cr_image_free(&in);
  cr_image_free(&out);
}

/* 4 -> 8, position 3 is 1.25: weights -0.10546875, 0.87890625, 0.26171875, -0.03515625. */
TEST(test_cubic) {
  cr_image in = {0}, out = {0};
  set(&in, 1, 4, (const uint8_t[]){10, 20, 40, 80});
  resize(&in, 1, 8, MODE(CUBIC), &out);
  assert_int_equal(out.pixels[3], 24);
  /* Overshoot is cut: -0.10546875 * 255 + 0. */
  set(&in, 1, 4, (const uint8_t[]){255, 0, 0, 0});
  resize(&in, 1, 8, MODE(CUBIC), &out);
  assert_int_equal(out.pixels[3], 0);
  cr_image_free(&in);
  cr_image_free(&out);
}

/* Every mode keeps a constant image, an image of the same size, and (centres meet when a side
 * grows by an odd factor) the pixels at the centres. */
TEST(test_identities) {
  static const Caffe__ResizeParameter__InterpMode modes[] = {
      MODE(LINEAR), MODE(AREA), MODE(NEAREST), MODE(CUBIC), MODE(LANCZOS4)};
  cr_image in = {0}, out = {0};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    fill(&in, 11, 9, 3);
    resize(&in, 11, 9, modes[m], &out);
    assert_memory_equal(out.pixels, in.pixels, 11 * 9 * 3);
    if (modes[m] != MODE(AREA)) {
      resize(&in, 33, 27, modes[m], &out);
      for (int i = 0; i < 11 * 9 * 3; ++i) {
        int y = i / 27, x = i / 3 % 9, c = i % 3;
        assert_int_equal(out.pixels[((3 * y + 1) * 27 + 3 * x + 1) * 3 + c], in.pixels[i]);
      }
    }
    memset(in.pixels, 77, 11 * 9 * 3);
    static const int extent[][2] = {{5, 4}, {23, 17}, {1, 1}, {4, 40}, {40, 4}};
    for (size_t e = 0; e < sizeof extent / sizeof *extent; ++e) {
      resize(&in, extent[e][0], extent[e][1], modes[m], &out);
      for (int i = 0; i < extent[e][0] * extent[e][1] * 3; ++i) {
        assert_int_equal(out.pixels[i], 77);
      }
    }
  }
  cr_image_free(&in);
  cr_image_free(&out);
}

/* lanczos: half way between 0 and 1 of a step, by symmetry the mean; the step overshoots. */
TEST(test_lanczos) {
  cr_image in = {0}, out = {0};
  uint8_t step[16];
  for (int i = 0; i < 16; ++i) step[i] = i < 8 ? 50 : 150;
  set(&in, 1, 16, step);
  resize(&in, 1, 48, MODE(LANCZOS4), &out);
  int low = 255, high = 0;
  for (int i = 0; i < 48; ++i) {
    assert_in_range(out.pixels[i] + out.pixels[47 - i], 199, 201);
    if (out.pixels[i] < low) low = out.pixels[i];
    if (out.pixels[i] > high) high = out.pixels[i];
  }
  assert_in_range(low, 35, 47);
  assert_in_range(high, 153, 165);
  cr_image_free(&in);
  cr_image_free(&out);
}

TEST(test_warp_is_image_resize) {
  cr_augment *augment = augment_of("resize_param { height: 9 width: 5 }");
  cr_image a = {0}, b = {0};
  fill(&a, 20, 30, 3);
  ok(cr_image_resize(&a, 9, 5, &b));
  ok(cr_augment_image(augment, 1, 2, &a));
  assert_int_equal(a.height, 9);
  assert_int_equal(a.width, 5);
  assert_memory_equal(a.pixels, b.pixels, 9 * 5 * 3);
  cr_image_free(&a);
  cr_image_free(&b);
  cr_augment_destroy(augment);
}

/* 40 x 80 pixels into 20 x 20: the width becomes 40, or the height becomes 10 with 5 rows above
 * and below. */
TEST(test_fit) {
  cr_augment *small = augment_of(
      "resize_param { resize_mode: FIT_SMALL_SIZE height: 20 width: 20 interp_mode: AREA }");
  cr_image image = {0}, inner = {0};
  int extent[2];
  fill(&image, 40, 80, 3);
  ok(cr_augment_extent(small, 1, 1, (const int[]){40, 80}, extent));
  ok(cr_augment_image(small, 1, 1, &image));
  assert_int_equal(image.height, 20);
  assert_int_equal(image.width, 40);
  assert_int_equal(extent[0], 20);
  assert_int_equal(extent[1], 40);
  fill(&image, 80, 40, 1);
  ok(cr_augment_image(small, 1, 1, &image));
  assert_int_equal(image.height, 40);
  assert_int_equal(image.width, 20);
  cr_augment_destroy(small);
  cr_image_free(&image);
  cr_image_free(&inner);
}

enum { ROW = 20 * 3 };

static void check_pad(const char *text, int row_above, int row_below, int constant) {
  cr_augment *augment = augment_of(text);
  cr_image image = {0}, inner = {0};
  int extent[2];
  fill(&image, 40, 80, 3);
  ok(cr_image_resize(&image, 10, 20, &inner));
  ok(cr_augment_extent(augment, 1, 1, (const int[]){40, 80}, extent));
  ok(cr_augment_image(augment, 1, 1, &image));
  assert_int_equal(image.height, 20);
  assert_int_equal(image.width, 20);
  assert_int_equal(extent[0], 20);
  assert_int_equal(extent[1], 20);
  assert_memory_equal(image.pixels + (size_t)5 * ROW, inner.pixels, (size_t)10 * ROW);
  if (constant >= 0) {
    for (int i = 0; i < 5 * ROW; ++i) {
      assert_int_equal(image.pixels[i], constant + i % 3);
      assert_int_equal(image.pixels[15 * ROW + i], constant + i % 3);
    }
  } else {
    /* The rows next to the image: row 4 and row 15. */
    assert_memory_equal(image.pixels + (size_t)4 * ROW, inner.pixels + row_above * ROW, ROW);
    assert_memory_equal(image.pixels + (size_t)15 * ROW, inner.pixels + row_below * ROW, ROW);
  }
  cr_augment_destroy(augment);
  cr_image_free(&image);
  cr_image_free(&inner);
}

TEST(test_pad) {
  check_pad(
      "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 width: 20 "
      "pad_value: 7 pad_value: 8 pad_value: 9 }",
      0, 0, 7);
  check_pad(
      "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 width: 20 "
      "pad_mode: MIRRORED }",
      1, 8, -1);
  check_pad(
      "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 width: 20 "
      "pad_mode: REPEAT_NEAREST }",
      0, 9, -1);
}

/* Of several modes each is drawn as often; prob decides whether to resize at all. */
TEST(test_random_modes) {
  cr_augment *augment = augment_of(
      "resize_param { prob: 0.75 height: 1 width: 6 interp_mode: NEAREST interp_mode: AREA }");
  cr_image image = {0};
  int kept = 0, nearest = 0, area = 0;
  for (uint64_t sample = 0; sample < 4000; ++sample) {
    int extent[2];
    set(&image, 1, 3, (const uint8_t[]){10, 20, 30});
    ok(cr_augment_extent(augment, 5, sample, (const int[]){1, 3}, extent));
    ok(cr_augment_image(augment, 5, sample, &image));
    assert_int_equal(image.width, extent[1]);
    if (image.width == 3) ++kept;
    else if (image.pixels[1] == image.pixels[0] && image.pixels[3] == 20) ++nearest;
    else ++area;
  }
  /* Five deviations of a binomial: 137 and 153. */
  assert_in_range(kept, 1000 - 137, 1000 + 137);
  assert_in_range(nearest + area, 3000 - 137, 3000 + 137);
  cr_image_free(&image);
  cr_augment_destroy(augment);

  augment =
      augment_of("resize_param { height: 1 width: 2 interp_mode: NEAREST interp_mode: AREA }");
  nearest = area = 0;
  for (uint64_t sample = 0; sample < 4000; ++sample) {
    set(&image, 1, 4, (const uint8_t[]){10, 20, 30, 40});
    ok(cr_augment_image(augment, 5, sample, &image));
    nearest += image.pixels[0] == 10 && image.pixels[1] == 30;
    area += image.pixels[0] == 15 && image.pixels[1] == 35;
  }
  assert_int_equal(nearest + area, 4000);
  assert_in_range(nearest, 2000 - 158, 2000 + 158);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

/* The shorter side takes every length from lower to upper, the longer one follows. */
TEST(test_rand_resize) {
  cr_augment *augment = augment_of("img_rand_resize_lower: 20 img_rand_resize_upper: 23");
  cr_augment *grow =
      augment_of("img_rand_resize_lower: 20 img_rand_resize_upper: 23 allow_upscale: true");
  cr_image image = {0};
  int seen[24] = {0};
  for (uint64_t sample = 0; sample < 400; ++sample) {
    int extent[2];
    fill(&image, 60, 40, 3);
    ok(cr_augment_extent(augment, 5, sample, (const int[]){60, 40}, extent));
    ok(cr_augment_image(augment, 5, sample, &image));
    assert_in_range(image.width, 20, 23);
    assert_int_equal(image.height, image.width * 60 / 40);
    assert_int_equal(extent[0], image.height);
    assert_int_equal(extent[1], image.width);
    ++seen[image.width];
    fill(&image, 10, 12, 1);
    ok(cr_augment_image(augment, 5, sample, &image));
    assert_int_equal(image.height, 10);
    ok(cr_augment_image(grow, 5, sample, &image));
    assert_in_range(image.height, 20, 23);
    assert_int_equal(image.width, image.height * 12 / 10);
  }
  for (int i = 20; i < 24; ++i) assert_in_range(seen[i], 100 - 44, 100 + 44);
  cr_image_free(&image);
  cr_augment_destroy(grow);
  cr_augment_destroy(augment);
}

/* Intel Caffe's: images also grow; without bounds the shorter side gets up to the longer one's
 * length. */
TEST(test_random_resize) {
  static const struct {
    const char *text;
    int least, most;
  } cases[] = {
      {"random_resize_param { min_size: 38 max_size: 41 }", 38, 41},
      {"random_resize_param { min_size: 57 }", 57, 60},
      {"random_resize_param { max_size: 41 resize_param { interp_mode: NEAREST } }", 40, 41},
      {"random_resize_param { }", 40, 60}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    cr_augment *augment = augment_of(cases[c].text);
    cr_image image = {0};
    bool seen[61] = {false};
    for (uint64_t sample = 0; sample < 300; ++sample) {
      int extent[2];
      fill(&image, 60, 40, 3);
      ok(cr_augment_extent(augment, 5, sample, (const int[]){60, 40}, extent));
      ok(cr_augment_image(augment, 5, sample, &image));
      assert_in_range(image.width, cases[c].least, cases[c].most);
      assert_int_equal(image.height, image.width * 60 / 40);
      assert_true(extent[0] == image.height && extent[1] == image.width);
      seen[image.width] = true;
    }
    for (int i = cases[c].least; i <= cases[c].most; ++i) assert_true(seen[i]);
    cr_image_free(&image);
    cr_augment_destroy(augment);
  }
}

/* The interpolation is one of those that are named. */
TEST(test_random_resize_interpolates) {
  cr_augment *augment = augment_of(
      "random_resize_param { min_size: 20 max_size: 20 resize_param { interp_mode: NEAREST "
      "interp_mode: AREA } }");
  cr_image image = {0}, wanted[2] = {{0}, {0}};
  int found[2] = {0, 0};
  fill(&image, 60, 40, 3);
  ok(cr_image_resize_with(&image, 30, 20, CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST,
                          &wanted[0]));
  ok(cr_image_resize_with(&image, 30, 20, CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA, &wanted[1]));
  assert_memory_not_equal(wanted[0].pixels, wanted[1].pixels, 1800);
  for (uint64_t sample = 0; sample < 60; ++sample) {
    fill(&image, 60, 40, 3);
    ok(cr_augment_image(augment, 5, sample, &image));
    const int mode = memcmp(image.pixels, wanted[0].pixels, 1800) == 0 ? 0 : 1;
    assert_memory_equal(image.pixels, wanted[mode].pixels, 1800);
    ++found[mode];
  }
  assert_in_range(found[0], 12, 48);
  for (int i = 0; i < 2; ++i) cr_image_free(&wanted[i]);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
