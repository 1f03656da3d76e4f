/* Boxes at the edge of what is measured, kept or refused. All numbers are exact in float. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/augment/augment_box.h"

static void assert_box(cr_box box, cr_box wanted) {
  if (memcmp(&box, &wanted, sizeof box) != 0) {
    fail_msg("%g %g %g %g, not %g %g %g %g", (double)box.xmin, (double)box.ymin, (double)box.xmax,
             (double)box.ymax, (double)wanted.xmin, (double)wanted.ymin, (double)wanted.xmax,
             (double)wanted.ymax);
  }
}

TEST(sizes) {
  assert_true(cr_box_size((cr_box){0.25f, 0.5f, 0.75f, 1}) == 0.25f);
  assert_true(cr_box_size((cr_box){0.5f, 0, 0.25f, 1}) == 0);
  assert_true(cr_box_size((cr_box){0, 0.5f, 1, 0.25f}) == 0);
  /* Both sides turned round give no area either, though their product is positive. */
  assert_true(cr_box_size((cr_box){0.5f, 0.5f, 0.25f, 0.25f}) == 0);
  assert_true(cr_box_size((cr_box){0.5f, 0, 0.5f, 1}) == 0);
}

/* Parts of 8 x 8: what is common lies in the middle, in neither box's corner. */
TEST(measures) {
  const cr_box a = {0.125f, 0.25f, 0.625f, 0.75f}, b = {0.375f, 0.125f, 0.875f, 0.5f};
  const cr_box beside = {0.625f, 0.25f, 1, 0.75f};
  /* Common: 1/4 x 1/4; a: 1/4; b: 3/16. */
  assert_true(cr_box_overlap(a, b) == 0.0625f / (0.25f + 0.1875f - 0.0625f));
  assert_true(cr_box_overlap(b, a) == cr_box_overlap(a, b));
  assert_true(cr_box_coverage(a, b) == 0.25f);
  assert_true(cr_box_coverage(b, a) == 0.0625f / 0.1875f);
  /* Boxes that touch share nothing; nor does a box without area, instead of dividing by it. */
  assert_true(cr_box_overlap(a, beside) == 0);
  assert_true(cr_box_coverage(a, beside) == 0);
  const cr_box line = {0.25f, 0.25f, 0.25f, 0.5f};
  assert_true(cr_box_overlap(line, line) == 0);
  assert_true(cr_box_coverage(line, a) == 0);
}

/* A box that only touches the window from outside is not in it, and stays as it is. */
TEST(projections) {
  const cr_box window = {0.25f, 0.5f, 0.75f, 1};
  const cr_box outside[] = {{0, 0.5f, 0.25f, 1},         {0.75f, 0.5f, 1, 1},
                            {0.25f, 0.25f, 0.75f, 0.5f}, {0.25f, 1, 0.75f, 1.25f},
                            {0, 0, 0.125f, 0.125f},      {0.875f, 0.5f, 1, 1},
                            {0.5f, 0.75f, 0.5f, 1},      {0.5f, 0.75f, 0.75f, 0.75f}};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; ++i) {
    cr_box box = outside[i];
    assert_false(cr_box_project(window, &box));
    if (i < 6) assert_box(box, outside[i]);
  }
  cr_box box = {0.125f, 0.625f, 0.5f, 0.75f};
  assert_true(cr_box_project(window, &box));
  assert_box(box, (cr_box){0, 0.25f, 0.5f, 0.5f});
  box = (cr_box){0.5f, 0.25f, 1, 2};
  assert_true(cr_box_project(window, &box));
  assert_box(box, (cr_box){0.5f, 0, 1, 1});
}

