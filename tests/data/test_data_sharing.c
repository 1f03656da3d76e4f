/* Data layers of several solvers that train one net: who gets which records, before and after
 * resuming, with any number of threads; and alone, as in processes of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "fixture.h"
#include "layers/common/input_class.h"
#include "net/net.h"

enum { BATCH = 4, MANY = 8, SIDE = 4, ITEM = 3 * SIDE * SIDE };

/* One batch as the tops have it. */
typedef struct sample_batch {
  float label[BATCH];
  float data[BATCH][ITEM];
} sample_batch;

typedef struct crew {
  int solvers;
  bool shared; /* in a group; else each alone */
  cr_input_group *group;
  crema_net *net[MANY];
} crew;

static void assert_error_has(const char *part) {
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

/* `rest` goes into the layer's data_param; crops and mirrors make each sample's random numbers
 * visible. */
static crema_status make_net(const char *db, const char *rest, int64_t seed, crema_phase phase,
                             const cr_solver_rank *solver, crema_net **out) {
  char text[1024];
  ProtobufCMessage *message = NULL;
  int size = snprintf(text, sizeof text,
                      "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
                      "source: '%s' backend: LMDB batch_size: %d %s } "
                      "transform_param { crop_size: %d mirror: true } }",
                      db, BATCH, rest, SIDE);
  assert_int_equal(cr_text_parse(&caffe__net_parameter__descriptor, text, (size_t)size, "test",
                                 CR_UNKNOWN_ERROR, &message),
                   CREMA_OK);
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = phase;
  options.seed = seed;
  return cr_net_create_for((Caffe__NetParameter *)message, &options, solver, NULL, NULL, out);
}

static void crew_make(crew *c, const char *db, const char *rest, int64_t seed) {
  c->group = NULL;
  if (c->shared) assert_int_equal(cr_input_group_create(&c->group), CREMA_OK);
  for (int r = 0; r < c->solvers; ++r) {
    const cr_solver_rank solver = {.rank = r, .solvers = c->solvers, .group = c->group};
    assert_int_equal(make_net(db, rest, seed, CREMA_TRAIN, &solver, &c->net[r]), CREMA_OK);
  }
}

static void crew_free(crew *c) {
  for (int r = 0; r < c->solvers; ++r) crema_net_destroy(c->net[r]);
  if (c->group != NULL) assert_int_equal(cr_input_group_readers(c->group), 0);
  cr_input_group_release(c->group);
}

static const float *values(crema_net *net, const char *name) {
  crema_blob *blob = NULL;
  const float *data = NULL;
  assert_int_equal(crema_net_blob(net, name, &blob), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(blob, &data), CREMA_OK);
  return data;
}

static void forward(crema_net *net, sample_batch *out) {
  crema_status status = crema_net_forward(net, NULL);
  if (status != CREMA_OK) fail_msg("%s", crema_error_text());
  memcpy(out->label, values(net, "label"), sizeof out->label);
  memcpy(out->data, values(net, "data"), sizeof out->data);
}

static void save(crema_net *net, cr_buffer *out) {
  cr_layer *layer = net->layer[0].layer;
  cr_buffer_clear(out);
  assert_int_equal(layer->class->input->save(layer, out), CREMA_OK);
}

static crema_status restore(crema_net *net, const cr_buffer *saved) {
  cr_layer *layer = net->layer[0].layer;
  return layer->class->input->restore(layer, saved->data, saved->size);
}

enum { BATCHES = 10 };

/* All batches of all solvers, taken in turn. */
static void run(crew *c, sample_batch out[BATCHES][MANY]) {
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < c->solvers; ++r) forward(c->net[r], &out[k][r]);
  }
}

/* Item i of batch k of solver r is record (k * BATCH + i) * N + r, in `records` records. */
static void expect_round_robin(int solvers, int records, sample_batch got[BATCHES][MANY]) {
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < solvers; ++r) {
      for (int i = 0; i < BATCH; ++i) {
        int record = ((k * BATCH + i) * solvers + r) % records;
        assert_true(got[k][r].label[i] == (float)record);
      }
    }
  }
}

/* Solvers of one process share a reader; those of processes of their own walk for themselves. Both
 * get the same records, cut and mirrored the same; each device has a share of its own and together
 * they have what one device has. */
static void s2_11_s2_27_s3_35_records_go_round(void **state) {
  static const int numbers[] = {1, 2, 3, 8};
  static sample_batch shared[BATCHES][MANY], alone[BATCHES][MANY];
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 13, fixture_png);
  for (int n = 0; n < 4; ++n) {
    crew c = {.solvers = numbers[n], .shared = true}, d = {.solvers = numbers[n]};
    crew_make(&c, db, "", 3);
    if (numbers[n] > 1) assert_int_equal(cr_input_group_readers(c.group), 1);
    crew_make(&d, db, "", 3);
    memset(shared, 0, sizeof shared);
    memset(alone, 0, sizeof alone);
    run(&c, shared);
    run(&d, alone);
    expect_round_robin(numbers[n], 13, shared);
    assert_memory_equal(shared, alone, sizeof shared);
    crew_free(&c);
    crew_free(&d);
  }
  fixture_remove(&f);
}

