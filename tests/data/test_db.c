/* Databases: round trips, transactions, and files that are missing, foreign or cut off. */
#include <fcntl.h>
#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/rng.h"
#include "data/db/db.h"
#include "fixture.h"

static cr_db_bytes bytes_of(const char *text) {
  return (cr_db_bytes){(const uint8_t *)text, strlen(text)};
}

static void assert_bytes(cr_db_bytes bytes, const char *text) {
  assert_int_equal(bytes.size, strlen(text));
  assert_memory_equal(bytes.data, text, bytes.size);
}

static void assert_error_has(const char *part) {
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

static void put(cr_db *db, const char *key, const char *value) {
  cr_db_txn *txn = NULL;
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_OK);
  assert_int_equal(cr_db_put(txn, bytes_of(key), bytes_of(value)), CREMA_OK);
  assert_int_equal(cr_db_commit(txn), CREMA_OK);
}

static void test_round_trip_in_key_order(void **state) {
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  assert_int_equal(cr_db_open("LMDB", path, CR_DB_NEW, &db), CREMA_OK);
  put(db, "b", "two");
  put(db, "a", "one");
  put(db, "c", "three");
  put(db, "b", "TWO"); /* replaces */
  assert_int_equal(cr_db_finish(db, CREMA_OK), CREMA_OK);
  assert_string_equal(cr_db_detect(path), "lmdb");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
  assert_int_equal(cr_db_count(db, &count), CREMA_OK);
  assert_int_equal(count, 3);
  assert_int_equal(cr_db_cursor_open(db, &cursor), CREMA_OK);
  assert_true(cursor->valid);
  assert_bytes(cursor->key, "a");
  assert_bytes(cursor->value, "one");
  assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  assert_bytes(cursor->value, "TWO");
  assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  assert_false(cursor->valid);
  assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK); /* stays past the end */
  assert_int_equal(cr_db_cursor_first(cursor), CREMA_OK);
  assert_bytes(cursor->key, "a");
  assert_int_equal(cr_db_cursor_seek(cursor, bytes_of("c")), CREMA_OK);
  assert_bytes(cursor->value, "three");
  assert_int_equal(cr_db_cursor_seek(cursor, bytes_of("bb")), CREMA_E_NOT_FOUND);
  assert_error_has("'bb'");
  assert_error_has(path);
  assert_int_equal(cr_db_cursor_seek(cursor, bytes_of("")), CREMA_E_NOT_FOUND);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  fixture_remove(&f);
}

static void test_nothing_is_seen_before_the_commit(void **state) {
  fixture f;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  uint64_t count = 99;
  (void)state;
  fixture_make(&f);
  assert_int_equal(cr_db_open("lmdb", fixture_path(&f, "db"), CR_DB_NEW, &db), CREMA_OK);
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_OK);
  assert_int_equal(cr_db_put(txn, bytes_of("k"), bytes_of("v")), CREMA_OK);
  cr_db_abort(txn);
  cr_db_abort(NULL);
  assert_int_equal(cr_db_count(db, &count), CREMA_OK);
  assert_int_equal(count, 0);
  cr_db_close(db);
  fixture_remove(&f);
}

/* The first map is 64 MB: 90 MB in one transaction doubles it. */
static void s2_15_full_map_is_doubled(void **state) {
  enum { RECORDS = 90, SIZE = 1 << 20 };
  fixture f;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_db_cursor *cursor = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  uint8_t *value = malloc(SIZE);
  assert_non_null(value);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_NEW, &db), CREMA_OK);
  put(db, "early", "kept");
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_OK);
  for (int i = 0; i < RECORDS; ++i) {
    char key[8];
    snprintf(key, sizeof key, "%04d", i);
    memset(value, i, SIZE);
    assert_int_equal(cr_db_put(txn, bytes_of(key), (cr_db_bytes){value, SIZE}), CREMA_OK);
  }
  assert_int_equal(cr_db_commit(txn), CREMA_OK);
  assert_int_equal(cr_db_finish(db, CREMA_OK), CREMA_OK);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
  assert_int_equal(cr_db_cursor_open(db, &cursor), CREMA_OK);
  for (int i = 0; i < RECORDS; ++i) {
    assert_true(cursor->valid);
    assert_int_equal(cursor->value.size, SIZE);
    assert_int_equal(cursor->value.data[SIZE - 1], i);
    assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  }
  assert_bytes(cursor->key, "early");
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  free(value);
  fixture_remove(&f);
}

