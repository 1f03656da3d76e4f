/* Fillers: the distribution of each kind, the fans of xavier and msra, and refusals. */
#include "layers/layer_rig.h"

typedef struct moments {
  double mean, variance, low, high;
  int64_t zeros;
} moments;

static Caffe__FillerParameter filler_of(const char *type) {
  Caffe__FillerParameter filler = CAFFE__FILLER_PARAMETER__INIT;
  filler.type = (char *)(uintptr_t)type;
  return filler;
}

static crema_status fill(const Caffe__FillerParameter *filler, const char *shape_text,
                         crema_blob **out) {
  crema_shape shape;
  crema_context *context = NULL;
  rig_read_shape(shape_text, &shape);
  ok(crema_blob_create(&shape, out));
  ok(crema_context_create(cr_cpu_device(), 4711, &context));
  crema_status status = cr_fill(filler, context, *out);
  crema_context_destroy(context);
  return status;
}

static moments moments_of(const Caffe__FillerParameter *filler, const char *shape) {
  crema_blob *blob = NULL;
  ok(fill(filler, shape, &blob));
  const float *value = rig_data(blob);
  int64_t count = crema_blob_count(blob);
  moments m = {0, 0, (double)value[0], (double)value[0], 0};
  for (int64_t i = 0; i < count; ++i) {
    double v = (double)value[i];
    m.mean += v / (double)count;
    m.low = v < m.low ? v : m.low;
    m.high = v > m.high ? v : m.high;
    m.zeros += v == 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    m.variance += ((double)value[i] - m.mean) * ((double)value[i] - m.mean) / (double)count;
  }
  crema_blob_destroy(blob);
  return m;
}

static void assert_close(double found, double expected, double tolerance) {
  if (fabs(found - expected) <= tolerance) return;
  print_error("found %g, expected %g +- %g\n", found, expected, tolerance);
  fail();
}

TEST(test_constant) {
  Caffe__FillerParameter filler = filler_of("constant");
  filler.value = 2.5f;
  moments m = moments_of(&filler, "3 4");
  assert_true(m.low == 2.5 && m.high == 2.5);
}

TEST(test_uniform) {
  Caffe__FillerParameter filler = filler_of("uniform");
  filler.min = -1;
  filler.max = 3;
  moments m = moments_of(&filler, "100 1000");
  assert_close(m.mean, 1, 0.02);
  assert_close(m.variance, 16.0 / 12, 0.02);
  assert_true(m.low >= -1 && m.low < -0.99 && m.high <= 3 && m.high > 2.99);
}

TEST(test_gaussian) {
  Caffe__FillerParameter filler = filler_of("gaussian");
  filler.mean = 2;
  filler.std = 0.5f;
  moments m = moments_of(&filler, "100 1000");
  assert_close(m.mean, 2, 0.01);
  assert_close(m.variance, 0.25, 0.01);
  assert_true(m.low < 0.5 && m.high > 3.5);
}

TEST(test_sparse_gaussian) {
  Caffe__FillerParameter filler = filler_of("gaussian");
  filler.sparse = 10; /* of 100 outputs: a tenth of the values stays */
  moments m = moments_of(&filler, "100 1000");
  assert_close((double)m.zeros, 90000, 500);
}

TEST(test_positive_unitball) {
  Caffe__FillerParameter filler = filler_of("positive_unitball");
  crema_blob *blob = NULL;
  ok(fill(&filler, "5 7 3", &blob));
  const float *value = rig_data(blob);
  for (int row = 0; row < 5; ++row) {
    double sum = 0;
    for (int i = 0; i < 21; ++i) {
      assert_true(value[row * 21 + i] >= 0);
      sum += (double)value[row * 21 + i];
    }
    assert_close(sum, 1, 1e-5);
  }
  crema_blob_destroy(blob);
}