/* What one solver makes of record k does not depend on who else is there. */
static void s3_35_the_union_is_what_one_solver_gets(void **state) {
  static sample_batch one[BATCHES][MANY], two[BATCHES][MANY];
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 13, fixture_png);
  crew c = {.solvers = 1, .shared = true}, d = {.solvers = 2, .shared = true};
  crew_make(&c, db, "rand_skip: 9", 3);
  crew_make(&d, db, "rand_skip: 9", 3);
  run(&c, one);
  run(&d, two);
  for (int k = 0; k < BATCHES * BATCH; ++k) {
    const sample_batch *whole = &one[k / BATCH][0];
    int own = k / 2;
    const sample_batch *part = &two[own / BATCH][k % 2];
    assert_true(part->label[own % BATCH] == whole->label[k % BATCH]);
    assert_memory_equal(part->data[own % BATCH], whole->data[k % BATCH], sizeof whole->data[0]);
  }
  crew_free(&c);
  crew_free(&d);
  fixture_remove(&f);
}

/* Shapes are known as soon as a net is made, and looking takes nothing away. */
static void s2_10_s2_18_each_net_peeks_at_once(void **state) {
  fixture f;
  crew c = {.solvers = 3, .shared = true};
  sample_batch batch;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_png);
  assert_int_equal(cr_input_group_create(&c.group), CREMA_OK);
  for (int r = 0; r < 3; ++r) {
    const cr_solver_rank solver = {.rank = r, .solvers = 3, .group = c.group};
    crema_blob *blob = NULL;
    assert_int_equal(make_net(db, "", 1, CREMA_TRAIN, &solver, &c.net[r]), CREMA_OK);
    assert_int_equal(crema_net_blob(c.net[r], "data", &blob), CREMA_OK);
    const crema_shape *shape = crema_blob_shape(blob);
    assert_true(shape->axes == 4 && shape->dim[0] == BATCH && shape->dim[1] == 3);
    assert_true(shape->dim[2] == SIDE && shape->dim[3] == SIDE);
    assert_int_equal(crema_net_blob(c.net[r], "label", &blob), CREMA_OK);
    assert_true(crema_blob_shape(blob)->axes == 1 && crema_blob_shape(blob)->dim[0] == BATCH);
  }
  for (int r = 0; r < 3; ++r) {
    forward(c.net[r], &batch);
    for (int i = 0; i < BATCH; ++i) assert_true(batch.label[i] == (float)((3 * i + r) % 5));
  }
  crew_free(&c);
  fixture_remove(&f);
}

/* Any parser_threads and threads give the same batches, and each record comes once per epoch. */
static void s2_28_threads_change_nothing(void **state) {
  static const int threads[] = {0, 1, 2, 3}, parsers[] = {0, 1, 2, 4};
  static sample_batch first[BATCHES][MANY], other[BATCHES][MANY];
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 20, fixture_png);
  for (int solvers = 1; solvers <= 2; ++solvers) {
    for (int n = 0; n < 16; ++n) {
      crew c = {.solvers = solvers, .shared = true};
      char rest[64];
      snprintf(rest, sizeof rest, "threads: %d parser_threads: %d", threads[n % 4], parsers[n / 4]);
      crew_make(&c, db, n == 0 ? "threads: 1" : rest, 3);
      run(&c, n == 0 ? first : other);
      crew_free(&c);
      if (n > 0) assert_memory_equal(first, other, sizeof first);
    }
    int seen[20] = {0};
    for (int k = 0; k < 20 * solvers * (BATCHES * BATCH / 20); ++k) {
      int own = k / solvers;
      ++seen[(int)first[own / BATCH][k % solvers].label[own % BATCH]];
    }
    for (int i = 0; i < 20; ++i) assert_int_equal(seen[i], solvers * (BATCHES * BATCH / 20));
  }
  fixture_remove(&f);
}

/* Other solvers, with another seed, resume at each position with the same batches. */
static void check_resume(const char *db, const char *rest, int solvers, bool shared) {
  static sample_batch wanted[BATCHES][MANY];
  static cr_buffer saved[BATCHES][MANY];
  crew c = {.solvers = solvers, .shared = shared};
  crew_make(&c, db, rest, 3);
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < solvers; ++r) save(c.net[r], &saved[k][r]);
    for (int r = 0; r < solvers; ++r) forward(c.net[r], &wanted[k][r]);
  }
  crew_free(&c);
  crew_make(&c, db, rest, 1234);
  for (int from = BATCHES - 1; from >= 1; --from) {
    sample_batch got;
    for (int r = 0; r < solvers && from % 3 != 0; ++r) forward(c.net[r], &got);
    for (int r = 0; r < solvers; ++r) {
      if (restore(c.net[r], &saved[from][r]) != CREMA_OK) fail_msg("%s", crema_error_text());
    }
    for (int k = from; k < BATCHES; ++k) {
      for (int r = 0; r < solvers; ++r) {
        forward(c.net[r], &got);
        assert_memory_equal(&wanted[k][r], &got, sizeof got);
      }
    }
  }
  crew_free(&c);
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < solvers; ++r) cr_buffer_free(&saved[k][r]);
  }
}

