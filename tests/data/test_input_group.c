/* Readers that several solvers share: who gets which, start, order, positions, faults. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "core/thread.h"
#include "data/pipeline/input_group.h"
#include "fixture.h"

enum { DEPTH = 6 };

static crema_status try_join(cr_input_group *group, const char *layer, const char *source,
                             int solvers, int rank, cr_reader **out) {
  const cr_reader_options options = {
      .backend = "lmdb", .source = source, .consumers = solvers, .rank = rank, .depth = DEPTH};
  return cr_reader_join(group, layer, &options, out);
}

static cr_reader *join(cr_input_group *group, const char *layer, const char *source, int solvers,
                       int rank) {
  cr_reader *reader = NULL;
  ok(try_join(group, layer, source, solvers, rank, &reader));
  return reader;
}

static cr_input_group *make_group(void) {
  cr_input_group *group = NULL;
  ok(cr_input_group_create(&group));
  return group;
}

static int key_number(cr_db_bytes key) {
  char text[16];
  cr_db_key_text(key, text, sizeof text);
  return atoi(text);
}

/* Takes one record and gives it back; its number and the one in its key. */
static uint64_t take(cr_reader *reader, int rank, int *key) {
  cr_record *record = NULL;
  ok(cr_reader_take(reader, rank, &record));
  uint64_t index = record->index;
  if (key != NULL) *key = key_number(record->key);
  ok(fixture_give_back(reader, rank, record));
  return index;
}

static void expect(cr_reader *reader, int rank, uint64_t index, int key) {
  int found = -1;
  assert_int_equal(take(reader, rank, &found), index);
  assert_int_equal(found, key);
}

/* ---- who shares ---------------------------------------------------------- */

FIXTURE_TEST(s2_09_one_reader_for_a_layer_and_a_source) {
  const fixture *f = *state;
  cr_reader *a[3], *b[3];
  const char *db = fixture_db(f, "db", 7, fixture_gray);
  const char *other = fixture_db(f, "other", 7, fixture_gray);
  cr_input_group *group = make_group(), *stranger = make_group();
  for (int i = 0; i < 3; ++i) {
    a[i] = join(group, "a", db, 3, i);
    assert_ptr_equal(a[i], a[0]);
    assert_int_equal(cr_input_group_readers(group), 1);
  }
  /* The same source in another layer, another source, another training: readers of their own. */
  for (int i = 0; i < 3; ++i) b[i] = join(group, "b", db, 3, i);
  assert_ptr_not_equal(a[0], b[0]);
  assert_int_equal(cr_input_group_readers(group), 2);
  cr_reader *c = join(group, "a", other, 3, 0);
  assert_int_equal(cr_input_group_readers(group), 3);
  cr_reader *d = join(stranger, "a", db, 3, 0);
  assert_ptr_not_equal(a[0], d);
  /* A reader goes with its last consumer, in whatever order they quit. */
  cr_reader_quit(group, c, 0);
  cr_reader_quit(group, a[1], 1);
  cr_reader_quit(group, a[0], 0);
  assert_int_equal(cr_input_group_readers(group), 2);
  cr_reader_quit(group, a[2], 2);
  assert_int_equal(cr_input_group_readers(group), 1);
  for (int i = 0; i < 3; ++i) cr_reader_quit(group, b[i], i);
  assert_int_equal(cr_input_group_readers(group), 0);
  assert_int_equal(cr_input_group_readers(stranger), 1);
  a[0] = join(group, "a", db, 1, 0);
  cr_reader_quit(group, a[0], 0);
  cr_reader_quit(stranger, d, 0);
  cr_reader_quit(group, NULL, 0);
  cr_input_group_release(stranger);
  cr_input_group_release(group);
}

typedef struct visitor {
  cr_input_group *group;
  const char *source;
  int rank, cycles;
  bool failed;
  char text[512]; /* of the failure */
} visitor;