static void test_modes(void **state) {
  fixture f;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_NOT_FOUND);
  assert_error_has(path);
  assert_null(db);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_WRITE, &db), CREMA_OK);
  put(db, "k", "v");
  cr_db_close(db);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_NEW, &db), CREMA_E_EXISTS);
  assert_error_has(path);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_WRITE, &db), CREMA_OK);
  put(db, "l", "w");
  cr_db_close(db);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_E_STATE);
  assert_null(txn);
  cr_db_close(db);
  cr_db_close(NULL);
  assert_int_equal(cr_db_open("lmdb", "", CR_DB_READ, &db), CREMA_E_ARGUMENT);
  assert_int_equal(cr_db_open("lmdb", fixture_path(&f, "no/such/place"), CR_DB_NEW, &db),
                   CREMA_E_IO);
  assert_error_has("no/such/place");
  fixture_remove(&f);
}

static void test_back_ends_are_named(void **state) {
  cr_db *db = NULL;
  (void)state;
  assert_int_equal(cr_db_open("LevelDB", "no/such", CR_DB_READ, &db), CREMA_E_NOT_FOUND);
  assert_int_equal(cr_db_open("sqlite", "x", CR_DB_READ, &db), CREMA_E_UNKNOWN_NAME);
  assert_error_has("sqlite");
  assert_error_has("lmdb, leveldb");
}

static void test_key_length(void **state) {
  fixture f;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  char key[600];
  (void)state;
  fixture_make(&f);
  memset(key, 'k', sizeof key);
  assert_int_equal(cr_db_open("lmdb", fixture_path(&f, "db"), CR_DB_NEW, &db), CREMA_OK);
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_OK);
  cr_db_bytes value = bytes_of("v");
  assert_int_equal(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 511}, value), CREMA_OK);
  assert_int_equal(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 512}, value), CREMA_E_RANGE);
  assert_error_has("512");
  assert_error_has("511");
  assert_int_equal(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 0}, value), CREMA_E_RANGE);
  assert_int_equal(cr_db_commit(txn), CREMA_OK);
  assert_int_equal(cr_db_finish(db, CREMA_OK), CREMA_OK);
  fixture_remove(&f);
}

/* Every length to which the file can be cut at a page: refused, or readable to its end. */
static void test_truncated_files_are_refused(void **state) {
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", 3000, fixture_gray);
  const char *data = fixture_path(&f, "db/data.mdb");
  struct stat info;
  assert_int_equal(stat(data, &info), 0);
  for (off_t size = info.st_size - 4096; size >= 0; size = size > 40000 ? size / 2 : size - 1500) {
    cr_db *db = NULL;
    assert_int_equal(truncate(data, size), 0);
    crema_status status = cr_db_open("lmdb", path, CR_DB_READ, &db);
    assert_int_equal(status, CREMA_E_CORRUPT);
    assert_error_has(path);
    assert_error_has("LMDB");
  }
  fixture_remove(&f);
}

/* Puts and deletes values of many pages until the file ends before the number of its last page
 * says: pages that become free before they are written need not be written. Keys begin with 'z'. */