/* Shape (40, 10, 5, 5): fan in 250, fan out 1000. */
TEST(test_fans) {
  static const double fan[] = {250, 1000, 625};
  static const Caffe__FillerParameter__VarianceNorm norm[] = {
      CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_IN,
      CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT,
      CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE};
  for (int i = 0; i < 3; ++i) {
    Caffe__FillerParameter xavier = filler_of("xavier"), msra = filler_of("msra");
    xavier.variance_norm = msra.variance_norm = norm[i];
    moments m = moments_of(&xavier, "40 10 5 5");
    assert_close(m.mean, 0, 0.1 / sqrt(fan[i]));
    assert_close(m.variance, 1 / fan[i], 0.05 / fan[i]);
    assert_true(m.high <= sqrt(3 / fan[i]) && m.high > 0.99 * sqrt(3 / fan[i]));
    m = moments_of(&msra, "40 10 5 5");
    assert_close(m.mean, 0, 0.1 / sqrt(fan[i]));
    assert_close(m.variance, 2 / fan[i], 0.1 / fan[i]);
    assert_true(m.high > 2.5 * sqrt(2 / fan[i]));
  }
}

/* scale multiplies the deviation of msra. */
TEST(test_scaled) {
  Caffe__FillerParameter msra = filler_of("msra");
  msra.has_scale = true;
  msra.scale = 3;
  const moments m = moments_of(&msra, "40 10 5 5");
  assert_close(m.variance, 9 * 2.0 / 250, 0.1 * 9 / 250);
}

/* alpha is the slope of the leaky ReLU that follows. */
TEST(test_alpha) {
  Caffe__FillerParameter msra = filler_of("msra");
  msra.has_alpha = true;
  msra.alpha = 2;
  const moments m = moments_of(&msra, "40 10 5 5");
  assert_close(m.variance, 2.0 / 250 / 5, 0.1 / 250 / 5);
}

/* The kernel that upsamples by 2: (1/4 3/4 3/4 1/4) along each axis. */
TEST(test_bilinear) {
  static const float side[] = {0.25f, 0.75f, 0.75f, 0.25f};
  Caffe__FillerParameter filler = filler_of("bilinear");
  crema_blob *blob = NULL;
  ok(fill(&filler, "2 1 4 4", &blob));
  const float *value = rig_data(blob);
  for (int i = 0; i < 32; ++i) {
    assert_close((double)value[i], (double)(side[i % 4] * side[i / 4 % 4]), 1e-6);
  }
  crema_blob_destroy(blob);
}

/* Sums of eight filters at a time, each value times 1 to 11 by its index, from Intel Caffe 1.1.6's
 * own generator. */
TEST(test_gabor) {
  static const struct {
    const char *shape;
    double sum[12];
  } banks[] = {
      {"32 3 5 5", {21.9462, 70.967, -4.9579, 0.581977}},
      {"64 3 7 7", {-18.2798, -18.3844, -8.61423, -30.9064, 9.9594, 3.93483, 3.00848, 0.468971}},
      {"64 3 3 3", {-2.74425, 7.88525, 1.29506, -49.7865, 15.1644, -4.11054, 0.283524, -2.84733}},
      {"96 3 11 11",
       {9.12906, 9.18057, -0.0642145, -2.76022, -10.3992, -19.644, -2.34257e-14, -5.45675e-14,
        -1.33782e-14, 5.09592e-14, 7.85483e-15, -2.33494}},
  };
  Caffe__FillerParameter filler = filler_of("gabor");
  for (size_t b = 0; b < sizeof banks / sizeof *banks; ++b) {
    crema_blob *blob = NULL;
    double sum[12] = {0};
    ok(fill(&filler, banks[b].shape, &blob));
    const float *value = rig_data(blob);
    const int64_t eight = crema_blob_count(blob) / crema_blob_shape(blob)->dim[0] * 8;
    for (int64_t i = 0; i < crema_blob_count(blob); ++i) {
      sum[i / eight] += (double)value[i] * (double)(i % 11 + 1);
    }
    for (int g = 0; g < 12; ++g) assert_close(sum[g], banks[b].sum[g], 2e-4);
    crema_blob_destroy(blob);
  }
}

