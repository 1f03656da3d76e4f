/* What layer classes declare of their mathematics in phase TEST (layers/common/layer.h): how far
 * values reach, and what becomes of signs, scales and values as they are. */
#include "layers/layer_table.h"

static void make_for_test(rig *r, const layer_row *row) {
  layer_row test = *row;
  uint32_t random = 123459876u;
  test.phase = CAFFE__PHASE__TEST;
  make(r, &test, false, &random);
}

static bool has_numbers(const layer_row *row) {
  return !has_flag(row, 'S') && row->values[0] != '\0' &&
         strspn(row->values, "npc") == strlen(row->values);
}

/* Copies of all tops, one behind the other; to be freed. */
static float *run(rig *r) {
  int64_t count = 0;
  ok(rig_forward(r));
  for (int t = 0; t < r->tops; ++t) count += crema_blob_count(r->top[t]);
  float *out = malloc(((size_t)count + 1) * sizeof *out), *at = out;
  assert_non_null(out);
  for (int t = 0; t < r->tops; ++t) {
    memcpy(at, rig_data(r->top[t]), (size_t)crema_blob_count(r->top[t]) * sizeof *at);
    at += crema_blob_count(r->top[t]);
  }
  return out;
}

/* Whether a value is of sample 0 or, with `position`, at position 0 of any sample. */
static bool is_first(const crema_shape *shape, int64_t i, bool position) {
  if (!position) return i < crema_shape_count(shape, 1, shape->axes);
  return i % crema_shape_count(shape, 2, shape->axes) == 0;
}

/* Returns how many values had to stay, and did. */
static int64_t check_reach(const layer_row *row, bool position) {
  int64_t stayed = 0;
  rig r;
  make_for_test(&r, row);
  float *before = run(&r);
  for (int j = 0; j < r.bottoms; ++j) {
    float *value = rig_data(r.bottom[j]);
    for (int64_t i = 0; i < crema_blob_count(r.bottom[j]); ++i) {
      if (is_first(&r.bottom[j]->shape, i, position)) value[i] = 0.9f - 0.7f * value[i];
    }
  }
  float *after = run(&r);
  const float *a = before, *b = after;
  for (int t = 0; t < r.tops; ++t) {
    for (int64_t i = 0; i < crema_blob_count(r.top[t]); ++i, ++a, ++b) {
      if (is_first(&r.top[t]->shape, i, position)) continue;
      if (fabsf(*a - *b) > 1e-6f * (1 + fabsf(*a))) {
        fail_msg("%s %s: value %lld of top %d was %g, is %g", row->type, row->body, (long long)i, t,
                 (double)*a, (double)*b);
      }
      ++stayed;
    }
  }
  free(after);
  free(before);
  rig_free(&r);
  return stayed;
}

static cr_layer_reach reach_of(const layer_row *row) {
  rig r;
  make_for_test(&r, row);
  const cr_layer_class *kind = r.layer->kind;
  const cr_layer_reach reach =
      kind->fusion.reach == NULL ? CR_REACHES_ANY : kind->fusion.reach(r.param, r.bottoms);
  rig_free(&r);
  return reach;
}

static bool has_positions(const layer_row *row) {
  crema_shape shape;
  (void)rig_read_shape(row->shapes, &shape);
  return shape.axes > 2;
}

TEST(values_reach_no_farther_than_classes_say) {
  int64_t samples = 0, positions = 0;
  for (size_t k = 0; k < ROWS; ++k) {
    if (!has_numbers(&rows[k])) continue;
    const cr_layer_reach reach = reach_of(&rows[k]);
    if (reach >= CR_REACHES_SAMPLE) samples += check_reach(&rows[k], false);
    if (reach >= CR_REACHES_POSITION && has_positions(&rows[k])) {
      positions += check_reach(&rows[k], true);
    }
  }
  assert_true(samples > 1000 && positions > 100);
}

TEST(axes_of_samples_are_seen) {
  static const struct {
    const char *type, *body;
    int bottoms;
    cr_layer_reach reach;
  } cases[] = {
      {"Softmax", "", 1, CR_REACHES_SAMPLE},
      {"Softmax", "softmax_param { axis: 0 }", 1, CR_REACHES_ANY},
      {"Softmax", "softmax_param { axis: -1 }", 1, CR_REACHES_ANY},
      {"Flatten", "flatten_param { axis: 0 }", 1, CR_REACHES_ANY},
      {"Flatten", "", 1, CR_REACHES_SAMPLE},
      {"Concat", "concat_param { axis: 0 }", 2, CR_REACHES_ANY},
      {"Concat", "concat_param { concat_dim: 0 }", 2, CR_REACHES_ANY},
      {"Concat", "concat_param { concat_dim: 1 }", 2, CR_REACHES_SAMPLE},
      {"Slice", "slice_param { slice_dim: 0 }", 1, CR_REACHES_ANY},
      {"Slice", "slice_param { axis: 2 }", 1, CR_REACHES_SAMPLE},
      {"Scale", "scale_param { axis: 0 }", 1, CR_REACHES_ANY},
      {"Scale", "", 1, CR_REACHES_SAMPLE},
      {"Scale", "", 2, CR_REACHES_ANY},
      {"Bias", "bias_param { axis: 0 }", 1, CR_REACHES_ANY},
      {"Bias", "", 2, CR_REACHES_ANY},
      {"BatchNorm", "", 1, CR_REACHES_SAMPLE},
      {"BatchNorm", "batch_norm_param { use_global_stats: false }", 1, CR_REACHES_ANY},
      {"InnerProduct", "inner_product_param { num_output: 1 axis: 0 }", 1, CR_REACHES_ANY},
      {"InnerProduct", "inner_product_param { num_output: 1 }", 1, CR_REACHES_SAMPLE},
      {"Convolution", "convolution_param { num_output: 1 axis: 0 }", 1, CR_REACHES_ANY},
      {"Deconvolution", "convolution_param { num_output: 1 }", 1, CR_REACHES_SAMPLE},
      {"ReLU", "", 1, CR_REACHES_POSITION},
      {"Eltwise", "", 2, CR_REACHES_POSITION},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    rig r;
    rig_make(&r, cases[i].type, cases[i].body, CAFFE__PHASE__TEST, NULL, 1);
    if (r.layer->kind->fusion.reach(r.param, cases[i].bottoms) != cases[i].reach) {
      fail_msg("%s %s with %d bottoms", cases[i].type, cases[i].body, cases[i].bottoms);
    }
    rig_free(&r);
  }
}

