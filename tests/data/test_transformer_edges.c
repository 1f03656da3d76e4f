/* The transformer at the edge of what it takes: parts of pictures, extents, errors and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/rng.h"
#include "data/augment/mean.h"
#include "transform_text.h"

static cr_transformer *make(const char *text, Caffe__Phase phase) {
  cr_transformer *t = NULL;
  if (make_transformer(text, phase, &t) != CREMA_OK) fail_msg("%s: %s", text, crema_error_text());
  return t;
}

enum { HEIGHT = 10, WIDTH = 12 };

/* The crop of 4 x 6 lies at row 3, column 3: a part that holds just these pixels is enough, and one
 * that lacks a row or column at any side is not. */
TEST(parts) {
  static const struct {
    cr_image_part part;
    bool enough;
  } cases[] = {{{3, 3, 4, 6}, true},  {{0, 0, 10, 12}, true}, {{2, 1, 5, 8}, true},
               {{3, 3, 7, 9}, true},  {{4, 3, 4, 6}, false},  {{3, 4, 4, 6}, false},
               {{2, 3, 4, 6}, false}, {{3, 2, 4, 6}, false},  {{3, 3, 3, 6}, false},
               {{3, 3, 4, 5}, false}, {{4, 4, 6, 8}, false},  {{0, 0, 6, 12}, false},
               {{0, 0, 10, 8}, false}};
  cr_transformer *t = make("crop_h: 4 crop_w: 6", CAFFE__PHASE__TEST);
  uint8_t pixels[HEIGHT * WIDTH];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const cr_image_part part = cases[i].part;
    float out[4 * 6];
    for (int k = 0; k < part.height * part.width; ++k) {
      pixels[k] = (uint8_t)((part.top + k / part.width) * 16 + part.left + k % part.width);
    }
    const cr_pixels p = {.values = pixels,
                         .type = CREMA_U8,
                         .channels = 1,
                         .height = HEIGHT,
                         .width = WIDTH,
                         .part = part};
    crema_status status = cr_transformer_run(t, &p, 0, out);
    if (!cases[i].enough) {
      char words[128];
      snprintf(words, sizeof words, "a crop of 4 x 6 at (3, 3) from a part of %d x %d at (%d, %d)",
               part.height, part.width, part.top, part.left);
      assert_fails(status, CREMA_E_ARGUMENT, words);
      continue;
    }
    ok(status);
    for (int k = 0; k < 4 * 6; ++k) assert_true(out[k] == (float)((3 + k / 6) * 16 + 3 + k % 6));
  }
  cr_transformer_destroy(t);
}

