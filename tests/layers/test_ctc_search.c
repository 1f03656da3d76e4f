/* The beam search of CTC decoders against the sum over all paths, and against a search that keeps
 * its prefixes in a list. */
#include "layers/common/layer_ctc_beam.h"
#include "layers/layer_rig.h"

enum { MOST_STEPS = 6, MOST_CLASSES = 4, MOST_KEPT = 4096 };

static uint64_t random_state;

static double draw(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 40) / (double)(1 << 24);
}

/* A prefix with the sums of its paths that end in a blank and in a label. */
typedef struct prefix {
  int count, label[MOST_STEPS];
  double blank, last;
} prefix;

static prefix *find(prefix *list, int *count, const prefix *wanted) {
  for (int k = 0; k < *count; ++k) {
    if (list[k].count == wanted->count &&
        memcmp(list[k].label, wanted->label, sizeof(int) * (size_t)wanted->count) == 0) {
      return &list[k];
    }
  }
  assert_true(*count < MOST_KEPT);
  list[*count] = *wanted;
  list[*count].blank = list[*count].last = 0;
  return &list[(*count)++];
}

/* ---- all paths ---- */

static prefix labels_of(const int *path, int steps, int blank, bool merge) {
  prefix made = {0};
  for (int t = 0; t < steps; ++t) {
    if (path[t] == blank || (merge && t > 0 && path[t] == path[t - 1])) continue;
    made.label[made.count++] = path[t];
  }
  return made;
}

static double by_all_paths(const double *p, int steps, int classes, int blank, bool merge,
                           prefix *best) {
  static prefix list[MOST_KEPT];
  int count = 0, paths = 1;
  for (int t = 0; t < steps; ++t) paths *= classes;
  for (int k = 0; k < paths; ++k) {
    int path[MOST_STEPS];
    double product = 1;
    for (int t = 0, rest = k; t < steps; ++t, rest /= classes) {
      path[t] = rest % classes;
      product *= p[t * classes + path[t]];
    }
    const prefix made = labels_of(path, steps, blank, merge);
    find(list, &count, &made)->blank += product;
  }
  *best = list[0];
  for (int k = 1; k < count; ++k) {
    if (list[k].blank > best->blank) *best = list[k];
  }
  return best->blank;
}

/* ---- a search in a list ---- */

static int by_sum(const void *a, const void *b) {
  const prefix *x = a, *y = b;
  const double left = x->blank + x->last, right = y->blank + y->last;
  return (left < right) - (left > right);
}

static void grow(const prefix *from, const double *p, int classes, int blank, bool merge,
                 prefix *list, int *count) {
  const double both = from->blank + from->last;
  find(list, count, from)->blank += both * p[blank];
  if (merge && from->count > 0) {
    find(list, count, from)->last += from->last * p[from->label[from->count - 1]];
  }
  for (int c = 0; c < classes; ++c) {
    prefix longer = *from;
    const bool repeats = merge && from->count > 0 && from->label[from->count - 1] == c;
    if (c == blank) continue;
    longer.label[longer.count++] = c;
    find(list, count, &longer)->last += (repeats ? from->blank : both) * p[c];
  }
}

static double by_list(const double *p, int steps, int classes, int blank, bool merge, int width,
                      prefix *best) {
  static prefix list[2][MOST_KEPT];
  int count = 1;
  list[0][0] = (prefix){.blank = 1};
  for (int t = 0; t < steps; ++t) {
    prefix *now = list[t % 2], *next = list[(t + 1) % 2];
    int made = 0;
    for (int k = 0; k < count && k < width; ++k) {
      grow(&now[k], p + t * classes, classes, blank, merge, next, &made);
    }
    count = made;
    qsort(next, (size_t)count, sizeof *next, by_sum);
  }
  *best = list[steps % 2][0];
  return best->blank + best->last;
}

/* ---- tests ---- */

static void check(const double *p, int steps, const cr_ctc_beam *beam, double wanted,
                  const prefix *best) {
  double log_p[MOST_STEPS * MOST_CLASSES], log_sum = 0;
  int32_t found[MOST_STEPS];
  void *memory = malloc(cr_ctc_beam_bytes(beam, steps));
  assert_non_null(memory);
  for (int i = 0; i < steps * (int)beam->classes; ++i) log_p[i] = log(p[i]);
  const int64_t count = cr_ctc_beam_search(beam, log_p, steps, memory, found, &log_sum);
  free(memory);
  assert_true(fabs(exp(log_sum) - wanted) < 1e-12 + 1e-10 * wanted);
  assert_int_equal(count, best->count);
  for (int k = 0; k < best->count; ++k) assert_int_equal(found[k], best->label[k]);
}

