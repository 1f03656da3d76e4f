/* The transformer beyond the golden cases: random numbers, errors, layouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/augment/mean.h"
#include "transform_text.h"

enum { C = 3, H = 6, W = 7 };

static uint8_t planar[C * H * W], interleaved[C * H * W];
static float real[C * H * W];

static void fill_pixels(void) {
  for (int c = 0; c < C; ++c) {
    for (int y = 0; y < H; ++y) {
      for (int x = 0; x < W; ++x) {
        uint8_t value = (uint8_t)(c * 80 + y * 10 + x);
        planar[(c * H + y) * W + x] = value;
        interleaved[(y * W + x) * C + c] = value;
        real[(c * H + y) * W + x] = value;
      }
    }
  }
}

static cr_pixels pixels_of(const void *values, crema_dtype type, bool is_interleaved) {
  return (cr_pixels){.values = values,
                     .type = type,
                     .interleaved = is_interleaved,
                     .channels = C,
                     .height = H,
                     .width = W};
}

/* Planes, interleaved pixels and floats give the same result. */
TEST(test_layouts_agree) {
  static const char *const params[] = {
      "scale: 0.5", "crop_size: 4 mirror: true", "mean_value: 5",
      "crop_h: 3 crop_w: 7 mirror: true",
      "mean_value: 1 mean_value: 2 mean_value: 3 scale: 2 crop_size: 5"};
  fill_pixels();
  for (size_t i = 0; i < sizeof params / sizeof *params; ++i) {
    cr_transformer *t = NULL;
    float a[C * H * W], b[C * H * W], c[C * H * W];
    int shape[3];
    ok(make_transformer(params[i], CAFFE__PHASE__TRAIN, &t));
    ok(cr_transformer_shape(t, C, H, W, shape));
    size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    for (uint64_t sample = 0; sample < 50; ++sample) {
      const cr_pixels p = pixels_of(planar, CREMA_U8, false);
      const cr_pixels q = pixels_of(interleaved, CREMA_U8, true);
      const cr_pixels r = pixels_of(real, CREMA_F32, false);
      ok(cr_transformer_run(t, &p, sample, a));
      ok(cr_transformer_run(t, &q, sample, b));
      ok(cr_transformer_run(t, &r, sample, c));
      assert_memory_equal(a, b, count * sizeof *a);
      assert_memory_equal(a, c, count * sizeof *a);
    }
    cr_transformer_destroy(t);
  }
}

/* Random numbers belong to a sample: order and repetition do not matter. All positions and both
 * sides occur about equally often. */
TEST(s2_22_random_numbers_belong_to_samples) {
  enum { SAMPLES = 6000, CROP = 4, POSITIONS = (H - CROP + 1) * (W - CROP + 1) };
  cr_transformer *t = NULL;
  static float first[SAMPLES];
  int seen[2 * POSITIONS] = {0};
  float out[C * CROP * CROP];
  fill_pixels();
  const cr_pixels p = pixels_of(planar, CREMA_U8, false);
  ok(make_transformer("crop_size: 4 mirror: true", CAFFE__PHASE__TRAIN, &t));
  for (int i = 0; i < SAMPLES; ++i) {
    ok(cr_transformer_run(t, &p, (uint64_t)i, out));
    first[i] = out[0];
    bool mirrored = out[0] > out[1];
    int corner = (int)(mirrored ? out[CROP - 1] : out[0]); /* y * 10 + x */
    ++seen[(corner / 10 * (W - CROP + 1) + corner % 10) * 2 + mirrored];
  }
  for (int i = 0; i < 2 * POSITIONS; ++i) {
    assert_in_range(seen[i], SAMPLES / (2 * POSITIONS) * 7 / 10,
                    SAMPLES / (2 * POSITIONS) * 13 / 10);
  }
  for (int i = SAMPLES - 1; i >= 0; i -= 7) {
    ok(cr_transformer_run(t, &p, (uint64_t)i, out));
    assert_true(out[0] == first[i]);
  }
  uint64_t key = cr_transformer_key(t);
  int changed = 0;
  cr_transformer_set_key(t, key + 1);
  for (int i = 0; i < 100; ++i) {
    ok(cr_transformer_run(t, &p, (uint64_t)i, out));
    changed += out[0] != first[i];
  }
  assert_in_range(changed, 50, 100);
  cr_transformer_destroy(t);
}

