/* CTCLoss against all paths, and the decoders against sequences that are known. */
#include "layers/layer_rig.h"

enum { STEPS = 5, SEQUENCES = 3, CLASSES = 3, LABELS = 3 };

/* Which paths count: those that start after `delay` steps, with or without merged repetitions. */
static struct {
  int delay;
  bool split;
} rule;

static const double labels_of[SEQUENCES][LABELS] = {{1, 2, 0}, {2, 2, 0}, {1, 2, 1}};

static double score(int t, int n, int c) {
  return sin(7.0 * t + 3.0 * n + 1.3 * c) * 1.5;
}

static void fill_scores(rig *r) {
  for (int t = 0; t < STEPS; ++t) {
    for (int n = 0; n < SEQUENCES; ++n) {
      for (int c = 0; c < CLASSES; ++c) {
        rig_set(rig_data_of(r->bottom[0]), (t * SEQUENCES + n) * CLASSES + c, score(t, n, c));
      }
    }
  }
}

/* The path with this number, blank 0, becomes `label`, which ends before 0. */
static bool becomes(const int *path, int steps, const double *label) {
  int at = 0, last = 0;
  for (int t = rule.delay; t < steps; ++t) {
    if (path[t] != 0 && (rule.split || path[t] != last)) {
      if (at == LABELS || path[t] != (int)label[at]) return false;
      ++at;
    }
    last = path[t];
  }
  return at == LABELS || label[at] == 0;
}

/* The probability of all paths that become the labels; of those with class `c` in step `where`. */
static double chance(int n, int steps, const double *label, int where, int c) {
  int paths = 1, path[STEPS];
  double sum = 0;
  for (int t = 0; t < steps; ++t) paths *= CLASSES;
  for (int k = 0; k < paths; ++k) {
    double product = 1;
    for (int t = 0, rest = k; t < steps; ++t, rest /= CLASSES) {
      double all = 0;
      path[t] = rest % CLASSES;
      for (int i = 0; i < CLASSES; ++i) all += exp(score(t, n, i));
      if (t >= rule.delay) product *= exp(score(t, n, path[t])) / all;
      else if (path[t] != 0) product = 0; /* one path stands for all */
    }
    if (becomes(path, steps, label) && (where < 0 || path[where] == c)) sum += product;
  }
  return sum;
}

static void check(rig *r, const int steps[SEQUENCES]) {
  double loss = 0;
  fill_scores(r);
  ok(rig_forward(r));
  for (int n = 0; n < SEQUENCES; ++n) {
    loss -= log(chance(n, steps[n], labels_of[n], -1, 0)) / SEQUENCES;
  }
  assert_true(fabs(rig_get(rig_data_of(r->top[0]), 0) - loss) < 1e-12 * loss);
  rig_set(rig_diff_of(r->top[0]), 0, 2);
  ok(rig_backward(r));
  for (int i = 0; i < STEPS * SEQUENCES * CLASSES; ++i) {
    const int t = i / CLASSES / SEQUENCES, n = i / CLASSES % SEQUENCES, c = i % CLASSES;
    double all = 0, wanted = 0;
    for (int k = 0; k < CLASSES; ++k) all += exp(score(t, n, k));
    if (t >= rule.delay && t < steps[n]) {
      wanted = exp(score(t, n, c)) / all -
               chance(n, steps[n], labels_of[n], t, c) / chance(n, steps[n], labels_of[n], -1, 0);
    }
    assert_true(fabs(rig_get(rig_diff_of(r->bottom[0]), i) - 2 * wanted / SEQUENCES) < 1e-12);
  }
}

TEST(losses_of_all_paths) {
  rig r;
  rig_make_of(&r, CREMA_F64, "CTCLoss", "", CAFFE__PHASE__TRAIN, "5 3 3|3 3", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < SEQUENCES * LABELS; ++i) {
    rig_set(rig_data_of(r.bottom[1]), i, labels_of[i / LABELS][i % LABELS]);
  }
  check(&r, (const int[]){5, 5, 5});
  rig_free(&r);
}

