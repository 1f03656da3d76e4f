/* Databases that are truncated, replaced or overwritten while they are read: a status that says so,
 * and no record of anything else. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"

enum { RECORDS = 400 };

/* Small values, which lie in the leaves, and large ones on pages of their own; all bytes are the
 * index. As a Datum: 1 x height x 20 pixels, label = index. */
static void put_sizes(int index, cr_buffer *value) {
  enum { WIDTH = 20 };
  static uint8_t pixels[WIDTH * 500];
  int height = index % 3 == 0 ? 500 : 5;
  memset(pixels, index, sizeof pixels);
  const cr_datum datum = {.channels = 1,
                          .height = height,
                          .width = WIDTH,
                          .label = index,
                          .data = pixels,
                          .size = (size_t)(WIDTH * height)};
  ok(cr_datum_append(&datum, value));
}

/* The same keys with values of other sizes. */
static void put_other(int index, cr_buffer *value) {
  put_sizes(index + 1, value);
}

/* What all tests copy, made once. */
static fixture stock;

/* ---- what may happen to a file ------------------------------------------- */

static void copy_over(const char *from, const char *to) {
  cr_buffer bytes = {0};
  ok(cr_file_read(from, &bytes));
  FILE *file = fopen(to, "wb"); /* truncates it first, as cp does */
  assert_non_null(file);
  assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
  assert_int_equal(fclose(file), 0);
  cr_buffer_free(&bytes);
}

static void cut_to_half(const fixture *f) {
  struct stat info;
  const char *data = fixture_path(f, "db/data.mdb");
  assert_int_equal(stat(data, &info), 0);
  assert_int_equal(truncate(data, info.st_size / 2), 0);
}

static void cut_last_byte(const fixture *f) {
  struct stat info;
  const char *data = fixture_path(f, "db/data.mdb");
  assert_int_equal(stat(data, &info), 0);
  assert_int_equal(truncate(data, info.st_size - 1), 0);
}

static void cut_to_nothing(const fixture *f) {
  assert_int_equal(truncate(fixture_path(f, "db/data.mdb"), 0), 0);
}

static void cut_lock_too(const fixture *f) {
  cut_to_nothing(f);
  assert_int_equal(truncate(fixture_path(f, "db/lock.mdb"), 0), 0);
}

static void replace_by_smaller(const fixture *f) {
  copy_over(fixture_path(&stock, "smaller/data.mdb"), fixture_path(f, "db/data.mdb"));
}

static void replace_by_larger(const fixture *f) {
  copy_over(fixture_path(&stock, "larger/data.mdb"), fixture_path(f, "db/data.mdb"));
}

/* By one whose last transactions have higher numbers, as if a writer had been at work. */
static void replace_by_newer(const fixture *f) {
  copy_over(fixture_path(&stock, "newer/data.mdb"), fixture_path(f, "db/data.mdb"));
}

/* By one that is the same up to its last leaf, and of the same transaction. */
static void replace_by_one_more(const fixture *f) {
  copy_over(fixture_path(&stock, "one_more/data.mdb"), fixture_path(f, "db/data.mdb"));
}

/* As many bytes that mean nothing. */
static void overwrite(const fixture *f) {
  struct stat info;
  const char *data = fixture_path(f, "db/data.mdb");
  assert_int_equal(stat(data, &info), 0);
  FILE *file = fopen(data, "r+b");
  assert_non_null(file);
  for (off_t i = 0; i < info.st_size; ++i) fputc((int)(i * 7 % 256), file);
  assert_int_equal(fclose(file), 0);
}

static void (*const spoilers[])(const fixture *f) = {
    cut_to_half,       cut_last_byte,    cut_to_nothing,      cut_lock_too, replace_by_smaller,
    replace_by_larger, replace_by_newer, replace_by_one_more, overwrite};
enum { SPOILERS = sizeof spoilers / sizeof *spoilers };

