/* Which stage of the augmentation uses which random numbers, in which order the stages come, and
 * where the bounds of their settings lie. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "data/augment/augment_private.h"
#include "refused_text.h"
#include "transform_text.h"

static void assert_same(const cr_image *a, const cr_image *b) {
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->channels, b->channels);
  assert_memory_equal(a->pixels, b->pixels, (size_t)(a->height * a->width * a->channels));
}

enum { KEY = 21 };

static cr_random stream(uint64_t sample, cr_stage stage) {
  return cr_random_begin(KEY, sample, stage);
}

/* ---- the generator ------------------------------------------------------- */

TEST(words) {
  for (int stage = CR_STAGE_DISTORT; stage <= CR_STAGE_CHOICE; ++stage) {
    cr_random random = cr_random_begin(5, 9, (cr_stage)stage);
    for (uint64_t block = 0; block < 3; ++block) {
      uint32_t word[4];
      cr_philox(5, ((uint64_t)stage << 32) + block, 9, word);
      for (int i = 0; i < 4; ++i) assert_int_equal(cr_random_next(&random), word[i]);
    }
  }
}

TEST(numbers) {
  cr_random a = stream(1, CR_STAGE_NOISE), b = a, c = a, d = a;
  for (int i = 0; i < 200; ++i) {
    const uint32_t word = cr_random_next(&a);
    const float share = (float)(word >> 8) / 16777216;
    assert_true(cr_random_uniform(&b, 3, 7) == 3 + 4 * share);
    assert_int_equal(cr_random_below(&c, 1000), (uint64_t)word * 1000 >> 32);
    assert_true(cr_random_uniform(&d, 2.5f, 2.5f) == 2.5f);
  }
}

TEST(saturation_of_values) {
  static const struct {
    float value;
    uint8_t wanted;
  } cases[] = {{-1, 0},      {0, 0},        {0.5f, 0},      {0.51f, 1},   {1.5f, 2},
               {2.5f, 2},    {254.5f, 254}, {254.51f, 255}, {255, 255},   {255.5f, 255},
               {1e30f, 255}, {-1e30f, 0},   {127.5f, 128},  {128.5f, 128}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_int_equal(cr_saturate(cases[i].value), cases[i].wanted);
  }
}

TEST(swapping) {
  cr_image a = {0}, b = {0};
  fill(&a, 1, 2, 3);
  fill(&b, 4, 5, 1);
  const cr_image old_a = a, old_b = b;
  cr_image_swap(&a, &b);
  assert_memory_equal(&a, &old_b, sizeof a);
  assert_memory_equal(&b, &old_a, sizeof b);
  cr_image_free(&a);
  cr_image_free(&b);
}

/* ---- distort_param ------------------------------------------------------- */

/* One pixel of the value 100 after the random numbers of the stage were used as documented. */
TEST(brightness_and_contrast) {
  cr_augment *augment = augment_of(
      "distort_param { brightness_prob: 0.5 brightness_delta: 20 contrast_prob: 0.5 "
      "contrast_lower: 0.5 contrast_upper: 1.5 }");
  int both = 0;
  for (uint64_t sample = 0; sample < 400; ++sample) {
    cr_random random = stream(sample, CR_STAGE_DISTORT);
    cr_image image = {0};
    uint8_t wanted = 100;
    bool changed = false;
    (void)cr_random_uniform(&random, 0, 1); /* whether contrast comes first */
    if (cr_random_uniform(&random, 0, 1) < 0.5f) {
      wanted = cr_saturate(100 + cr_random_uniform(&random, -20, 20));
      changed = true;
    }
    /* Before or behind saturation and hue, which only ask whether they are wanted. */
    cr_random first = random, last = random;
    (void)cr_random_next(&last);
    (void)cr_random_next(&last);
    cr_random begin = stream(sample, CR_STAGE_DISTORT);
    cr_random *contrast = cr_random_uniform(&begin, 0, 1) > 0.5f ? &first : &last;
    if (cr_random_uniform(contrast, 0, 1) < 0.5f) {
      wanted = cr_saturate((float)wanted * cr_random_uniform(contrast, 0.5f, 1.5f));
      both += changed;
    }
    ok(cr_image_reserve(&image, 1, 1, 1));
    image.pixels[0] = 100;
    ok(cr_augment_image(augment, KEY, sample, &image));
    assert_int_equal(image.pixels[0], wanted);
    cr_image_free(&image);
  }
  assert_true(both > 50);
  cr_augment_destroy(augment);
}

