/* Augmentation as a whole: expanded canvases, determinism, layouts, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "refused_text.h"
#include "transform_text.h"

/* The image lies in the canvas where `expanded` says, and the rest has the mean's colour. */
static void check_canvas(const cr_image *image, const cr_image *old, const float expanded[4]) {
  int left = (int)lrintf(-expanded[0] * (float)old->width);
  int top = (int)lrintf(-expanded[1] * (float)old->height);
  assert_int_equal(image->width, left + (int)lrintf(expanded[2] * (float)old->width));
  assert_int_equal(image->height, top + (int)lrintf(expanded[3] * (float)old->height));
  assert_true(left >= 0 && top >= 0);
  const uint8_t mean[3] = {104, 117, 123};
  const uint8_t *p = image->pixels;
  for (int y = 0; y < image->height; ++y) {
    for (int x = 0; x < image->width; ++x, p += 3) {
      bool inside = y >= top && y < top + old->height && x >= left && x < left + old->width;
      const uint8_t *q = inside ? old->pixels + (((y - top) * old->width) + x - left) * 3 : mean;
      assert_memory_equal(p, q, 3);
    }
  }
}

TEST(test_expand) {
  cr_augment *augment = augment_of(
      "expand_param { prob: 0.5 max_expand_ratio: 4 } "
      "mean_value: 104 mean_value: 117 mean_value: 123");
  cr_image image = {0}, old = {0};
  fill(&old, 10, 20, 3);
  int grown = 0;
  double ratio = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    float expanded[4];
    int extent[2];
    fill(&image, 10, 20, 3);
    ok(cr_augment_extent(augment, 1, sample, (const int[]){10, 20}, extent));
    ok(cr_augment_canvas(augment, 1, sample, &image, expanded));
    assert_int_equal(image.height, extent[0]);
    assert_int_equal(image.width, extent[1]);
    check_canvas(&image, &old, expanded);
    if (expanded[0] == 0 && expanded[2] == 1 && image.width == 20) continue;
    ++grown;
    ratio += image.width / 20.0;
  }
  assert_in_range(grown, 500 - 90, 500 + 79);
  /* Uniform in 1..4, cut to twentieths: the mean is 2.475, its deviation 0.04. */
  assert_true(fabs(ratio / grown - 2.475) < 0.2);
  cr_image_free(&image);
  cr_image_free(&old);
  cr_augment_destroy(augment);
}

/* Without mean values the canvas is black. */
TEST(test_black_canvas) {
  cr_augment *augment = augment_of("expand_param { max_expand_ratio: 3 }");
  cr_image image = {0};
  ok(cr_image_reserve(&image, 8, 8, 1));
  memset(image.pixels, 255, 64);
  ok(cr_augment_image(augment, 1, 1, &image));
  assert_true(image.height > 8);
  int white = 0;
  for (int i = 0; i < image.height * image.width; ++i) {
    assert_true(image.pixels[i] == 0 || image.pixels[i] == 255);
    white += image.pixels[i] == 255;
  }
  assert_int_equal(white, 64);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

static const char everything[] =
    "distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 "
    "contrast_lower: 0.5 contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 "
    "saturation_lower: 0.5 saturation_upper: 1.5 random_order_prob: 0.3 } "
    "expand_param { prob: 0.5 max_expand_ratio: 2 } "
    "img_rand_resize_lower: 12 img_rand_resize_upper: 15 "
    "resize_param { prob: 0.8 height: 12 width: 12 interp_mode: LINEAR interp_mode: AREA "
    "interp_mode: NEAREST interp_mode: CUBIC interp_mode: LANCZOS4 } "
    "noise_param { prob: 0.5 gauss_blur: true jpeg: 50 clahe: true saltpepper: true "
    "saltpepper_param { fraction: 0.1 value: 255 } }";

static uint64_t hash_of(const cr_augment *augment, uint64_t key, uint64_t sample) {
  cr_image image = {0};
  fill(&image, 16, 20, 3);
  ok(cr_augment_image(augment, key, sample, &image));
  uint64_t hash = (uint64_t)image.height * 1000 + (uint64_t)image.width;
  size_t count = (size_t)image.height * (size_t)image.width * (size_t)image.channels;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ image.pixels[i]) * 1099511628211u;
  cr_image_free(&image);
  return hash;
}

