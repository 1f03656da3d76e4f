/* Layers that draw: Dropout and its kin, stochastic Pooling, DummyData. */
#include "layers/layer_rig.h"

TEST(test_dropout_masks) {
  rig r;
  rig_make(&r, "Dropout", "dropout_param { dropout_ratio: 0.25 }", CAFFE__PHASE__TRAIN, "100 100",
           1);
  ok(rig_setup(&r));
  float *x = rig_data(r.bottom[0]);
  for (int i = 0; i < 10000; ++i) x[i] = 3;
  ok(rig_forward(&r));
  float *first = malloc(10000 * sizeof *first);
  assert_non_null(first);
  memcpy(first, rig_data(r.top[0]), 10000 * sizeof *first);
  int zeros = 0, changed = 0;
  for (int i = 0; i < 10000; ++i) {
    assert_true(first[i] == 0 || fabsf(first[i] - 4) < 1e-5f);
    zeros += first[i] == 0;
  }
  assert_in_range(zeros, 2300, 2700);
  /* The same pass again draws the same mask, the next pass another one. */
  ok(rig_forward(&r));
  assert_memory_equal(first, rig_data(r.top[0]), 10000 * sizeof *first);
  ++r.layer->pass;
  ok(rig_forward(&r));
  for (int i = 0; i < 10000; ++i) changed += rig_data(r.top[0])[i] != first[i];
  assert_in_range(changed, 3000, 4500);
  free(first);
  rig_free(&r);
}