/* Joins, looks and perhaps enters, quits, again and again. */
static void *visit(void *arg) {
  visitor *v = arg;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, (uint32_t)(17 + v->rank));
  for (int i = 0; i < v->cycles && !v->failed; ++i) {
    cr_reader *reader = NULL;
    cr_db_bytes key, value;
    const char *layer = cr_mt19937_below(&rng, 3) == 0 ? "b" : "a";
    crema_status status = try_join(v->group, layer, v->source, 4, v->rank, &reader);
    if (status == CREMA_OK) status = cr_reader_preview(reader, v->rank, 0, &key, &value);
    if (status == CREMA_OK && key_number(key) != v->rank) status = CREMA_E_INTERNAL;
    bool enters = cr_mt19937_below(&rng, 4) > 0;
    if (status == CREMA_OK && enters) status = cr_reader_enter(reader, v->rank);
    v->failed = status != CREMA_OK;
    if (v->failed) snprintf(v->text, sizeof v->text, "%s", crema_error_text());
    if (cr_mt19937_below(&rng, 8) == 0) cr_clock_sleep(1e-5);
    cr_reader_quit(v->group, reader, v->rank);
  }
  return NULL;
}

FIXTURE_TEST(s2_09_readers_come_and_go_in_races) {
  enum { SOLVERS = 4 };
  const fixture *f = *state;
  visitor v[SOLVERS];
  pthread_t thread[SOLVERS];
  const char *db = fixture_db(f, "db", 7, fixture_gray);
  cr_input_group *group = make_group();
  for (int i = 0; i < SOLVERS; ++i) {
    v[i] = (visitor){.group = group, .source = db, .rank = i, .cycles = fixture_cycles(300)};
    assert_int_equal(pthread_create(&thread[i], NULL, visit, &v[i]), 0);
  }
  for (int i = 0; i < SOLVERS; ++i) {
    assert_int_equal(pthread_join(thread[i], NULL), 0);
    if (v[i].failed) fail_msg("solver %d: %s", i, v[i].text);
  }
  assert_int_equal(cr_input_group_readers(group), 0);
  cr_input_group_release(group);
}

/* ---- start --------------------------------------------------------------- */

/* Solvers come one by one; each can look at its own first records at once, and nothing is dealt
 * before all are there. */