/* All parts of the image, in each channel that a change is for. */
TEST(distortions_reach_all_pixels) {
  static const char *const texts[] = {
      "distort_param { brightness_prob: 1 brightness_delta: 60 }",
      "distort_param { contrast_prob: 1 contrast_lower: 0.3 contrast_upper: 0.4 }",
      "distort_param { saturation_prob: 1 saturation_lower: 0.3 saturation_upper: 0.4 }",
      "distort_param { hue_prob: 1 hue_delta: 90 }", "distort_param { random_order_prob: 1 }"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    cr_augment *augment = augment_of(texts[i]);
    cr_image image = {0};
    fill(&image, 3, 5, 3);
    for (int k = 0; k < 15; ++k) memcpy(image.pixels + 3 * k, "\x28\x5a\xb4", 3);
    ok(cr_augment_image(augment, KEY, 2, &image));
    assert_memory_not_equal(image.pixels, "\x28\x5a\xb4", 3);
    for (int k = 1; k < 15; ++k) assert_memory_equal(image.pixels + 3 * k, image.pixels, 3);
    cr_image_free(&image);
    cr_augment_destroy(augment);
  }
}

/* ---- expand_param -------------------------------------------------------- */

TEST(canvases) {
  cr_augment *augment = augment_of("expand_param { prob: 0.75 max_expand_ratio: 3 }");
  double top = 0, left = 0;
  int used = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    cr_random random = stream(sample, CR_STAGE_EXPAND);
    cr_image image = {0};
    int extent[2];
    float expanded[4] = {9, 9, 9, 9};
    fill(&image, 8, 16, 1);
    ok(cr_augment_extent(augment, KEY, sample, (const int[]){8, 16}, extent));
    ok(cr_augment_canvas(augment, KEY, sample, &image, expanded));
    assert_int_equal(image.height, extent[0]);
    assert_int_equal(image.width, extent[1]);
    if (!(cr_random_uniform(&random, 0, 1) < 0.75f)) {
      assert_memory_equal(expanded, ((const float[]){0, 0, 1, 1}), sizeof expanded);
      assert_true(image.height == 8 && image.width == 16);
      cr_image_free(&image);
      continue;
    }
    const float ratio = cr_random_uniform(&random, 1, 3);
    const int height = (int)(8 * ratio), width = (int)(16 * ratio);
    const int y = (int)cr_random_uniform(&random, 0, (float)(height - 8));
    const int x = (int)cr_random_uniform(&random, 0, (float)(width - 16));
    assert_true(image.height == height && image.width == width);
    assert_true(expanded[0] == (float)-x / 16 && expanded[1] == (float)-y / 8);
    assert_true(expanded[2] == (float)(width - x) / 16 && expanded[3] == (float)(height - y) / 8);
    assert_int_equal(image.pixels[y * width + x + 1], 37);
    top += height > 8 ? (double)y / (height - 8) : 0.5;
    left += width > 16 ? (double)x / (width - 16) : 0.5;
    ++used;
    cr_image_free(&image);
  }
  /* Rounded down: somewhat below one half. */
  assert_true(top / used > 0.35 && top / used < 0.55);
  assert_true(left / used > 0.4 && left / used < 0.55);
  cr_augment_destroy(augment);
}

/* A ratio of nearly 1 changes nothing; `expanded` may be left out. */
TEST(small_canvases) {
  cr_augment *augment = augment_of("expand_param { max_expand_ratio: 1.0078125 }");
  cr_image image = {0}, old = {0};
  int extent[2];
  fill(&image, 200, 200, 1);
  fill(&old, 200, 200, 1);
  for (uint64_t sample = 0; sample < 20; ++sample) {
    ok(cr_augment_extent(augment, KEY, sample, (const int[]){200, 200}, extent));
    assert_true(extent[0] == 200 && extent[1] == 200);
    ok(cr_augment_canvas(augment, KEY, sample, &image, NULL));
    assert_same(&image, &old);
  }
  cr_augment_destroy(augment);
  augment = augment_of("expand_param { max_expand_ratio: 1.015625 }");
  int grown = 0;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    ok(cr_augment_extent(augment, KEY, sample, (const int[]){200, 200}, extent));
    grown += extent[0] > 200;
  }
  assert_true(grown > 5);
  cr_augment_destroy(augment);
  cr_image_free(&image);
  cr_image_free(&old);
}

