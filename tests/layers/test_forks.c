/* Layers of forks: values by their definition where no other implementation computes them. */
#include "comma_locale.h"
#include "folder.h"
#include "layers/layer_rig.h"

TEST(sequences_of_a_batch_start_in_the_first_row) {
  rig r;
  rig_make(&r, "ContinuationIndicator",
           "continuation_indicator_param { time_step: 4 batch_size: 3 }", CAFFE__PHASE__TRAIN, NULL,
           1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_int_equal(crema_blob_count(r.top[0]), 12);
  for (int i = 0; i < 12; ++i) assert_true(rig_data(r.top[0])[i] == (i < 3 ? 0 : 1));
  rig_free(&r);
}

/* Columns of sequences of 3 steps and the end, and of 1, 2 and 1 steps. */
static const double sequence_marks[] = {-3, -1, 1, -2, 1, 1, 0, -1};

static void set_sequence_marks(rig *r) {
  for (int i = 0; i < 8; ++i) rig_set(rig_data_of(r->bottom[0]), i, sequence_marks[i]);
}

TEST(marked_sequences_are_reversed) {
  /* Step t of column c is row 2 t + c: which row it becomes, -1 for a column that has ended. */
  static const int row[] = {4, 1, 2, 5, 0, 3, -1, 7};
  rig r;
  rig_make_of(&r, CREMA_F64, "Reverse", "", CAFFE__PHASE__TRAIN, "4 2|4 2 3", 1);
  ok(rig_setup(&r));
  set_sequence_marks(&r);
  for (int i = 0; i < 24; ++i) rig_set(rig_data_of(r.bottom[1]), i, i + 1);
  for (int i = 0; i < 24; ++i) rig_set(rig_diff_of(r.top[0]), i, i + 101);
  ok(rig_forward(&r));
  ok(rig_backward(&r));
  for (int i = 0; i < 24; ++i) {
    const int from = row[i / 3] < 0 ? -1 : row[i / 3] * 3 + i % 3;
    assert_true(rig_get(rig_data_of(r.top[0]), i) == (from < 0 ? 0 : from + 1));
    assert_true(rig_get(rig_diff_of(r.bottom[1]), i) == (from < 0 ? 0 : from + 101));
  }
  rig_free(&r);
}

TEST(marks_of_sequences_are_checked) {
  static const struct {
    int step;
    double mark;
    const char *message;
  } bad[] = {{0, -2, "step 0 of column 0 is -2, must be -3"},
             {0, 1, "is 1, must be -3"},
             {0, NAN, "must be -3"},
             {4, 0.5, "step 0 of column 0 is -3, must be -2"},
             {5, 2, "step 1 of column 1 is -2, must be -1"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    rig r;
    rig_make_of(&r, CREMA_F64, "Reverse", "", CAFFE__PHASE__TRAIN, "4 2|4 2", 1);
    ok(rig_setup(&r));
    set_sequence_marks(&r);
    rig_set(rig_data_of(r.bottom[0]), bad[i].step, bad[i].mark);
    assert_fails(rig_forward(&r), CREMA_E_RANGE, bad[i].message);
    rig_free(&r);
  }
}

/* Pass n has the factor of iteration n - 1. From max_iter on the factor is constant. */
TEST(the_factor_of_gradients_grows) {
  static const double progress[] = {0, 0, 0.25, 0.5, 1};
  static const uint64_t passes[] = {0, 1, 2, 3, 9};
  rig r;
  rig_make_of(&r, CREMA_F64, "GradientScaler",
              "gradient_scaler_param { lower_bound: 0.5 upper_bound: 2 alpha: 2 max_iter: 4 }",
              CAFFE__PHASE__TRAIN, "2 3", 1);
  ok(rig_setup(&r));
  for (int n = 0; n < 5; ++n) {
    const double factor = 0.5 + 2 * 1.5 / (1 + exp(-2 * progress[n])) - 1.5;
    r.layer->pass = passes[n];
    for (int64_t i = 0; i < 6; ++i) rig_set(rig_data_of(r.bottom[0]), i, (double)i);
    for (int64_t i = 0; i < 6; ++i) rig_set(rig_diff_of(r.top[0]), i, (double)(i - 2));
    ok(rig_forward(&r));
    ok(rig_backward(&r));
    for (int64_t i = 0; i < 6; ++i) {
      assert_true(rig_get(rig_data_of(r.top[0]), i) == (double)i);
      assert_true(fabs(rig_get(rig_diff_of(r.bottom[0]), i) + factor * (double)(i - 2)) < 1e-12);
    }
  }
  rig_free(&r);
}

/* Mean, deviation and largest size of the noise on values of root mean square 2. */
static void measure_noise(const char *body, double *mean, double *deviation, double *most) {
  double square = 0;
  rig r;
  rig_make_of(&r, CREMA_F64, "Noise", body, CAFFE__PHASE__TRAIN, "100 400", 1);
  ok(rig_setup(&r));
  rig_values x = rig_data_of(r.bottom[0]), y = rig_data_of(r.top[0]);
  for (int64_t i = 0; i < x.count; ++i) rig_set(x, i, i % 2 == 0 ? 2 : -2);
  ok(rig_forward(&r));
  *mean = *most = 0;
  for (int64_t i = 0; i < x.count; ++i) {
    const double added = rig_get(y, i) - rig_get(x, i);
    *mean += added / (double)x.count;
    square += added * added / (double)x.count;
    *most = fmax(*most, fabs(added));
  }
  *deviation = sqrt(square - *mean * *mean);
  rig_free(&r);
}

TEST(noise_has_its_mean_and_deviation) {
  double mean, deviation, most;
  measure_noise("noise_param { gaussian_std: 0.25 bias: 1 }", &mean, &deviation, &most);
  assert_true(fabs(mean - 1) < 0.02 && fabs(deviation - 0.5) < 0.01 && most > 2);
  measure_noise("noise_param { uniform_range: 0.75 bias: -0.25 }", &mean, &deviation, &most);
  assert_true(fabs(mean + 0.25) < 0.02 && fabs(deviation - 0.75 / sqrt(3)) < 0.01);
  assert_true(most <= 1 && most > 0.99);
}

/* Each pass draws other noise; a pass that is computed again draws the same. */
TEST(noise_depends_on_the_pass) {
  float first[50];
  int same = 0;
  rig r;
  rig_make(&r, "Noise", "noise_param { gaussian_std: 1 }", CAFFE__PHASE__TRAIN, "50", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < 50; ++i) rig_data(r.bottom[0])[i] = 1;
  ok(rig_forward(&r));
  memcpy(first, rig_data(r.top[0]), sizeof first);
  ok(rig_forward(&r));
  assert_memory_equal(first, rig_data(r.top[0]), sizeof first);
  ++r.layer->pass;
  ok(rig_forward(&r));
  for (int i = 0; i < 50; ++i) same += first[i] == rig_data(r.top[0])[i];
  assert_int_equal(same, 0);
  rig_free(&r);
}

/* Positions outside the image get NaN, or 0. */
TEST(a_flow_out_of_the_image_gives_the_fill_value) {
  for (int nan = 0; nan < 2; ++nan) {
    rig r;
    rig_make(&r, "FlowWarp", nan ? "flow_warp_param { fill_value: NOT_A_NUMBER }" : "",
             CAFFE__PHASE__TEST, "1 1 2 2|1 2 2 2", 1);
    ok(rig_setup(&r));
    for (int i = 0; i < 4; ++i) rig_data(r.bottom[0])[i] = (float)(i + 1);
    for (int i = 0; i < 8; ++i) rig_data(r.bottom[1])[i] = i < 4 ? 0.5f : 0;
    rig_data(r.bottom[1])[0] = -0.25f;
    rig_data(r.bottom[1])[7] = 1;
    ok(rig_forward(&r));
    const float *y = rig_data(r.top[0]);
    assert_true(nan ? isnan(y[0]) && isnan(y[3]) : y[0] == 0 && y[3] == 0);
    assert_true(y[1] == 2 && y[2] == 3.5f);
    rig_free(&r);
  }
}

/* The loss with weights from a file; *code is the status of its setup. */
static double loss_by_file(const char *text, crema_status *code) {
  char body[PATH_SIZE + 64];
  double loss = 0;
  rig r;
  write_text("weights", text);
  snprintf(body, sizeof body, "weighted_softmax_param { source: '%s' }", path_of("weights"));
  rig_make_of(&r, CREMA_F64, "WeightedSoftmaxWithLoss", body, CAFFE__PHASE__TRAIN, "2 3|2", 1);
  *code = rig_setup(&r);
  for (int i = 0; i < 6; ++i) rig_set(rig_data_of(r.bottom[0]), i, i == 4 ? log(2) : 0);
  for (int i = 0; i < 2; ++i) rig_set(rig_data_of(r.bottom[1]), i, i);
  if (*code == CREMA_OK) {
    ok(rig_forward(&r));
    loss = rig_get(rig_data_of(r.top[0]), 0);
  }
  rig_free(&r);
  unlink(path_of("weights"));
  return loss;
}

TEST(weights_of_classes_are_in_a_file) {
  crema_status code;
  const double loss = loss_by_file("3\n0.5, 1e0\n", &code);
  assert_int_equal(code, CREMA_OK);
  assert_true(fabs(loss - (3 * log(3) + 0.5 * log(2)) / 2) < 1e-12);
  (void)loss_by_file("3 0.5", &code);
  assert_int_equal(code, CREMA_E_SHAPE);
  assert_error_has("2 weights for 3 classes");
  (void)loss_by_file("3 half 1", &code);
  assert_int_equal(code, CREMA_E_PARSE);
  assert_error_has("'half 1' does not begin with a number");
  (void)loss_by_file("", &code);
  assert_int_equal(code, CREMA_E_SHAPE);
}

/* Weights have a point, whatever the program's locale. */
TEST(weights_of_classes_do_not_depend_on_the_locale) {
  crema_status code;
  if (!comma_locale_begin()) skip(); /* no such locale is installed */
  const double loss = loss_by_file("3\n0.5, 1e0\n", &code);
  setlocale(LC_ALL, "C");
  assert_int_equal(code, CREMA_OK);
  assert_true(fabs(loss - (3 * log(3) + 0.5 * log(2)) / 2) < 1e-12);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