static void draw_chances(double *p, int steps, int classes) {
  for (int t = 0; t < steps; ++t) {
    double sum = 0;
    for (int c = 0; c < classes; ++c) sum += p[t * classes + c] = exp(3 * draw());
    for (int c = 0; c < classes; ++c) p[t * classes + c] /= sum;
  }
}

TEST(a_wide_beam_finds_the_best_labels) {
  random_state = 17;
  for (int trial = 0; trial < 200; ++trial) {
    const int steps = 1 + trial % MOST_STEPS, classes = 2 + trial % 3, blank = trial % classes;
    const cr_ctc_beam beam = {
        .width = 4096, .classes = classes, .blank = blank, .merge = trial % 7 != 0};
    double p[MOST_STEPS * MOST_CLASSES];
    prefix best;
    draw_chances(p, steps, classes);
    const double wanted = by_all_paths(p, steps, classes, blank, beam.merge, &best);
    check(p, steps, &beam, wanted, &best);
  }
}

TEST(a_narrow_beam_keeps_the_best_prefixes) {
  random_state = 23;
  for (int trial = 0; trial < 400; ++trial) {
    const int steps = 1 + trial % MOST_STEPS, classes = 2 + trial % 3, blank = trial % classes;
    const cr_ctc_beam beam = {
        .width = 1 + trial % 5, .classes = classes, .blank = blank, .merge = trial % 7 != 0};
    double p[MOST_STEPS * MOST_CLASSES];
    prefix best;
    draw_chances(p, steps, classes);
    const double wanted = by_list(p, steps, classes, blank, beam.merge, (int)beam.width, &best);
    check(p, steps, &beam, wanted, &best);
  }
}

/* Each form of the layer: scores (T, N, C), (N, C, T), and probabilities (N, T, C). */
TEST(layers_search_all_sequences) {
  static const char *const bodies[] = {"ctc_decoder_param { beam_width: 8 blank_index: 0 }",
                                       "ctc_param { decode: BEAM_SEARCH blank_index: 0 }",
                                       ("ctc_param { decode: BEAM_SEARCH blank_index: 0"
                                        " already_softmax: true nct_axis: 0 nct_axis: 2 }")};
  for (int k = 0; k < 3; ++k) {
    enum { N = 3, T = 5, C = 3 };
    rig r;
    const bool wick = k == 0, chances = k == 2;
    rig_make_of(&r, CREMA_F64, "CTCGreedyDecoder", bodies[k], CAFFE__PHASE__TEST,
                wick     ? "5 3 3|5 3"
                : k == 1 ? "3 3 5"
                         : "3 5 3",
                wick ? 2 : 1);
    ok(rig_setup(&r));
    double p[N][T * C];
    random_state = 5;
    for (int n = 0; n < N; ++n) {
      draw_chances(p[n], T, C);
      for (int i = 0; i < T * C; ++i) {
        const int t = i / C, c = i % C;
        const int at = wick     ? (t * N + n) * C + c
                       : k == 1 ? (n * C + c) * T + t
                                : (n * T + t) * C + c;
        rig_set(rig_data_of(r.bottom[0]), at, chances ? p[n][i] : log(p[n][i]));
      }
    }
    for (int i = 0; wick && i < T * N; ++i) rig_set(rig_data_of(r.bottom[1]), i, i >= N);
    ok(rig_forward(&r));
    for (int n = 0; n < N; ++n) {
      prefix best;
      const double wanted = by_all_paths(p[n], T, C, 0, true, &best);
      for (int t = 0; t < T; ++t) {
        const double label = t < best.count ? best.label[t] : -1;
        assert_true(rig_get(rig_data_of(r.top[0]), n * T + t) == label);
      }
      if (wick) assert_true(fabs(rig_get(rig_data_of(r.top[1]), n) + log(wanted)) < 1e-10);
    }
    rig_free(&r);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
