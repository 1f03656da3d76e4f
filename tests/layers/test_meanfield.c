/* MultiStageMeanfield against its formula in double, with the lattices' sums as matrices, and
 * against DenseCRF. */
#include "layers/dense_crf/lattice.h"
#include "layers/layer_rig.h"

enum { SAMPLES = 2, CLASSES = 3, HEIGHT = 6, WIDTH = 7, PLANE = HEIGHT * WIDTH, STEPS = 3 };
enum { VALUES = SAMPLES * CLASSES * PLANE };

static const char fields[] =
    "multi_stage_meanfield_param { num_iterations: 3 theta_alpha: 4 theta_beta: 0.5 theta_gamma: "
    "1.5 }";

static void fill(rig_values v, uint32_t *random) {
  for (int64_t i = 0; i < v.count; ++i) rig_set(v, i, (rig_random(random) % 1000) / 400.0 - 1);
}

static void make(rig *r, crema_dtype type, const char *body, const char *shapes) {
  uint32_t random = 31;
  rig_make_of(r, type, "MultiStageMeanfield", body, CAFFE__PHASE__TRAIN, shapes, 1);
  ok(rig_setup(r));
  for (int i = 0; i < 3; ++i) fill(rig_data_of(r->bottom[i]), &random);
}

/* matrix[i][j]: the weight of pixel j's value in the mean of pixel i, by a lattice. */
static void means_of(rig *r, int sample, bool colours, double (*matrix)[PLANE]) {
  static float feature[PLANE * 5];
  static double unit[PLANE], column[PLANE], sum[PLANE], ones[PLANE];
  const rig_values image = rig_data_of(r->bottom[2]);
  cr_lattice lattice = {0};
  float *to = feature;
  for (int i = 0; i < PLANE; ++i) {
    const float place = colours ? 4 : 1.5F;
    *to++ = (float)(i % WIDTH) / place;
    *to++ = (float)(i / WIDTH) / place;
    for (int c = 0; c < 3 && colours; ++c) {
      *to++ = (float)(rig_get(image, (sample * 3 + c) * PLANE + i) / 0.5);
    }
    ones[i] = 1;
  }
  ok(cr_lattice_make(&lattice, feature, PLANE, colours ? 5 : 2, 0, 1));
  ok(cr_lattice_filter_wide(&lattice, ones, 1, 1, false, sum));
  for (int j = 0; j < PLANE; ++j) {
    for (int i = 0; i < PLANE; ++i) unit[i] = i == j;
    ok(cr_lattice_filter_wide(&lattice, unit, 1, 1, false, column));
    for (int i = 0; i < PLANE; ++i) matrix[i][j] = column[i] / sum[i];
  }
  cr_lattice_free(&lattice);
}

static void softmax(double (*x)[PLANE], int pixel) {
  double sum = 0;
  for (int c = 0; c < CLASSES; ++c) sum += exp(x[c][pixel]);
  for (int c = 0; c < CLASSES; ++c) x[c][pixel] = exp(x[c][pixel]) / sum;
}

/* message += weights * matrix * p. */
static void send(const rig_values weights, double (*matrix)[PLANE], double (*p)[PLANE],
                 double (*message)[PLANE]) {
  for (int i = 0; i < PLANE; ++i) {
    for (int m = 0; m < CLASSES; ++m) {
      double mean = 0;
      for (int j = 0; j < PLANE; ++j) mean += matrix[i][j] * p[m][j];
      for (int c = 0; c < CLASSES; ++c) {
        message[c][i] += rig_get(weights, c * CLASSES + m) * mean;
      }
    }
  }
}

static void expect(rig *r, int sample, double (*x)[PLANE]) {
  static double matrix[2][PLANE][PLANE], message[CLASSES][PLANE];
  const rig_values scores = rig_data_of(r->bottom[0]), start = rig_data_of(r->bottom[1]);
  const rig_values mix = rig_data_of(r->layer->blob[2]);
  const int first = sample * CLASSES * PLANE;
  for (int k = 0; k < 2; ++k) means_of(r, sample, k == 1, matrix[k]);
  for (int i = 0; i < CLASSES * PLANE; ++i) x[i / PLANE][i % PLANE] = rig_get(start, first + i);
  for (int step = 0; step < STEPS; ++step) {
    memset(message, 0, sizeof message);
    for (int i = 0; i < PLANE; ++i) softmax(x, i);
    for (int k = 0; k < 2; ++k) send(rig_data_of(r->layer->blob[k]), matrix[k], x, message);
    for (int i = 0; i < CLASSES * PLANE; ++i) {
      const int c = i / PLANE, pixel = i % PLANE;
      x[c][pixel] = rig_get(scores, first + i);
      for (int m = 0; m < CLASSES; ++m) {
        x[c][pixel] -= rig_get(mix, c * CLASSES + m) * message[m][pixel];
      }
    }
  }
}

static void check(crema_dtype type, double tolerance) {
  static double x[CLASSES][PLANE];
  uint32_t random = 32;
  rig r;
  make(&r, type, fields, "2 3 6 7|2 3 6 7|2 3 6 7");
  for (int p = 0; p < 3; ++p) fill(rig_data_of(r.layer->blob[p]), &random);
  ok(rig_forward(&r));
  for (int n = 0; n < SAMPLES; ++n) {
    expect(&r, n, x);
    for (int i = 0; i < CLASSES * PLANE; ++i) {
      const double found = rig_get(rig_data_of(r.top[0]), n * CLASSES * PLANE + i);
      const double wanted = x[i / PLANE][i % PLANE];
      if (fabs(found - wanted) <= tolerance) continue;
      fail_msg("%s: sample %d, value %d is %.12g, by matrices %.12g", crema_dtype_name(type), n, i,
               found, wanted);
    }
  }
  rig_free(&r);
}