static void add_records(const char *path, int first, int count) {
  cr_db *db = NULL;
  ok(cr_db_open("lmdb", path, CR_DB_WRITE, &db));
  for (int i = first; i < first + count; ++i) {
    cr_db_txn *txn = NULL;
    char key[16];
    int length = snprintf(key, sizeof key, "%08d", i);
    const cr_db_bytes bytes = {(const uint8_t *)key, (size_t)length};
    ok(cr_db_txn_begin(db, &txn));
    ok(cr_db_put(txn, bytes, bytes));
    ok(cr_db_commit(txn));
  }
  cr_db_close(db);
}

static int make_stock(void **state) {
  (void)state;
  fixture_make(&stock);
  fixture_db(&stock, "db", RECORDS, put_sizes);
  fixture_db(&stock, "one_more", RECORDS + 1, put_sizes);
  fixture_db(&stock, "smaller", RECORDS / 4, put_other);
  fixture_db(&stock, "larger", 2 * RECORDS, put_other);
  add_records(fixture_db(&stock, "newer", 2 * RECORDS, put_other), 2 * RECORDS, 4);
  return 0;
}

static int remove_stock(void **state) {
  (void)state;
  fixture_remove(&stock);
  return 0;
}

static const char *make_db(fixture *f) {
  fixture_make(f);
  const char *path = fixture_path(f, "db");
  assert_int_equal(mkdir(path, 0755), 0);
  copy_over(fixture_path(&stock, "db/data.mdb"), fixture_path(f, "db/data.mdb"));
  return path;
}

/* ---- cursors and readers ------------------------------------------------- */

/* A cursor in the middle ends in an error; new ones cannot be opened. */
TEST(a_cursor_says_that_the_file_changed) {
  for (int s = 0; s < SPOILERS; ++s) {
    fixture f;
    cr_db *db = NULL;
    cr_db_cursor *cursor = NULL, *late = NULL;
    const char *path = make_db(&f);
    ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
    ok(cr_db_cursor_open(db, &cursor));
    for (int i = 0; i < 10; ++i) ok(cr_db_cursor_next(cursor));
    spoilers[s](&f);
    crema_status status = CREMA_OK;
    for (int i = 11; status == CREMA_OK; ++i) {
      status = cr_db_cursor_next(cursor);
      assert_true(i < RECORDS);
      /* What its page in memory still holds is right. */
      if (status == CREMA_OK) assert_true(cursor->value.data[cursor->value.size - 1] == (uint8_t)i);
    }
    assert_int_equal(status, CREMA_E_IO);
    assert_error_has(path);
    assert_error_has("while it was read");
    assert_false(cursor->valid);
    status = cr_db_cursor_open(db, &late);
    /* A file that is a valid database again, or most of one, can be opened by new readers. */
    if (spoilers[s] == cut_to_nothing || spoilers[s] == cut_lock_too || spoilers[s] == overwrite) {
      assert_int_equal(status, CREMA_E_IO);
      assert_error_has(path);
    }
    cr_db_cursor_close(late);
    cr_db_cursor_close(cursor);
    cr_db_close(db);
    fixture_remove(&f);
  }
}

/* When its lock file, which LMDB has mapped, is cut, current readers can go on, but none can
 * begin. */
TEST(a_cut_lock_file_stops_those_who_begin) {
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL, *late = NULL;
  const char *path = make_db(&f);
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  ok(cr_db_cursor_open(db, &cursor));
  assert_int_equal(truncate(fixture_path(&f, "db/lock.mdb"), 0), 0);
  for (int i = 1; i < RECORDS; ++i) ok(cr_db_cursor_next(cursor));
  assert_true(cursor->valid);
  assert_fails(cr_db_cursor_open(db, &late), CREMA_E_IO, path);
  assert_error_has("lock file");
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  fixture_remove(&f);
}