/* What is to be decoded is the crop, if there is one that fits and nothing comes before it. */
TEST(wanted_parts) {
  static const struct {
    const char *text;
    int height, width; /* of the picture */
    bool found;
  } cases[] = {{"crop_size: 8", 8, 8, true},
               {"crop_size: 8", 9, 8, true},
               {"crop_size: 8", 7, 8, false},
               {"crop_size: 8", 8, 7, false},
               {"crop_h: 8", 20, 20, false},
               {"crop_w: 8", 20, 20, false},
               {"crop_h: 8 crop_w: 1", 20, 20, true},
               {"crop_h: 1 crop_w: 8", 20, 20, true},
               {"", 20, 20, false},
               {"crop_size: 8 noise_param { inverse: true }", 20, 20, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_transformer *t = make(cases[i].text, CAFFE__PHASE__TRAIN);
    for (uint64_t sample = 0; sample < 40; ++sample) {
      cr_image_part part = {0}, crop = {0};
      bool mirror = true;
      bool found = cr_transformer_part(t, sample, cases[i].height, cases[i].width, &part);
      assert_int_equal(found, cases[i].found);
      if (!found) continue;
      ok(cr_transformer_crop(t, sample, cases[i].height, cases[i].width, &crop, &mirror));
      assert_memory_equal(&part, &crop, sizeof part);
      assert_false(mirror);
      assert_true(part.top >= 0 && part.top + part.height <= cases[i].height);
      assert_true(part.left >= 0 && part.left + part.width <= cases[i].width);
    }
    cr_transformer_destroy(t);
  }
}

/* The words of the sample's random numbers: row, column, mirror. */
TEST(crops_follow_the_generator) {
  cr_transformer *t = make("crop_h: 5 crop_w: 9 mirror: true", CAFFE__PHASE__TRAIN);
  assert_int_equal(cr_transformer_key(t), 77);
  for (uint64_t sample = 0; sample < 200; ++sample) {
    uint32_t word[4];
    cr_image_part crop;
    bool mirror = false;
    cr_philox(77, 0, sample, word);
    ok(cr_transformer_crop(t, sample, HEIGHT, WIDTH, &crop, &mirror));
    assert_int_equal(crop.top, (uint64_t)word[0] * 6 >> 32);
    assert_int_equal(crop.left, (uint64_t)word[1] * 4 >> 32);
    assert_int_equal(crop.height, 5);
    assert_int_equal(crop.width, 9);
    assert_int_equal(mirror, word[2] >> 31);
  }
  cr_transformer_destroy(t);
  t = make("mirror: true", CAFFE__PHASE__TEST);
  int mirrored = 0;
  for (uint64_t sample = 0; sample < 200; ++sample) {
    cr_image_part crop;
    bool mirror = false;
    ok(cr_transformer_crop(t, sample, HEIGHT, WIDTH, &crop, &mirror));
    assert_true(crop.top == 0 && crop.left == 0 && crop.height == HEIGHT && crop.width == WIDTH);
    mirrored += mirror;
  }
  assert_in_range(mirrored, 100 - 36, 100 + 36);
  cr_transformer_destroy(t);
}

TEST(extents_that_do_not_fit) {
  cr_transformer *t = make("crop_h: 4 crop_w: 6", CAFFE__PHASE__TEST);
  cr_image_part crop;
  bool mirror;
  int shape[3];
  ok(cr_transformer_shape(t, 2, 4, 6, shape));
  assert_true(shape[0] == 2 && shape[1] == 4 && shape[2] == 6);
  assert_fails(cr_transformer_shape(t, 2, 3, 6, shape), CREMA_E_SHAPE,
               "a crop of 4 x 6 from pixels of 3 x 6");
  assert_fails(cr_transformer_shape(t, 2, 4, 5, shape), CREMA_E_SHAPE,
               "a crop of 4 x 6 from pixels of 4 x 5");
  assert_fails(cr_transformer_crop(t, 0, 3, 6, &crop, &mirror), CREMA_E_SHAPE,
               "a crop of 4 x 6 from pixels of 3 x 6");
  assert_fails(cr_transformer_crop(t, 0, 4, 5, &crop, &mirror), CREMA_E_SHAPE,
               "a crop of 4 x 6 from pixels of 4 x 5");
  ok(cr_transformer_crop(t, 0, 4, 6, &crop, &mirror));
  cr_transformer_destroy(t);
  /* One mean value is for all channels. */
  t = make("mean_value: 1", CAFFE__PHASE__TEST);
  for (int channels = 1; channels < 5; ++channels) {
    ok(cr_transformer_shape(t, channels, 2, 2, shape));
  }
  cr_transformer_destroy(t);
  t = make("mean_value: 1 mean_value: 2", CAFFE__PHASE__TEST);
  ok(cr_transformer_shape(t, 2, 2, 2, shape));
  assert_fails(cr_transformer_shape(t, 1, 2, 2, shape), CREMA_E_SHAPE,
               "2 mean values for 1 channels");
  cr_transformer_destroy(t);
}

TEST(mean_images_that_do_not_fit) {
  char path[] = "/tmp/crema-mean-XXXXXX", text[96];
  float values[2 * 3 * 4] = {0};
  int shape[3];
  assert_int_equal(close(mkstemp(path)), 0);
  ok(cr_mean_write(path, &(cr_mean){2, 3, 4, values}));
  snprintf(text, sizeof text, "mean_file: '%s'", path);
  cr_transformer *t = make(text, CAFFE__PHASE__TEST);
  ok(cr_transformer_shape(t, 2, 3, 4, shape));
  assert_fails(cr_transformer_shape(t, 1, 3, 4, shape), CREMA_E_SHAPE,
               "is 2 x 3 x 4, the pixels are 1 x 3 x 4");
  assert_fails(cr_transformer_shape(t, 2, 4, 4, shape), CREMA_E_SHAPE, "the pixels are 2 x 4 x 4");
  assert_fails(cr_transformer_shape(t, 2, 3, 5, shape), CREMA_E_SHAPE, "the pixels are 2 x 3 x 5");
  assert_error_has(path);
  cr_transformer_destroy(t);
  unlink(path);
}

TEST(settings) {
  static const struct {
    const char *text;
    cr_image_color color;
  } cases[] = {{"", CR_IMAGE_NATIVE},
               {"force_color: true", CR_IMAGE_COLOR},
               {"force_gray: true", CR_IMAGE_GRAY},
               {"mean_file: ''", CR_IMAGE_NATIVE},
               {"mean_file: '' mean_value: 3", CR_IMAGE_NATIVE},
               {"crop_h: 65500 crop_w: 65500", CR_IMAGE_NATIVE}};
  static const char *const refused[] = {"crop_h: 65501", "crop_w: 65501", "crop_size: 65501"};
  cr_transformer *t = NULL;
  assert_int_equal(CR_IMAGE_MAX_SIDE, 65500);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    t = make(cases[i].text, CAFFE__PHASE__TRAIN);
    assert_int_equal(cr_transformer_color(t), cases[i].color);
    cr_transformer_destroy(t);
  }
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    assert_fails(make_transformer(refused[i], CAFFE__PHASE__TRAIN, &t), CREMA_E_RANGE, "65501");
    assert_null(t);
  }
  /* Without parameters nothing is changed. */
  const uint8_t pixels[2] = {3, 250};
  float out[2];
  ok(cr_transformer_create(NULL, CAFFE__PHASE__TRAIN, 1, NULL, &t));
  assert_int_equal(cr_transformer_color(t), CR_IMAGE_NATIVE);
  const cr_pixels p = {.values = pixels, .type = CREMA_U8, .channels = 1, .height = 1, .width = 2};
  ok(cr_transformer_run(t, &p, 5, out));
  assert_true(out[0] == 3 && out[1] == 250);
  cr_transformer_destroy(t);
}