/* The centre of a box may lie on the window's edge; its coverage must be above the bound. */
TEST(emission) {
  const cr_box window = {0.25f, 0.5f, 0.75f, 1};
  const struct {
    float x, y; /* the centre */
    bool kept;
  } cases[] = {{0.25f, 0.75f, true},    {0.75f, 0.75f, true},     {0.5f, 0.5f, true},
               {0.5f, 1, true},         {0.21875f, 0.75f, false}, {0.78125f, 0.75f, false},
               {0.5f, 0.46875f, false}, {0.5f, 1.03125f, false}};
  Caffe__EmitConstraint constraint = CAFFE__EMIT_CONSTRAINT__INIT;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const float x = cases[i].x, y = cases[i].y;
    const cr_box box = {x - 0.125f, y - 0.25f, x + 0.125f, y + 0.25f};
    assert_true(cr_box_emits(NULL, window, box));
    assert_int_equal(cr_box_emits(&constraint, window, box), cases[i].kept);
  }
  constraint.emit_type = CAFFE__EMIT_CONSTRAINT__EMIT_TYPE__MIN_OVERLAP;
  const cr_box half = {0.5f, 0.5f, 1, 1};
  constraint.emit_overlap = 0.5f;
  assert_false(cr_box_emits(&constraint, window, half));
  constraint.emit_overlap = 0.4375f;
  assert_true(cr_box_emits(&constraint, window, half));
}

/* Of 8 x 4 pixels: a corner, and boxes without width or height, which keep a pixel. */
TEST(crops) {
  const struct {
    cr_box patch;
    int left, top, width, height;
  } cases[] = {{{0.5f, 0.25f, 0.75f, 0.75f}, 4, 1, 2, 2},
               {{0.875f, 0.75f, 1, 1}, 7, 3, 1, 1},
               {{0, 0, 1, 1}, 0, 0, 8, 4},
               {{0.5f, 0.5f, 0.5f, 0.5f}, 4, 2, 1, 1},
               {{1, 1, 1, 1}, 7, 3, 1, 1},
               {{-1, -1, 0.25f, 0.25f}, 0, 0, 2, 1},
               {{0.75f, 0.5f, 2, 2}, 6, 2, 2, 2},
               {{0, 0, 0, 1}, 0, 0, 1, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_image image = {0};
    ok(cr_image_reserve(&image, 4, 8, 3));
    for (int k = 0; k < 4 * 8 * 3; ++k) image.pixels[k] = (uint8_t)k;
    cr_image_crop(&image, cases[i].patch);
    assert_int_equal(image.width, cases[i].width);
    assert_int_equal(image.height, cases[i].height);
    for (int y = 0; y < image.height; ++y) {
      for (int k = 0; k < image.width * 3; ++k) {
        assert_int_equal(image.pixels[y * image.width * 3 + k],
                         (cases[i].top + y) * 24 + cases[i].left * 3 + k);
      }
    }
    cr_image_free(&image);
  }
}

TEST(mirrored_and_resized) {
  Caffe__ResizeParameter resize = CAFFE__RESIZE_PARAMETER__INIT;
  const cr_box box = {0.25f, 0.5f, 0.75f, 1};
  assert_box(cr_box_mirror((cr_box){0.125f, 0.25f, 0.5f, 0.75f}),
             (cr_box){0.5f, 0.25f, 0.875f, 0.75f});
  resize.resize_mode = CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_LARGE_SIZE_AND_PAD;
  resize.height = 16;
  resize.width = 32;
  /* 64 x 16 pixels fill half of the height, 16 x 16 half of the width, 32 x 16 all. */
  assert_box(cr_box_resize(&resize, 16, 64, box), (cr_box){0.25f, 0.5f, 0.75f, 0.75f});
  assert_box(cr_box_resize(&resize, 16, 16, box), (cr_box){0.375f, 0.5f, 0.625f, 1});
  assert_box(cr_box_resize(&resize, 16, 32, box), box);
  assert_box(cr_box_resize(&resize, 16, 32, (cr_box){-1, 0, 2, 1}), (cr_box){0, 0, 1, 1});
}

/* ---- samplers ------------------------------------------------------------ */

static Caffe__BatchSampler *parse(const char *text) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__batch_sampler__descriptor, text, strlen(text), "test", CR_UNKNOWN_ERROR,
                   &message));
  return (Caffe__BatchSampler *)message;
}