TEST(test_test_phase_takes_the_centre) {
  cr_transformer *t = NULL;
  float out[C * 4 * 4];
  fill_pixels();
  const cr_pixels p = pixels_of(planar, CREMA_U8, false);
  ok(make_transformer("crop_size: 4", CAFFE__PHASE__TEST, &t));
  for (uint64_t sample = 0; sample < 20; ++sample) {
    ok(cr_transformer_run(t, &p, sample, out));
    assert_true(out[0] == 11); /* row (6-4)/2, column (7-4)/2 */
  }
  cr_transformer_destroy(t);
}

TEST(test_parameters_that_cannot_be) {
  cr_transformer *t = NULL;
  assert_fails(make_transformer("mean_file: 'x' mean_value: 1", CAFFE__PHASE__TEST, &t),
               CREMA_E_ARGUMENT, "mean_file and mean_value");
  assert_int_equal(make_transformer("force_color: true force_gray: true", CAFFE__PHASE__TEST, &t),
                   CREMA_E_ARGUMENT);
  assert_fails(make_transformer("mean_file: '/no/such/mean'", CAFFE__PHASE__TEST, &t),
               CREMA_E_NOT_FOUND, "/no/such/mean");
  assert_fails(make_transformer("resize_param { height: 3 }", CAFFE__PHASE__TEST, &t),
               CREMA_E_ARGUMENT, "resize_param");
  assert_int_equal(make_transformer("crop_size: 4000000000", CAFFE__PHASE__TEST, &t),
                   CREMA_E_RANGE);
  assert_null(t);
  cr_transformer_destroy(NULL);
}

TEST(test_shapes_that_do_not_fit) {
  cr_transformer *t = NULL;
  int shape[3];
  float out[C * H * W];
  fill_pixels();
  const cr_pixels p = pixels_of(planar, CREMA_U8, false);
  ok(make_transformer("crop_size: 8", CAFFE__PHASE__TEST, &t));
  assert_fails(cr_transformer_shape(t, C, H, W, shape), CREMA_E_SHAPE, "8 x 8");
  assert_error_has("6 x 7");
  assert_int_equal(cr_transformer_run(t, &p, 0, out), CREMA_E_SHAPE);
  cr_transformer_destroy(t);
  ok(make_transformer("mean_value: 1 mean_value: 2", CAFFE__PHASE__TEST, &t));
  assert_fails(cr_transformer_shape(t, C, H, W, shape), CREMA_E_SHAPE,
               "2 mean values for 3 channels");
  cr_transformer_destroy(t);
  const cr_pixels odd = pixels_of(planar, CREMA_I32, false);
  ok(make_transformer("", CAFFE__PHASE__TEST, &t));
  assert_int_equal(cr_transformer_run(t, &odd, 0, out), CREMA_E_TYPE);
  cr_transformer_destroy(t);
}

/* crop_size is for the sides that have no crop of their own. */
TEST(test_a_side_of_its_own_wins) {
  static const char *const params[] = {"crop_size: 4 crop_w: 3", "crop_size: 4 crop_h: 3",
                                       "crop_size: 4 crop_h: 2 crop_w: 5", "crop_size: 4",
                                       "crop_w: 3"};
  static const int wanted[][2] = {{4, 3}, {3, 4}, {2, 5}, {4, 4}, {H, 3}};
  for (size_t i = 0; i < sizeof params / sizeof *params; ++i) {
    cr_transformer *t = NULL;
    int shape[3];
    ok(make_transformer(params[i], CAFFE__PHASE__TRAIN, &t));
    ok(cr_transformer_shape(t, C, H, W, shape));
    assert_int_equal(shape[1], wanted[i][0]);
    assert_int_equal(shape[2], wanted[i][1]);
    cr_transformer_destroy(t);
  }
}