static void s2_31_resume_with_one_and_three_solvers(void **state) {
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 7, fixture_png);
  for (int solvers = 1; solvers <= 3; solvers += 2) {
    check_resume(db, "rand_skip: 5", solvers, true);
    check_resume(db, "rand_skip: 5", solvers, false);
    /* In the first epoch, later ones, in the middle of any. */
    check_resume(db, "rand_skip: 5 cache: true", solvers, true);
    check_resume(db, "rand_skip: 5 shuffle: true", solvers, true);
    check_resume(db, "rand_skip: 5 shuffle: true", solvers, false);
  }
  fixture_remove(&f);
}

/* Skipped records put solvers ahead of each other; their own positions preserve that. */
static void s2_31_resume_over_damaged_records(void **state) {
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 17, fixture_damaged_mixed);
  for (int solvers = 1; solvers <= 3; solvers += 2) {
    check_resume(db, "skip_corrupt: true", solvers, true);
    check_resume(db, "skip_corrupt: true threads: 2", solvers, true);
    check_resume(db, "skip_corrupt: true shuffle: true", solvers, true);
  }
  fixture_remove(&f);
}

/* With only a snapshot of solver 0 the others find their positions, as long as no record was
 * skipped. */
static void s2_31_the_place_of_one_solver_is_enough(void **state) {
  static sample_batch wanted[MANY];
  fixture f;
  crew c = {.solvers = 3, .shared = true};
  cr_buffer saved = {0};
  sample_batch got;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 7, fixture_png);
  crew_make(&c, db, "", 3);
  for (int k = 0; k < 4; ++k) {
    if (k == 3) save(c.net[0], &saved);
    for (int r = 0; r < 3; ++r) forward(c.net[r], &wanted[r]);
  }
  for (int r = 0; r < 3; ++r) assert_int_equal(restore(c.net[r], &saved), CREMA_OK);
  for (int r = 0; r < 3; ++r) {
    forward(c.net[r], &got);
    assert_memory_equal(&wanted[r], &got, sizeof got);
  }
  crew_free(&c);
  cr_buffer_free(&saved);
  fixture_remove(&f);
}

/* The second of two nets that are trained at once in one group is refused; with a group of its own
 * it is not, and test nets read for themselves. */
static void s2_13_two_trainings_need_two_groups(void **state) {
  fixture f;
  crew c = {.solvers = 2, .shared = true}, d = {.solvers = 2, .shared = true};
  crema_net *net = NULL;
  sample_batch batch;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_png);
  crew_make(&c, db, "", 1);
  const cr_solver_rank again = {.rank = 1, .solvers = 2, .group = c.group};
  assert_int_equal(make_net(db, "", 1, CREMA_TRAIN, &again, &net), CREMA_E_STATE);
  assert_error_has("layer 'in' (Data)");
  assert_error_has("a group of their own");
  assert_null(net);
  assert_int_equal(make_net(db, "", 1, CREMA_TEST, &again, &net), CREMA_OK);
  assert_int_equal(cr_input_group_readers(c.group), 1);
  forward(net, &batch);
  for (int i = 0; i < BATCH; ++i) assert_true(batch.label[i] == (float)i);
  crema_net_destroy(net);
  crew_make(&d, db, "", 1);
  for (int r = 0; r < 2; ++r) {
    forward(c.net[r], &batch);
    assert_true(batch.label[0] == (float)r);
    forward(d.net[r], &batch);
    assert_true(batch.label[0] == (float)r);
  }
  crew_free(&c);
  crew_free(&d);
  fixture_remove(&f);
}

/* Nets of one group come and go in any order, whatever the others do. */
static void s2_09_crews_come_and_go(void **state) {
  fixture f;
  sample_batch batch;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 6, fixture_png);
  for (int i = 0; i < 60; ++i) {
    crew c = {.solvers = 1 + i % 3, .shared = true};
    crew_make(&c, db, i % 2 == 0 ? "" : "threads: 2", i);
    for (int k = 0; k < i % 4; ++k) {
      for (int r = 0; r < c.solvers; ++r) forward(c.net[r], &batch);
    }
    int first = i % c.solvers;
    crema_net_destroy(c.net[first]);
    c.net[first] = NULL;
    if (i % 5 == 0) cr_clock_sleep(1e-4);
    crew_free(&c);
  }
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_11_s2_27_s3_35_records_go_round),
      cmocka_unit_test(s3_35_the_union_is_what_one_solver_gets),
      cmocka_unit_test(s2_10_s2_18_each_net_peeks_at_once),
      cmocka_unit_test(s2_28_threads_change_nothing),
      cmocka_unit_test(s2_31_resume_with_one_and_three_solvers),
      cmocka_unit_test(s2_31_resume_over_damaged_records),
      cmocka_unit_test(s2_31_the_place_of_one_solver_is_enough),
      cmocka_unit_test(s2_13_two_trainings_need_two_groups),
      cmocka_unit_test(s2_09_crews_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