static void leave_pages_unwritten(const char *path, const char *data) {
  enum { SIZE = 100000, KEYS = 40, ROUNDS = 100 };
  MDB_env *env = NULL;
  MDB_txn *txn = NULL;
  MDB_dbi dbi;
  MDB_envinfo info;
  struct stat file;
  cr_mt19937 rng;
  bool unwritten = false;
  char *bytes = calloc(1, SIZE);
  assert_non_null(bytes);
  cr_mt19937_seed(&rng, 5);
  assert_int_equal(mdb_env_create(&env), 0);
  assert_int_equal(mdb_env_set_mapsize(env, 256 << 20), 0);
  assert_int_equal(mdb_env_open(env, path, 0, 0644), 0);
  for (int round = 0; round < ROUNDS && !unwritten; ++round) {
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    for (int i = 0; i < KEYS; ++i) {
      char name[16];
      snprintf(name, sizeof name, "z%02d", (int)cr_mt19937_below(&rng, KEYS));
      MDB_val key = {strlen(name), name}, value = {SIZE, bytes};
      int rc =
          i >= KEYS * 2 / 3 ? mdb_del(txn, dbi, &key, NULL) : mdb_put(txn, dbi, &key, &value, 0);
      assert_true(rc == 0 || rc == MDB_NOTFOUND);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    assert_int_equal(mdb_env_info(env, &info), 0);
    assert_int_equal(stat(data, &file), 0);
    unwritten = (size_t)file.st_size < (info.me_last_pgno + 1) * 4096;
  }
  mdb_env_close(env);
  free(bytes);
  assert_true(unwritten);
}

static void test_pages_that_were_never_written(void **state) {
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", 300, fixture_gray);
  leave_pages_unwritten(path, fixture_path(&f, "db/data.mdb"));
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
  assert_int_equal(cr_db_cursor_open(db, &cursor), CREMA_OK);
  assert_int_equal(cr_db_count(db, &count), CREMA_OK);
  for (uint64_t i = 0; i < count; ++i) {
    assert_true(cursor->valid);
    assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  }
  assert_false(cursor->valid);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_WRITE, &db), CREMA_OK);
  put(db, "zz", "more");
  cr_db_close(db);
  fixture_remove(&f);
}

/* A tree of several levels, with small and large values: each record by walking and by its key. */
static void put_sizes(int index, cr_buffer *value) {
  size_t size = index % 7 == 0 ? 9000 + (size_t)index : (size_t)index % 50;
  for (size_t i = 0; i < size; ++i) {
    assert_int_equal(cr_buffer_append(value, &(char){(char)(index + (int)i)}, 1), CREMA_OK);
  }
}

static void assert_sizes(const cr_db_cursor *cursor, int index) {
  cr_buffer wanted = {0};
  put_sizes(index, &wanted);
  assert_true(cursor->valid);
  assert_int_equal(cursor->value.size, wanted.size);
  if (wanted.size > 0) assert_memory_equal(cursor->value.data, wanted.data, wanted.size);
  cr_buffer_free(&wanted);
}

static void test_every_record_is_found(void **state) {
  enum { RECORDS = 5000 };
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", RECORDS, put_sizes);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
  assert_int_equal(cr_db_cursor_open(db, &cursor), CREMA_OK);
  for (int i = 0; i < RECORDS; ++i) {
    assert_sizes(cursor, i);
    assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
  }
  assert_false(cursor->valid);
  for (int i = RECORDS - 1; i >= 0; i -= 13) {
    char key[16];
    snprintf(key, sizeof key, "%08d", i);
    assert_int_equal(cr_db_cursor_seek(cursor, bytes_of(key)), CREMA_OK);
    assert_sizes(cursor, i);
    assert_int_equal(cr_db_cursor_next(cursor), CREMA_OK);
    if (i + 1 < RECORDS) assert_sizes(cursor, i + 1);
    else assert_false(cursor->valid);
    snprintf(key, sizeof key, "%08dx", i);
    assert_int_equal(cr_db_cursor_seek(cursor, bytes_of(key)), CREMA_E_NOT_FOUND);
  }
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  fixture_remove(&f);
}

