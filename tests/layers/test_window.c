/* Windows far larger than their input: large numbers that are allowed are computed with, and not
 * cut to 32 bits on the way. */
#include <float.h>
#include <math.h>

#include "layers/layer_rig.h"

static void run(rig *r, const char *type, const char *body, const char *shape, float first) {
  rig_make(r, type, body, CAFFE__PHASE__TRAIN, shape, 1);
  ok(rig_setup(r));
  float *value = rig_data(r->bottom[0]);
  for (int64_t i = 0; i < crema_blob_count(r->bottom[0]); ++i) value[i] = first + (float)i;
  ok(rig_forward(r));
  float *diff = rig_diff(r->top[0]);
  for (int64_t i = 0; i < crema_blob_count(r->top[0]); ++i) diff[i] = 1;
  ok(rig_backward(r));
}

/* Of the three positions along each axis the outer ones see padding, the middle one the first
 * value. */
TEST(test_far_stride) {
  rig r;
  run(&r, "Convolution",
      "convolution_param { num_output: 1 kernel_size: 1 stride: 2147483647 pad: 2147483647 "
      "weight_filler { value: 2 } bias_filler { value: 0.5 } }",
      "1 1 4 4", 3);
  assert_int_equal(crema_blob_count(r.top[0]), 9);
  for (int i = 0; i < 9; ++i) {
    assert_float_equal(rig_data(r.top[0])[i], i == 4 ? 6.5f : 0.5f, 0);
  }
  for (int i = 0; i < 16; ++i) {
    assert_float_equal(rig_diff(r.bottom[0])[i], i == 0 ? 2.0f : 0.0f, 0);
  }
  assert_float_equal(rig_diff(r.layer->blob[0])[0], 3, 0);
  rig_free(&r);
}

/* A last window that lies behind the input has the least value as its maximum, an average of 0 and
 * takes no gradient. */
TEST(test_windows_behind_the_input) {
  static const char *const methods[] = {"MAX", "AVE"};
  static const char *const strides[] = {"3", "2147483647"};
  for (int i = 0; i < 4; ++i) {
    bool max = i % 2 == 0;
    char body[200];
    rig r;
    snprintf(body, sizeof body, "pooling_param { pool: %s kernel_size: 1 stride: %s }",
             methods[i % 2], strides[i / 2]);
    run(&r, "Pooling", body, "1 16 2 2", 7);
    assert_int_equal(crema_blob_count(r.top[0]), 16 * 2 * 2);
    for (int k = 0; k < 16 * 4; ++k) {
      float expected = k % 4 == 0 ? 7.0f + (float)k : max ? -FLT_MAX : 0.0f;
      assert_true(rig_data(r.top[0])[k] == expected);
      assert_true(rig_diff(r.bottom[0])[k] == (k % 4 == 0 ? 1.0f : 0.0f));
    }
    rig_free(&r);
  }
}

/* Padding of one axis takes such windows away from the other, too. */
TEST(test_padding_cuts_both_axes) {
  static const int64_t extent[][2] = {{3, 2}, {3, 3}};
  for (int padded = 1; padded >= 0; --padded) {
    char body[200];
    rig r;
    snprintf(
        body, sizeof body,
        "pooling_param { kernel_h: 3 kernel_w: 1 stride_h: %d stride_w: 3 pad_h: %d pad_w: 0 }",
        padded ? 2 : 1, padded);
    run(&r, "Pooling", body, "1 1 5 5", 0);
    assert_int_equal(r.top[0]->shape.dim[2], extent[!padded][0]);
    assert_int_equal(r.top[0]->shape.dim[3], extent[!padded][1]);
    rig_free(&r);
  }
}

/* Few windows over all of a small input and much padding. */
TEST(test_far_kernel) {
  const double size = 30000;
  rig r;
  run(&r, "Pooling", "pooling_param { kernel_size: 30000 pad: 29999 stride: 100000 }", "1 2 2 2",
      8);
  assert_int_equal(crema_blob_count(r.top[0]), 2);
  for (int c = 0; c < 2; ++c) {
    assert_true(rig_data(r.top[0])[c] == 8.0f + 4.0f * (float)c);
    for (int k = 0; k < 4; ++k) assert_true(rig_diff(r.bottom[0])[4 * c + k] == (k == 0));
  }
  rig_free(&r);
  run(&r, "Pooling", "pooling_param { pool: AVE kernel_size: 30000 pad: 29999 stride: 100000 }",
      "1 2 2 2", 8);
  for (int c = 0; c < 2; ++c) {
    double expected = (8.0 + 4.0 * c) / (size * size);
    assert_true(fabs((double)rig_data(r.top[0])[c] - expected) <= 1e-6 * expected);
  }
  rig_free(&r);
}

enum { PLANES = 6, HEIGHT = 8, WIDTH = 16, LEVELS = 3, BINS = 1 + 4 + 16 };

/* Adds a bin of a pyramid's to what its bottom's gradient should be; returns what its value should
 * be. */
static double pool_bin(const float *x, int64_t bins, int64_t bin, bool max, double slope,
                       double *diff) {
  const int64_t height = HEIGHT / bins, width = WIDTH / bins;
  const int64_t begin = bin / bins * height * WIDTH + bin % bins * width;
  double sum = 0;
  int64_t most = begin;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t k = begin + y * WIDTH; k < begin + y * WIDTH + width; ++k) {
      sum += (double)x[k];
      most = x[k] > x[most] ? k : most;
      if (!max) diff[k] += slope / (double)(height * width);
    }
  }
  if (!max) return sum / (double)(height * width);
  diff[most] += slope;
  return (double)x[most];
}

/* Bins that are made of four of the next level's. */
TEST(test_bins_of_bins) {
  for (int max = 0; max < 2; ++max) {
    double wanted[PLANES * HEIGHT * WIDTH] = {0};
    rig r;
    rig_make(&r, "SPP",
             max ? "spp_param { pyramid_height: 3 }" : "spp_param { pyramid_height: 3 pool: AVE }",
             CAFFE__PHASE__TRAIN, "2 3 8 16", 1);
    ok(rig_setup(&r));
    float *x = rig_data(r.bottom[0]), *dy = rig_diff(r.top[0]);
    for (int i = 0; i < PLANES * HEIGHT * WIDTH; ++i) x[i] = (float)(i * 37 % 769); /* all differ */
    ok(rig_forward(&r));
    const float *y = rig_data(r.top[0]);
    assert_int_equal(crema_blob_count(r.top[0]), PLANES * BINS);
    for (int64_t plane = 0; plane < PLANES; ++plane) {
      const int64_t image = plane / 3, channel = plane % 3;
      int64_t level = image * 3 * BINS; /* where its bins begin */
      for (int64_t bins = 1; bins < 1 << LEVELS; level += 3 * bins * bins, bins *= 2) {
        for (int64_t bin = 0; bin < bins * bins; ++bin) {
          const int64_t at = level + channel * bins * bins + bin, first = plane * HEIGHT * WIDTH;
          dy[at] = (float)(at % 7 + 1);
          const double value = pool_bin(x + first, bins, bin, max, (double)dy[at], wanted + first);
          assert_true(fabs((double)y[at] - value) < 1e-4);
        }
      }
    }
    ok(rig_backward(&r));
    const float *dx = rig_diff(r.bottom[0]);
    for (int i = 0; i < PLANES * HEIGHT * WIDTH; ++i) {
      assert_true(fabs((double)dx[i] - wanted[i]) < 1e-5);
    }
    rig_free(&r);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
