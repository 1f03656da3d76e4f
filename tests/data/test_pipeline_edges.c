/* The parts of the input engine by themselves: orders, batches and their memory, limits of
 * pipelines, databases' keys in messages and the cursors of readers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "data/fixture.h"
#include "data/pipeline/order.h"
#include "data/pipeline/pipeline_private.h"
#include "device/memory/host_memory.h"

/* ---- orders -------------------------------------------------------------- */

/* Fisher and Yates with the words of the epoch's generator. */
static void expected_order(uint64_t key, uint64_t epoch, size_t count, size_t *out) {
  cr_mt19937 rng;
  uint32_t word[4];
  cr_philox(key, 0, epoch, word);
  cr_mt19937_seed(&rng, word[0]);
  for (size_t i = 0; i < count; ++i) out[i] = i;
  for (size_t i = count - 1; i > 0; --i) {
    const size_t k = cr_mt19937_below(&rng, (uint32_t)i + 1), keep = out[k];
    out[k] = out[i];
    out[i] = keep;
  }
}

TEST(orders) {
  static const uint64_t epochs[] = {0, 1, 1, 5, 0, 2};
  for (size_t count = 1; count < 8; ++count) {
    cr_order order = {.shuffle = true, .count = count, .key = 1234 + count};
    for (size_t e = 0; e < sizeof epochs / sizeof *epochs; ++e) {
      size_t wanted[8], found = 0;
      expected_order(order.key, epochs[e], count, wanted);
      for (size_t i = 0; i < count; ++i) {
        ok(cr_order_at(&order, epochs[e] * count + i, &found));
        assert_int_equal(found, wanted[i]);
      }
    }
    cr_order_free(&order);
    assert_null(order.permutation);
    assert_false(order.drawn);
    cr_order plain = {.count = count};
    size_t found = 0;
    for (uint64_t i = 0; i < 20; ++i) {
      ok(cr_order_at(&plain, i, &found));
      assert_int_equal(found, i % count);
    }
    assert_null(plain.permutation);
  }
  size_t found = 0;
  cr_order none = {.count = 0}, many = {.count = (size_t)UINT32_MAX + 1};
  assert_fails(cr_order_at(&none, 0, &found), CREMA_E_RANGE, "0 items cannot be put in order");
  assert_fails(cr_order_at(&many, 0, &found), CREMA_E_RANGE,
               "4294967296 items cannot be put in order");
  many.count = UINT32_MAX;
  ok(cr_order_at(&many, 7, &found));
  assert_int_equal(found, 7);
}

/* ---- batches ------------------------------------------------------------- */

TEST(batches) {
  cr_batch batch = {.tops = 2, .items = 3, .item_size = 5};
  const crema_shape two = {.axes = 2, .dim = {2, 3}}, six = {.axes = 1, .dim = {6}};
  const crema_shape seven = {.axes = 1, .dim = {7}}, none = {.axes = 1, .dim = {0}};
  const crema_shape wrong = {.axes = 1, .dim = {-1}};
  float *values = NULL, *again = NULL;
  char items[15];
  batch.item = items;
  assert_ptr_equal(cr_batch_item(&batch, 0), items);
  assert_ptr_equal(cr_batch_item(&batch, 2), items + 10);
  ok(cr_batch_reserve(&batch, 1, &two, &values));
  assert_ptr_equal(values, batch.top[1].values);
  assert_int_equal(batch.top[1].capacity, 6);
  assert_null(batch.top[0].values);
  assert_true(crema_shape_equal(&batch.top[1].shape, &two));
  ok(cr_batch_reserve(&batch, 1, &six, &again));
  assert_ptr_equal(again, values);
  assert_true(crema_shape_equal(&batch.top[1].shape, &six));
  ok(cr_batch_reserve(&batch, 1, &none, NULL));
  assert_int_equal(batch.top[1].capacity, 6);
  ok(cr_batch_reserve(&batch, 1, &seven, NULL));
  assert_int_equal(batch.top[1].capacity, 7);
  assert_int_equal(cr_batch_reserve(&batch, 1, &wrong, NULL), CREMA_E_SHAPE);
  assert_true(crema_shape_equal(&batch.top[1].shape, &seven));
  /* Even no values have an address. */
  ok(cr_batch_reserve(&batch, 0, &none, &values));
  assert_non_null(values);
  cr_host_free(batch.top[0].values);
  cr_host_free(batch.top[1].values);
}

/* The first item of a batch decides on the extents of all. */
TEST(images_of_a_batch) {
  cr_batch batch = {.tops = 1, .items = 3};
  cr_load load = {.batch = &batch};
  float *out = NULL;
  ok(cr_load_image(&load, (const int[]){2, 4, 5}, "advice", &out));
  assert_ptr_equal(out, batch.top[0].values);
  load.item = 2;
  ok(cr_load_image(&load, (const int[]){2, 4, 5}, "advice", &out));
  assert_ptr_equal(out, batch.top[0].values + 2 * 40);
  assert_fails(cr_load_image(&load, (const int[]){3, 4, 5}, "advice", &out), CREMA_E_SHAPE,
               "3 x 4 x 5 values in a batch of 3 whose first item has 2 x 4 x 5 (advice)");
  assert_int_equal(cr_load_image(&load, (const int[]){2, 3, 5}, "", &out), CREMA_E_SHAPE);
  assert_int_equal(cr_load_image(&load, (const int[]){2, 4, 6}, "", &out), CREMA_E_SHAPE);
  load.item = 0;
  ok(cr_load_image(&load, (const int[]){1, 2, 3}, "", &out));
  assert_int_equal(crema_shape_count(&batch.top[0].shape, 0, 4), 18);
  cr_host_free(batch.top[0].values);
}

