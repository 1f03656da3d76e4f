/* Colour spaces, distort_param and noise_param. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/augment/augment_private.h"
#include "data/image/image_codec.h"
#include "transform_text.h"

static void set(cr_image *image, int height, int width, int channels, const uint8_t *values) {
  ok(cr_image_reserve(image, height, width, channels));
  memcpy(image->pixels, values, (size_t)(height * width * channels));
}

/* One image through one setting. */
static void apply(const char *text, uint64_t sample, cr_image *image) {
  cr_augment *augment = augment_of(text);
  ok(cr_augment_image(augment, 21, sample, image));
  cr_augment_destroy(augment);
}

/* ---- colour spaces ------------------------------------------------------- */

TEST(test_hsv) {
  static const uint8_t bgr[] = {0,   0, 255, 0, 255, 0,   255, 0,  0,   128, 128,
                                128, 0, 0,   0, 255, 255, 255, 50, 100, 200};
  static const uint8_t hsv[] = {0,   255, 255, 60, 255, 255, 120, 255, 255, 0,  0,
                                128, 0,   0,   0,  0,   0,   255, 10,  191, 200};
  uint8_t pixels[sizeof bgr];
  memcpy(pixels, bgr, sizeof bgr);
  cr_bgr_to_hsv(pixels, sizeof bgr / 3);
  assert_memory_equal(pixels, hsv, sizeof bgr);
  cr_hsv_to_bgr(pixels, sizeof bgr / 3);
  assert_memory_equal(pixels, bgr, sizeof bgr);
  /* Around the circle: 190 is 10. */
  uint8_t turned[6] = {190, 191, 200, 10, 191, 200};
  cr_hsv_to_bgr(turned, 2);
  assert_memory_equal(turned, turned + 3, 3);
}

TEST(test_ycrcb) {
  static const uint8_t bgr[] = {0, 0, 255, 128, 128, 128, 255, 255, 255};
  static const uint8_t ycc[] = {76, 255, 85, 128, 128, 128, 255, 128, 128};
  uint8_t pixels[sizeof bgr];
  memcpy(pixels, bgr, sizeof bgr);
  cr_bgr_to_ycrcb(pixels, 3);
  assert_memory_equal(pixels, ycc, sizeof ycc);
  /* There and back changes no value by more than 2, unless a difference had to be cut. */
  for (int i = 0; i < 4096; ++i) {
    uint8_t p[3] = {(uint8_t)(40 + (i & 15) * 10), (uint8_t)(40 + (i >> 4 & 15) * 10),
                    (uint8_t)(40 + (i >> 8) * 10)};
    const uint8_t old[3] = {p[0], p[1], p[2]};
    cr_bgr_to_ycrcb(p, 1);
    cr_ycrcb_to_bgr(p, 1);
    for (int c = 0; c < 3; ++c) assert_true(abs(p[c] - old[c]) <= 2);
  }
}

/* ---- distort_param ------------------------------------------------------- */

/* The shift of brightness is uniform in -32..32. */
TEST(test_brightness) {
  cr_augment *augment = augment_of("distort_param { brightness_prob: 0.5 brightness_delta: 32 }");
  cr_image image = {0};
  int untouched = 0, low = 255, high = 0;
  double sum = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    set(&image, 1, 1, 1, (const uint8_t[]){128});
    ok(cr_augment_image(augment, 3, sample, &image));
    int value = image.pixels[0];
    untouched += value == 128;
    low = value < low ? value : low;
    high = value > high ? value : high;
    sum += value;
  }
  /* 1000 and 1 in 64 of the others, within five deviations; the mean's deviation is 0.3. */
  assert_in_range(untouched, 1016 - 112, 1016 + 112);
  assert_in_range(low, 96, 98);
  assert_in_range(high, 158, 160);
  assert_true(fabs(sum / 2000 - 128) < 1.5);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