TEST(scores_by_matrices) {
  check(CREMA_F64, 1e-12);
  check(CREMA_F32, 1e-4); /* three steps whose weights add up to about 10 enlarge the roundings */
}

/* With diagonal weights, the probabilities are DenseCRF's, which other tests compare with
 * pydensecrf2. */
TEST(equal_weights_give_the_labels_of_dense_crf) {
  rig r[2];
  make(
      &r[0], CREMA_F32,
      "multi_stage_meanfield_param { num_iterations: 4 theta_alpha: 5 theta_beta: 0.7 theta_gamma: "
      "2 spatial_filter_weight: 3 bilateral_filter_weight: 4 }",
      "1 3 6 7|1 3 6 7|1 3 6 7");
  rig_make(&r[1], "DenseCRF",
           "dense_crf_param { max_iter: 4 pos_w: 3 pos_xy_std: 2 bi_w: 4 bi_xy_std: 5 bi_rgb_std: "
           "0.7 }",
           CAFFE__PHASE__TEST, "1 3 6 7|1 2|1 3 6 7", 1);
  ok(rig_setup(&r[1]));
  const size_t bytes = CLASSES * PLANE * sizeof(float);
  memcpy(rig_data(r[0].bottom[1]), rig_data(r[0].bottom[0]), bytes);
  memcpy(rig_data(r[1].bottom[0]), rig_data(r[0].bottom[0]), bytes);
  memcpy(rig_data(r[1].bottom[2]), rig_data(r[0].bottom[2]), bytes);
  rig_data(r[1].bottom[1])[0] = HEIGHT;
  rig_data(r[1].bottom[1])[1] = WIDTH;
  for (int i = 0; i < 2; ++i) ok(rig_forward(&r[i]));
  const float *x = rig_data(r[0].top[0]), *p = rig_data(r[1].top[0]);
  for (int i = 0; i < PLANE; ++i) {
    double sum = 0;
    for (int c = 0; c < CLASSES; ++c) sum += exp((double)x[c * PLANE + i]);
    for (int c = 0; c < CLASSES; ++c) {
      const double found = exp((double)x[c * PLANE + i]) / sum;
      assert_true(fabs(found - (double)p[c * PLANE + i]) < 1e-5); /* both filter floats */
    }
  }
  for (int i = 0; i < 2; ++i) rig_free(&r[i]);
}

static void check_diagonal(const rig *r, int param, const double *wanted) {
  const rig_values v = rig_data_of(r->layer->blob[param]);
  assert_int_equal(v.count, CLASSES * CLASSES);
  for (int i = 0; i < CLASSES * CLASSES; ++i) {
    assert_true(rig_get(v, i) == (i % (CLASSES + 1) == 0 ? wanted[i / CLASSES] : 0));
  }
}

TEST(initial_weights) {
  static const double ones[] = {1, 1, 1}, listed[] = {3, -0.5, 20}, fives[] = {5, 5, 5},
                      potts[] = {-1, -1, -1};
  rig r;
  make(&r, CREMA_F32, fields, "1 3 2 2|1 3 2 2|1 3 2 2");
  check_diagonal(&r, 0, ones);
  check_diagonal(&r, 1, ones);
  check_diagonal(&r, 2, potts);
  rig_free(&r);
  make(&r, CREMA_F32,
       "multi_stage_meanfield_param { num_iterations: 2 spatial_filter_weights_str: '3 -0.5 2e1 7' "
       "bilateral_filter_weight: 5 bilateral_filter_weights_str: '' force_cpu: true }",
       "1 3 2 2|1 3 2 2|1 3 2 2");
  check_diagonal(&r, 0, listed);
  check_diagonal(&r, 1, fives);
  rig_free(&r);
}

/* Pixels of several bands, and an image whose next size needs another spatial kernel. */
TEST(sizes_change_between_passes) {
  static const char *const shapes[] = {"1 3 6 7", "1 3 200 90", "1 3 7 6"};
  rig r;
  make(&r, CREMA_F32, fields, "1 3 6 7|1 3 6 7|1 3 6 7");
  for (int n = 0; n < 3; ++n) {
    crema_shape shape;
    rig other;
    char text[100];
    uint32_t random = 33;
    rig_read_shape(shapes[n], &shape);
    for (int i = 0; i < 3; ++i) {
      ok(crema_blob_reshape(r.bottom[i], &shape));
      fill(rig_data_of(r.bottom[i]), &random);
    }
    ok(r.layer->kind->reshape(r.layer, r.bottom, r.top));
    ok(rig_forward(&r));
    snprintf(text, sizeof text, "%s|%s|%s", shapes[n], shapes[n], shapes[n]);
    make(&other, CREMA_F32, fields, text);
    random = 33;
    for (int i = 0; i < 3; ++i) fill(rig_data_of(other.bottom[i]), &random);
    ok(rig_forward(&other));
    assert_memory_equal(rig_data(r.top[0]), rig_data(other.top[0]),
                        (size_t)crema_blob_count(r.top[0]) * sizeof(float));
    rig_free(&other);
  }
  rig_free(&r);
}

TEST(an_image_that_makes_no_sense_is_refused) {
  rig r;
  make(&r, CREMA_F32, fields, "1 3 2 2|1 3 2 2|1 3 2 2");
  rig_data(r.bottom[2])[1] = NAN;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("layer 'op' (MultiStageMeanfield)");
  assert_error_has("point 1 has feature");
  rig_data(r.bottom[2])[1] = 0;
  ok(rig_forward(&r));
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
