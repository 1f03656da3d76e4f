/* The reader: order, round robin, positions, faults, stopping at any moment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/clock.h"
#include "core/rng.h"
#include "data/pipeline/reader.h"
#include "data/pipeline/reader_private.h"
#include "fixture.h"

static void open_reader(const char *source, int consumers, int depth, cr_reader **out) {
  const cr_reader_options options = {
      .backend = "lmdb", .source = source, .consumers = consumers, .depth = depth};
  ok(cr_reader_open(&options, out));
}

static int key_number(cr_db_bytes key) {
  char text[16];
  cr_db_key_text(key, text, sizeof text);
  return atoi(text);
}

/* Takes one record and gives it back; the number in its key. */
static int take(cr_reader *reader, int consumer, uint64_t index) {
  cr_record *record = NULL;
  ok(cr_reader_take(reader, consumer, &record));
  assert_int_equal(record->index, index);
  int number = key_number(record->key);
  ok(fixture_give_back(reader, consumer, record));
  return number;
}

FIXTURE_TEST(s2_12_records_come_in_order_and_wrap) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_db_bytes key, value;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 1, 3, &reader);
  assert_int_equal(cr_reader_count(reader), 7);
  ok(cr_reader_preview(reader, 0, 0, &key, &value));
  assert_int_equal(key_number(key), 0);
  ok(fixture_reader_start(reader));
  assert_int_equal(fixture_reader_start(reader), CREMA_E_STATE);
  for (int i = 0; i < 40; ++i) assert_int_equal(take(reader, 0, (uint64_t)i), i % 7);
  cr_reader_close(reader);
  cr_reader_close(NULL);
}

/* Record k goes to consumer k mod N, whatever the order in which they ask. */
FIXTURE_TEST(s2_11_round_robin) {
  static const int numbers[] = {1, 2, 3, 8};
  const fixture *f = *state;
  const char *path = fixture_db(f, "db", 11, fixture_gray);
  for (int n = 0; n < 4; ++n) {
    int consumers = numbers[n];
    cr_reader *reader = NULL;
    open_reader(path, consumers, 50, &reader);
    ok(fixture_reader_start(reader));
    for (int c = consumers - 1; c >= 0; --c) {
      for (int i = 0; i < 25; ++i) {
        int k = i * consumers + c;
        assert_int_equal(take(reader, c, (uint64_t)k), k % 11);
      }
    }
    cr_reader_close(reader);
  }
}

/* A consumer that does not give records back stalls the reader after `depth` records. */
FIXTURE_TEST(s2_14_reading_ahead_is_bounded) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_record *held[5];
  open_reader(fixture_db(f, "db", 100, fixture_gray), 1, 5, &reader);
  ok(fixture_reader_start(reader));
  for (int i = 0; i < 5; ++i) ok(cr_reader_take(reader, 0, &held[i]));
  cr_clock_sleep(0.01);
  /* All five are still what they were: none was used again. */
  for (int i = 0; i < 5; ++i) assert_int_equal(key_number(held[i]->key), i);
  for (int i = 0; i < 5; ++i) {
    ok(fixture_give_back(reader, 0, held[i]));
  }
  assert_int_equal(take(reader, 0, 5), 5);
  cr_reader_close(reader);
}

/* One of three consumers sleeps: the others get what was read before the reader had to wait for it,
 * no record more and none in another order. When it wakes up, all go on. */
FIXTURE_TEST(s2_14_a_sleeping_consumer_stalls_all) {
  enum { CONSUMERS = 3, DEPTH = 4 };
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 10, fixture_gray), CONSUMERS, DEPTH, &reader);
  ok(fixture_reader_start(reader));
  for (int c = 0; c < 2; ++c) {
    for (int i = 0; i < DEPTH; ++i) {
      uint64_t k = (uint64_t)(i * CONSUMERS + c);
      assert_int_equal(take(reader, c, k), (int)(k % 10));
    }
  }
  /* The reader has dealt out the fifth record of both and waits for a free one of the third. */
  while (cr_reader_ready(reader, 0) + cr_reader_ready(reader, 1) < 2) cr_clock_sleep(1e-4);
  cr_clock_sleep(0.01);
  assert_int_equal(cr_reader_ready(reader, 0), 1);
  assert_int_equal(cr_reader_ready(reader, 1), 1);
  assert_int_equal(cr_reader_ready(reader, 2), DEPTH);
  for (int i = 0; i < 20; ++i) {
    for (int c = CONSUMERS - 1; c >= 0; --c) {
      /* The third begins with its first record, the others with their fifth. */
      uint64_t k = (uint64_t)((c == 2 ? i : i + DEPTH) * CONSUMERS + c);
      if (c == 2 || i < 12) assert_int_equal(take(reader, c, k), (int)(k % 10));
    }
  }
  cr_reader_close(reader);
}