TEST(test_mean_file_round_trip) {
  char path[] = "/tmp/crema-mean-XXXXXX";
  float values[C * H * W];
  cr_mean mean = {C, H, W, values}, read = {0};
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  for (int i = 0; i < C * H * W; ++i) values[i] = (float)i / 3;
  ok(cr_mean_write(path, &mean));
  ok(cr_mean_read(path, &read));
  assert_true(read.channels == C && read.height == H && read.width == W);
  assert_memory_equal(read.values, values, sizeof values);
  cr_mean_free(&read);
  /* Extents that the values do not fill. */
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
  proto.has_num = proto.has_channels = proto.has_height = proto.has_width = 1;
  proto.num = 1;
  proto.channels = proto.height = proto.width = 1000000;
  proto.n_data = 5;
  proto.data = values;
  ok(cr_message_write_binary(&proto.base, path));
  assert_fails(cr_mean_read(path, &read), CREMA_E_CORRUPT, path);
  proto.num = 2;
  ok(cr_message_write_binary(&proto.base, path));
  assert_int_equal(cr_mean_read(path, &read), CREMA_E_SHAPE);
  remove(path);
}

/* ---- a mean image, against a plain loop ----------------------------------- */

typedef struct mean_case {
  int channels, height, width;
  const char *crop; /* and more of transform_param */
} mean_case;

/* Pixels as bytes or floats, planes or interleaved; the sample's crop is asked for. All numbers are
 * exact in float. */
static void check_mean(const mean_case *m, crema_dtype type, bool is_interleaved) {
  char path[] = "/tmp/crema-mean-XXXXXX", text[256];
  size_t count = (size_t)(m->channels * m->height * m->width);
  uint8_t *bytes = malloc(count);
  float *floats = malloc(count * sizeof *floats), *out = malloc(count * sizeof *out);
  float *mean_values = malloc(count * sizeof *mean_values);
  assert_true(bytes != NULL && floats != NULL && out != NULL && mean_values != NULL);
  cr_mean mean = {m->channels, m->height, m->width, mean_values};
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  for (size_t i = 0; i < count; ++i) {
    floats[i] = bytes[i] = (uint8_t)(i * 37 % 253);
    mean_values[i] = 0.25f * (float)(i * 101 % 1009);
  }
  ok(cr_mean_write(path, &mean));
  snprintf(text, sizeof text, "mean_file: '%s' scale: 0.5 mirror: true %s", path, m->crop);
  cr_transformer *t = NULL;
  ok(make_transformer(text, CAFFE__PHASE__TRAIN, &t));
  const cr_pixels pixels = {.values = type == CREMA_U8 ? (const void *)bytes : floats,
                            .type = type,
                            .interleaved = is_interleaved,
                            .channels = m->channels,
                            .height = m->height,
                            .width = m->width};
  for (uint64_t sample = 0; sample < 6; ++sample) {
    cr_image_part part;
    bool mirror = false;
    ok(cr_transformer_crop(t, sample, m->height, m->width, &part, &mirror));
    ok(cr_transformer_run(t, &pixels, sample, out));
    const float *got = out;
    for (int c = 0; c < m->channels; ++c) {
      for (int y = part.top; y < part.top + part.height; ++y) {
        for (int x = 0; x < part.width; ++x, ++got) {
          int column = part.left + (mirror ? part.width - 1 - x : x);
          int position = (c * m->height + y) * m->width + column;
          int at = is_interleaved ? (y * m->width + column) * m->channels + c : position;
          float wanted = ((float)bytes[at] - mean_values[position]) * 0.5f;
          if (*got != wanted) {
            fail_msg("%d x %d x %d, %s, sample %d: (%d, %d, %d) is %g, not %g", m->channels,
                     m->height, m->width, m->crop, (int)sample, c, y - part.top, x, (double)*got,
                     (double)wanted);
          }
        }
      }
    }
  }
  cr_transformer_destroy(t);
  remove(path);
  close(fd);
  free(mean_values);
  free(out);
  free(floats);
  free(bytes);
}

/* Few rows and many (interleaved ones are done sixteen at a time), crops and whole pictures,
 * samples that are kept in the caches and larger ones. */
TEST(s2_22_a_mean_image_lies_under_its_pixels) {
  static const mean_case cases[] = {
      {3, 45, 37, "crop_size: 33"}, {3, 45, 37, ""},           {1, 17, 20, "crop_h: 17 crop_w: 9"},
      {4, 40, 21, "crop_size: 20"}, {5, 33, 16, "crop_w: 16"}, {3, 160, 161, "crop_size: 150"},
      {3, 12, 13, "crop_size: 9"},  {3, 32, 40, "crop_h: 32"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    check_mean(&cases[i], CREMA_U8, true);
    check_mean(&cases[i], CREMA_U8, false);
    check_mean(&cases[i], CREMA_F32, false);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