/* A cursor keeps its snapshot while another process would write. */
static void test_a_cursor_keeps_its_snapshot(void **state) {
  fixture f;
  cr_db *db = NULL, *writer = NULL;
  cr_db_cursor *old = NULL, *new = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_NEW, &writer), CREMA_OK);
  put(writer, "a", "1");
  /* One handle for both: LMDB forbids to open a file twice for writing and reading. */
  db = writer;
  assert_int_equal(cr_db_cursor_open(db, &old), CREMA_OK);
  for (int i = 0; i < 50; ++i) {
    char key[8];
    snprintf(key, sizeof key, "b%03d", i);
    put(writer, key, "2");
  }
  assert_int_equal(cr_db_cursor_open(db, &new), CREMA_OK);
  assert_bytes(old->value, "1");
  assert_int_equal(cr_db_cursor_next(old), CREMA_OK);
  assert_false(old->valid);
  for (int i = 0; i < 50; ++i) assert_int_equal(cr_db_cursor_next(new), CREMA_OK);
  assert_bytes(new->key, "b049");
  cr_db_cursor_close(old);
  cr_db_cursor_close(new);
  assert_int_equal(cr_db_finish(writer, CREMA_OK), CREMA_OK);
  fixture_remove(&f);
}

/* Damaged bytes are an error or other records, never a crash or an endless walk. */
static void test_damaged_files(void **state) {
  enum { SEED = 7, ROUNDS = 400, LIMIT = 100000 };
  fixture f;
  cr_mt19937 rng;
  cr_buffer whole = {0};
  int refused = 0;
  (void)state;
  print_message("seed %d\n", SEED);
  cr_mt19937_seed(&rng, SEED);
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", 300, put_sizes);
  const char *data = fixture_path(&f, "db/data.mdb");
  assert_int_equal(cr_file_read(data, &whole), CREMA_OK);
  for (int round = 0; round < ROUNDS; ++round) {
    cr_db *db = NULL;
    cr_db_cursor *cursor = NULL;
    FILE *file = fopen(data, "r+b");
    assert_non_null(file);
    /* Half of the damage goes to the beginnings of pages, where their structure is. */
    size_t at[3];
    for (int k = 0; k < 3; ++k) {
      uint32_t pages = (uint32_t)(whole.size / 4096);
      at[k] = k == 0 ? cr_mt19937_below(&rng, (uint32_t)whole.size)
                     : cr_mt19937_below(&rng, pages) * 4096 + cr_mt19937_below(&rng, 80);
      fseek(file, (long)at[k], SEEK_SET);
      fputc((int)cr_mt19937_below(&rng, 256), file);
    }
    fclose(file);
    crema_status status = cr_db_open("lmdb", path, CR_DB_READ, &db);
    if (status == CREMA_OK) status = cr_db_cursor_open(db, &cursor);
    int records = 0;
    while (status == CREMA_OK && cursor->valid && ++records < LIMIT) {
      if (cursor->value.size > 0) (void)((volatile const uint8_t *)cursor->value.data)[0];
      status = cr_db_cursor_next(cursor);
    }
    assert_true(records < LIMIT);
    refused += status != CREMA_OK;
    if (status != CREMA_OK) assert_error_has(path);
    cr_db_cursor_close(cursor);
    cr_db_close(db);
    file = fopen(data, "r+b");
    for (int k = 0; k < 3; ++k) {
      fseek(file, (long)at[k], SEEK_SET);
      fputc((unsigned char)whole.data[at[k]], file);
    }
    fclose(file);
  }
  assert_in_range(refused, ROUNDS / 20, ROUNDS);
  cr_buffer_free(&whole);
  fixture_remove(&f);
}

