/* Boxes: measures, projections, and the patches of batch_sampler. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data/augment/augment_box.h"

static void assert_near(float a, float b) {
  if (!(fabsf(a - b) <= 1e-5F)) fail_msg("%g is not %g", (double)a, (double)b);
}

static void assert_box(cr_box box, float xmin, float ymin, float xmax, float ymax) {
  assert_near(box.xmin, xmin);
  assert_near(box.ymin, ymin);
  assert_near(box.xmax, xmax);
  assert_near(box.ymax, ymax);
}

static ProtobufCMessage *parse(const ProtobufCMessageDescriptor *type, const char *text) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(type, text, strlen(text), "test", CR_UNKNOWN_ERROR, &message));
  return message;
}

static const Caffe__BatchSampler *sampler_of(ProtobufCMessage *message) {
  return (const Caffe__BatchSampler *)message;
}

TEST(test_measures) {
  const cr_box a = {0, 0, 0.5F, 0.5F}, b = {0.25F, 0.25F, 0.75F, 0.75F}, c = {0.6F, 0, 1, 0.2F};
  assert_near(cr_box_size(a), 0.25F);
  assert_near(cr_box_size((cr_box){0.5F, 0, 0.4F, 1}), 0);
  /* Common: 1/16; either: 1/4 + 1/4 - 1/16 = 7/16. */
  assert_near(cr_box_overlap(a, b), 1.0F / 7);
  assert_near(cr_box_overlap(a, a), 1);
  assert_near(cr_box_overlap(a, c), 0);
  assert_near(cr_box_coverage(a, b), 0.25F);
  assert_near(cr_box_coverage((cr_box){0.1F, 0.1F, 0.2F, 0.2F}, a), 1);
  assert_near(cr_box_coverage(a, (cr_box){0, 0, 1, 1}), 1);
  assert_box(cr_box_clip((cr_box){-1, 0.5F, 2, 0.7F}), 0, 0.5F, 1, 0.7F);
}

TEST(test_project) {
  const cr_box window = {0.2F, 0.4F, 0.7F, 0.9F};
  cr_box box = {0.45F, 0.3F, 0.6F, 0.65F};
  assert_true(cr_box_project(window, &box));
  assert_box(box, 0.5F, 0, 0.8F, 0.5F);
  cr_box away = {0.7F, 0.4F, 0.9F, 0.9F};
  assert_false(cr_box_project(window, &away));
  /* A canvas twice as large with the image in its middle. */
  cr_box whole = {0, 0, 1, 1};
  assert_true(cr_box_project((cr_box){-0.5F, -0.5F, 1.5F, 1.5F}, &whole));
  assert_box(whole, 0.25F, 0.25F, 0.75F, 0.75F);
  assert_box(cr_box_mirror((cr_box){0.1F, 0.2F, 0.3F, 0.4F}), 0.7F, 0.2F, 0.9F, 0.4F);
}

TEST(test_emit) {
  const cr_box window = {0, 0, 0.5F, 0.5F};
  const cr_box in = {0.3F, 0.3F, 0.6F, 0.6F}, out = {0.4F, 0.4F, 0.8F, 0.8F};
  Caffe__EmitConstraint constraint = CAFFE__EMIT_CONSTRAINT__INIT;
  assert_true(cr_box_emits(NULL, window, out));
  assert_true(cr_box_emits(&constraint, window, in));
  assert_false(cr_box_emits(&constraint, window, out));
  constraint.emit_type = CAFFE__EMIT_CONSTRAINT__EMIT_TYPE__MIN_OVERLAP;
  constraint.emit_overlap = 0.05F; /* `in` is covered by 4/9, `out` by 1/16 */
  assert_true(cr_box_emits(&constraint, window, out));
  constraint.emit_overlap = 0.4F;
  assert_true(cr_box_emits(&constraint, window, in));
  assert_false(cr_box_emits(&constraint, window, out));
}