FIXTURE_TEST(test_positions) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const cr_reader_options options = {.backend = "lmdb",
                                     .source = fixture_db(f, "db", 7, fixture_gray),
                                     .consumers = 1,
                                     .depth = 4,
                                     .skip = 7 * 1000 + 3};
  ok(cr_reader_open(&options, &reader));
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 0), 3);
  fixture_reader_stop(reader);
  fixture_reader_stop(reader);
  ok(fixture_reader_seek(reader, "00000004", 1000));
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 1000), 5);
  assert_int_equal(take(reader, 0, 1001), 6);
  assert_int_equal(take(reader, 0, 1002), 0);
  fixture_reader_stop(reader);
  /* After the last record comes the first. */
  ok(fixture_reader_seek(reader, "00000006", 7));
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 7), 0);
  fixture_reader_stop(reader);
  assert_fails(fixture_reader_seek(reader, "nine", 7), CREMA_E_NOT_FOUND, "'nine'");
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 0), 3);
  cr_reader_close(reader);
}

FIXTURE_TEST(test_bad_options) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *empty = fixture_db(f, "db", 0, fixture_gray);
  const cr_reader_options none = {.backend = "lmdb", .source = empty, .consumers = 1, .depth = 1};
  assert_fails(cr_reader_open(&none, &reader), CREMA_E_CORRUPT, "no records");
  const cr_reader_options nobody = {.backend = "lmdb", .source = empty, .depth = 1};
  assert_int_equal(cr_reader_open(&nobody, &reader), CREMA_E_ARGUMENT);
  assert_null(reader);
  /* One of the consumers, counted from 0. */
  cr_reader_options one = {.backend = "lmdb",
                           .source = fixture_db(f, "some", 3, fixture_gray),
                           .consumers = 2,
                           .depth = 1,
                           .alone = true};
  for (one.rank = -1; one.rank < 4; ++one.rank) {
    bool is_one = one.rank == 0 || one.rank == 1;
    assert_int_equal(cr_reader_open(&one, &reader), is_one ? CREMA_OK : CREMA_E_RANGE);
    cr_reader_close(reader);
  }
}

/* ---- positions of several consumers -------------------------------------- */

static cr_reader_cursor position_of(uint64_t index, const char *key, int consumers) {
  return (cr_reader_cursor){
      .index = index, .key = {(const uint8_t *)key, strlen(key)}, .consumers = consumers};
}

static crema_status resume(cr_reader *reader, int consumer, cr_reader_cursor place) {
  return cr_reader_resume(reader, consumer, &place);
}

/* What the consumers say of the reader as a whole has to be the same. */
FIXTURE_TEST(s2_31_positions_belong_together) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 2, 2, &reader);
  const cr_reader_cursor first = position_of(3, "00000002", 2),
                         second = position_of(4, "00000003", 2);
  cr_reader_cursor other_order = second, other_skip = second;
  other_order.order_key = 9;
  other_skip.skip = 1;
  ok(resume(reader, 0, first));
  assert_fails(resume(reader, 1, other_order), CREMA_E_CORRUPT, "do not belong together");
  assert_fails(resume(reader, 1, other_skip), CREMA_E_CORRUPT, cr_reader_source(reader));
  ok(resume(reader, 1, second));
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 4), 4);
  assert_int_equal(take(reader, 1, 5), 5);
  cr_reader_close(reader);
}

/* After a failed start no consumer is in: positions can be set, and all can start again. */
FIXTURE_TEST(a_failed_start_can_be_repeated) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 3, 2, &reader);
  ok(resume(reader, 2, position_of(3, "00000002", 3)));
  assert_fails(fixture_reader_start(reader), CREMA_E_CORRUPT, "2 of 3 begin at the first record");
  for (int c = 0; c < 3; ++c) {
    ok(resume(reader, c, position_of(3, "00000002", 3)));
  }
  ok(fixture_reader_start(reader));
  for (int c = 0; c < 3; ++c) assert_int_equal(take(reader, c, (uint64_t)(3 + c)), 3 + c);
  cr_reader_close(reader);
}

/* A position is for one run: a consumer that leaves and enters again without one begins at the
 * first record. */
FIXTURE_TEST(leaving_forgets_the_position) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 2, 2, &reader);
  for (int c = 0; c < 2; ++c) {
    ok(resume(reader, c, position_of(4, "00000003", 2)));
  }
  ok(fixture_reader_start(reader));
  assert_int_equal(take(reader, 0, 4), 4);
  for (int c = 1; c >= 0; --c) cr_reader_leave(reader, c);
  for (int c = 0; c < 2; ++c) ok(cr_reader_enter(reader, c));
  for (int i = 0; i < 4; ++i) assert_int_equal(take(reader, i % 2, (uint64_t)i), i);
  cr_reader_close(reader);
}