/* Pictures with more channels than are written together, of sizes around those from which values
 * bypass the caches; rows that are contiguous and rows that are not. */
TEST(many_values) {
  static const int extents[][3] = {{4, 127, 129}, {4, 128, 128}, {7, 97, 97}, {2, 16, 2048},
                                   {5, 16, 7},    {3, 17, 5},    {3, 33, 3},  {1, 1, 1}};
  for (size_t i = 0; i < 2 * sizeof extents / sizeof *extents; ++i) {
    const int *e = extents[i / 2], channels = e[0], height = e[1], width = e[2];
    const bool interleaved = i % 2 == 1;
    const size_t count = (size_t)(channels * height * width);
    uint8_t *pixels = malloc(count);
    float *out = malloc((count + 1) * sizeof *out);
    cr_transformer *t = make("mean_value: 2 scale: 0.5", CAFFE__PHASE__TEST);
    assert_true(pixels != NULL && out != NULL);
    for (size_t k = 0; k < count; ++k) pixels[k] = (uint8_t)(k * 7 % 251);
    const cr_pixels p = {.values = pixels,
                         .type = CREMA_U8,
                         .interleaved = interleaved,
                         .channels = channels,
                         .height = height,
                         .width = width};
    out[count] = 1234;
    ok(cr_transformer_run(t, &p, 0, out));
    for (size_t k = 0; k < count; ++k) {
      const size_t plane = (size_t)(height * width), c = k / plane, at = k % plane;
      const size_t from = interleaved ? at * (size_t)channels + c : k;
      assert_true(out[k] == ((float)pixels[from] - 2) * 0.5f);
    }
    assert_true(out[count] == 1234);
    cr_transformer_destroy(t);
    free(out);
    free(pixels);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