TEST(test_dropout_seed) {
  float out[2][64];
  for (int k = 0; k < 2; ++k) {
    rig r;
    rig_make(&r, "Dropout", "dropout_param { random_seed: 5 }", CAFFE__PHASE__TRAIN, "64", 1);
    r.layer->key = (uint64_t)k; /* does not matter with a seed of its own */
    ok(rig_setup(&r));
    for (int i = 0; i < 64; ++i) rig_data(r.bottom[0])[i] = 1;
    ok(rig_forward(&r));
    memcpy(out[k], rig_data(r.top[0]), sizeof out[k]);
    rig_free(&r);
  }
  assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* Nearly normal numbers of mean 0 and variance 1: sums of twelve even ones. */
static void fill_normal(rig_values x) {
  uint32_t random = 77;
  for (int64_t i = 0; i < x.count; ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += (double)rig_random(&random) / 4294967296.0;
    rig_set(x, i, sum);
  }
}

/* Of numbers with mean 0 and variance 1 it makes such numbers; a dropped value becomes the same
 * whatever it was, the others lie on a line, and gradients follow it. */
TEST(selu_dropout_keeps_mean_and_variance) {
  static const double ratios[] = {0.05, 0.3, 0.7}, low = -1.7580993408473766;
  for (int n = 0; n < 3; ++n) {
    const double q = 1 - (double)(float)ratios[n], a = 1 / sqrt(q + low * low * q * (1 - q));
    const double b = -a * (1 - q) * low;
    char body[100];
    double mean = 0, square = 0;
    int64_t dropped = 0;
    rig r;
    snprintf(body, sizeof body, "dropout_param { dropout_ratio: %g }", ratios[n]);
    rig_make_of(&r, CREMA_F64, "SeLuDropout", body, CAFFE__PHASE__TRAIN, "200 500", 1);
    ok(rig_setup(&r));
    rig_values x = rig_data_of(r.bottom[0]), y = rig_data_of(r.top[0]), dy = rig_diff_of(r.top[0]);
    fill_normal(x);
    for (int64_t i = 0; i < dy.count; ++i) rig_set(dy, i, 3);
    ok(rig_forward(&r));
    ok(rig_backward(&r));
    for (int64_t i = 0; i < y.count; ++i) {
      const double value = rig_get(y, i), dx = rig_get(rig_diff_of(r.bottom[0]), i);
      const bool is_dropped = fabs(value - (a * low + b)) < 1e-12;
      assert_true(is_dropped || fabs(value - (a * rig_get(x, i) + b)) < 1e-12);
      assert_true(fabs(dx - (is_dropped ? 0 : 3 * a)) < 1e-12);
      dropped += is_dropped;
      mean += value / (double)y.count;
      square += value * value / (double)y.count;
    }
    assert_true(fabs((double)dropped / (double)y.count - (1 - q)) < 0.01);
    assert_true(fabs(mean) < 0.02 && fabs(square - mean * mean - 1) < 0.03);
    rig_free(&r);
  }
}

/* A channel of a sample is dropped as a whole or scaled as a whole, whatever its neighbours are. */
TEST(spatial_dropout_drops_whole_channels) {
  enum { CHANNELS = 40 * 50, PLANE = 6 };
  const double factor = 1 / (1 - (double)0.4f);
  int dropped = 0, changes = 0;
  bool before = false;
  rig r;
  rig_make_of(&r, CREMA_F64, "SpatialDropout", "spatial_dropout_param { dropout_ratio: 0.4 }",
              CAFFE__PHASE__TRAIN, "40 50 2 3", 1);
  ok(rig_setup(&r));
  rig_values x = rig_data_of(r.bottom[0]), y = rig_data_of(r.top[0]);
  for (int64_t i = 0; i < x.count; ++i) rig_set(x, i, 1 + (double)(i % 101) / 16);
  for (int64_t i = 0; i < x.count; ++i) rig_set(rig_diff_of(r.top[0]), i, (double)(i % 7) - 3);
  ok(rig_forward(&r));
  ok(rig_backward(&r));
  for (int64_t c = 0; c < CHANNELS; ++c) {
    const bool is_dropped = rig_get(y, c * PLANE) == 0;
    for (int64_t i = c * PLANE; i < (c + 1) * PLANE; ++i) {
      const double times = is_dropped ? 0 : factor;
      assert_true(fabs(rig_get(y, i) - times * rig_get(x, i)) < 1e-12);
      assert_true(fabs(rig_get(rig_diff_of(r.bottom[0]), i) -
                       times * rig_get(rig_diff_of(r.top[0]), i)) < 1e-12);
    }
    changes += c > 0 && is_dropped != before;
    before = is_dropped;
    dropped += is_dropped;
  }
  assert_in_range(dropped, 690, 910);
  assert_in_range(changes, 850, 1070); /* 2 * 0.4 * 0.6 of them: neighbours do not go together */
  rig_free(&r);
}

/* Windows (1, 2, 0, 5): value v is drawn with probability v / 8, and the expected value is
 * (1 + 4 + 25) / 8, which TEST computes. */
TEST(test_stochastic_pooling) {
  static const float window[] = {1, 2, 0, 5};
  rig train, test;
  int drawn[6] = {0};
  const char *body = "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }";
  rig_make(&train, "Pooling", body, CAFFE__PHASE__TRAIN, "50 20 2 8", 1);
  rig_make(&test, "Pooling", body, CAFFE__PHASE__TEST, "1 1 2 2", 1);
  ok(rig_setup(&train));
  ok(rig_setup(&test));
  float *x = rig_data(train.bottom[0]);
  for (int i = 0; i < 16000; ++i) x[i] = window[i / 8 % 2 * 2 + i % 2];
  memcpy(rig_data(test.bottom[0]), window, sizeof window);
  ok(rig_forward(&train));
  const float *y = rig_data(train.top[0]);
  for (int i = 0; i < 4000; ++i) {
    assert_true(y[i] == 1 || y[i] == 2 || y[i] == 5);
    drawn[(int)y[i]]++;
  }
  assert_in_range(drawn[1], 420, 580);
  assert_in_range(drawn[2], 900, 1100);
  assert_in_range(drawn[5], 2380, 2620);
  ok(rig_forward(&test));
  assert_true(fabsf(rig_data(test.top[0])[0] - 30.0f / 8) < 1e-6f);
  /* A gradient goes to the value that was drawn, and to that alone. */
  for (int i = 0; i < 4000; ++i) rig_diff(train.top[0])[i] = 1;
  ok(rig_backward(&train));
  double sum = 0;
  for (int i = 0; i < 16000; ++i) {
    float d = rig_diff(train.bottom[0])[i];
    assert_true(d == 0 || (d == 1 && x[i] > 0));
    sum += (double)d;
  }
  assert_true(sum == 4000);
  assert_int_equal(rig_backward(&test), CREMA_E_UNSUPPORTED);
  rig_free(&test);
  rig_free(&train);
}

TEST(test_dummy_data) {
  rig r;
  float before[6];
  rig_make(&r, "DummyData",
           "dummy_data_param { shape { dim: 2 dim: 3 } data_filler { value: 4 } "
           "data_filler { type: 'gaussian' } }",
           CAFFE__PHASE__TRAIN, NULL, 2);
  ok(rig_setup(&r));
  assert_true(rig_data(r.top[0])[5] == 4);
  rig_data(r.top[0])[0] = 9; /* a constant is filled once, so this stays */
  ok(rig_forward(&r));
  memcpy(before, rig_data(r.top[1]), sizeof before);
  ok(rig_forward(&r));
  assert_true(rig_data(r.top[0])[0] == 9);
  assert_true(memcmp(before, rig_data(r.top[1]), sizeof before) != 0);
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