/* Takes records until there is an error. Each is what it should be. */
static crema_status take_all(cr_reader *reader, int first) {
  cr_buffer store = {0};
  crema_status status = CREMA_OK;
  for (int i = first; status == CREMA_OK; ++i) {
    cr_record *record = NULL;
    cr_db_bytes value;
    cr_datum datum;
    assert_true(i < first + 2 * RECORDS);
    status = cr_reader_take(reader, 0, &record);
    if (status != CREMA_OK) break;
    status = cr_record_value(record, &store, &value);
    if (status != CREMA_OK) break;
    ok(cr_datum_parse(value.data, value.size, &datum));
    char key[64];
    assert_int_equal(datum.label, atoi(cr_db_key_text(record->key, key, sizeof key)));
    assert_int_equal(datum.data[datum.size - 1], (uint8_t)datum.label);
    ok(fixture_give_back(reader, 0, record));
  }
  cr_buffer_free(&store);
  return status;
}

TEST(a_reader_says_that_the_file_changed) {
  for (int n = 0; n < 2 * SPOILERS; ++n) {
    fixture f;
    cr_reader *reader = NULL;
    cr_record *record = NULL;
    bool shuffle = n % 2 == 1;
    const cr_reader_options options = {
        .backend = "lmdb", .source = make_db(&f), .consumers = 1, .depth = 3, .shuffle = shuffle};
    int before = shuffle ? RECORDS + 20 : 20;
    ok(cr_reader_open(&options, &reader));
    ok(fixture_reader_start(reader));
    for (int i = 0; i < before; ++i) {
      ok(cr_reader_take(reader, 0, &record));
      ok(fixture_give_back(reader, 0, record));
    }
    spoilers[n / 2](&f);
    assert_fails(take_all(reader, before), CREMA_E_IO, "while it was read");
    cr_reader_close(reader);
    fixture_remove(&f);
  }
}

/* ---- batches ------------------------------------------------------------- */

/* Threads decode while the file is damaged: whole batches of the old records, then the error, which
 * names database and record; it is not a damaged record that may be passed over. */
TEST(batches_say_that_the_file_changed) {
  enum { BATCH = 6 };
  for (int s = 0; s < SPOILERS; ++s) {
    fixture f;
    cr_reader *reader = NULL;
    cr_transformer *transformer = NULL;
    cr_datum_source *source = NULL;
    cr_pipeline *pipeline = NULL;
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    param.crop_size = 5;
    const cr_reader_options read = {
        .backend = "lmdb", .source = make_db(&f), .consumers = 1, .depth = 4 * BATCH};
    ok(cr_reader_open(&read, &reader));
    ok(cr_transformer_create(&param, CAFFE__PHASE__TRAIN, 3, NULL, &transformer));
    const cr_datum_source_options options = {.records = {.reader = reader, .skip_corrupt = true},
                                             .transformer = transformer,
                                             .items = BATCH,
                                             .tops = 2,
                                             .threads = 1 + s % 3};
    ok(fixture_pipeline(&options, 4, &source, &pipeline));
    ok(cr_pipeline_start(pipeline, 0));
    crema_status status = CREMA_OK;
    int next = 0;
    for (int k = 0; status == CREMA_OK; ++k) {
      cr_batch *batch = NULL;
      assert_true(k < 2 * RECORDS);
      status = fixture_take(pipeline, &batch);
      for (int i = 0; status == CREMA_OK && i < BATCH; ++i, ++next) {
        assert_true(batch->top[1].values[i] == (float)(next % RECORDS));
        assert_true(batch->top[0].values[i * 25] == (float)(next % RECORDS % 256));
      }
      if (k == 3) spoilers[s](&f);
      if (status == CREMA_OK) {
        ok(fixture_return(pipeline, batch));
      }
    }
    assert_int_equal(status, CREMA_E_IO);
    assert_error_has(cr_reader_source(reader));
    cr_pipeline_destroy(pipeline);
    cr_datum_source_destroy(source);
    cr_reader_close(reader);
    cr_transformer_destroy(transformer);
    fixture_remove(&f);
  }
}

/* ---- what is allowed ----------------------------------------------------- */