TEST(test_contrast_and_saturation) {
  cr_image image = {0};
  set(&image, 1, 1, 3, (const uint8_t[]){10, 100, 200});
  apply("distort_param { contrast_prob: 1 contrast_lower: 2 contrast_upper: 2 }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){20, 200, 255}), 3);
  set(&image, 1, 1, 3, (const uint8_t[]){10, 100, 200});
  apply("distort_param { contrast_prob: 1 contrast_lower: 1 contrast_upper: 1 }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){10, 100, 200}), 3);
  /* Without saturation all channels are the value. */
  apply("distort_param { saturation_prob: 1 }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){200, 200, 200}), 3);
  /* (50, 100, 200) is (10, 191, 200); saturation 95.5 becomes 96: v (1 - s) = 124.7, and with a
   * third of the sixth 200 (1 - 0.3765 * 2 / 3) = 149.8. */
  set(&image, 1, 1, 3, (const uint8_t[]){50, 100, 200});
  apply("distort_param { saturation_prob: 1 saturation_lower: 0.5 saturation_upper: 0.5 }", 0,
        &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){125, 150, 200}), 3);
  cr_image_free(&image);
}

/* Pure red, hue 0: shifts down are cut to 0, shifts up by h give green 255 h / 30. */
TEST(test_hue) {
  cr_augment *augment = augment_of("distort_param { hue_prob: 1 hue_delta: 18 }");
  cr_image image = {0};
  int red = 0, high = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    set(&image, 1, 1, 3, (const uint8_t[]){0, 0, 255});
    ok(cr_augment_image(augment, 3, sample, &image));
    assert_int_equal(image.pixels[0], 0);
    assert_int_equal(image.pixels[2], 255);
    red += image.pixels[1] == 0;
    high = image.pixels[1] > high ? image.pixels[1] : high;
  }
  /* Half, and half a step of 36 more. */
  assert_in_range(red, 1028 - 112, 1028 + 112);
  assert_in_range(high, 144, 153);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

TEST(test_channel_order) {
  cr_augment *augment = augment_of("distort_param { random_order_prob: 1 }");
  cr_image image = {0};
  int seen[6] = {0};
  static const uint8_t orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                       {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
  for (uint64_t sample = 0; sample < 3000; ++sample) {
    set(&image, 1, 2, 3, (const uint8_t[]){1, 2, 3, 1, 2, 3});
    ok(cr_augment_image(augment, 3, sample, &image));
    assert_memory_equal(image.pixels, image.pixels + 3, 3);
    for (int i = 0; i < 6; ++i) seen[i] += memcmp(image.pixels, orders[i], 3) == 0;
  }
  for (int i = 0; i < 6; ++i) assert_in_range(seen[i], 500 - 103, 500 + 103);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

/* Contrast before saturation in half of the samples: (100, 100, 200) has saturation 127 (100 times
 * the rounded 5222 / 4096). First doubled: (200, 200, 255), saturation 55, times 2 is 110:
 * 255 (1 - 110 / 255) = 145. Else saturation 254 first: 200 / 255 = 1, and doubled 2. */
TEST(test_both_orders) {
  cr_augment *augment = augment_of(
      "distort_param { contrast_prob: 1 contrast_lower: 2 contrast_upper: 2 "
      "saturation_prob: 1 saturation_lower: 2 saturation_upper: 2 }");
  cr_image image = {0};
  int first = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    set(&image, 1, 1, 3, (const uint8_t[]){100, 100, 200});
    ok(cr_augment_image(augment, 3, sample, &image));
    if (image.pixels[0] == 2) {
      assert_memory_equal(image.pixels, ((const uint8_t[]){2, 2, 255}), 3);
    } else {
      assert_memory_equal(image.pixels, ((const uint8_t[]){145, 145, 255}), 3);
      ++first;
    }
  }
  assert_in_range(first, 500 - 79, 500 + 79);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

/* ---- noise_param --------------------------------------------------------- */

TEST(test_point_noise) {
  cr_image image = {0};
  set(&image, 1, 5, 1, (const uint8_t[]){0, 63, 64, 200, 255});
  apply("noise_param { posterize: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){32, 32, 96, 224, 224}), 5);
  apply("noise_param { inverse: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){223, 223, 159, 31, 31}), 5);
  set(&image, 1, 2, 3, (const uint8_t[]){0, 0, 255, 9, 9, 9});
  apply("noise_param { decolorize: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){76, 76, 76, 9, 9, 9}), 6);
  set(&image, 1, 1, 3, (const uint8_t[]){50, 100, 200});
  apply("noise_param { convert_to_hsv: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){10, 191, 200}), 3);
  cr_image_free(&image);
}

/* A single point: weights exp(-x^2 / 4.5) over their sum 3.6943. */
TEST(test_blur) {
  cr_image image = {0};
  uint8_t point[15 * 15 * 3] = {0};
  for (int c = 0; c < 3; ++c) point[(7 * 15 + 7) * 3 + c] = 255;
  set(&image, 15, 15, 3, point);
  apply("noise_param { gauss_blur: true }", 0, &image);
  for (int c = 0; c < 3; ++c) {
    assert_int_equal(image.pixels[(7 * 15 + 7) * 3 + c], 19); /* 0.27068^2 * 255 = 18.68 */
    assert_int_equal(image.pixels[(7 * 15 + 8) * 3 + c], 15); /* 0.21674 * 0.27068 * 255 */
    assert_int_equal(image.pixels[(8 * 15 + 7) * 3 + c], 15);
    assert_int_equal(image.pixels[(6 * 15 + 8) * 3 + c], 12); /* 0.21674^2 * 255 = 11.98 */
    assert_int_equal(image.pixels[(7 * 15 + 11) * 3 + c], 0);
  }
  memset(point, 99, sizeof point);
  set(&image, 15, 15, 3, point);
  apply("noise_param { gauss_blur: true }", 0, &image);
  assert_memory_equal(image.pixels, point, sizeof point);
  set(&image, 1, 1, 1, (const uint8_t[]){42});
  apply("noise_param { gauss_blur: true }", 0, &image);
  assert_int_equal(image.pixels[0], 42);
  cr_image_free(&image);
}

TEST(test_erode) {
  cr_image image = {0};
  uint8_t flat[25];
  memset(flat, 200, sizeof flat);
  flat[12] = 5;
  set(&image, 5, 5, 1, flat);
  apply("noise_param { erode: true }", 0, &image);
  for (int i = 0; i < 25; ++i) {
    int distance = abs(i / 5 - 2) + abs(i % 5 - 2);
    assert_int_equal(image.pixels[i], distance <= 1 ? 5 : 200);
  }
  cr_image_free(&image);
}

/* Two of four values are above the lowest: they go to 127.5 and 255. */
TEST(test_hist_eq) {
  cr_image image = {0};
  set(&image, 2, 2, 1, (const uint8_t[]){20, 0, 0, 10});
  apply("noise_param { hist_eq: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){255, 0, 0, 128}), 4);
  set(&image, 1, 2, 1, (const uint8_t[]){33, 33});
  apply("noise_param { hist_eq: true }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){33, 33}), 2);
  /* Grays stay gray, and get the gray image's values. */
  set(&image, 1, 4, 3, (const uint8_t[]){20, 20, 20, 0, 0, 0, 0, 0, 0, 10, 10, 10});
  apply("noise_param { hist_eq: true }", 0, &image);
  assert_memory_equal(image.pixels,
                      ((const uint8_t[]){255, 255, 255, 0, 0, 0, 0, 0, 0, 128, 128, 128}), 12);
  cr_image_free(&image);
}

/* A flat tile of 64 pixels of value 100: the limit is 1, the rest of 63 goes to every fourth bin;
 * 27 of 64 lie at 100 or below. Tiles of one pixel map values to 0 or 255. */
TEST(test_clahe) {
  cr_image image = {0};
  uint8_t flat[64 * 64];
  memset(flat, 100, sizeof flat);
  set(&image, 64, 64, 1, flat);
  apply("noise_param { clahe: true }", 0, &image);
  for (int i = 0; i < 64 * 64; ++i) assert_int_equal(image.pixels[i], 108);
  uint8_t falling[64];
  for (int i = 0; i < 64; ++i) falling[i] = (uint8_t)(255 - i / 8 - i % 8);
  set(&image, 8, 8, 1, falling);
  apply("noise_param { clahe: true }", 0, &image);
  assert_int_equal(image.pixels[0], 255);
  assert_int_equal(image.pixels[3], 128);
  assert_int_equal(image.pixels[8 * 5], 128);
  assert_int_equal(image.pixels[8 * 5 + 3], 64);
  /* Sides that are not multiples of 8, down to one pixel. */
  for (int height = 1; height < 20; ++height) {
    fill(&image, height, 21 - height, 3);
    apply("noise_param { clahe: true }", 0, &image);
    assert_int_equal(image.height, height);
  }
  cr_image_free(&image);
}

static double difference(const cr_image *a, const cr_image *b) {
  double sum = 0;
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->channels, b->channels);
  int count = a->height * a->width * a->channels;
  for (int i = 0; i < count; ++i) sum += abs(a->pixels[i] - b->pixels[i]);
  return sum / count;
}

/* What a file of that quality gives; more is lost at a lower quality. */
TEST(test_jpeg) {
  for (int channels = 1; channels <= 3; channels += 2) {
    cr_image image = {0}, first = {0}, again = {0};
    cr_buffer file = {0};
    fill(&first, 40, 24, channels);
    fill(&image, 40, 24, channels);
    ok(cr_image_encode(&first, "jpg", &file));
    ok(cr_image_decode((const uint8_t *)file.data, file.size,
                       channels == 1 ? CR_IMAGE_GRAY : CR_IMAGE_COLOR, &again));
    apply("noise_param { jpeg: 95 }", 0, &image);
    assert_int_equal((int)difference(&image, &again), 0);
    assert_memory_equal(image.pixels, again.pixels, (size_t)(40 * 24 * channels));
    double fine = difference(&image, &first);
    fill(&image, 40, 24, channels);
    apply("noise_param { jpeg: 5 }", 0, &image);
    assert_true(difference(&image, &first) > fine + 1);
    cr_image_free(&image);
    cr_image_free(&first);
    cr_image_free(&again);
    cr_buffer_free(&file);
  }
}

/* 1000 of 10000 pixels drawn with repetition: 951.6 different ones, deviation 6.6. */
TEST(test_saltpepper) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 100, 100, 3));
  memset(image.pixels, 50, 30000);
  apply(
      "noise_param { saltpepper: true saltpepper_param { fraction: 0.1 value: 1 value: 2 "
      "value: 255 } }",
      4, &image);
  int changed = 0;
  for (int i = 0; i < 10000; ++i) {
    const uint8_t *p = image.pixels + (size_t)3 * (size_t)i;
    if (p[0] == 50) {
      assert_int_equal(p[1] + p[2], 100);
      continue;
    }
    assert_memory_equal(p, ((const uint8_t[]){1, 2, 255}), 3);
    ++changed;
  }
  assert_in_range(changed, 952 - 33, 952 + 33);
  set(&image, 1, 2, 1, (const uint8_t[]){3, 3});
  apply("noise_param { saltpepper: true saltpepper_param { fraction: 0.4 value: 9 } }", 0, &image);
  assert_memory_equal(image.pixels, ((const uint8_t[]){3, 3}), 2);
  cr_image_free(&image);
}

/* Always without `prob`, else as often as it says. */
TEST(test_noise_prob) {
  cr_augment *augment = augment_of("noise_param { prob: 0.3 inverse: true }");
  cr_image image = {0};
  int inverted = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    set(&image, 1, 1, 1, (const uint8_t[]){10});
    ok(cr_augment_image(augment, 3, sample, &image));
    inverted += image.pixels[0] == 245;
  }
  assert_in_range(inverted, 600 - 102, 600 + 102);
  cr_image_free(&image);
  cr_augment_destroy(augment);
}

/* What works in place leaves the bytes behind the image alone. */
TEST(noise_stays_in_the_image) {
  enum { HEIGHT = 3, WIDTH = 5, COUNT = 3 * HEIGHT * WIDTH, BEHIND = 32 };
  for (int kind = 0; kind < 6; ++kind) {
    uint8_t pixels[COUNT + BEHIND];
    cr_image image = {HEIGHT, WIDTH, 3, pixels, COUNT}, scratchpad = {0};
    Caffe__NoiseParameter param = CAFFE__NOISE_PARAMETER__INIT;
    Caffe__SaltPepperParameter salt = CAFFE__SALT_PEPPER_PARAMETER__INIT;
    float white[] = {1, 2, 3};
    salt.fraction = 1;
    salt.has_fraction = 1;
    salt.n_value = 3;
    salt.value = white;
    for (int i = 0; i < COUNT + BEHIND; ++i) pixels[i] = (uint8_t)(i < COUNT ? i * 5 : 0x81);
    switch (kind) {
      case 0: param.posterize = 1; break;
      case 1: param.inverse = 1; break;
      case 2: param.decolorize = 1; break;
      case 3: param.convert_to_hsv = 1; break;
      case 4: param.hist_eq = 1; break;
      default: param.saltpepper = 1; param.saltpepper_param = &salt;
    }
    cr_random random = cr_random_begin(1, 2, CR_STAGE_NOISE);
    ok(cr_noise(&param, &random, &image, &scratchpad));
    assert_ptr_equal(image.pixels, pixels);
    for (int i = COUNT; i < COUNT + BEHIND; ++i) assert_int_equal(pixels[i], 0x81);
    cr_image_free(&scratchpad);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