TEST(test_resize) {
  ProtobufCMessage *param = parse(&caffe__resize_parameter__descriptor,
                                  "height: 20 width: 20 resize_mode: FIT_LARGE_SIZE_AND_PAD");
  Caffe__ResizeParameter *resize = (Caffe__ResizeParameter *)param;
  const cr_box box = {0.2F, 0.2F, 0.6F, 1};
  /* 40 x 80 pixels fill rows 5 to 15 of 20. */
  assert_box(cr_box_resize(resize, 40, 80, box), 0.2F, 0.35F, 0.6F, 0.75F);
  assert_box(cr_box_resize(resize, 80, 40, box), 0.35F, 0.2F, 0.55F, 1);
  assert_box(cr_box_resize(resize, 30, 30, box), 0.2F, 0.2F, 0.6F, 1);
  resize->resize_mode = CAFFE__RESIZE_PARAMETER__RESIZE_MODE__WARP;
  assert_box(cr_box_resize(resize, 40, 80, box), 0.2F, 0.2F, 0.6F, 1);
  assert_box(cr_box_resize(NULL, 40, 80, box), 0.2F, 0.2F, 0.6F, 1);
  cr_message_free(param);
}

TEST(test_crop) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 4, 8, 3));
  for (int i = 0; i < 4 * 8 * 3; ++i) image.pixels[i] = (uint8_t)i;
  cr_image_crop(&image, (cr_box){0.25F, 0.5F, 0.75F, 1});
  assert_int_equal(image.height, 2);
  assert_int_equal(image.width, 4);
  for (int i = 0; i < 2 * 4 * 3; ++i) {
    assert_int_equal(image.pixels[i], (2 + i / 12) * 24 + 2 * 3 + i % 12);
  }
  cr_image_crop(&image, (cr_box){0.999F, 0.999F, 0.9999F, 0.9999F});
  assert_int_equal(image.height, 1);
  assert_int_equal(image.width, 1);
  assert_int_equal(image.pixels[0], 3 * 24 + 5 * 3);
  cr_image_free(&image);
}

/* Every patch keeps to scale and ratio, lies inside, and meets the constraint with some box. */
TEST(test_patches) {
  ProtobufCMessage *message =
      parse(&caffe__batch_sampler__descriptor,
            "sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } "
            "sample_constraint { min_jaccard_overlap: 0.5 } max_sample: 1 max_trials: 50");
  const Caffe__BatchSampler *sampler = sampler_of(message);
  ok(cr_batch_sampler_check(sampler));
  const cr_box box[2] = {{0.1F, 0.1F, 0.6F, 0.5F}, {0.5F, 0.4F, 0.95F, 0.9F}};
  int found = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    cr_box patch;
    if (!cr_sample_patch(&sampler, 1, box, 2, 9, sample, &patch)) {
      assert_box(patch, 0, 0, 1, 1);
      continue;
    }
    ++found;
    float width = patch.xmax - patch.xmin, height = patch.ymax - patch.ymin;
    assert_true(patch.xmin >= 0 && patch.ymin >= 0 && patch.xmax <= 1.00001F &&
                patch.ymax <= 1.00001F);
    assert_true(sqrtf(width * height) > 0.2999F && width / height > 0.4999F &&
                width / height < 2.0001F);
    assert_true(cr_box_overlap(patch, box[0]) >= 0.5F || cr_box_overlap(patch, box[1]) >= 0.5F);
  }
  assert_true(found > 700);
  cr_message_free(message);
}

/* One number for each constraint: none is met by a patch that is the whole image. */
TEST(test_constraints) {
  static const struct {
    const char *text;
    bool met;
  } cases[] = {
      {"", true},
      {"min_jaccard_overlap: 0.2", true},
      {"min_jaccard_overlap: 0.3", false},
      {"max_jaccard_overlap: 0.3", true},
      {"max_jaccard_overlap: 0.2", false},
      {"min_sample_coverage: 0.2", true},
      {"min_sample_coverage: 0.3", false},
      {"max_sample_coverage: 0.3", true},
      {"max_sample_coverage: 0.2", false},
      {"min_object_coverage: 1", true},
      {"max_object_coverage: 0.9", false},
      {"min_jaccard_overlap: 0.2 max_object_coverage: 0.9", false},
  };
  const cr_box box = {0, 0, 0.5F, 0.5F}; /* a quarter of the image */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[160];
    snprintf(text, sizeof text, "sample_constraint { %s }", cases[i].text);
    ProtobufCMessage *message = parse(&caffe__batch_sampler__descriptor, text);
    const Caffe__BatchSampler *sampler = sampler_of(message);
    cr_box patch;
    if (cr_sample_patch(&sampler, 1, &box, 1, 3, 4, &patch) != cases[i].met) {
      fail_msg("%s", cases[i].text);
    }
    assert_box(patch, 0, 0, 1, 1);
    /* Without boxes only the free one is met. */
    assert_int_equal(cr_sample_patch(&sampler, 1, NULL, 0, 3, 4, &patch), i == 0);
    cr_message_free(message);
  }
}

