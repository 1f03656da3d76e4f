/* Data layers of several solvers that train one net: who gets which records, before and after
 * resuming, with any number of threads; and alone, as in processes of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "fixture.h"
#include "net/net_values.h"

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

/* `rest` goes into the layer's data_param; crops and mirrors make each sample's random numbers
 * visible. */
static crema_status make_net(const char *db, const char *rest, int64_t seed, crema_phase phase,
                             const cr_solver_rank *solver, crema_net **out) {
  const crema_net_options options = net_options(phase, seed, NULL);
  return parse_net(&options, solver, out,
                   "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
                   "source: '%s' backend: LMDB batch_size: %d %s } "
                   "transform_param { crop_size: %d mirror: true } }",
                   db, BATCH, rest, SIDE);
}

static void crew_make(crew *c, const char *db, const char *rest, int64_t seed) {
  c->group = NULL;
  if (c->shared) ok(cr_input_group_create(&c->group));
  for (int r = 0; r < c->solvers; ++r) {
    const cr_solver_rank solver = {.rank = r, .solvers = c->solvers, .group = c->group};
    ok(make_net(db, rest, seed, CREMA_TRAIN, &solver, &c->net[r]));
  }
}

static void crew_free(crew *c) {
  for (int r = 0; r < c->solvers; ++r) crema_net_destroy(c->net[r]);
  if (c->group != NULL) assert_int_equal(cr_input_group_readers(c->group), 0);
  cr_input_group_release(c->group);
}

static void take_batch(crema_net *net, sample_batch *out) {
  forward(net);
  memcpy(out->label, values(net, "label"), sizeof out->label);
  memcpy(out->data, values(net, "data"), sizeof out->data);
}

static crema_status restore(crema_net *net, const cr_buffer *saved) {
  return restore_input(net, saved->data, saved->size);
}

enum { BATCHES = 10 };

/* All batches of all solvers, taken in turn. */
static void run(crew *c, sample_batch out[BATCHES][MANY]) {
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < c->solvers; ++r) take_batch(c->net[r], &out[k][r]);
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
FIXTURE_TEST(s2_11_s2_27_s3_35_records_go_round) {
  static const int numbers[] = {1, 2, 3, 8};
  static sample_batch shared[BATCHES][MANY], alone[BATCHES][MANY];
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 13, fixture_png);
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
}

/* What one solver makes of record k does not depend on who else is there. */
FIXTURE_TEST(s3_35_the_union_is_what_one_solver_gets) {
  static sample_batch one[BATCHES][MANY], two[BATCHES][MANY];
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 13, fixture_png);
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
}

/* Shapes are known as soon as a net is made, and looking takes nothing away. */
FIXTURE_TEST(s2_10_s2_18_each_net_peeks_at_once) {
  const fixture *f = *state;
  crew c = {.solvers = 3, .shared = true};
  sample_batch batch;
  const char *db = fixture_db(f, "db", 5, fixture_png);
  ok(cr_input_group_create(&c.group));
  for (int r = 0; r < 3; ++r) {
    const cr_solver_rank solver = {.rank = r, .solvers = 3, .group = c.group};
    crema_blob *blob = NULL;
    ok(make_net(db, "", 1, CREMA_TRAIN, &solver, &c.net[r]));
    ok(crema_net_blob(c.net[r], "data", &blob));
    const crema_shape *shape = crema_blob_shape(blob);
    assert_true(shape->axes == 4 && shape->dim[0] == BATCH && shape->dim[1] == 3);
    assert_true(shape->dim[2] == SIDE && shape->dim[3] == SIDE);
    ok(crema_net_blob(c.net[r], "label", &blob));
    assert_true(crema_blob_shape(blob)->axes == 1 && crema_blob_shape(blob)->dim[0] == BATCH);
  }
  for (int r = 0; r < 3; ++r) {
    take_batch(c.net[r], &batch);
    for (int i = 0; i < BATCH; ++i) assert_true(batch.label[i] == (float)((3 * i + r) % 5));
  }
  crew_free(&c);
}

/* Any parser_threads and threads give the same batches, and each record comes once per epoch. */
FIXTURE_TEST(s2_28_threads_change_nothing) {
  static const int threads[] = {0, 1, 2, 3}, parsers[] = {0, 1, 2, 4};
  static sample_batch first[BATCHES][MANY], other[BATCHES][MANY];
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 20, fixture_png);
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
}