/* The head of the pages that a large value lies on: number, kind, how many they are. */
static void test_damaged_pages_of_values(void **state) {
  enum { PAGE = 4096, OVERFLOW = 4 };
  static const size_t at[] = {0, 10, 12};
  fixture f;
  cr_buffer whole = {0};
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", 8, put_sizes), *data = fixture_path(&f, "db/data.mdb");
  assert_int_equal(cr_file_read(data, &whole), CREMA_OK);
  size_t page = 2 * PAGE;
  while (page < whole.size && whole.data[page + 10] != OVERFLOW) page += PAGE;
  assert_true(page < whole.size);
  for (int i = 0; i < 4; ++i) {
    char *byte = i < 3 ? whole.data + page + at[i] : NULL;
    if (byte != NULL) *byte = (char)(*byte - 1);
    assert_int_equal(cr_file_write(data, whole.data, whole.size), CREMA_OK);
    if (byte != NULL) *byte = (char)(*byte + 1);
    assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_OK);
    crema_status status = cr_db_cursor_open(db, &cursor);
    for (int k = 0; k < 8 && status == CREMA_OK; ++k) status = cr_db_cursor_next(cursor);
    assert_int_equal(status, i < 3 ? CREMA_E_CORRUPT : CREMA_OK);
    if (i < 3) assert_error_has("does not hold the value");
    cr_db_cursor_close(cursor);
    cr_db_close(db);
    cursor = NULL;
  }
  cr_buffer_free(&whole);
  fixture_remove(&f);
}

static void test_foreign_files_are_refused(void **state) {
  fixture f;
  cr_db *db = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  char text[9000];
  memset(text, 'x', sizeof text);
  assert_int_equal(mkdir(path, 0755), 0);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_NOT_FOUND);
  assert_error_has("neither data.mdb");
  assert_int_equal(cr_file_write(fixture_path(&f, "db/CURRENT"), "M\n", 2), CREMA_OK);
  assert_string_equal(cr_db_detect(path), "leveldb");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_CORRUPT);
  assert_error_has("LevelDB");
  assert_int_equal(cr_file_write(fixture_path(&f, "db/data.mdb"), text, sizeof text), CREMA_OK);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_CORRUPT);
  assert_error_has("not an LMDB");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_WRITE, &db), CREMA_E_CORRUPT);
  assert_null(cr_db_detect(fixture_path(&f, "nothing")));
  fixture_remove(&f);
}

static void test_two_readers_of_one_database(void **state) {
  fixture f;
  cr_db *a = NULL, *b = NULL;
  cr_db_cursor *on_a = NULL, *on_b = NULL;
  (void)state;
  fixture_make(&f);
  const char *path = fixture_db(&f, "db", 10, fixture_gray);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &a), CREMA_OK);
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_READ, &b), CREMA_OK);
  assert_int_equal(cr_db_cursor_open(a, &on_a), CREMA_OK);
  assert_int_equal(cr_db_cursor_open(b, &on_b), CREMA_OK);
  assert_int_equal(cr_db_cursor_next(on_a), CREMA_OK);
  cr_db_cursor_close(on_a);
  cr_db_close(a);
  for (int i = 0; i < 9; ++i) assert_int_equal(cr_db_cursor_next(on_b), CREMA_OK);
  assert_bytes(on_b->key, "00000009");
  cr_db_cursor_close(on_b);
  cr_db_close(b);
  fixture_remove(&f);
}

static void test_key_text(void **state) {
  char text[16];
  (void)state;
  assert_string_equal(cr_db_key_text(bytes_of("plain"), text, sizeof text), "plain");
  assert_string_equal(cr_db_key_text(bytes_of("a\nb\\"), text, sizeof text), "a\\x0ab\\x5c");
  assert_string_equal(cr_db_key_text(bytes_of("0123456789abcdefgh"), text, sizeof text),
                      "0123456789ab...");
  assert_string_equal(cr_db_key_text((cr_db_bytes){NULL, 0}, text, sizeof text), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip_in_key_order),
      cmocka_unit_test(test_nothing_is_seen_before_the_commit),
      cmocka_unit_test(s2_15_full_map_is_doubled),
      cmocka_unit_test(test_modes),
      cmocka_unit_test(test_back_ends_are_named),
      cmocka_unit_test(test_key_length),
      cmocka_unit_test(test_truncated_files_are_refused),
      cmocka_unit_test(test_pages_that_were_never_written),
      cmocka_unit_test(test_every_record_is_found),
      cmocka_unit_test(test_a_cursor_keeps_its_snapshot),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_damaged_pages_of_values),
      cmocka_unit_test(test_foreign_files_are_refused),
      cmocka_unit_test(test_two_readers_of_one_database),
      cmocka_unit_test(test_key_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