/* ---- pipelines ----------------------------------------------------------- */

TEST(windows) {
  static const struct {
    int threads, items, depth, consumers, wanted;
  } cases[] = {{1, 1, 4, 1, 1},   {2, 1, 9, 1, 4},  {2, 2, 9, 1, 2}, {2, 3, 9, 1, 2},
               {3, 2, 9, 1, 3},   {3, 5, 9, 1, 2},  {4, 3, 9, 1, 3}, {4, 4, 9, 1, 2},
               {4, 1, 4, 1, 4},   {4, 1, 4, 2, 8},  {4, 1, 1, 1, 1}, {64, 1, 500, 1, 128},
               {2, 100, 1, 1, 1}, {2, 100, 1, 3, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const cr_pipeline_options options = {.threads = cases[i].threads,
                                         .items = cases[i].items,
                                         .depth = cases[i].depth,
                                         .consumers = cases[i].consumers};
    assert_int_equal(cr_pipeline_window(&options), cases[i].wanted);
  }
}

/* A quarter of what is free may be taken. */
TEST(depths) {
  static const struct {
    uint64_t bytes, host, device;
    int wanted;
  } cases[] = {{100, 1600, UINT64_MAX, 4},
               {100, 1599, UINT64_MAX, 3},
               {100, 1200, 1600, 3},
               {100, 1199, 1600, 2},
               {100, 1600, 1200, 3},
               {100, 0, 0, 2},
               {0, 5, 5, 4},
               {1, UINT64_MAX, UINT64_MAX, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_int_equal(cr_pipeline_depth_for(cases[i].bytes, cases[i].host, cases[i].device),
                     cases[i].wanted);
  }
}

TEST(refused_pipelines) {
  static const cr_source source = {0};
  const crema_shape shape[2] = {{.axes = 1, .dim = {1}}, {.axes = 1, .dim = {1}}};
  const cr_pipeline_options good = {.name = "name",
                                    .source = &source,
                                    .tops = 2,
                                    .items = 1,
                                    .depth = 1,
                                    .threads = CR_PIPELINE_MAX_THREADS,
                                    .shape = shape};
  cr_pipeline *pipeline = NULL;
  int threads = -1;
  ok(cr_pipeline_create(&good, &pipeline));
  cr_pipeline_destroy(pipeline);
  for (int k = 0; k < 6; ++k) {
    cr_pipeline_options options = good;
    if (k == 0) options.depth = -1;
    if (k == 1) options.tops = 0;
    if (k == 2) options.tops = CR_BATCH_TOPS + 1;
    if (k == 3) options.items = 0;
    if (k == 4) options.threads = 0;
    if (k == 5) options.threads = 65;
    char words[100];
    snprintf(words, sizeof words, "a pipeline of %d batches of %d items for %d tops by %d threads",
             options.depth, options.items, options.tops, options.threads);
    pipeline = (cr_pipeline *)words;
    assert_fails(cr_pipeline_create(&options, &pipeline), CREMA_E_ARGUMENT, words);
    assert_null(pipeline);
  }
  ok(cr_pipeline_threads(64, &threads));
  assert_int_equal(threads, 64);
  assert_fails(cr_pipeline_threads(65, &threads), CREMA_E_RANGE,
               "65 decoding threads (0 to 64 can be used)");
  const int processors = cr_pipeline_processors();
  assert_true(processors >= 1);
  ok(cr_pipeline_threads(0, &threads));
  assert_int_equal(threads, processors <= 2 ? 1 : processors == 3 ? 2 : 3);
  cr_pipeline_destroy(NULL);
}

/* ---- databases ----------------------------------------------------------- */

TEST(keys_in_messages) {
  static const struct {
    const char *key;
    size_t size;
    const char *text;
  } cases[] = {{"", 0, ""},
               {"abc", 3, "abc"},
               {" ~", 2, " ~"},
               {"a\x1f"
                "b\x7f\\",
                5, "a\\x1fb\\x7f..."},
               {"\x1f\\", 2, "\\x1f\\x5c"},
               {"\0\xff", 2, "\\x00\\xff"},
               {"123456789012", 12, "123456789012"},
               {"1234567890123", 13, "123456789012..."},
               {"12345678\x01", 9, "12345678\\x01"},
               {"123456789\x01", 10, "123456789..."}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[16];
    memset(text, '?', sizeof text);
    assert_string_equal(cr_db_key_text((cr_db_bytes){(const uint8_t *)cases[i].key, cases[i].size},
                                       text, sizeof text),
                        cases[i].text);
  }
}

TEST(kinds_of_databases) {
  fixture f;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  fixture_make(&f);
  const char *path = fixture_db(&f, "some", 3, fixture_gray);
  assert_string_equal(cr_db_detect(path), "lmdb");
  assert_null(cr_db_detect(f.path));
  const char *other = fixture_db_of(&f, "leveldb", "other", 3, fixture_gray);
  assert_string_equal(cr_db_detect(other), "leveldb");
  assert_fails(cr_db_open("lmdb", "", CR_DB_READ, &db), CREMA_E_ARGUMENT,
               "the database has no path (source is empty)");
  assert_int_equal(cr_db_open("lmdb", NULL, CR_DB_READ, &db), CREMA_E_ARGUMENT);
  assert_fails(cr_db_open("oracle", path, CR_DB_READ, &db), CREMA_E_UNKNOWN_NAME,
               "unknown database back end 'oracle' (known: lmdb, leveldb)");
  assert_null(db);
  ok(cr_db_open("LMDB", path, CR_DB_READ, &db));
  assert_true(cr_db_has_offsets(db));
  ok(cr_db_count(db, &count));
  assert_int_equal(count, 3);
  assert_fails(cr_db_txn_begin(db, &txn), CREMA_E_STATE, "opened for reading, cannot be written");
  assert_null(txn);
  ok(cr_db_cursor_open(db, &cursor));
  assert_fails(cr_db_cursor_seek(cursor, (cr_db_bytes){(const uint8_t *)"x\n", 2}),
               CREMA_E_NOT_FOUND, "no record with key 'x\\x0a'");
  assert_false(cursor->valid);
  ok(cr_db_cursor_next(cursor));
  assert_false(cursor->valid);
  ok(cr_db_cursor_first(cursor));
  assert_true(cursor->valid);
  cr_db_cursor_close(cursor);
  cr_db_cursor_close(NULL);
  cr_db_close(db);
  cr_db_close(NULL);
  cr_db_abort(NULL);
  fixture_remove(&f);
}

/* ---- readers ------------------------------------------------------------- */

static crema_status open_reader(const char *path, int consumers, int depth, bool alone, int rank,
                                cr_reader **out) {
  const cr_reader_options options = {.backend = "lmdb",
                                     .source = path,
                                     .consumers = consumers,
                                     .depth = depth,
                                     .alone = alone,
                                     .rank = rank};
  return cr_reader_open(&options, out);
}

TEST(refused_readers) {
  fixture f;
  cr_reader *reader = NULL;
  cr_db_bytes key, value;
  fixture_make(&f);
  const char *path = fixture_db(&f, "some", 5, fixture_gray);
  assert_fails(open_reader(path, 0, 1, false, 0, &reader), CREMA_E_ARGUMENT,
               "a reader for 0 consumers with 1 records each");
  assert_fails(open_reader(path, 1, 0, false, 0, &reader), CREMA_E_ARGUMENT,
               "a reader for 1 consumers with 0 records each");
  assert_fails(open_reader(path, 2, 1, true, 2, &reader), CREMA_E_RANGE,
               "a reader for consumer 2 of 2");
  assert_fails(open_reader(path, 2, 1, true, -1, &reader), CREMA_E_RANGE,
               "a reader for consumer -1 of 2");
  assert_null(reader);
  ok(open_reader(path, 3, 2, true, 2, &reader));
  assert_int_equal(cr_reader_depth(reader), 2);
  assert_int_equal(cr_reader_count(reader), 5);
  assert_string_equal(cr_reader_source(reader), path);
  assert_fails(cr_reader_preview(reader, 1, 0, &key, &value), CREMA_E_RANGE,
               "there is no consumer 1 of 3");
  assert_fails(cr_reader_preview(reader, 3, 0, &key, &value), CREMA_E_RANGE,
               "there is no consumer 3 of 3");
  assert_fails(cr_reader_enter(reader, -1), CREMA_E_RANGE, "there is no consumer -1 of 3");
  /* Of three consumers the last one gets records 2, 5 (which is 0 again), 8 and so on. */
  static const char *const keys[] = {"00000002", "00000000", "00000003", "00000001", "00000004"};
  for (uint64_t i = 0; i < 5; ++i) {
    ok(cr_reader_preview(reader, 2, i, &key, &value));
    assert_int_equal(key.size, 8);
    assert_memory_equal(key.data, keys[i], 8);
  }
  /* Back again. */
  ok(cr_reader_preview(reader, 2, 0, &key, &value));
  assert_memory_equal(key.data, keys[0], 8);
  ok(cr_reader_enter(reader, 2));
  assert_fails(cr_reader_enter(reader, 2), CREMA_E_STATE, "the reader is running already");
  assert_fails(cr_reader_preview(reader, 2, 0, &key, &value), CREMA_E_STATE,
               "the reader is running already");
  cr_reader_leave(reader, 2);
  cr_reader_leave(reader, 2);
  cr_reader_close(reader);
  cr_reader_close(NULL);
  fixture_remove(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