/* Other solvers, with another seed, resume at each position with the same batches. */
static void check_resume(const char *db, const char *rest, int solvers, bool shared) {
  static sample_batch wanted[BATCHES][MANY];
  static cr_buffer saved[BATCHES][MANY];
  crew c = {.solvers = solvers, .shared = shared};
  crew_make(&c, db, rest, 3);
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < solvers; ++r) save_input(c.net[r], &saved[k][r]);
    for (int r = 0; r < solvers; ++r) take_batch(c.net[r], &wanted[k][r]);
  }
  crew_free(&c);
  crew_make(&c, db, rest, 1234);
  for (int from = BATCHES - 1; from >= 1; --from) {
    sample_batch got;
    for (int r = 0; r < solvers && from % 3 != 0; ++r) take_batch(c.net[r], &got);
    for (int r = 0; r < solvers; ++r) {
      ok(restore(c.net[r], &saved[from][r]));
    }
    for (int k = from; k < BATCHES; ++k) {
      for (int r = 0; r < solvers; ++r) {
        take_batch(c.net[r], &got);
        assert_memory_equal(&wanted[k][r], &got, sizeof got);
      }
    }
  }
  crew_free(&c);
  for (int k = 0; k < BATCHES; ++k) {
    for (int r = 0; r < solvers; ++r) cr_buffer_free(&saved[k][r]);
  }
}

FIXTURE_TEST(s2_31_resume_with_one_and_three_solvers) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 7, fixture_png);
  for (int solvers = 1; solvers <= 3; solvers += 2) {
    check_resume(db, "rand_skip: 5", solvers, true);
    check_resume(db, "rand_skip: 5", solvers, false);
    /* In the first epoch, later ones, in the middle of any. */
    check_resume(db, "rand_skip: 5 cache: true", solvers, true);
    check_resume(db, "rand_skip: 5 shuffle: true", solvers, true);
    check_resume(db, "rand_skip: 5 shuffle: true", solvers, false);
  }
}

/* Skipped records put solvers ahead of each other; their own positions preserve that. */
FIXTURE_TEST(s2_31_resume_over_damaged_records) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 17, fixture_damaged_mixed);
  for (int solvers = 1; solvers <= 3; solvers += 2) {
    check_resume(db, "skip_corrupt: true", solvers, true);
    check_resume(db, "skip_corrupt: true threads: 2", solvers, true);
    check_resume(db, "skip_corrupt: true shuffle: true", solvers, true);
  }
}

/* With only a snapshot of solver 0 the others find their positions, as long as no record was
 * skipped. */
FIXTURE_TEST(s2_31_the_position_of_one_solver_is_enough) {
  static sample_batch wanted[MANY];
  const fixture *f = *state;
  crew c = {.solvers = 3, .shared = true};
  cr_buffer saved = {0};
  sample_batch got;
  const char *db = fixture_db(f, "db", 7, fixture_png);
  crew_make(&c, db, "", 3);
  for (int k = 0; k < 4; ++k) {
    if (k == 3) save_input(c.net[0], &saved);
    for (int r = 0; r < 3; ++r) take_batch(c.net[r], &wanted[r]);
  }
  for (int r = 0; r < 3; ++r) ok(restore(c.net[r], &saved));
  for (int r = 0; r < 3; ++r) {
    take_batch(c.net[r], &got);
    assert_memory_equal(&wanted[r], &got, sizeof got);
  }
  crew_free(&c);
  cr_buffer_free(&saved);
}

/* The second of two nets that are trained at once in one group is refused; with a group of its own
 * it is not, and test nets read for themselves. */
FIXTURE_TEST(s2_13_two_trainings_need_two_groups) {
  const fixture *f = *state;
  crew c = {.solvers = 2, .shared = true}, d = {.solvers = 2, .shared = true};
  crema_net *net = NULL;
  sample_batch batch;
  const char *db = fixture_db(f, "db", 5, fixture_png);
  crew_make(&c, db, "", 1);
  const cr_solver_rank again = {.rank = 1, .solvers = 2, .group = c.group};
  assert_fails(make_net(db, "", 1, CREMA_TRAIN, &again, &net), CREMA_E_STATE, "layer 'in' (Data)");
  assert_error_has("their own group");
  assert_null(net);
  ok(make_net(db, "", 1, CREMA_TEST, &again, &net));
  assert_int_equal(cr_input_group_readers(c.group), 1);
  take_batch(net, &batch);
  for (int i = 0; i < BATCH; ++i) assert_true(batch.label[i] == (float)i);
  crema_net_destroy(net);
  crew_make(&d, db, "", 1);
  for (int r = 0; r < 2; ++r) {
    take_batch(c.net[r], &batch);
    assert_true(batch.label[0] == (float)r);
    take_batch(d.net[r], &batch);
    assert_true(batch.label[0] == (float)r);
  }
  crew_free(&c);
  crew_free(&d);
}

/* Nets of one group come and go in any order, whatever the others do. */
FIXTURE_TEST(s2_09_crews_come_and_go) {
  const fixture *f = *state;
  sample_batch batch;
  const char *db = fixture_db(f, "db", 6, fixture_png);
  for (int i = 0; i < 60; ++i) {
    crew c = {.solvers = 1 + i % 3, .shared = true};
    crew_make(&c, db, i % 2 == 0 ? "" : "threads: 2", i);
    for (int k = 0; k < i % 4; ++k) {
      for (int r = 0; r < c.solvers; ++r) take_batch(c.net[r], &batch);
    }
    int first = i % c.solvers;
    crema_net_destroy(c.net[first]);
    c.net[first] = NULL;
    if (i % 5 == 0) cr_clock_sleep(1e-4);
    crew_free(&c);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
