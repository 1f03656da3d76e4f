/* Normalize without a scale, as NormFace has it: options that finite differences do not show. */
#include "layers/layer_rig.h"

enum { SAMPLES = 2, CHANNELS = 3, EACH = 4, COUNT = SAMPLES * CHANNELS * EACH };

static void make(rig *r, const char *body, int tops) {
  uint32_t random = 51;
  rig_make_of(r, CREMA_F64, "Normalize", body, CAFFE__PHASE__TRAIN, "2 3 2 2", tops);
  ok(rig_setup(r));
  for (int i = 0; i < COUNT; ++i) {
    rig_set(rig_data_of(r->bottom[0]), i, (rig_random(&random) % 1000) / 400.0 - 1);
  }
  ok(rig_forward(r));
  for (int t = 0; t < tops; ++t) {
    const rig_values diff = rig_diff_of(r->top[t]);
    for (int64_t i = 0; i < diff.count; ++i) rig_set(diff, i, 1 + 0.25 * (double)(i % 5));
  }
  ok(rig_backward(r));
}

/* The norms of positions are the second top; the bottom is the top times them. */
TEST(the_second_top_has_the_norms) {
  static const char *const types[] = {"L1", "L2"};
  for (int k = 0; k < 2; ++k) {
    char body[100];
    rig r;
    snprintf(body, sizeof body, "normalize_param { normalize_type: '%s' }", types[k]);
    make(&r, body, 2);
    assert_int_equal(r.layer->params, 0);
    assert_int_equal(r.top[1]->shape.axes, 4);
    assert_int_equal(r.top[1]->shape.dim[1], 1);
    for (int i = 0; i < SAMPLES * EACH; ++i) {
      double sum = 0;
      const double norm = rig_get(rig_data_of(r.top[1]), i);
      for (int c = 0; c < CHANNELS; ++c) {
        const int at = (i / EACH * CHANNELS + c) * EACH + i % EACH;
        const double x = rig_get(rig_data_of(r.bottom[0]), at);
        sum += k == 0 ? fabs(x) : x * x;
        assert_true(fabs(rig_get(rig_data_of(r.top[0]), at) * norm - x) < 1e-12);
      }
      assert_true(fabs(norm - (k == 0 ? sum + 1e-6 : sqrt(sum + 1e-12))) < 1e-12);
    }
    rig_free(&r);
  }
}

/* fix_gradient leaves the division by the norm out, and without bp_norm the norms have no
 * gradient. */
TEST(options_of_the_gradient) {
  rig plain, fixed, alone, both;
  make(&plain, "normalize_param { }", 2);
  make(&fixed, "normalize_param { fix_gradient: true }", 2);
  make(&alone, "normalize_param { bp_norm: true }", 1);
  make(&both, "normalize_param { bp_norm: true }", 2);
  for (int i = 0; i < COUNT; ++i) {
    const int position = i / CHANNELS / EACH * EACH + i % EACH;
    const double diff = rig_get(rig_diff_of(plain.bottom[0]), i);
    const double norm = rig_get(rig_data_of(plain.top[1]), position);
    const double y = rig_get(rig_data_of(plain.top[0]), i);
    const double of_norm = 1 + 0.25 * (double)(position % 5);
    assert_true(fabs(rig_get(rig_diff_of(fixed.bottom[0]), i) - diff * norm) < 1e-12);
    assert_true(fabs(rig_get(rig_diff_of(alone.bottom[0]), i) - diff) < 1e-12);
    assert_true(fabs(rig_get(rig_diff_of(both.bottom[0]), i) - diff - y * of_norm) < 1e-12);
  }
  rig_free(&plain);
  rig_free(&fixed);
  rig_free(&alone);
  rig_free(&both);
}

/* A vector of zeros stays one. */
TEST(zeros_have_no_direction) {
  rig r;
  rig_make(&r, "Normalize", "normalize_param { }", CAFFE__PHASE__TRAIN, "1 3", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < 3; ++i) rig_data(r.bottom[0])[i] = 0;
  ok(rig_forward(&r));
  for (int i = 0; i < 3; ++i) assert_true(rig_data(r.top[0])[i] == 0);
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
