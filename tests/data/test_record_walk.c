/* The records one after another: epochs, positions, orders, the number of records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/thread.h"
#include "data/pipeline/record_walk.h"
#include "fixture.h"

enum { RECORDS = 10 };

static const char *const backends[] = {"lmdb", "leveldb"};

static int number(const cr_record_walk *walk) {
  char text[64];
  return atoi(cr_db_key_text(walk->key, text, sizeof text));
}

static cr_db_bytes key_of(int number, char text[16]) {
  int length = snprintf(text, 16, "%08d", number);
  return (cr_db_bytes){(const uint8_t *)text, (size_t)length};
}

/* A walk that began in the middle does not take the records up to the end for all of them. */
TEST(the_count_is_that_of_whole_epochs) {
  for (int b = 0; b < 2; ++b) {
    fixture f;
    cr_record_walk walk;
    char text[16];
    fixture_make(&f);
    const cr_record_walk_options options = {
        .backend = backends[b],
        .source = fixture_db_of(&f, backends[b], "db", RECORDS, fixture_gray)};
    const uint64_t before = b == 0 ? RECORDS : UINT64_MAX;
    ok(cr_record_walk_open(&options, &walk));
    ok(cr_record_walk_go_after(&walk, key_of(6, text)));
    assert_int_equal(number(&walk), 7);
    for (int i = 0; i < 3; ++i) ok(cr_record_walk_next(&walk));
    assert_int_equal(number(&walk), 0);
    assert_true(walk.count == before);
    for (int i = 0; i < RECORDS; ++i) ok(cr_record_walk_next(&walk));
    assert_int_equal(number(&walk), 0);
    assert_int_equal(walk.count, RECORDS);
    assert_int_equal(cr_record_walk_go_after(&walk, key_of(RECORDS, text)), CREMA_E_NOT_FOUND);
    cr_record_walk_close(&walk);
    fixture_remove(&f);
  }
}

TEST(an_empty_database_is_told) {
  for (int b = 0; b < 2; ++b) {
    fixture f;
    cr_record_walk walk;
    fixture_make(&f);
    const cr_record_walk_options options = {
        .backend = backends[b], .source = fixture_db_of(&f, backends[b], "db", 0, fixture_gray)};
    assert_fails(cr_record_walk_open(&options, &walk), CREMA_E_CORRUPT, options.source);
    assert_error_has("no records");
    fixture_remove(&f);
  }
}

/* ---- orders -------------------------------------------------------------- */

static void note_epochs(cr_record_walk *walk, int first, int epochs, int *out) {
  for (int i = first * RECORDS; i < (first + epochs) * RECORDS; ++i) {
    ok(cr_record_walk_go(walk, (uint64_t)i));
    *out++ = number(walk);
  }
}

static void open_shuffled(const char *path, uint64_t key, cr_record_walk *walk) {
  const cr_record_walk_options options = {
      .backend = "lmdb", .source = path, .cache = true, .shuffle = true, .order_key = key};
  ok(cr_record_walk_open(&options, walk));
}

/* A new order takes effect at once, in the current epoch. */
FIXTURE_TEST(s2_31_a_new_order_replaces_the_old_one) {
  const fixture *f = *state;
  cr_record_walk a, b;
  int by_a[2 * RECORDS], by_b[2 * RECORDS], changed[2 * RECORDS];
  const char *path = fixture_db(f, "db", RECORDS, fixture_gray);
  open_shuffled(path, 1, &a);
  open_shuffled(path, 2, &b);
  note_epochs(&a, 1, 2, by_a);
  note_epochs(&b, 1, 2, by_b);
  assert_memory_not_equal(by_a, by_b, sizeof by_a);
  /* The walk stands in epoch 1, whose permutation is drawn. */
  ok(cr_record_walk_go(&a, RECORDS + 3));
  assert_int_equal(number(&a), by_a[3]);
  cr_record_walk_set_order(&a, 2);
  note_epochs(&a, 1, 2, changed);
  assert_memory_equal(changed, by_b, sizeof changed);
  cr_record_walk_set_order(&a, 1);
  note_epochs(&a, 1, 2, changed);
  assert_memory_equal(changed, by_a, sizeof changed);
  cr_record_walk_close(&a);
  cr_record_walk_close(&b);
}

/* ---- stopping ------------------------------------------------------------ */

static crema_status go_when_stopped(void *arg) {
  while (!cr_thread_must_stop()) cr_clock_sleep(1e-4);
  return cr_record_walk_go(arg, RECORDS - 1);
}

/* The way to a position may be long: a thread that is asked to stop gives up on the way. */
FIXTURE_TEST(the_way_to_a_position_can_be_stopped) {
  const fixture *f = *state;
  cr_record_walk walk;
  cr_thread *thread = NULL;
  const cr_record_walk_options options = {.backend = "lmdb",
                                          .source = fixture_db(f, "db", RECORDS, fixture_gray)};
  ok(cr_record_walk_open(&options, &walk));
  uint64_t before = walk.reads;
  ok(cr_thread_start(&thread, "walk", go_when_stopped, &walk));
  cr_thread_request_stop(thread);
  assert_int_equal(cr_thread_join(&thread), CREMA_E_INTERRUPTED);
  assert_int_equal(walk.reads - before, 1);
  cr_record_walk_close(&walk);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