/* ---- sizes --------------------------------------------------------------- */

TEST(random_sizes) {
  static const struct {
    int in[2];
    bool up;
  } cases[] = {{{20, 30}, false}, {{30, 20}, false}, {{12, 15}, true},  {{15, 12}, true},
               {{12, 15}, false}, {{14, 14}, true},  {{14, 14}, false}, {{200, 13}, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const int *in = cases[i].in, shorter = in[0] < in[1] ? in[0] : in[1];
    cr_augment *augment =
        augment_of(cases[i].up ? "img_rand_resize_lower: 12 img_rand_resize_upper: 16 "
                                 "allow_upscale: true"
                               : "img_rand_resize_lower: 12 img_rand_resize_upper: 16");
    for (uint64_t sample = 0; sample < 60; ++sample) {
      cr_random random = stream(sample, CR_STAGE_RAND_RESIZE);
      const int length = 12 + cr_random_below(&random, 5);
      const bool kept = length > shorter && !cases[i].up;
      int wanted[2] = {in[0], in[1]}, extent[2], before[2];
      if (!kept) {
        wanted[0] = in[0] < in[1] ? length : length * in[0] / in[1];
        wanted[1] = in[0] < in[1] ? length * in[1] / in[0] : length;
      }
      ok(cr_augment_extent(augment, KEY, sample, in, extent));
      assert_memory_equal(extent, wanted, sizeof extent);
      assert_false(cr_augment_resizes(augment, KEY, sample, in, before));
      assert_memory_equal(before, wanted, sizeof before);
    }
    cr_augment_destroy(augment);
  }
}

/* Growing and shrinking have interpolations of their own. */
TEST(interpolations_of_random_sizes) {
  static const struct {
    const char *text;
    int from;
    Caffe__ResizeParameter__InterpMode mode;
  } cases[] = {
      {"interpolation_algo_up: INTER_NEAREST", 10, CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST},
      {"interpolation_algo_up: INTER_CUBIC", 10, CAFFE__RESIZE_PARAMETER__INTERP_MODE__CUBIC},
      {"interpolation_algo_up: INTER_LINEAR", 10, CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR},
      {"interpolation_algo_up: INTER_AREA", 10, CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA},
      {"interpolation_algo_down: INTER_NEAREST", 30, CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST},
      {"interpolation_algo_down: INTER_CUBIC", 30, CAFFE__RESIZE_PARAMETER__INTERP_MODE__CUBIC},
      {"interpolation_algo_down: INTER_LINEAR", 30, CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR},
      {"interpolation_algo_down: INTER_AREA", 30, CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[200];
    const int side = cases[i].from;
    snprintf(text, sizeof text,
             "img_rand_resize_lower: 17 img_rand_resize_upper: 17 allow_upscale: true %s",
             cases[i].text);
    cr_augment *augment = augment_of(text);
    cr_image image = {0}, old = {0}, wanted = {0};
    fill(&image, side, side + 1, 3);
    fill(&old, side, side + 1, 3);
    ok(cr_augment_finish(augment, KEY, 1, &image));
    ok(cr_image_resize_with(&old, 17, 17 * (side + 1) / side, cases[i].mode, &wanted));
    assert_same(&image, &wanted);
    cr_image_free(&image);
    cr_image_free(&old);
    cr_image_free(&wanted);
    cr_augment_destroy(augment);
  }
}

/* ---- all together -------------------------------------------------------- */

#define DISTORT                                                                   \
  "distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 " \
  "contrast_lower: 0.5 contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 "          \
  "saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 "             \
  "random_order_prob: 0.5 } "
#define EXPAND "expand_param { prob: 0.5 max_expand_ratio: 2 } "
#define RAND "img_rand_resize_lower: 14 img_rand_resize_upper: 30 "
#define RESIZE                                                                          \
  "resize_param { prob: 0.5 height: 12 width: 18 interp_mode: AREA interp_mode: CUBIC " \
  "interp_mode: NEAREST } "
#define NOISE                                                                               \
  "noise_param { prob: 0.5 gauss_blur: true saltpepper: true saltpepper_param { fraction: " \
  "0.2 value: 250 } } "

/* Stages have streams of their own: together they do what each does alone, in this order. */
TEST(stages) {
  cr_augment *all = augment_of(DISTORT EXPAND RAND RESIZE NOISE);
  cr_augment *single[5] = {augment_of(DISTORT), augment_of(EXPAND), augment_of(RAND),
                           augment_of(RESIZE), augment_of(NOISE)};
  Caffe__TransformationParameter *param = parse_transform(DISTORT RESIZE NOISE);
  int resized = 0;
  for (uint64_t sample = 0; sample < 100; ++sample) {
    cr_image together = {0}, apart = {0}, direct = {0}, scratchpad = {0};
    int extent[2], before[2] = {0};
    fill(&together, 21, 26, 3);
    fill(&apart, 21, 26, 3);
    ok(cr_augment_image(all, KEY, sample, &together));
    for (int i = 0; i < 5; ++i) {
      if (i == 2) {
        const int in[2] = {apart.height, apart.width};
        resized += cr_augment_resizes(all, KEY, sample, in, before);
      }
      ok(cr_augment_image(single[i], KEY, sample, &apart));
      if (i == 2) assert_true(before[0] == apart.height && before[1] == apart.width);
    }
    assert_same(&together, &apart);
    ok(cr_augment_extent(all, KEY, sample, (const int[]){21, 26}, extent));
    assert_true(extent[0] == together.height && extent[1] == together.width);
    /* The stages that are functions of their own. */
    cr_random random = stream(sample, CR_STAGE_DISTORT);
    fill(&direct, 21, 26, 3);
    fill(&apart, 21, 26, 3);
    ok(cr_distort(param->distort_param, &random, &direct));
    ok(cr_augment_image(single[0], KEY, sample, &apart));
    assert_same(&direct, &apart);
    random = stream(sample, CR_STAGE_RESIZE);
    if (cr_random_uniform(&random, 0, 1) < 0.5f) {
      ok(cr_resize(param->resize_param, &random, &direct, &scratchpad));
      cr_image_swap(&scratchpad, &direct);
    }
    ok(cr_augment_image(single[3], KEY, sample, &apart));
    assert_same(&direct, &apart);
    random = stream(sample, CR_STAGE_NOISE);
    ok(cr_noise(param->noise_param, &random, &direct, &scratchpad));
    ok(cr_augment_image(single[4], KEY, sample, &apart));
    assert_same(&direct, &apart);
    cr_image_free(&together);
    cr_image_free(&apart);
    cr_image_free(&direct);
    cr_image_free(&scratchpad);
  }
  assert_in_range(resized, 50 - 25, 50 + 25);
  cr_message_free(&param->base);
  for (int i = 0; i < 5; ++i) cr_augment_destroy(single[i]);
  cr_augment_destroy(all);
}

/* Salt: after the number that `prob` asks for, column and row of each pixel. */
TEST(salted_pixels) {
  cr_augment *augment =
      augment_of("noise_param { saltpepper: true saltpepper_param { fraction: 0.2 value: 7 } }");
  for (uint64_t sample = 0; sample < 20; ++sample) {
    cr_random random = stream(sample, CR_STAGE_NOISE);
    cr_image image = {0};
    uint8_t wanted[5 * 7];
    memset(wanted, 99, sizeof wanted);
    for (int i = 0; i < 7; ++i) { /* a fifth of 35 */
      const int x = cr_random_below(&random, 7), y = cr_random_below(&random, 5);
      wanted[y * 7 + x] = 7;
    }
    fill(&image, 5, 7, 1);
    memset(image.pixels, 99, sizeof wanted);
    ok(cr_augment_image(augment, KEY, sample, &image));
    assert_memory_equal(image.pixels, wanted, sizeof wanted);
    cr_image_free(&image);
  }
  cr_augment_destroy(augment);
}

/* ---- settings ------------------------------------------------------------ */

TEST(accepted_settings) {
  static const char *const texts[] = {
      "resize_param { height: 1 width: 1 }",
      "resize_param { height: 65500 width: 65500 }",
      "img_rand_resize_lower: 3 img_rand_resize_upper: 3",
      "img_rand_resize_lower: 1 img_rand_resize_upper: 65500",
      "noise_param { jpeg: 100 }",
      "noise_param { saltpepper_param { fraction: 0 } }",
      "noise_param { saltpepper_param { fraction: 1 } }",
      "distort_param { brightness_delta: 0 hue_delta: 0 }",
      "distort_param { contrast_prob: 1 contrast_lower: 0 contrast_upper: 0 }",
      "distort_param { saturation_prob: 1 saturation_lower: 1 saturation_upper: 1 }",
      /* Bounds of what is never done do not matter. */
      "distort_param { contrast_lower: 2 contrast_upper: 1 saturation_lower: -1 }",
      "expand_param { max_expand_ratio: 1 }",
      "expand_param { max_expand_ratio: 65500 }",
      "expand_param { } mean_file: ''",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    cr_augment *augment = augment_of(texts[i]);
    if (augment == NULL) fail_msg("%s asks for nothing", texts[i]);
    cr_augment_destroy(augment);
  }
}

TEST(refused_settings) {
  static const refused_text cases[] = {
      {"resize_param { width: 3 }", CREMA_E_ARGUMENT, "height: 0 and width: 3"},
      {"resize_param { height: 65501 width: 1 }", CREMA_E_RANGE, "65501 x 1 pixels"},
      {"resize_param { height: 1 width: 65501 }", CREMA_E_RANGE, "1 x 65501 pixels"},
      {"resize_param { height: 1 width: 1 width_scale: 1 }", CREMA_E_UNSUPPORTED, "width_scale"},
      {"img_rand_resize_upper: 3", CREMA_E_ARGUMENT, "img_rand_resize_lower: 0"},
      {"img_rand_resize_lower: 1 img_rand_resize_upper: 65501", CREMA_E_RANGE, "65501"},
      {"rand_resize_ratio_upper: 2", CREMA_E_UNSUPPORTED, "rand_resize_ratio"},
      {"vertical_stretch_lower: 0.5", CREMA_E_UNSUPPORTED, "vertical_stretch"},
      {"horizontal_stretch_lower: 0.5", CREMA_E_UNSUPPORTED, "horizontal_stretch"},
      {"horizontal_stretch_upper: 2", CREMA_E_UNSUPPORTED, "horizontal_stretch"},
      {"noise_param { jpeg: 100.5 }", CREMA_E_RANGE, "jpeg: 100.5"},
      {"noise_param { saltpepper: true saltpepper_param { } }", CREMA_E_ARGUMENT, "with value"},
      {"noise_param { saltpepper_param { fraction: -0.5 } }", CREMA_E_RANGE, "fraction: -0.5"},
      {"noise_param { saltpepper_param { fraction: nan } }", CREMA_E_RANGE, "fraction: nan"},
      {"distort_param { brightness_delta: nan }", CREMA_E_ARGUMENT, "brightness_delta: nan"},
      {"distort_param { hue_delta: -1 }", CREMA_E_ARGUMENT, "hue_delta: -1"},
      {"distort_param { contrast_prob: 0.1 contrast_lower: -1 contrast_upper: 1 }",
       CREMA_E_ARGUMENT, "contrast_lower: -1 and contrast_upper: 1"},
      {"distort_param { saturation_prob: 0.1 saturation_lower: 2 saturation_upper: 1 }",
       CREMA_E_ARGUMENT, "saturation_lower: 2 and saturation_upper: 1"},
      {"expand_param { max_expand_ratio: 65501 }", CREMA_E_RANGE, "max_expand_ratio: 65501"},
      {"expand_param { max_expand_ratio: nan }", CREMA_E_RANGE, "max_expand_ratio: nan"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_augment *augment = NULL;
    assert_refused(&cases[i], make_augment(cases[i].text, &augment));
    assert_null(augment);
  }
}

/* Effects by the numbers of channels that they work on. */
TEST(channels) {
  static const struct {
    const char *text;
    const char *allowed; /* digits */
  } cases[] = {{"noise_param { convert_to_hsv: true }", "3"},
               {"noise_param { decolorize: true }", "13"},
               {"noise_param { hist_eq: true }", "13"},
               {"noise_param { clahe: true }", "13"},
               {"noise_param { jpeg: 50 }", "13"},
               {"noise_param { gauss_blur: true }", "1234"},
               {"noise_param { erode: true }", "1234"},
               {"noise_param { posterize: true }", "1234"},
               {"noise_param { inverse: true }", "1234"},
               {"noise_param { saltpepper: true saltpepper_param { value: 1 } }", "1234"},
               {"noise_param { saltpepper: true saltpepper_param { value: 1 value: 2 } }", "2"},
               {"distort_param { hue_prob: 1 }", "3"},
               {"distort_param { saturation_prob: 1 }", "3"},
               {"distort_param { random_order_prob: 1 }", "3"},
               {"distort_param { brightness_prob: 1 contrast_prob: 1 }", "1234"},
               {"resize_param { height: 3 width: 4 pad_value: 1 }", "1234"},
               {"resize_param { height: 3 width: 4 pad_value: [1, 2] }", "2"},
               {"expand_param { max_expand_ratio: 2 } mean_value: 1", "1234"},
               {"expand_param { max_expand_ratio: 2 } mean_value: [1, 2, 3, 4]", "4"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_augment *augment = augment_of(cases[i].text);
    for (int c = 1; c <= 4; ++c) {
      const bool allowed = strchr(cases[i].allowed, '0' + c) != NULL;
      cr_image image = {0};
      char said[32];
      fill(&image, 9, 8, c);
      crema_status status = cr_augment_image(augment, KEY, 3, &image);
      snprintf(said, sizeof said, "%d channels", c);
      if (status != (allowed ? CREMA_OK : CREMA_E_SHAPE) ||
          (!allowed && strstr(crema_error_text(), said) == NULL)) {
        fail_msg("%s, %d channels: %s: %s", cases[i].text, c, crema_status_name(status),
                 crema_error_text());
      }
      cr_image_free(&image);
    }
    cr_augment_destroy(augment);
  }
}

/* Pixels of a record: bytes of any layout are copied into `store`, which may hold them already. */
TEST(pixels_of_records) {
  cr_augment *augment = augment_of("noise_param { inverse: true }");
  const uint8_t planes[6] = {1, 2, 3, 4, 5, 6};
  cr_image store = {0};
  cr_pixels p = {.values = planes, .type = CREMA_U8, .channels = 3, .height = 1, .width = 2};
  ok(cr_augment_pixels(augment, KEY, 1, &p, &store));
  assert_ptr_equal(p.values, store.pixels);
  assert_true(p.interleaved && p.channels == 3 && p.height == 1 && p.width == 2);
  assert_int_equal(p.type, CREMA_U8);
  assert_memory_equal(store.pixels, ((const uint8_t[]){254, 252, 250, 253, 251, 249}), 6);
  ok(cr_augment_pixels(augment, KEY, 1, &p, &store));
  assert_memory_equal(store.pixels, ((const uint8_t[]){1, 3, 5, 2, 4, 6}), 6);
  p = (cr_pixels){.values = planes,
                  .type = CREMA_U8,
                  .interleaved = true,
                  .channels = 3,
                  .height = 2,
                  .width = 1};
  ok(cr_augment_pixels(augment, KEY, 1, &p, &store));
  assert_true(p.height == 2 && p.width == 1);
  assert_memory_equal(store.pixels, ((const uint8_t[]){254, 253, 252, 251, 250, 249}), 6);
  p.type = CREMA_F32;
  assert_fails(cr_augment_pixels(augment, KEY, 1, &p, &store), CREMA_E_TYPE, "not on float");
  const cr_pixels old = p;
  ok(cr_augment_pixels(NULL, KEY, 1, &p, &store));
  assert_memory_equal(&p, &old, sizeof p);
  cr_image_free(&store);
  cr_augment_destroy(augment);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