/* Makes the layer of each row; returns for how many `check` knew what to look at. */
static int check_rows(bool (*check)(const layer_row *row, rig *r)) {
  int seen = 0;
  for (size_t k = 0; k < ROWS; ++k) {
    rig r;
    if (!has_numbers(&rows[k])) continue;
    make_for_test(&r, &rows[k]);
    seen += check(&rows[k], &r);
    rig_free(&r);
  }
  return seen;
}

static bool hands_on(const layer_row *row, rig *r) {
  if (!r->layer->kind->fusion.noop_in_test) return false;
  ok(rig_forward(r));
  const size_t bytes = (size_t)crema_blob_count(r->top[0]) * sizeof(float);
  if (memcmp(rig_data(r->top[0]), rig_data(r->bottom[0]), bytes) != 0) {
    fail_msg("%s %s", row->type, row->body);
  }
  return true;
}

TEST(layers_for_training_hand_values_on) {
  assert_true(check_rows(hands_on) >= 3);
}

/* The largest magnitude of a blob; with `positive`, its values become these magnitudes. */
static float largest(crema_blob *blob, bool positive) {
  float *value = rig_data(blob), most = 0;
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) {
    if (positive) value[i] = fabsf(value[i]);
    most = fmaxf(most, fabsf(value[i]));
  }
  return most;
}

static bool keeps_positive(const layer_row *row, rig *r) {
  if (!r->layer->kind->int8.keeps_positive) return false;
  for (int j = 0; j < r->bottoms; ++j) (void)largest(r->bottom[j], true);
  ok(rig_forward(r));
  for (int64_t i = 0; i < crema_blob_count(r->top[0]); ++i) {
    if (!(rig_data(r->top[0])[i] >= 0)) fail_msg("%s %s", row->type, row->body);
  }
  return true;
}

TEST(what_cannot_be_below_0_stays_so) {
  assert_true(check_rows(keeps_positive) >= 4);
}

/* Twice the bottoms make twice the tops, none of which is larger than all bottoms. */
static bool carries_integers(const layer_row *row, rig *r) {
  const cr_layer_class *kind = r->layer->kind;
  float most = 0;
  if (kind->int8.carries_integers == NULL) return false;
  if (!kind->int8.carries_integers(r->layer, crema_blob_shape(r->top[0]))) return false;
  float *once = run(r);
  for (int j = 0; j < r->bottoms; ++j) {
    float *value = rig_data(r->bottom[j]);
    most = fmaxf(most, largest(r->bottom[j], false));
    for (int64_t i = 0; i < crema_blob_count(r->bottom[j]); ++i) value[i] *= 2;
  }
  float *twice = run(r);
  for (int64_t i = 0; i < crema_blob_count(r->top[0]); ++i) {
    if (twice[i] != 2 * once[i] || fabsf(once[i]) > most) {
      fail_msg("%s %s: %g, then %g", row->type, row->body, (double)once[i], (double)twice[i]);
    }
  }
  free(twice);
  free(once);
  return true;
}

TEST(integers_of_any_scale_are_carried) {
  assert_true(check_rows(carries_integers) >= 3);
}

/* An average of a whole plane has finer steps than its values. */
TEST(poolings_that_carry_integers) {
  static const struct {
    const char *body;
    int tops;
    bool carries;
  } cases[] = {{"pool: MAX kernel_size: 2", 1, true},        {"pool: MAX kernel_size: 2", 2, false},
               {"pool: MAX global_pooling: true", 1, true},  {"pool: AVE kernel_size: 2", 1, true},
               {"pool: AVE global_pooling: true", 1, false}, {"pool: AVE kernel_size: 4", 1, false},
               {"pool: STOCHASTIC kernel_size: 2", 1, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    char body[100];
    rig r;
    snprintf(body, sizeof body, "pooling_param { %s }", cases[i].body);
    rig_make(&r, "Pooling", body, CAFFE__PHASE__TEST, "1 2 4 4", cases[i].tops);
    ok(rig_setup(&r));
    if (r.layer->kind->int8.carries_integers(r.layer, crema_blob_shape(r.top[0])) !=
        cases[i].carries) {
      fail_msg("%s with %d tops", body, cases[i].tops);
    }
    rig_free(&r);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