/* A sample's result depends on key and index, not on what was made before nor on the object. */
TEST(test_determinism) {
  cr_augment *a = augment_of(everything), *b = augment_of(everything);
  uint64_t up[200];
  int other_key = 0, other_sample = 0;
  for (uint64_t i = 0; i < 200; ++i) up[i] = hash_of(a, 1, i);
  for (uint64_t i = 200; i-- > 0;) {
    assert_true(hash_of(b, 1, i) == up[i]);
    other_key += hash_of(b, 2, i) != up[i];
    if (i > 0) other_sample += up[i] != up[i - 1];
  }
  assert_true(other_key >= 199 && other_sample >= 198);
  cr_augment_destroy(a);
  cr_augment_destroy(b);
}

/* The extents that are told are those that come out, whatever was drawn. */
TEST(test_extents) {
  cr_augment *augment = augment_of(everything);
  cr_image image = {0};
  int sizes[2] = {0};
  for (uint64_t sample = 0; sample < 300; ++sample) {
    int extent[2];
    fill(&image, 16, 20, 3);
    ok(cr_augment_extent(augment, 8, sample, (const int[]){16, 20}, extent));
    ok(cr_augment_image(augment, 8, sample, &image));
    assert_int_equal(image.height, extent[0]);
    assert_int_equal(image.width, extent[1]);
    ++sizes[extent[0] == 12 && extent[1] == 12];
  }
  assert_true(sizes[0] > 20 && sizes[1] > 200);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

/* Channel-major bytes, interleaved bytes elsewhere and pixels in the store itself. */
TEST(test_layouts) {
  cr_augment *augment = augment_of(everything);
  cr_image image = {0}, store[3] = {{0}};
  uint8_t planar[16 * 20 * 3];
  fill(&image, 16, 20, 3);
  for (int i = 0; i < 16 * 20 * 3; ++i) planar[i % 3 * 320 + i / 3] = image.pixels[i];
  for (uint64_t sample = 0; sample < 20; ++sample) {
    fill(&store[2], 16, 20, 3);
    cr_pixels p[3];
    for (int i = 0; i < 3; ++i) {
      p[i] = (cr_pixels){.values = i == 0   ? planar
                                   : i == 1 ? image.pixels
                                            : store[2].pixels,
                         .type = CREMA_U8,
                         .interleaved = i > 0,
                         .channels = 3,
                         .height = 16,
                         .width = 20};
      ok(cr_augment_pixels(augment, 4, sample, &p[i], &store[i]));
      assert_ptr_equal(p[i].values, store[i].pixels);
      assert_true(p[i].interleaved);
      assert_int_equal(p[i].height, p[0].height);
      assert_int_equal(p[i].width, p[0].width);
      assert_memory_equal(p[i].values, p[0].values, (size_t)(p[0].height * p[0].width * 3));
    }
  }
  float value = 0;
  cr_pixels real = {.values = &value, .type = CREMA_F32, .channels = 1, .height = 1, .width = 1};
  assert_int_equal(cr_augment_pixels(augment, 4, 0, &real, &store[0]), CREMA_E_TYPE);
  ok(cr_augment_pixels(NULL, 4, 0, &real, &store[0]));
  assert_ptr_equal(real.values, &value);
  for (int i = 0; i < 3; ++i) cr_image_free(&store[i]);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

TEST(test_nothing_asked) {
  cr_augment *augment = NULL;
  cr_image image = {0}, same = {0};
  int extent[2];
  ok(cr_augment_create(NULL, &augment));
  assert_null(augment);
  ok(make_augment("mirror: true crop_size: 3 mean_value: 1", &augment));
  assert_null(augment);
  fill(&image, 3, 4, 3);
  fill(&same, 3, 4, 3);
  ok(cr_augment_image(NULL, 1, 1, &image));
  assert_memory_equal(image.pixels, same.pixels, 36);
  ok(cr_augment_extent(NULL, 1, 1, (const int[]){3, 4}, extent));
  assert_int_equal(extent[0] * 10 + extent[1], 34);
  cr_augment_destroy(NULL);
  cr_image_free(&image);
  cr_image_free(&same);
}

/* Refused when made, by the name of the field. */
TEST(test_refusals) {
  static const refused_text cases[] = {
      {"resize_param { height: 3 }", CREMA_E_ARGUMENT, "width: 0"},
      {"resize_param { height: 3 width: 70000 }", CREMA_E_RANGE, "70000"},
      {"resize_param { height: 3 width: 3 height_scale: 5 }", CREMA_E_UNSUPPORTED, "height_scale"},
      {"img_rand_resize_lower: 3", CREMA_E_ARGUMENT, "img_rand_resize_upper: 0"},
      {"img_rand_resize_lower: 5 img_rand_resize_upper: 4", CREMA_E_ARGUMENT, "upper: 4"},
      {"img_rand_resize_lower: 5 img_rand_resize_upper: 99999", CREMA_E_RANGE, "99999"},
      {"random_resize_param { min_size: 5 max_size: 4 }", CREMA_E_ARGUMENT, "max_size: 4"},
      {"random_resize_param { min_size: 99999 }", CREMA_E_ARGUMENT, "min_size: 99999"},
      {"random_resize_param { } img_rand_resize_lower: 3 img_rand_resize_upper: 4",
       CREMA_E_ARGUMENT, "exclude each other"},
      {"random_aspect_ratio_param { }", CREMA_E_UNSUPPORTED, "random_aspect_ratio_param"},
      {"rand_resize_ratio_lower: 0.5", CREMA_E_UNSUPPORTED, "rand_resize_ratio_lower"},
      {"vertical_stretch_upper: 1.5", CREMA_E_UNSUPPORTED, "vertical_stretch"},
      {"noise_param { convert_to_lab: true }", CREMA_E_UNSUPPORTED, "convert_to_lab"},
      {"noise_param { jpeg: 101 }", CREMA_E_RANGE, "jpeg: 101"},
      {"noise_param { saltpepper: true }", CREMA_E_ARGUMENT, "saltpepper_param"},
      {"noise_param { saltpepper_param { fraction: 2 } }", CREMA_E_RANGE, "fraction: 2"},
      {"distort_param { brightness_delta: -1 }", CREMA_E_ARGUMENT, "brightness_delta: -1"},
      {"distort_param { hue_delta: nan }", CREMA_E_ARGUMENT, "hue_delta: nan"},
      {"distort_param { contrast_prob: 1 contrast_lower: 1 contrast_upper: 0.5 }", CREMA_E_ARGUMENT,
       "contrast_lower: 1"},
      {"distort_param { saturation_prob: 1 saturation_lower: -1 }", CREMA_E_ARGUMENT,
       "saturation_lower: -1"},
      {"expand_param { max_expand_ratio: 0.5 }", CREMA_E_RANGE, "max_expand_ratio: 0.5"},
      {"flow: true", CREMA_E_UNSUPPORTED, "flow"},
      {"pad: 3", CREMA_E_UNSUPPORTED, "pad"},
      {"expand_param { } mean_file: 'mean'", CREMA_E_UNSUPPORTED, "mean_file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_augment *augment = NULL;
    assert_refused(&cases[i], make_augment(cases[i].text, &augment));
    assert_null(augment);
  }
}

/* Refused when met: images that do not fit. */
TEST(test_misfits) {
  static const struct {
    const char *text;
    int channels;
    crema_status status;
  } cases[] = {
      {"distort_param { hue_prob: 0.1 }", 1, CREMA_E_SHAPE},
      {"noise_param { convert_to_hsv: true }", 1, CREMA_E_SHAPE},
      {"noise_param { clahe: true }", 4, CREMA_E_SHAPE},
      {"noise_param { saltpepper: true saltpepper_param { value: 1 value: 2 } }", 3, CREMA_E_SHAPE},
      {"resize_param { height: 3 width: 3 pad_value: 1 pad_value: 2 }", 3, CREMA_E_SHAPE},
      {"expand_param { max_expand_ratio: 4 } mean_value: 1 mean_value: 2", 3, CREMA_E_SHAPE},
      {"expand_param { max_expand_ratio: 65500 }", 1, CREMA_E_RANGE},
      {"resize_param { resize_mode: FIT_SMALL_SIZE height: 65000 width: 65000 }", 1, CREMA_E_RANGE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_augment *augment = augment_of(cases[i].text);
    cr_image image = {0};
    fill(&image, 30, 20, cases[i].channels);
    crema_status status = cr_augment_image(augment, 1, 1, &image);
    if (status != cases[i].status) fail_msg("%s: %d", cases[i].text, (int)status);
    cr_image_free(&image);
    cr_augment_destroy(augment);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