TEST(settings) {
  static const struct {
    const char *text, *words; /* NULL: it is accepted */
  } cases[] = {
      {"", NULL},
      {"max_trials: 1000000", NULL},
      {"max_trials: 1000001", "max_trials: 1000001 (at most 1000000)"},
      {"sampler { min_scale: 0.5 max_scale: 0.5 }", NULL},
      {"sampler { min_scale: 1 max_scale: 1 }", NULL},
      {"sampler { min_scale: 0.5 max_scale: 0.25 }", "min_scale: 0.5 and max_scale: 0.25"},
      {"sampler { min_scale: 0 }", "min_scale: 0 and max_scale: 1"},
      {"sampler { max_scale: 1.0625 }", "max_scale: 1.0625"},
      {"sampler { min_aspect_ratio: 2 max_aspect_ratio: 2 }", NULL},
      {"sampler { min_aspect_ratio: 2 max_aspect_ratio: 1.5 }",
       "min_aspect_ratio: 2 and max_aspect_ratio: 1.5"},
      {"sampler { min_aspect_ratio: 0 }", "min_aspect_ratio: 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    Caffe__BatchSampler *sampler = parse(cases[i].text);
    crema_status status = cr_batch_sampler_check(sampler);
    bool range = strstr(cases[i].text, "trials") != NULL;
    crema_status wanted = cases[i].words == NULL ? CREMA_OK
                          : range                ? CREMA_E_RANGE
                                                 : CREMA_E_ARGUMENT;
    if (status != wanted ||
        (status != CREMA_OK && strstr(crema_error_text(), cases[i].words) == NULL)) {
      fail_msg("%s: %s: %s", cases[i].text, crema_status_name(status), crema_error_text());
    }
    cr_message_free(&sampler->base);
  }
}

/* A patch that is the whole image, against a quarter of it: bounds may be reached. */
TEST(bounds) {
  static const struct {
    const char *text;
    bool met;
  } cases[] = {
      {"min_jaccard_overlap: 0.25", true},     {"max_jaccard_overlap: 0.25", true},
      {"min_sample_coverage: 0.25", true},     {"max_sample_coverage: 0.25", true},
      {"min_object_coverage: 1", true},        {"max_object_coverage: 1", true},
      {"min_jaccard_overlap: 0.25001", false}, {"max_jaccard_overlap: 0.24999", false},
      {"min_sample_coverage: 0.25001", false}, {"max_sample_coverage: 0.24999", false},
      {"min_object_coverage: 1.00001", false}, {"max_object_coverage: 0.99999", false},
  };
  const cr_box boxes[2] = {{0, 0, 0, 0}, {0.5f, 0.5f, 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[128];
    cr_box patch;
    snprintf(text, sizeof text, "sample_constraint { %s }", cases[i].text);
    Caffe__BatchSampler *sampler = parse(text);
    const Caffe__BatchSampler *const samplers[] = {sampler};
    bool met = cr_sample_patch(samplers, 1, boxes + 1, 1, 3, 4, &patch);
    if (met != cases[i].met) fail_msg("%s", cases[i].text);
    /* The second box of two is looked at as well; the empty one meets upper bounds alone. */
    met = cr_sample_patch(samplers, 1, boxes, 2, 3, 4, &patch);
    assert_int_equal(met, cases[i].met || strncmp(cases[i].text, "max", 3) == 0);
    cr_message_free(&sampler->base);
  }
}

/* max_sample ends the trials of a sampler; the choice is even among all patches of all samplers. */
TEST(numbers_of_patches) {
  enum { SAMPLES = 3000 };
  static const char *const one = "sampler { min_scale: 0.25 max_scale: 0.25 } max_sample: 1",
                           *const three = "sampler { min_scale: 0.5 max_scale: 0.5 } max_sample: 3",
                           *const none =
                               "sampler { min_scale: 0.75 max_scale: 0.75 } max_trials: 0",
                           *const some =
                               "sampler { min_scale: 0.125 max_scale: 0.125 } "
                               "max_trials: 2";
  Caffe__BatchSampler *sampler[4] = {parse(one), parse(three), parse(none), parse(some)};
  int count[4] = {0};
  for (uint64_t i = 0; i < SAMPLES; ++i) {
    cr_box patch;
    assert_true(
        cr_sample_patch((const Caffe__BatchSampler *const *)sampler, 4, NULL, 0, 7, i, &patch));
    const float side = patch.xmax - patch.xmin;
    const float wanted[4] = {0.25f, 0.5f, 0.75f, 0.125f};
    for (int k = 0; k < 4; ++k) count[k] += side > wanted[k] - 0.01f && side < wanted[k] + 0.01f;
  }
  /* 1 : 3 : 0 : 2 of 6, within five deviations. */
  assert_in_range(count[0], 500 - 103, 500 + 103);
  assert_in_range(count[1], 1500 - 137, 1500 + 137);
  assert_int_equal(count[2], 0);
  assert_in_range(count[3], 1000 - 130, 1000 + 130);
  assert_int_equal(count[0] + count[1] + count[3], SAMPLES);
  for (int i = 0; i < 4; ++i) cr_message_free(&sampler[i]->base);
}

/* Sides of ratio r at scale s are s sqrt(r) and s / sqrt(r); a ratio that does not fit is cut. */
TEST(shapes_of_patches) {
  static const struct {
    const char *text;
    float width, height;
  } cases[] = {
      {"min_scale: 0.5 max_scale: 0.5 min_aspect_ratio: 4 max_aspect_ratio: 4", 1, 0.25f},
      {"min_scale: 0.5 max_scale: 0.5 min_aspect_ratio: 0.25 max_aspect_ratio: 0.25", 0.25f, 1},
      {"min_scale: 0.5 max_scale: 0.5 min_aspect_ratio: 9 max_aspect_ratio: 9", 1, 0.25f},
      {"min_scale: 0.5 max_scale: 0.5 min_aspect_ratio: 0.0625 max_aspect_ratio: 0.0625", 0.25f, 1},
      {"min_scale: 0.25 max_scale: 0.25 min_aspect_ratio: 4 max_aspect_ratio: 4", 0.5f, 0.125f},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[160];
    double left = 0, top = 0;
    snprintf(text, sizeof text, "sampler { %s } max_sample: 1", cases[i].text);
    Caffe__BatchSampler *sampler = parse(text);
    const Caffe__BatchSampler *const samplers[] = {sampler};
    for (uint64_t sample = 0; sample < 400; ++sample) {
      cr_box patch;
      assert_true(cr_sample_patch(samplers, 1, NULL, 0, 5, sample, &patch));
      assert_float_equal(patch.xmax - patch.xmin, cases[i].width, 1e-6f);
      assert_float_equal(patch.ymax - patch.ymin, cases[i].height, 1e-6f);
      assert_true(patch.xmin >= 0 && patch.ymin >= 0 && patch.xmax <= 1 && patch.ymax <= 1);
      left += (double)patch.xmin;
      top += (double)patch.ymin;
    }
    /* Uniform from 0 to what is left of the side: five deviations of the mean of 400. */
    const double spare_x = 1 - (double)cases[i].width, spare_y = 1 - (double)cases[i].height;
    assert_true(left / 400 >= spare_x * (0.5 - 0.073) && left / 400 <= spare_x * (0.5 + 0.073));
    assert_true(top / 400 >= spare_y * (0.5 - 0.073) && top / 400 <= spare_y * (0.5 + 0.073));
    cr_message_free(&sampler->base);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