FIXTURE_TEST(s2_10_starts_when_all_have_come) {
  enum { SOLVERS = 3 };
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  cr_input_group *group = make_group();
  for (int r = 0; r < SOLVERS; ++r) {
    cr_db_bytes key, value;
    reader = join(group, "in", db, SOLVERS, r);
    for (int ahead = 0; ahead < 3; ++ahead) {
      ok(cr_reader_preview(reader, r, (uint64_t)ahead, &key, &value));
      assert_int_equal(key_number(key), (r + 3 * ahead) % 5);
    }
    ok(cr_reader_preview(reader, r, 0, &key, &value));
    assert_int_equal(key_number(key), r);
    ok(cr_reader_enter(reader, r));
    assert_int_equal(cr_reader_enter(reader, r), CREMA_E_STATE);
    assert_int_equal(cr_reader_preview(reader, r, 0, &key, &value), CREMA_E_STATE);
    if (r + 1 < SOLVERS) {
      cr_clock_sleep(0.005);
      assert_int_equal(cr_reader_get_stats(reader).records, 0);
      assert_int_equal(cr_reader_ready(reader, r), 0);
    }
  }
  for (uint64_t k = 0; k < 30; ++k) expect(reader, (int)(k % SOLVERS), k, (int)(k % 5));
  for (int r = 0; r < SOLVERS; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* One more is refused at once, and those who read go on as if it had not come. */
FIXTURE_TEST(s2_13_one_too_many_is_refused) {
  const fixture *f = *state;
  cr_reader *reader = NULL, *extra = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  cr_input_group *group = make_group();
  for (int r = 0; r < 2; ++r) {
    reader = join(group, "in", db, 2, r);
    ok(cr_reader_enter(reader, r));
  }
  expect(reader, 0, 0, 0);
  assert_fails(try_join(group, "in", db, 2, 1, &extra), CREMA_E_STATE, "layer 'in'");
  assert_error_has("solver 1 of 2");
  assert_error_has(db);
  assert_fails(try_join(group, "in", db, 3, 2, &extra), CREMA_E_ARGUMENT, "2 solvers, not 3");
  assert_int_equal(try_join(group, "in", db, 2, 2, &extra), CREMA_E_RANGE);
  assert_int_equal(cr_reader_enter(reader, 2), CREMA_E_RANGE);
  assert_null(extra);
  for (uint64_t k = 1; k < 30; ++k) expect(reader, (int)(k % 2), k, (int)(k % 5));
  assert_int_equal(cr_input_group_readers(group), 1);
  for (int r = 0; r < 2; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* A source that cannot be read leaves nothing behind in the group. */
FIXTURE_TEST(s2_09_a_reader_that_fails_to_open) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_input_group *group = make_group();
  const char *none = fixture_path(f, "none");
  assert_fails(try_join(group, "in", none, 2, 0, &reader), CREMA_E_NOT_FOUND, none);
  assert_int_equal(cr_input_group_readers(group), 0);
  cr_input_group_release(group);
}

/* ---- order --------------------------------------------------------------- */

enum { MANY = 8, TAKEN = 40 };

/* What each solver gets of `records` records: keys by their order. */
static void read_shared(const char *db, int solvers, int keys[MANY][TAKEN]) {
  cr_input_group *group = make_group();
  cr_reader *reader = NULL;
  for (int r = solvers - 1; r >= 0; --r) reader = join(group, "in", db, solvers, r);
  for (int r = 0; r < solvers; ++r) ok(cr_reader_enter(reader, r));
  for (int i = 0; i < TAKEN; ++i) {
    for (int r = 0; r < solvers; ++r) {
      assert_int_equal(take(reader, r, &keys[r][i]), (uint64_t)(r + i * solvers));
    }
  }
  for (int r = 0; r < solvers; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* Record k goes to solver k mod N, the same in each run, and together they are the data set. */
FIXTURE_TEST(s2_11_round_robin_repeats) {
  static const int numbers[] = {1, 2, 3, 8};
  static int keys[2][MANY][TAKEN];
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 11, fixture_gray);
  for (int n = 0; n < 4; ++n) {
    memset(keys, 0, sizeof keys);
    for (int run = 0; run < 2; ++run) read_shared(db, numbers[n], keys[run]);
    assert_memory_equal(keys[0], keys[1], sizeof keys[0]);
    for (int k = 0; k < numbers[n] * TAKEN; ++k) {
      assert_int_equal(keys[0][k % numbers[n]][k / numbers[n]], k % 11);
    }
  }
}

/* Solvers in processes of their own get what they would get from a shared reader. */
FIXTURE_TEST(s2_27_alone_each_gets_the_same) {
  static int keys[MANY][TAKEN];
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 13, fixture_gray);
  read_shared(db, MANY, keys);
  for (int r = 0; r < MANY; ++r) {
    cr_db_bytes key, value;
    cr_reader *reader = join(NULL, "in", db, MANY, r);
    ok(cr_reader_preview(reader, r, 0, &key, &value));
    assert_int_equal(key_number(key), r);
    assert_int_equal(cr_reader_enter(reader, (r + 1) % MANY), CREMA_E_RANGE);
    ok(cr_reader_enter(reader, r));
    /* Ten batches of four. */
    for (int i = 0; i < TAKEN; ++i) expect(reader, r, (uint64_t)(r + i * MANY), keys[r][i]);
    /* Every rank walks through all records. */
    assert_true(cr_reader_get_stats(reader).reads > (TAKEN - 1) * MANY);
    cr_reader_quit(NULL, reader, r);
  }
}

/* ---- bounds -------------------------------------------------------------- */

/* One of three sleeps: the others stop after what was read ahead for them, and go on when it wakes.
 */
FIXTURE_TEST(s2_14_a_sleeping_solver_stalls_the_others) {
  enum { SOLVERS = 3 };
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *db = fixture_db(f, "db", 10, fixture_gray);
  cr_input_group *group = make_group();
  for (int r = 0; r < SOLVERS; ++r) {
    reader = join(group, "in", db, SOLVERS, r);
    ok(cr_reader_enter(reader, r));
  }
  uint64_t next[2] = {0, 0};
  /* As much as there is. */
  double start = cr_clock_seconds();
  while (next[0] + next[1] < 2 * (DEPTH + 1) && cr_clock_seconds() < start + 10) {
    for (int r = 0; r < 2; ++r) {
      if (cr_reader_ready(reader, r) == 0) continue;
      uint64_t k = (uint64_t)r + next[r]++ * SOLVERS;
      expect(reader, r, k, (int)(k % 10));
    }
  }
  cr_clock_sleep(0.02);
  assert_int_equal(cr_reader_ready(reader, 0) + cr_reader_ready(reader, 1), 0);
  /* The reader waits with record 2 + 3 * DEPTH in its hand; before it come DEPTH + 1 records for
   * each of the others. */
  assert_int_equal(next[0], DEPTH + 1);
  assert_int_equal(next[1], DEPTH + 1);
  assert_int_equal(cr_reader_ready(reader, 2), DEPTH);
  assert_int_equal(cr_reader_get_stats(reader).records, 3 * DEPTH + 2);
  for (uint64_t i = 0; i < 50; ++i) {
    expect(reader, 2, 2 + i * SOLVERS, (int)((2 + i * SOLVERS) % 10));
    for (int r = 0; r < 2; ++r) {
      uint64_t k = (uint64_t)r + next[r]++ * SOLVERS;
      expect(reader, r, k, (int)(k % 10));
    }
  }
  for (int r = 0; r < SOLVERS; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* ---- leaving ------------------------------------------------------------- */

FIXTURE_TEST(test_a_solver_that_leaves_is_named_to_the_others) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_record *record = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  cr_input_group *group = make_group();
  for (int r = 0; r < 2; ++r) {
    reader = join(group, "in", db, 2, r);
    ok(cr_reader_enter(reader, r));
  }
  expect(reader, 1, 1, 1);
  cr_reader_leave(reader, 0);
  cr_reader_leave(reader, 0);
  crema_status status = CREMA_OK;
  for (int i = 0; i < 20 && status == CREMA_OK; ++i) status = cr_reader_take(reader, 1, &record);
  assert_int_equal(status, CREMA_E_STATE);
  assert_error_has("solver 0 of 2 has stopped reading");
  /* It does not start again before both have come anew. */
  ok(cr_reader_enter(reader, 0));
  assert_int_equal(cr_reader_enter(reader, 1), CREMA_E_STATE);
  cr_clock_sleep(0.002);
  assert_int_equal(cr_reader_ready(reader, 0), 0);
  cr_reader_leave(reader, 1);
  ok(cr_reader_enter(reader, 1));
  for (uint64_t k = 0; k < 12; ++k) expect(reader, (int)(k % 2), k, (int)(k % 5));
  for (int r = 0; r < 2; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* A consumer's thread: takes records, sleeping at times, until it is stopped. */
typedef struct eater {
  cr_reader *reader;
  int rank;
  uint32_t seed;
  cr_thread *thread;
} eater;

static crema_status eat(void *arg) {
  eater *e = arg;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, e->seed);
  for (;;) {
    cr_record *record = NULL;
    CR_TRY(cr_reader_take(e->reader, e->rank, &record));
    if (cr_mt19937_below(&rng, 8) == 0) cr_clock_sleep(2e-5);
    CR_TRY(fixture_give_back(e->reader, e->rank, record));
  }
}

/* Stopped while solvers are still to come, while one sleeps, while the reader waits for it, while
 * all wait for the reader. */
FIXTURE_TEST(s2_05_shared_readers_stop_at_any_moment) {
  enum { SOLVERS = 3 };
  const fixture *f = *state;
  eater e[SOLVERS];
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 6);
  const char *db = fixture_db(f, "db", 20, fixture_gray);
  cr_input_group *group = make_group();
  cr_reader *reader = NULL;
  int cycles = fixture_cycles(500);
  for (int r = 0; r < SOLVERS; ++r) reader = join(group, "in", db, SOLVERS, r);
  for (int i = 0; i < cycles; ++i) {
    int present = cr_mt19937_below(&rng, 4) == 0 ? 2 : SOLVERS;
    for (int r = 0; r < present; ++r) {
      e[r] = (eater){.reader = reader, .rank = r, .seed = cr_mt19937_next(&rng)};
      ok(cr_reader_enter(reader, r));
      /* Consumers without a thread take nothing, and the reader has to wait. */
      if (cr_mt19937_below(&rng, 5) == 0) continue;
      ok(cr_thread_start(&e[r].thread, "eater", eat, &e[r]));
    }
    if (cr_mt19937_below(&rng, 3) == 0) cr_clock_sleep(5e-5);
    int first = (int)cr_mt19937_below(&rng, (uint32_t)present);
    for (int k = 0; k < present; ++k) {
      int r = (first + k) % present;
      /* Those who stay may have been told that another one has left. */
      crema_status ended = cr_thread_stop(&e[r].thread);
      assert_true(ended == CREMA_OK || (k > 0 && ended == CREMA_E_STATE));
      cr_reader_leave(reader, r);
    }
  }
  for (int r = 0; r < SOLVERS; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* ---- positions ----------------------------------------------------------- */

typedef struct positions {
  cr_reader_cursor position[MANY];
  char key[MANY][16];
} positions;

/* Consumer r takes `count[r]` records; where they stand then. */
static void walk_and_note(const char *db, int solvers, const int count[], positions *out) {
  cr_input_group *group = make_group();
  cr_reader *reader = NULL;
  for (int r = 0; r < solvers; ++r) reader = join(group, "in", db, solvers, r);
  for (int r = 0; r < solvers; ++r) ok(cr_reader_enter(reader, r));
  int most = 0;
  for (int r = 0; r < solvers; ++r) most = count[r] > most ? count[r] : most;
  for (int i = 0; i < most; ++i) {
    for (int r = 0; r < solvers; ++r) {
      int key = 0;
      if (i >= count[r]) continue;
      out->position[r].index = take(reader, r, &key) + 1;
      snprintf(out->key[r], sizeof out->key[r], "%08d", key);
    }
  }
  for (int r = 0; r < solvers; ++r) {
    out->position[r].key = (cr_db_bytes){(const uint8_t *)out->key[r], 8};
    cr_reader_note_cursor(reader, &out->position[r]);
    assert_int_equal(out->position[r].consumers, solvers);
  }
  for (int r = 0; r < solvers; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

/* Solvers that resume at the positions `from[r]` get numbers from `next[r]` on, in steps of their
 * number, and the keys that belong to them. */
static void expect_after(const char *db, int records, int solvers, const cr_reader_cursor *from[],
                         const uint64_t next[]) {
  cr_input_group *group = make_group();
  cr_reader *reader = NULL;
  for (int r = 0; r < solvers; ++r) reader = join(group, "in", db, solvers, r);
  for (int r = 0; r < solvers; ++r) {
    ok(cr_reader_resume(reader, r, from[r]));
    ok(cr_reader_enter(reader, r));
  }
  for (uint64_t i = 0; i < 15; ++i) {
    for (int r = 0; r < solvers; ++r) {
      uint64_t k = next[r] + i * (uint64_t)solvers;
      expect(reader, r, k, (int)(k % (uint64_t)records));
    }
  }
  for (int r = 0; r < solvers; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

FIXTURE_TEST(s2_31_positions_of_several_solvers) {
  enum { RECORDS = 7 };
  static const int even[] = {5, 5, 5}, uneven[] = {5, 7, 4};
  const fixture *f = *state;
  positions p;
  const char *db = fixture_db(f, "db", RECORDS, fixture_gray);
  walk_and_note(db, 3, even, &p);
  const cr_reader_cursor *own[] = {&p.position[0], &p.position[1], &p.position[2]};
  expect_after(db, RECORDS, 3, own, (const uint64_t[]){15, 16, 17});
  /* The position of one serves for the others, as they had taken as many. */
  const cr_reader_cursor *root[] = {&p.position[0], &p.position[0], &p.position[0]};
  expect_after(db, RECORDS, 3, root, (const uint64_t[]){15, 16, 17});
  /* Fewer solvers, and more: no record is left out or dealt twice. */
  expect_after(db, RECORDS, 1, root, (const uint64_t[]){15});
  expect_after(db, RECORDS, 2, root, (const uint64_t[]){16, 15});
  const cr_reader_cursor *more[] = {root[0], root[0], root[0], root[0], root[0]};
  expect_after(db, RECORDS, 5, more, (const uint64_t[]){15, 16, 17, 18, 19});
  /* Some had got ahead, over records that they passed over. */
  walk_and_note(db, 3, uneven, &p);
  expect_after(db, RECORDS, 3, own, (const uint64_t[]){15, 22, 14});
}

FIXTURE_TEST(s2_31_positions_that_do_not_belong_together) {
  static const int count[] = {5, 5};
  const fixture *f = *state;
  positions p;
  cr_record *record = NULL;
  const char *db = fixture_db(f, "db", 7, fixture_gray);
  walk_and_note(db, 2, count, &p);
  cr_input_group *group = make_group();
  cr_reader *reader = NULL;
  for (int r = 0; r < 2; ++r) reader = join(group, "in", db, 2, r);
  /* One begins, the other goes on. */
  ok(cr_reader_resume(reader, 0, &p.position[0]));
  ok(cr_reader_enter(reader, 0));
  assert_int_equal(cr_reader_resume(reader, 0, &p.position[0]), CREMA_E_STATE);
  assert_fails(cr_reader_enter(reader, 1), CREMA_E_CORRUPT, "do not belong together");
  assert_error_has(db);
  /* A number with the key of another record. */
  cr_reader_cursor wrong = p.position[1];
  wrong.index += 2;
  ok(cr_reader_resume(reader, 1, &wrong));
  ok(cr_reader_enter(reader, 1));
  crema_status status = CREMA_OK;
  for (int i = 0; i < 20 && status == CREMA_OK; ++i) status = cr_reader_take(reader, 1, &record);
  assert_int_equal(status, CREMA_E_CORRUPT);
  assert_error_has("do not belong together");
  assert_error_has("record 11 is '00000004', not '00000002'");
  for (int r = 0; r < 2; ++r) cr_reader_leave(reader, r);
  /* Another order key. */
  wrong = p.position[1];
  wrong.skip += 1;
  ok(cr_reader_resume(reader, 0, &p.position[0]));
  assert_int_equal(cr_reader_resume(reader, 1, &wrong), CREMA_E_CORRUPT);
  ok(cr_reader_resume(reader, 1, &p.position[1]));
  for (int r = 0; r < 2; ++r) ok(cr_reader_enter(reader, r));
  expect(reader, 1, 11, 4);
  for (int r = 0; r < 2; ++r) cr_reader_quit(group, reader, r);
  cr_input_group_release(group);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
