/* Layers whose work on the host goes to several threads: results are those of one thread, and the
 * choices those of plain loops. */
#ifdef _OPENMP
#include <omp.h>
#endif
#include <stdatomic.h>

#include "layers/common/layer_host.h"
#include "layers/detection/geometry/matching.h"
#include "layers/layer_rig.h"

enum { MOST_THREADS = 4 };

static void use_threads(int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

static int usual_threads(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/* ---- pieces -------------------------------------------------------------- */

enum { PIECES = 500 };

typedef struct job {
  atomic_int done[PIECES], inside[MOST_THREADS];
  int workers;
  bool fails[PIECES];
} job;

static crema_status work(void *state, int worker, int64_t index) {
  job *j = state;
  bool alone = worker >= 0 && worker < j->workers;
  alone = alone && atomic_fetch_add(&j->inside[worker], 1) == 0;
  atomic_fetch_add(&j->done[index], alone ? 1 : PIECES);
  atomic_fetch_sub(&j->inside[worker], 1);
  return j->fails[index] ? cr_fail(CREMA_E_RANGE, "piece %lld", (long long)index) : CREMA_OK;
}

TEST(pieces_are_done_once_and_the_first_failure_counts) {
  static job j;
  const int usual = usual_threads();
  for (int workers = 1; workers <= MOST_THREADS; ++workers) {
    memset(&j, 0, sizeof j);
    j.workers = workers;
    use_threads(workers);
    ok(cr_host_spread(workers, PIECES, work, &j));
    for (int i = 0; i < PIECES; ++i) assert_int_equal(atomic_load(&j.done[i]), 1);
    for (int i = 20 * workers; i < PIECES; i += 7) j.fails[i] = true;
    char wanted[32];
    snprintf(wanted, sizeof wanted, "piece %d", 20 * workers);
    assert_int_equal(cr_host_spread(workers, PIECES, work, &j), CREMA_E_RANGE);
    assert_error_has(wanted);
    for (int i = 0; i < PIECES; ++i) assert_int_equal(atomic_load(&j.done[i]), 2);
  }
  use_threads(usual);
}

TEST(threads_are_as_many_as_the_work_is_worth) {
  crema_context *context = NULL;
  const int usual = usual_threads();
  ok(crema_context_create(cr_cpu_device(), 1, &context));
  use_threads(MOST_THREADS);
  assert_int_equal(cr_host_workers(context, 10), 1);
  assert_int_equal(cr_host_workers(context, 1e12), usual_threads());
  use_threads(1);
  assert_int_equal(cr_host_workers(context, 1e12), 1);
  use_threads(usual);
  crema_context_destroy(context);
}

/* ---- layers -------------------------------------------------------------- */

static void fill_boxes(float *box, int64_t boxes, int64_t step, uint32_t *random) {
  for (int64_t i = 0; i < boxes; ++i, box += step) {
    for (int k = 0; k < 2; ++k) {
      box[k] = 0.8f * (float)(rig_random(random) % 1000) / 1000;
      box[k + 2] = box[k] + 0.05f + 0.3f * (float)(rig_random(random) % 1000) / 1000;
    }
  }
}

/* By a letter for each bottom: n numbers, b prior boxes, t objects, l labels, s extents. */
static void fill(rig *r, const char *kinds) {
  uint32_t random = 99;
  for (int i = 0; i < r->bottoms; ++i) {
    float *value = rig_data(r->bottom[i]);
    const crema_shape *shape = &r->bottom[i]->shape;
    const int64_t count = crema_blob_count(r->bottom[i]);
    for (int64_t k = 0; k < count; ++k) {
      const uint32_t drawn = rig_random(&random);
      switch (kinds[i]) {
        case 'l': value[k] = (float)(drawn % 3); break;
        case 's': value[k] = (float)r->bottom[0]->shape.dim[2 + k % 2]; break;
        default: value[k] = (float)(drawn % 2000) / 1000 - 1; break;
      }
    }
    if (kinds[i] == 'b') {
      for (int64_t k = count / 2; k < count; ++k) value[k] = 0.1f;
      fill_boxes(value, count / 8, 4, &random);
    }
    if (kinds[i] != 't') continue;
    for (int64_t k = 0; k < shape->dim[2]; ++k) {
      value[8 * k] = (float)(k % r->bottom[0]->shape.dim[0]);
      value[8 * k + 1] = (float)(1 + k % 4);
      value[8 * k + 7] = 0;
    }
    fill_boxes(value + 3, shape->dim[2], 8, &random);
  }
}

typedef struct subject {
  const char *type, *body, *shapes, *kinds;
} subject;

/* Both passes: the top, and the gradients of bottoms 0 and 1 and of the parameters. */
static void run_with(const subject *s, int threads, cr_buffer *out) {
  rig r;
  use_threads(threads);
  rig_make(&r, s->type, s->body, CAFFE__PHASE__TRAIN, s->shapes, 1);
  ok(rig_setup(&r));
  fill(&r, s->kinds);
  ok(rig_forward(&r));
  ok(rig_forward(&r)); /* in the memory of the pass before */
  ok(cr_buffer_append(out, rig_data(r.top[0]), (size_t)crema_blob_count(r.top[0]) * sizeof(float)));
  if (r.layer->kind->backward != NULL) {
    rig_diff(r.top[0])[0] = 0.5f;
    ok(rig_backward(&r));
    for (int i = 0; i < 2; ++i) {
      ok(cr_buffer_append(out, rig_diff(r.bottom[i]),
                          (size_t)crema_blob_count(r.bottom[i]) * sizeof(float)));
    }
    for (int p = 0; p < r.layer->params; ++p) {
      crema_blob *blob = r.layer->blob[p];
      ok(cr_buffer_append(out, rig_diff(blob), (size_t)crema_blob_count(blob) * sizeof(float)));
    }
  }
  rig_free(&r);
}

TEST(threads_change_no_bit) {
  static const subject subjects[] = {
      {"MultiBoxLoss", "multibox_loss_param { num_classes: 5 code_type: CENTER_SIZE }",
       "6 8000|6 10000|1 2 8000|1 1 15 8", "nnbt"},
      {"MultiBoxLoss",
       "multibox_loss_param { num_classes: 5 mining_type: HARD_EXAMPLE sample_size: 40 "
       "conf_loss_type: LOGISTIC use_prior_for_matching: false }",
       "6 8000|6 10000|1 2 8000|1 1 15 8", "nnbt"},
      {"MultiBoxLoss",
       "multibox_loss_param { num_classes: 5 mining_type: NONE share_location: false }",
       "6 20000|6 5000|1 2 4000|1 1 15 8", "nnbt"},
      {"RegionLoss",
       "region_loss_param { side: 13 num_class: 20 num: 2 biases: 1 biases: 2 biases: 3 biases: 1 "
       "}",
       "8 50 13 13|1 1 140 8", "nt"},
      {"SegAccuracy", "", "2 5 150 150|2 1 150 150", "nl"},
      {"DenseCRF",
       "dense_crf_param { max_iter: 3 pos_w: 3 pos_xy_std: 3 bi_w: 4 bi_xy_std: 40 bi_rgb_std: 0.5 "
       "}",
       "1 3 250 200|1 2|1 3 250 200", "nsn"},
      {"MultiStageMeanfield",
       "multi_stage_meanfield_param { num_iterations: 3 theta_alpha: 40 theta_beta: 0.5 theta_gamma: "
       "3 }",
       "1 3 250 200|1 3 250 200|1 3 250 200", "nnn"},
  };
  const int usual = usual_threads();
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; ++i) {
    cr_buffer one = {0};
    run_with(&subjects[i], 1, &one);
    for (int threads = 2; threads <= MOST_THREADS; ++threads) {
      cr_buffer some = {0};
      run_with(&subjects[i], threads, &some);
      assert_int_equal(some.size, one.size);
      if (memcmp(some.data, one.data, one.size) != 0) {
        fail_msg("%s %s: other results with %d threads", subjects[i].type, subjects[i].body,
                 threads);
      }
      cr_buffer_free(&some);
    }
    cr_buffer_free(&one);
  }
  use_threads(usual);
}

/* ---- mining -------------------------------------------------------------- */

enum { BOXES = 203 };

/* Whether a's loss counts before b's: nan last, of equal ones the first. */
static bool goes_before(const float *loss, int a, int b) {
  if (isnan(loss[a]) != isnan(loss[b])) return isnan(loss[b]);
  if (!isnan(loss[a]) && loss[a] != loss[b]) return loss[a] > loss[b];
  return a < b;
}

/* Of the boxes that are close to no object, as many times as many as have one. */
static void mine_plainly(const cr_matching *of, const float *loss, const int32_t *match,
                         int32_t *negative) {
  int matched = 0;
  memset(negative, 0, BOXES * sizeof *negative);
  for (int k = 0; k < BOXES; ++k) matched += match[k] >= 0;
  const double wanted = floor((double)of->param->neg_pos_ratio * matched);
  for (int found = 0; found < wanted; ++found) {
    int best = -1;
    for (int k = 0; k < BOXES; ++k) {
      if (match[k] != CR_UNMATCHED || negative[k]) continue;
      if (best < 0 || goes_before(loss, k, best)) best = k;
    }
    if (best < 0) break;
    negative[best] = 1;
  }
}

TEST(mining_takes_the_largest_losses) {
  static const float odd[] = {0, -0.0f, NAN, INFINITY, -INFINITY, -1, 1e-42f, -1e-42f};
  Caffe__MultiBoxLossParameter param = CAFFE__MULTI_BOX_LOSS_PARAMETER__INIT;
  const cr_matching of = {.param = &param, .priors = BOXES};
  static const int32_t kind[] = {3, CR_LEFT_OUT, CR_CLOSE, CR_CLOSE};
  cr_matcher matcher = {0};
  uint32_t random = 4;
  int64_t chosen = 0;
  for (int trial = 0; trial < 300; ++trial) {
    float loss[BOXES];
    int32_t match[BOXES];
    int32_t wanted[BOXES], found[BOXES];
    const uint32_t kinds = trial % 3 == 0 ? 5 : 100000; /* of losses: many are equal */
    param.neg_pos_ratio = (float)(trial % 5) * 1.3f;
    for (int k = 0; k < BOXES; ++k) {
      const uint32_t drawn = rig_random(&random);
      loss[k] = (float)(rig_random(&random) % kinds) / 16 - 1;
      if (trial % 4 == 1 && drawn % 5 < 2) loss[k] = odd[rig_random(&random) % 8];
      match[k] = drawn % 9 < 4 ? kind[drawn % 9] : CR_UNMATCHED;
    }
    mine_plainly(&of, loss, match, wanted);
    ok(cr_mine(&matcher, &of, NULL, loss, match, found));
    for (int k = 0; k < BOXES; ++k) {
      chosen += wanted[k];
      if (found[k] == wanted[k]) continue;
      fail_msg("trial %d: box %d of loss %g is %s", trial, k, (double)loss[k],
               found[k] ? "taken" : "left out");
    }
  }
  assert_true(chosen > 1000);
  cr_matcher_free(&matcher);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