TEST(test_same_seed_same_values) {
  Caffe__FillerParameter filler = filler_of("gaussian");
  crema_blob *a = NULL, *b = NULL;
  ok(fill(&filler, "50", &a));
  ok(fill(&filler, "50", &b));
  assert_memory_equal(rig_data(a), rig_data(b), 50 * sizeof(float));
  crema_blob_destroy(b);
  crema_blob_destroy(a);
}

static void refuse(const Caffe__FillerParameter *filler, const char *shape, crema_status code,
                   const char *text) {
  crema_blob *blob = NULL;
  assert_int_equal(fill(filler, shape, &blob), code);
  if (strstr(crema_error_text(), text) == NULL) {
    print_error("'%s' lacks '%s'\n", crema_error_text(), text);
    fail();
  }
  crema_blob_destroy(blob);
}

TEST(test_refusals) {
  Caffe__FillerParameter f = filler_of("gausian");
  refuse(&f, "2 3", CREMA_E_UNKNOWN_NAME, "did you mean 'gaussian'");
  f = filler_of("bilinear");
  refuse(&f, "2 3 4 5", CREMA_E_SHAPE, "2 3 4 5");
  refuse(&f, "4 4", CREMA_E_SHAPE, "four axes");
  f = filler_of("gabor");
  refuse(&f, "64 3 5 5", CREMA_E_SHAPE, "32 x 3 x 5 x 5");
  refuse(&f, "32 1 5 5", CREMA_E_SHAPE, "32 1 5 5");
  f = filler_of("uniform");
  f.min = 2;
  refuse(&f, "2", CREMA_E_RANGE, "min 2 is above max 1");
  f = filler_of("xavier");
  f.sparse = 3;
  refuse(&f, "2 2", CREMA_E_ARGUMENT, "sparse");
  f = filler_of("gaussian");
  f.std = -1;
  refuse(&f, "2 2", CREMA_E_RANGE, "std");
  f = filler_of("gaussian");
  f.sparse = -2;
  refuse(&f, "2 2", CREMA_E_RANGE, "sparse");
  f.sparse = 3;
  refuse(&f, "2 2", CREMA_E_RANGE, "sparse 3");
}

/* A blob of doubles gets doubles, from the draws that give one of floats its values. */
TEST(test_doubles) {
  static const char *const types[] = {"constant", "uniform",           "gaussian", "xavier",
                                      "msra",     "positive_unitball", "bilinear"};
  crema_shape shape = cr_shape_4(2, 3, 5, 5);
  crema_context *context = NULL;
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
    Caffe__FillerParameter filler = filler_of(types[t]);
    crema_blob *floats = NULL, *doubles = NULL;
    const void *wide = NULL;
    int64_t more = 0;
    filler.value = 0.1f;
    filler.std = 0.3f;
    ok(fill(&filler, "2 3 5 5", &floats));
    ok(crema_blob_create_typed(&shape, CREMA_F64, CREMA_F64, &doubles));
    ok(crema_context_create(cr_cpu_device(), 4711, &context));
    ok(cr_fill(&filler, context, doubles));
    crema_context_destroy(context);
    assert_int_equal(cr_tensor_head(doubles->data).type, CREMA_F64);
    ok(crema_blob_data_as(doubles, CREMA_F64, &wide));
    for (int64_t i = 0; i < crema_blob_count(doubles); ++i) {
      double value = ((const double *)wide)[i];
      assert_close(value, (double)rig_data(floats)[i], 0x1p-22);
      more += (double)(float)value != value;
    }
    assert_int_equal(crema_blob_conversions(doubles), 0);
    if (t == 0) assert_int_equal(more, 0);
    else if (strcmp(types[t], "bilinear") != 0) assert_in_range(more, 140, 150);
    else assert_in_range(more, 20, 150);
    crema_blob_destroy(doubles);
    crema_blob_destroy(floats);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_constant),
      cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_gaussian),
      cmocka_unit_test(test_sparse_gaussian),
      cmocka_unit_test(test_positive_unitball),
      cmocka_unit_test(test_fans),
      cmocka_unit_test(test_bilinear),
      cmocka_unit_test(test_gabor),
      cmocka_unit_test(test_same_seed_same_values),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_doubles),
  };
  return run_each_of(tests, NULL, NULL);
}