/* A reader that was just opened moves to the position, also when only `skip` differs. */
FIXTURE_TEST(s2_31_a_position_brings_its_skip) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 1, 2, &reader);
  cr_reader_cursor place = position_of(0, "", 1);
  place.skip = 3;
  ok(resume(reader, 0, place));
  ok(fixture_reader_start(reader));
  for (int i = 0; i < 10; ++i) assert_int_equal(take(reader, 0, (uint64_t)i), (i + 3) % 7);
  cr_reader_close(reader);
}

/* The order of a shuffled run comes from the position, whatever the reader was opened with. */
FIXTURE_TEST(s2_31_a_position_brings_its_order) {
  enum { COUNT = 11, TAKEN = 2 * COUNT + 4, MORE = 2 * COUNT };
  const fixture *f = *state;
  int wanted[MORE];
  char last[16] = "";
  cr_reader_options options = {.backend = "lmdb",
                               .source = fixture_db(f, "db", COUNT, fixture_gray),
                               .consumers = 1,
                               .depth = 2,
                               .shuffle = true,
                               .order_key = 5};
  cr_reader_cursor place = {0};
  for (int run = 0; run < 2; ++run) {
    cr_reader *reader = NULL;
    options.order_key = run == 0 ? 5 : 6;
    ok(cr_reader_open(&options, &reader));
    if (run == 1) {
      place.index = TAKEN;
      place.key = (cr_db_bytes){(const uint8_t *)last, strlen(last)};
      ok(cr_reader_resume(reader, 0, &place));
    }
    ok(fixture_reader_start(reader));
    for (int i = 0; run == 0 && i < TAKEN; ++i) {
      snprintf(last, sizeof last, "%08d", take(reader, 0, (uint64_t)i));
    }
    for (int i = 0; i < MORE; ++i) {
      int number = take(reader, 0, (uint64_t)(TAKEN + i));
      if (run == 0) wanted[i] = number;
      else assert_int_equal(number, wanted[i]);
    }
    cr_reader_note_cursor(reader, &place);
    assert_int_equal(place.order_key, 5);
    cr_reader_close(reader);
  }
}

/* A consumer whose first record is far away can still be stopped: the thread passes over records
 * for minutes if nobody stops it. */
FIXTURE_TEST(s2_05_stops_while_passing_over) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 1, 2, &reader);
  ok(resume(reader, 0, position_of(1, "00000000", INT32_MAX)));
  ok(fixture_reader_start(reader));
  while (cr_reader_get_stats(reader).reads < 50) cr_clock_sleep(1e-4);
  alarm(60); /* ends the test where stopping takes for ever */
  fixture_reader_stop(reader);
  alarm(0);
  assert_int_equal(cr_reader_get_stats(reader).records, 0);
  cr_reader_close(reader);
}

/* A look at the first records is over when reading begins: it does not pin a snapshot any longer.
 */
FIXTURE_TEST(s2_18_previews_end_when_reading_begins) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_db_bytes key, value;
  open_reader(fixture_db(f, "db", 7, fixture_gray), 1, 2, &reader);
  for (int run = 0; run < 2; ++run) {
    ok(cr_reader_preview(reader, 0, 2, &key, &value));
    assert_int_equal(key_number(key), 2);
    assert_non_null(reader->slot[0].preview);
    ok(fixture_reader_start(reader));
    assert_null(reader->slot[0].preview);
    for (int i = 0; i < 9; ++i) assert_int_equal(take(reader, 0, (uint64_t)i), i % 7);
    assert_int_equal(cr_reader_preview(reader, 0, 0, &key, &value), CREMA_E_STATE);
    fixture_reader_stop(reader);
    /* After a run it is the first record that comes first, not the one that the run ended at. */
    ok(cr_reader_preview(reader, 0, 0, &key, &value));
    assert_int_equal(key_number(key), 0);
  }
  cr_reader_close(reader);
}

/* Stopped while it reads, while it waits for a free record, at once. */
FIXTURE_TEST(s2_05_stops_at_any_moment) {
  const fixture *f = *state;
  int cycles = fixture_cycles(1000);
  cr_mt19937 rng;
  cr_reader *reader = NULL;
  cr_mt19937_seed(&rng, 5);
  open_reader(fixture_db(f, "db", 20, fixture_gray), 2, 2, &reader);
  for (int i = 0; i < cycles; ++i) {
    ok(fixture_reader_start(reader));
    uint32_t records = cr_mt19937_below(&rng, 6);
    for (uint32_t k = 0; k < records; ++k) (void)take(reader, (int)(k % 2), k);
    if (cr_mt19937_below(&rng, 4) == 0) cr_clock_sleep(1e-5);
    fixture_reader_stop(reader);
  }
  cr_reader_close(reader);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
