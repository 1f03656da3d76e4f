/* Databases: round trips, transactions, and files that are missing, foreign or cut off. */
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/rng.h"
#include "db_text.h"
#include "fixture.h"

FIXTURE_TEST(test_round_trip_in_key_order) {
  check_round_trip(fixture_path(*state, "db"), "LMDB", "lmdb");
}

FIXTURE_TEST(test_nothing_is_seen_before_the_commit) {
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  uint64_t count = 99;
  ok(cr_db_open("lmdb", fixture_path(f, "db"), CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  ok(cr_db_put(txn, bytes_of("k"), bytes_of("v")));
  cr_db_abort(txn);
  cr_db_abort(NULL);
  ok(cr_db_count(db, &count));
  assert_int_equal(count, 0);
  cr_db_close(db);
}

/* The first map is 64 MB: 90 MB in one transaction doubles it. */
FIXTURE_TEST(s2_15_full_map_is_doubled) {
  enum { RECORDS = 90, SIZE = 1 << 20 };
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_db_cursor *cursor = NULL;
  const char *path = fixture_path(f, "db");
  uint8_t *value = malloc(SIZE);
  assert_non_null(value);
  ok(cr_db_open("lmdb", path, CR_DB_NEW, &db));
  put(db, "early", "kept");
  ok(cr_db_txn_begin(db, &txn));
  for (int i = 0; i < RECORDS; ++i) {
    char key[16];
    snprintf(key, sizeof key, "%04d", i);
    memset(value, i, SIZE);
    ok(cr_db_put(txn, bytes_of(key), (cr_db_bytes){value, SIZE}));
  }
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  ok(cr_db_cursor_open(db, &cursor));
  for (int i = 0; i < RECORDS; ++i) {
    assert_true(cursor->valid);
    assert_int_equal(cursor->value.size, SIZE);
    assert_int_equal(cursor->value.data[SIZE - 1], i);
    ok(cr_db_cursor_next(cursor));
  }
  assert_bytes(cursor->key, "early");
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  free(value);
}

FIXTURE_TEST(test_modes) {
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  const char *path = fixture_path(f, "db");
  assert_fails(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_NOT_FOUND, path);
  assert_null(db);
  ok(cr_db_open("lmdb", path, CR_DB_WRITE, &db));
  put(db, "k", "v");
  cr_db_close(db);
  assert_fails(cr_db_open("lmdb", path, CR_DB_NEW, &db), CREMA_E_EXISTS, path);
  ok(cr_db_open("lmdb", path, CR_DB_WRITE, &db));
  put(db, "l", "w");
  cr_db_close(db);
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  assert_int_equal(cr_db_txn_begin(db, &txn), CREMA_E_STATE);
  assert_null(txn);
  cr_db_close(db);
  cr_db_close(NULL);
  assert_int_equal(cr_db_open("lmdb", "", CR_DB_READ, &db), CREMA_E_ARGUMENT);
  assert_fails(cr_db_open("lmdb", fixture_path(f, "no/such/place"), CR_DB_NEW, &db), CREMA_E_IO,
               "no/such/place");
}

TEST(test_back_ends_are_named) {
  cr_db *db = NULL;
  assert_int_equal(cr_db_open("LevelDB", "no/such", CR_DB_READ, &db), CREMA_E_NOT_FOUND);
  assert_fails(cr_db_open("sqlite", "x", CR_DB_READ, &db), CREMA_E_UNKNOWN_NAME, "sqlite");
  assert_error_has("lmdb, leveldb");
}

FIXTURE_TEST(test_key_length) {
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  char key[600];
  memset(key, 'k', sizeof key);
  ok(cr_db_open("lmdb", fixture_path(f, "db"), CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  cr_db_bytes value = bytes_of("v");
  ok(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 511}, value));
  assert_fails(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 512}, value), CREMA_E_RANGE, "512");
  assert_error_has("511");
  assert_int_equal(cr_db_put(txn, (cr_db_bytes){(uint8_t *)key, 0}, value), CREMA_E_RANGE);
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
}