/* A path starts late, and labels that are not merged have one step each. */
TEST(losses_of_other_paths) {
  static const char *const bodies[] = {"output_delay: 1", "ctc_merge_repeated: false",
                                       "output_delay: 2 ctc_merge_repeated: false"};
  for (int k = 0; k < 3; ++k) {
    char body[128];
    rig r;
    snprintf(body, sizeof body, "ctc_loss_param { %s }", bodies[k]);
    rule.delay = k == 1 ? 0 : k == 0 ? 1 : 2;
    rule.split = k > 0;
    rig_make_of(&r, CREMA_F64, "CTCLoss", body, CAFFE__PHASE__TRAIN, "5 3 3|3 3", 1);
    ok(rig_setup(&r));
    for (int i = 0; i < SEQUENCES * LABELS; ++i) {
      rig_set(rig_data_of(r.bottom[1]), i, labels_of[i / LABELS][i % LABELS]);
    }
    check(&r, (const int[]){5, 5, 5});
    rig_free(&r);
  }
  rule.delay = 0;
  rule.split = false;
}

/* A delay as long as the sequence leaves no path. */
TEST(a_delay_may_leave_no_path) {
  rig r;
  rig_make_of(&r, CREMA_F64, "CTCLoss", "ctc_loss_param { output_delay: 7 }", CAFFE__PHASE__TRAIN,
              "5 3 3|3 3", 1);
  ok(rig_setup(&r));
  fill_scores(&r);
  for (int i = 0; i < SEQUENCES * LABELS; ++i) rig_set(rig_data_of(r.bottom[1]), i, 1);
  ok(rig_forward(&r));
  assert_true(rig_get(rig_data_of(r.top[0]), 0) == 0);
  rig_free(&r);
}

/* Scores (N, C, T), or probabilities (C, N, 1, T), cost what scores (T, N, C) do. */
TEST(axes_may_have_any_order) {
  static const char *const bodies[] = {
      "ctc_param { blank_index: 0 }",
      "ctc_param { blank_index: 0 already_softmax: true nct_axis: 1 nct_axis: 0 }"};
  double wanted = 0;
  for (int n = 0; n < SEQUENCES; ++n) {
    wanted -= log(chance(n, STEPS, labels_of[n], -1, 0)) / SEQUENCES;
  }
  for (int k = 0; k < 2; ++k) {
    rig r;
    rig_make_of(&r, CREMA_F64, "CTCLoss", bodies[k], CAFFE__PHASE__TRAIN,
                k == 0 ? "3 3 5|3 3" : "3 3 1 5|3 3", 1);
    ok(rig_setup(&r));
    for (int i = 0; i < STEPS * SEQUENCES * CLASSES; ++i) {
      const int t = i % STEPS, major = i / STEPS / 3, minor = i / STEPS % 3;
      const int n = k == 0 ? major : minor, c = k == 0 ? minor : major;
      double all = 0;
      for (int j = 0; j < CLASSES; ++j) all += exp(score(t, n, j));
      rig_set(rig_data_of(r.bottom[0]), i, k == 0 ? score(t, n, c) : exp(score(t, n, c)) / all);
    }
    for (int i = 0; i < SEQUENCES * LABELS; ++i) {
      const int n = k == 0 ? i / LABELS : i % SEQUENCES, at = k == 0 ? i % LABELS : i / SEQUENCES;
      rig_set(rig_data_of(r.bottom[1]), i, labels_of[n][at] == 0 ? -1 : labels_of[n][at]);
    }
    ok(rig_forward(&r));
    assert_true(fabs(rig_get(rig_data_of(r.top[0]), 0) - wanted) < 1e-12 * wanted);
    rig_free(&r);
  }
}

/* With indicators: sequence 1 has 3 steps, and labels end with -1. */
TEST(losses_of_sequences_that_end) {
  rig r;
  rig_make_of(&r, CREMA_F64, "CTCLoss", "ctc_loss_param { blank_index: 0 }", CAFFE__PHASE__TRAIN,
              "5 3 3|5 3|3 3", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < STEPS * SEQUENCES; ++i) {
    rig_set(rig_data_of(r.bottom[1]), i, i >= SEQUENCES && !(i % 3 == 1 && i / 3 == 3));
  }
  for (int i = 0; i < SEQUENCES * LABELS; ++i) {
    const double label = labels_of[i % SEQUENCES][i / SEQUENCES];
    rig_set(rig_data_of(r.bottom[2]), i, label == 0 ? -1 : label);
  }
  check(&r, (const int[]){5, 3, 5});
  rig_free(&r);
}

