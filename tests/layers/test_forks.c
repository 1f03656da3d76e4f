/* Layers of forks that no other implementation computes: their values by their definition. */
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

/* The factor of pass n is that of iteration n - 1; from max_iter on it is constant. */
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

int main(void) {
  return run_all_tests(NULL, NULL);
}