/* Every length to which the file can be cut at a page: refused, or readable to its end. */
FIXTURE_TEST(test_truncated_files_are_refused) {
  const fixture *f = *state;
  const char *path = fixture_db(f, "db", 3000, fixture_gray);
  const char *data = fixture_path(f, "db/data.mdb");
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

FIXTURE_TEST(test_pages_that_were_never_written) {
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  const char *path = fixture_db(f, "db", 300, fixture_gray);
  leave_pages_unwritten(path, fixture_path(f, "db/data.mdb"));
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  ok(cr_db_cursor_open(db, &cursor));
  ok(cr_db_count(db, &count));
  for (uint64_t i = 0; i < count; ++i) {
    assert_true(cursor->valid);
    ok(cr_db_cursor_next(cursor));
  }
  assert_false(cursor->valid);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  ok(cr_db_open("lmdb", path, CR_DB_WRITE, &db));
  put(db, "zz", "more");
  cr_db_close(db);
}

/* A tree of several levels, with small and large values: each record by walking and by its key. */
static void put_sizes(int index, cr_buffer *value) {
  size_t size = index % 7 == 0 ? 9000 + (size_t)index : (size_t)index % 50;
  for (size_t i = 0; i < size; ++i) {
    ok(cr_buffer_append(value, &(char){(char)(index + (int)i)}, 1));
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

FIXTURE_TEST(test_every_record_is_found) {
  enum { RECORDS = 5000 };
  const fixture *f = *state;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  const char *path = fixture_db(f, "db", RECORDS, put_sizes);
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  ok(cr_db_cursor_open(db, &cursor));
  for (int i = 0; i < RECORDS; ++i) {
    assert_sizes(cursor, i);
    ok(cr_db_cursor_next(cursor));
  }
  assert_false(cursor->valid);
  for (int i = RECORDS - 1; i >= 0; i -= 13) {
    char key[16];
    snprintf(key, sizeof key, "%08d", i);
    ok(cr_db_cursor_seek(cursor, bytes_of(key)));
    assert_sizes(cursor, i);
    ok(cr_db_cursor_next(cursor));
    if (i + 1 < RECORDS) assert_sizes(cursor, i + 1);
    else assert_false(cursor->valid);
    snprintf(key, sizeof key, "%08dx", i);
    assert_int_equal(cr_db_cursor_seek(cursor, bytes_of(key)), CREMA_E_NOT_FOUND);
  }
  cr_db_cursor_close(cursor);
  cr_db_close(db);
}

/* A cursor keeps its snapshot while another process would write. */
FIXTURE_TEST(test_a_cursor_keeps_its_snapshot) {
  const fixture *f = *state;
  cr_db *db = NULL, *writer = NULL;
  cr_db_cursor *old = NULL, *new = NULL;
  const char *path = fixture_path(f, "db");
  ok(cr_db_open("lmdb", path, CR_DB_NEW, &writer));
  put(writer, "a", "1");
  /* One handle for both: LMDB forbids to open a file twice for writing and reading. */
  db = writer;
  ok(cr_db_cursor_open(db, &old));
  for (int i = 0; i < 50; ++i) {
    char key[16];
    snprintf(key, sizeof key, "b%03d", i);
    put(writer, key, "2");
  }
  ok(cr_db_cursor_open(db, &new));
  assert_bytes(old->value, "1");
  ok(cr_db_cursor_next(old));
  assert_false(old->valid);
  for (int i = 0; i < 50; ++i) ok(cr_db_cursor_next(new));
  assert_bytes(new->key, "b049");
  cr_db_cursor_close(old);
  cr_db_cursor_close(new);
  ok(cr_db_finish(writer, CREMA_OK));
}

/* Damaged bytes are an error or other records, never a crash or an endless walk. */
FIXTURE_TEST(test_damaged_files) {
  enum { SEED = 7, ROUNDS = 400, LIMIT = 100000 };
  const fixture *f = *state;
  cr_mt19937 rng;
  cr_buffer whole = {0};
  int refused = 0;
  print_message("seed %d\n", SEED);
  cr_mt19937_seed(&rng, SEED);
  const char *path = fixture_db(f, "db", 300, put_sizes);
  const char *data = fixture_path(f, "db/data.mdb");
  ok(cr_file_read(data, &whole));
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
}

/* The head of the pages that a large value lies on: number, kind, how many they are. */
FIXTURE_TEST(test_damaged_pages_of_values) {
  enum { PAGE = 4096, OVERFLOW = 4 };
  static const size_t at[] = {0, 10, 12};
  const fixture *f = *state;
  cr_buffer whole = {0};
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  const char *path = fixture_db(f, "db", 8, put_sizes), *data = fixture_path(f, "db/data.mdb");
  ok(cr_file_read(data, &whole));
  size_t page = 2 * PAGE;
  while (page < whole.size && whole.data[page + 10] != OVERFLOW) page += PAGE;
  assert_true(page < whole.size);
  for (int i = 0; i < 4; ++i) {
    char *byte = i < 3 ? whole.data + page + at[i] : NULL;
    if (byte != NULL) *byte = (char)(*byte - 1);
    ok(cr_file_write(data, whole.data, whole.size));
    if (byte != NULL) *byte = (char)(*byte + 1);
    ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
    crema_status status = cr_db_cursor_open(db, &cursor);
    for (int k = 0; k < 8 && status == CREMA_OK; ++k) status = cr_db_cursor_next(cursor);
    assert_int_equal(status, i < 3 ? CREMA_E_CORRUPT : CREMA_OK);
    if (i < 3) assert_error_has("does not hold the value");
    cr_db_cursor_close(cursor);
    cr_db_close(db);
    cursor = NULL;
  }
  cr_buffer_free(&whole);
}

FIXTURE_TEST(test_foreign_files_are_refused) {
  const fixture *f = *state;
  cr_db *db = NULL;
  const char *path = fixture_path(f, "db");
  char text[9000];
  memset(text, 'x', sizeof text);
  assert_int_equal(mkdir(path, 0755), 0);
  assert_fails(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_NOT_FOUND, "neither data.mdb");
  ok(cr_file_write(fixture_path(f, "db/CURRENT"), "M\n", 2));
  assert_string_equal(cr_db_detect(path), "leveldb");
  assert_fails(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_CORRUPT, "LevelDB");
  ok(cr_file_write(fixture_path(f, "db/data.mdb"), text, sizeof text));
  assert_fails(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_CORRUPT, "not an LMDB");
  assert_int_equal(cr_db_open("lmdb", path, CR_DB_WRITE, &db), CREMA_E_CORRUPT);
  static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
  ok(cr_file_write(fixture_path(f, "db/data.mdb"), pointer, sizeof pointer - 1));
  assert_fails(cr_db_open("lmdb", path, CR_DB_READ, &db), CREMA_E_CORRUPT,
               "the file looks like a Git LFS pointer");
  assert_null(cr_db_detect(fixture_path(f, "nothing")));
}

FIXTURE_TEST(test_two_readers_of_one_database) {
  const fixture *f = *state;
  cr_db *a = NULL, *b = NULL;
  cr_db_cursor *on_a = NULL, *on_b = NULL;
  const char *path = fixture_db(f, "db", 10, fixture_gray);
  ok(cr_db_open("lmdb", path, CR_DB_READ, &a));
  ok(cr_db_open("lmdb", path, CR_DB_READ, &b));
  ok(cr_db_cursor_open(a, &on_a));
  ok(cr_db_cursor_open(b, &on_b));
  ok(cr_db_cursor_next(on_a));
  cr_db_cursor_close(on_a);
  cr_db_close(a);
  for (int i = 0; i < 9; ++i) ok(cr_db_cursor_next(on_b));
  assert_bytes(on_b->key, "00000009");
  cr_db_cursor_close(on_b);
  cr_db_close(b);
}

TEST(test_key_text) {
  char text[16];
  assert_string_equal(cr_db_key_text(bytes_of("plain"), text, sizeof text), "plain");
  assert_string_equal(cr_db_key_text(bytes_of("a\nb\\"), text, sizeof text), "a\\x0ab\\x5c");
  assert_string_equal(cr_db_key_text(bytes_of("0123456789abcdefgh"), text, sizeof text),
                      "0123456789ab...");
  assert_string_equal(cr_db_key_text((cr_db_bytes){NULL, 0}, text, sizeof text), "");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