/* No path of 2 steps has the labels 2 2: the loss and its gradient are 0. */
TEST(sequences_too_short_cost_nothing) {
  rig r;
  rig_make_of(&r, CREMA_F32, "CTCLoss", "", CAFFE__PHASE__TRAIN, "2 1 3|1 2", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < 2; ++i) rig_set(rig_data_of(r.bottom[1]), i, 2);
  for (int i = 0; i < 6; ++i) rig_set(rig_data_of(r.bottom[0]), i, i);
  ok(rig_forward(&r));
  assert_true(rig_get(rig_data_of(r.top[0]), 0) == 0);
  rig_set(rig_diff_of(r.top[0]), 0, 1);
  ok(rig_backward(&r));
  for (int i = 0; i < 6; ++i) assert_true(rig_get(rig_diff_of(r.bottom[0]), i) == 0);
  rig_set(rig_data_of(r.bottom[1]), 0, 3);
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("label 3 of sequence 0 is outside 0..2");
  rig_free(&r);
}

/* Scores whose best class in step t of sequence n is path[n][t]; `by_sequence`: (N, T, C). */
static void fill_paths(rig *r, const int path[2][6], bool by_sequence) {
  for (int i = 0; i < 2 * 6 * 4; ++i) {
    const int row = i / 4, n = by_sequence ? row / 6 : row % 2, t = by_sequence ? row % 6 : row / 2;
    rig_set(rig_data_of(r->bottom[0]), i, i % 4 == path[n][t] ? 2 : 0.25 * (i % 4));
  }
}

static void set_all(crema_blob *blob, const double *value) {
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) rig_set(rig_data_of(blob), i, value[i]);
}

static void expect(crema_blob *blob, const double *value) {
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) {
    assert_true(rig_get(rig_data_of(blob), i) == value[i]);
  }
}

static const int paths[2][6] = {{1, 1, 3, 1, 2, 3}, {3, 2, 2, 2, 0, 0}};

/* Sequence 1 ends after 4 steps. Its labels 2 0 differ from its path 2 by one insertion. Sequence 0
 * has one of three labels wrong. */
TEST(paths_are_decoded) {
  static const double continues[12] = {0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1};
  static const double labels[6] = {1, 2, 0, 0, 2, -1};
  static const double merged[12] = {1, 1, 2, -1, -1, -1, 2, -1, -1, -1, -1, -1};
  static const double whole[12] = {1, 1, 1, 2, -1, -1, 2, 2, 2, -1, -1, -1}, sums[2] = {-12, -8};
  for (int merge = 0; merge < 2; ++merge) {
    rig r;
    rig_make_of(&r, CREMA_F64, "CTCGreedyDecoder",
                merge ? "" : "ctc_decoder_param { ctc_merge_repeated: false }", CAFFE__PHASE__TEST,
                "6 2 4|6 2|3 2", 3);
    ok(rig_setup(&r));
    fill_paths(&r, paths, false);
    set_all(r.bottom[1], continues);
    set_all(r.bottom[2], labels);
    ok(rig_forward(&r));
    expect(r.top[0], merge ? merged : whole);
    expect(r.top[1], sums);
    const double lost = merge ? (1.0 / 3 + 0.5) / 2 : (2.0 / 4 + 2.0 / 3) / 2;
    assert_true(fabs(rig_get(rig_data_of(r.top[2]), 0) - (1 - lost)) < 1e-12);
    rig_free(&r);
  }
}

TEST(whole_sequences_are_counted) {
  static const double labels[2][6] = {{1, 1, 2, 2, 0, 3}, {1, 3, 1, 2, 0, 3}};
  for (int k = 0; k < 2; ++k) {
    rig r;
    rig_make_of(&r, CREMA_F64, "LabelsequenceAccuracy",
                "labelsequence_accuracy_param { blank_label: 3 }", CAFFE__PHASE__TEST, "2 6 4|2 3",
                1);
    ok(rig_setup(&r));
    fill_paths(&r, paths, true);
    set_all(r.bottom[1], labels[k]);
    ok(rig_forward(&r));
    assert_true(rig_get(rig_data_of(r.top[0]), 0) == (k == 0 ? 1 : 0.5));
    rig_free(&r);
  }
}