/* Scales are uniform, so are the positions, and the choice between two samplers is even. */
TEST(test_statistics) {
  ProtobufCMessage *a = parse(&caffe__batch_sampler__descriptor,
                              "sampler { min_scale: 0.2 max_scale: 0.4 } max_sample: 1");
  ProtobufCMessage *b = parse(&caffe__batch_sampler__descriptor,
                              "sampler { min_scale: 0.6 max_scale: 0.8 } max_sample: 1");
  ProtobufCMessage *none =
      parse(&caffe__batch_sampler__descriptor, "use_original_image: false max_sample: 1");
  const Caffe__BatchSampler *samplers[3] = {sampler_of(a), sampler_of(none), sampler_of(b)};
  int small = 0;
  double scale = 0, position = 0;
  for (uint64_t sample = 0; sample < 4000; ++sample) {
    cr_box patch;
    assert_true(cr_sample_patch(samplers, 3, NULL, 0, 11, sample, &patch));
    float width = patch.xmax - patch.xmin;
    assert_near(width, patch.ymax - patch.ymin);
    if (width > 0.5F) continue;
    ++small;
    scale += (double)width;
    position += (double)(patch.xmin / (1 - width));
  }
  assert_in_range(small, 2000 - 158, 2000 + 158);
  /* Deviations of the means: 0.2 / sqrt(12 * 2000) and 1 / sqrt(12 * 2000). */
  assert_true(fabs(scale / small - 0.3) < 0.0065 && fabs(position / small - 0.5) < 0.033);
  assert_false(cr_sample_patch(&samplers[1], 1, NULL, 0, 11, 0, &(cr_box){0}));
  cr_message_free(a);
  cr_message_free(b);
  cr_message_free(none);
}

TEST(test_determinism) {
  ProtobufCMessage *message =
      parse(&caffe__batch_sampler__descriptor, "sampler { min_scale: 0.1 max_scale: 0.9 }");
  const Caffe__BatchSampler *sampler = sampler_of(message);
  cr_box up[100], other;
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    assert_true(cr_sample_patch(&sampler, 1, NULL, 0, 1, (uint64_t)i, &up[i]));
  }
  for (int i = 99; i >= 0; --i) {
    assert_true(cr_sample_patch(&sampler, 1, NULL, 0, 1, (uint64_t)i, &other));
    assert_memory_equal(&other, &up[i], sizeof other);
    assert_true(cr_sample_patch(&sampler, 1, NULL, 0, 2, (uint64_t)i, &other));
    differ += memcmp(&other, &up[i], sizeof other) != 0;
  }
  assert_int_equal(differ, 100);
  cr_message_free(message);
}

TEST(test_refusals) {
  static const char *const bad[] = {
      "sampler { min_scale: 0 }",          "sampler { min_scale: 0.9 max_scale: 0.5 }",
      "sampler { max_scale: 1.5 }",        "sampler { min_scale: nan }",
      "sampler { min_aspect_ratio: 0 }",   "sampler { min_aspect_ratio: 3 max_aspect_ratio: 2 }",
      "sampler { max_aspect_ratio: inf }", "max_trials: 1000001",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    ProtobufCMessage *message = parse(&caffe__batch_sampler__descriptor, bad[i]);
    if (cr_batch_sampler_check(sampler_of(message)) == CREMA_OK) fail_msg("%s", bad[i]);
    assert_error_has("batch_sampler: m");
    cr_message_free(message);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