/* Another process appends, deletes nothing and keeps LMDB's rules: readers keep their snapshot. */
TEST(a_writer_beside_the_reader_is_welcome) {
  enum { COMMITS = 30 };
  fixture f;
  cr_reader *reader = NULL;
  const char *path = make_db(&f);
  const cr_reader_options options = {
      .backend = "lmdb", .source = path, .consumers = 1, .depth = 2, .shuffle = true};
  int go[2], child_state = 0;
  assert_int_equal(pipe(go), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    cr_db *db = NULL;
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(2);
    if (cr_db_open("lmdb", path, CR_DB_WRITE, &db) != CREMA_OK) _exit(3);
    for (int i = 0; i < COMMITS; ++i) {
      cr_db_txn *txn = NULL;
      char key[16];
      int length = snprintf(key, sizeof key, "%08d", RECORDS + i);
      const cr_db_bytes bytes = {(const uint8_t *)key, (size_t)length};
      if (cr_db_txn_begin(db, &txn) != CREMA_OK || cr_db_put(txn, bytes, bytes) != CREMA_OK ||
          cr_db_commit(txn) != CREMA_OK) {
        _exit(4);
      }
    }
    cr_db_close(db);
    _exit(0);
  }
  ok(cr_reader_open(&options, &reader));
  ok(fixture_reader_start(reader));
  assert_int_equal(write(go[1], "g", 1), 1);
  bool written = false;
  for (int i = 0; i < 3 * RECORDS || !written; ++i) {
    cr_record *record = NULL;
    cr_buffer store = {0};
    cr_db_bytes value;
    cr_datum datum;
    ok(cr_reader_take(reader, 0, &record));
    ok(cr_record_value(record, &store, &value));
    ok(cr_datum_parse(value.data, value.size, &datum));
    if (i < RECORDS) assert_int_equal(datum.label, i);
    ok(fixture_give_back(reader, 0, record));
    cr_buffer_free(&store);
    if (!written) written = waitpid(child, &child_state, WNOHANG) == child;
  }
  assert_true(WIFEXITED(child_state));
  assert_int_equal(WEXITSTATUS(child_state), 0);
  assert_int_equal(cr_reader_count(reader), RECORDS);
  cr_reader_close(reader);
  close(go[0]);
  close(go[1]);
  fixture_remove(&f);
}

/* A file that only gets other rights, another name or another time is the same one. */
TEST(looks_do_not_matter) {
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  ok(cr_db_open("lmdb", make_db(&f), CR_DB_READ, &db));
  ok(cr_db_cursor_open(db, &cursor));
  for (int i = 0; i + 1 < RECORDS; ++i) {
    const char *data = fixture_path(&f, "db/data.mdb");
    if (i == 10) assert_int_equal(chmod(data, 0600), 0);
    if (i == 20) assert_int_equal(link(data, fixture_path(&f, "link")), 0);
    if (i == 30) assert_int_equal(utimensat(AT_FDCWD, data, NULL, 0), 0);
    ok(cr_db_cursor_next(cursor));
  }
  assert_true(cursor->valid);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  fixture_remove(&f);
}

/* Signals are the host's: reading changes none of its handlers. */
TEST(no_handler_is_installed) {
  static const int signals[] = {SIGBUS, SIGSEGV};
  fixture f;
  cr_reader *reader = NULL;
  cr_record *record = NULL;
  struct sigaction before[2], now;
  const cr_reader_options options = {
      .backend = "lmdb", .source = make_db(&f), .consumers = 1, .depth = 2};
  for (int i = 0; i < 2; ++i) assert_int_equal(sigaction(signals[i], NULL, &before[i]), 0);
  ok(cr_reader_open(&options, &reader));
  ok(fixture_reader_start(reader));
  ok(cr_reader_take(reader, 0, &record));
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(sigaction(signals[i], NULL, &now), 0);
    assert_true(now.sa_handler == before[i].sa_handler && now.sa_flags == before[i].sa_flags);
  }
  cr_reader_close(reader);
  fixture_remove(&f);
}

int main(void) {
  /* LMDB cannot end an environment whose file of locks was cut. */
  files_kept = 10;
  return run_all_tests(make_stock, remove_stock);
}