/* CC4.0: labels (N, L), the share of right labels and of right sequences. */
TEST(lines_are_compared) {
  static const double labels[8] = {1, 1, 2, 3, 2, 2, 3, 3};
  static const double sequences[12] = {1, 1, 2, -1, -1, -1, 2, 0, -1, -1, -1, -1};
  for (int bottoms = 1; bottoms <= 2; ++bottoms) {
    rig r;
    rig_make_of(&r, CREMA_F64, "CTCGreedyDecoder", "ctc_loss_param { blank_label: 3 }",
                CAFFE__PHASE__TEST, bottoms == 1 ? "6 2 4" : "6 2 4|2 4", 1);
    ok(rig_setup(&r));
    fill_paths(&r, paths, false);
    if (bottoms == 2) set_all(r.bottom[1], labels);
    ok(rig_forward(&r));
    if (bottoms == 1) {
      expect(r.top[0], sequences);
    } else {
      /* Sequence 1 is 2 0 instead of 2 2. */
      assert_true(fabs(rig_get(rig_data_of(r.top[0]), 0) - (1 - 0.5 / 2)) < 1e-12);
      assert_true(rig_get(rig_data_of(r.top[0]), 1) == 0.5);
    }
    rig_free(&r);
  }
}

/* hzli-ucas: the classes of each step, or their labels, of scores (N, C, T). */
TEST(classes_of_steps) {
  static const double whole[12] = {1, 1, 3, 1, 2, 3, 3, 2, 2, 2, 0, 0};
  static const double merged[12] = {1, 1, 2, -1, -1, -1, 2, 0, -1, -1, -1, -1};
  for (int k = 0; k < 2; ++k) {
    rig r;
    rig_make_of(&r, CREMA_F64, "CTCGreedyDecoder",
                k == 0 ? "ctc_param { decode: IN_PLACE }" : "ctc_param {}", CAFFE__PHASE__TEST,
                "2 4 6", 1);
    ok(rig_setup(&r));
    for (int i = 0; i < 2 * 4 * 6; ++i) {
      const int t = i % 6, c = i / 6 % 4;
      rig_set(rig_data_of(r.bottom[0]), i, c == paths[i / 24][t] ? 2 : 0.25 * c);
    }
    ok(rig_forward(&r));
    expect(r.top[0], k == 0 ? whole : merged);
    rig_free(&r);
  }
}

/* 1 2 0 should be 1 0 2 2; 2 1 is right; 0 1 2 lacks a 0. */
TEST(sequences_are_compared) {
  static const double found[12] = {1, 2, 0, -1, 2, 1, -1, 1, 0, 1, 2, -1};
  static const double label[15] = {1, 0, 2, 2, -1, 2, 1, -1, -1, -1, 0, 1, 2, 0, -1};
  rig r;
  rig_make_of(&r, CREMA_F64, "SequenceAccuracy", "", CAFFE__PHASE__TEST, "3 4|3 5", 3);
  ok(rig_setup(&r));
  set_all(r.bottom[0], found);
  set_all(r.bottom[1], label);
  ok(rig_forward(&r));
  /* 1 2 0 to 1 0 2 2: keep 1, then replace two and insert one: 3 edits, or insert 0, keep 2,
   * replace 0: 2 edits, in which 1 and 2 agree. */
  const double wanted[3] = {(2 + 0 + 1) / 3.0, (4 + 2 + 4) / 3.0, (3 + 2 + 3) / 3.0};
  assert_true(fabs(rig_get(rig_data_of(r.top[0]), 0) - 1 / 3.0) < 1e-12);
  for (int i = 0; i < 3; ++i) {
    assert_true(fabs(rig_get(rig_data_of(r.top[1]), i) - wanted[i]) < 1e-12);
  }
  assert_true(fabs(rig_get(rig_data_of(r.top[2]), 0) - (2 + 2 + 3) / 3.0) < 1e-12);
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
