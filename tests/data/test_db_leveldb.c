/* LevelDB: round trips, readers side by side, locks, and files that are missing, foreign or
 * damaged. A read database must stay as it was, byte for byte. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/pipeline/reader.h"
#include "db_text.h"
#include "fixture.h"
#include "folder.h"

/* Records of 1 to 1000 bytes: record i has i % 1000 + 1 bytes of value i % 256. */
static void make_records(const char *path, int count) {
  cr_db *db = NULL;
  uint8_t value[1000];
  ok(cr_db_open("leveldb", path, CR_DB_NEW, &db));
  for (int i = 0; i < count;) {
    cr_db_txn *txn = NULL;
    ok(cr_db_txn_begin(db, &txn));
    for (int end = i + 1000; i < count && i < end; ++i) {
      char key[16];
      snprintf(key, sizeof key, "%08d", i);
      memset(value, i % 256, sizeof value);
      ok(cr_db_put(txn, bytes_of(key), (cr_db_bytes){value, (size_t)(i % 1000) + 1}));
    }
    ok(cr_db_commit(txn));
  }
  ok(cr_db_finish(db, CREMA_OK));
}

static void assert_record(const cr_db_cursor *cursor, int index) {
  char key[16];
  assert_true(cursor->valid);
  snprintf(key, sizeof key, "%08d", index);
  assert_bytes(cursor->key, key);
  assert_int_equal(cursor->value.size, index % 1000 + 1);
  assert_int_equal(cursor->value.data[cursor->value.size - 1], index % 256);
}

/* Names, sizes and bytes of all files of a folder, in one number. */
static uint64_t fingerprint(const char *path) {
  uint64_t sum = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    char name[600];
    cr_buffer text = {0};
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    ok(cr_buffer_print(&text, "%s ", entry->d_name));
    ok(cr_file_read(name, &text));
    uint64_t hash = text.size;
    for (size_t i = 0; i < text.size; ++i) hash = hash * 31 + (uint8_t)text.data[i];
    sum += cr_mix_key(hash, 1); /* in whatever order the folder lists them */
    cr_buffer_free(&text);
  }
  closedir(dir);
  return sum;
}

FIXTURE_TEST(test_round_trip_in_key_order) {
  check_round_trip(fixture_path(*state, "db"), "LevelDB", "leveldb");
}

FIXTURE_TEST(test_every_record_and_nothing_changed) {
  enum { RECORDS = 20000 };
  const fixture *f = *state;
  cr_db *db = NULL, *other = NULL;
  cr_db_cursor *cursor = NULL, *beside = NULL;
  const char *path = fixture_path(f, "db");
  make_records(path, RECORDS);
  uint64_t before = fingerprint(path);
  assert_int_equal(chmod(path, 0555), 0);
  ok(cr_db_open("leveldb", path, CR_DB_READ, &db));
  ok(cr_db_open("leveldb", path, CR_DB_READ, &other));
  ok(cr_db_cursor_open(db, &cursor));
  ok(cr_db_cursor_open(other, &beside));
  for (int i = 0; i < RECORDS; ++i) {
    assert_record(cursor, i);
    ok(cr_db_cursor_next(cursor));
  }
  assert_false(cursor->valid);
  assert_record(beside, 0);
  cr_db_cursor_close(beside);
  cr_db_close(other);
  ok(cr_db_cursor_seek(cursor, bytes_of("00012345")));
  assert_record(cursor, 12345);
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  assert_int_equal(chmod(path, 0755), 0);
  assert_true(fingerprint(path) == before);
  /* It can still be written to. */
  ok(cr_db_open("leveldb", path, CR_DB_WRITE, &db));
  put(db, "z", "last");
  cr_db_close(db);
}

FIXTURE_TEST(test_modes_and_foreign_files) {
  const fixture *f = *state;
  cr_db *db = NULL;
  const char *path = fixture_path(f, "db");
  assert_fails(cr_db_open("leveldb", path, CR_DB_READ, &db), CREMA_E_NOT_FOUND, path);
  ok(cr_db_open("leveldb", path, CR_DB_WRITE, &db));
  put(db, "k", "v");
  cr_db_close(db);
  assert_fails(cr_db_open("leveldb", path, CR_DB_NEW, &db), CREMA_E_EXISTS, path);
  const char *lmdb = fixture_db(f, "lmdb", 3, fixture_gray);
  assert_fails(cr_db_open("leveldb", lmdb, CR_DB_READ, &db), CREMA_E_CORRUPT, "LMDB");
  assert_int_equal(cr_db_open("leveldb", lmdb, CR_DB_WRITE, &db), CREMA_E_CORRUPT);
  const char *empty = fixture_path(f, "empty");
  assert_int_equal(mkdir(empty, 0755), 0);
  assert_fails(cr_db_open("leveldb", empty, CR_DB_READ, &db), CREMA_E_NOT_FOUND,
               "neither CURRENT (LevelDB) nor data.mdb (LMDB)");
  assert_fails(cr_db_open("lmdb", empty, CR_DB_READ, &db), CREMA_E_NOT_FOUND,
               "neither data.mdb (LMDB) nor CURRENT (LevelDB)");
  ok(cr_file_write(fixture_path(f, "empty/CURRENT"), "M\n", 2));
  assert_int_equal(cr_db_open("leveldb", empty, CR_DB_READ, &db), CREMA_E_CORRUPT);
  assert_int_equal(cr_db_open("leveldb", empty, CR_DB_WRITE, &db), CREMA_E_CORRUPT);
  const char *gone = "MANIFEST-000009\n";
  ok(cr_file_write(fixture_path(f, "empty/CURRENT"), gone, 16));
  assert_fails(cr_db_open("leveldb", empty, CR_DB_READ, &db), CREMA_E_CORRUPT, "MANIFEST-000009");
  assert_int_equal(cr_db_open("leveldb", fixture_path(f, "no/such"), CR_DB_NEW, &db), CREMA_E_IO);
}

/* Another process writes: readers and writers are told so, and by whom. */
TEST(test_locked_by_another_process) {
  fixture f;
  cr_db *db = NULL;
  int ready[2], leave[2];
  char byte = 0;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db");
  make_records(path, 10);
  assert_int_equal(pipe(ready), 0);
  assert_int_equal(pipe(leave), 0);
  pid_t child = fork();
  if (child == 0) {
    bool ok = cr_db_open("leveldb", path, CR_DB_WRITE, &db) == CREMA_OK;
    ok = ok && write(ready[1], "r", 1) == 1;
    ok = ok && read(leave[0], &byte, 1) == 1;
    _exit(ok ? 0 : 1);
  }
  assert_true(child > 0);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  char pid[32];
  snprintf(pid, sizeof pid, "process %ld", (long)child);
  assert_fails(cr_db_open("leveldb", path, CR_DB_READ, &db), CREMA_E_STATE, path);
  assert_error_has(pid);
  assert_fails(cr_db_open("leveldb", path, CR_DB_WRITE, &db), CREMA_E_STATE, "locked");
  assert_int_equal(write(leave[1], "l", 1), 1);
  int ended = 1;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  ok(cr_db_open("leveldb", path, CR_DB_READ, &db));
  /* And a reader keeps writers away. */
  cr_db *writer = NULL;
  assert_int_equal(cr_db_open("leveldb", path, CR_DB_WRITE, &writer), CREMA_E_STATE);
  cr_db_close(db);
  for (int i = 0; i < 2; ++i) {
    close(ready[i]);
    close(leave[i]);
  }
  fixture_remove(&f);
}

/* What a killed run has left goes when the next one opens a database; what is in use stays. */
TEST(test_temporary_folders_of_killed_runs) {
  fixture f;
  cr_db *db = NULL, *other = NULL;
  cr_db_cursor *cursor = NULL;
  fixture_make(&f);
  const char *path = fixture_path(&f, "db"), *scratchpad = fixture_path(&f, "scratch");
  make_records(path, 10);
  assert_int_equal(mkdir(scratchpad, 0755), 0);
  assert_int_equal(mkdir(fixture_path(&f, "scratch/crema-leveldb-notour"), 0755), 0);
  assert_int_equal(setenv("TMPDIR", scratchpad, 1), 0);
  for (int i = 0; i < 3; ++i) {
    pid_t child = fork();
    if (child == 0) {
      if (cr_db_open("leveldb", path, CR_DB_READ, &db) != CREMA_OK) _exit(1);
      raise(SIGKILL);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(count_names_at(scratchpad, ""), 2);
  }
  ok(cr_db_open("leveldb", path, CR_DB_READ, &db));
  assert_int_equal(count_names_at(scratchpad, ""), 2);
  ok(cr_db_open("leveldb", path, CR_DB_READ, &other));
  assert_int_equal(count_names_at(scratchpad, ""), 3);
  ok(cr_db_cursor_open(db, &cursor));
  assert_record(cursor, 0);
  cr_db_cursor_close(cursor);
  cr_db_close(other);
  cr_db_close(db);
  assert_int_equal(count_names_at(scratchpad, ""), 1);
  assert_int_equal(unsetenv("TMPDIR"), 0);
  fixture_remove(&f);
}

/* The largest file of a kind. */
static void find_file(const char *path, const char *end, char *out, size_t size) {
  off_t largest = -1;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    char name[600];
    struct stat info;
    const char *dot = strrchr(entry->d_name, '.');
    if (dot == NULL || strcmp(dot, end) != 0) continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (stat(name, &info) != 0 || info.st_size <= largest) continue;
    largest = info.st_size;
    snprintf(out, size, "%s", name);
  }
  closedir(dir);
  assert_true(largest > 0);
}

/* Makes a database whose records are in a table: opening for writing empties the log. */
static void make_table(const char *path, char *table, size_t size) {
  cr_db *db = NULL;
  make_records(path, 3000);
  ok(cr_db_open("leveldb", path, CR_DB_WRITE, &db));
  cr_db_close(db);
  find_file(path, ".ldb", table, size);
}

static crema_status walk(const char *path, int limit) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  int records = 0;
  crema_status status = cr_db_open("leveldb", path, CR_DB_READ, &db);
  if (status == CREMA_OK) status = cr_db_cursor_open(db, &cursor);
  while (status == CREMA_OK && cursor->valid) {
    assert_true(++records <= limit);
    status = cr_db_cursor_next(cursor);
  }
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  return status;
}

FIXTURE_TEST(test_truncated_table) {
  const fixture *f = *state;
  char table[600];
  struct stat info;
  const char *path = fixture_path(f, "db");
  make_table(path, table, sizeof table);
  ok(walk(path, 3000));
  assert_int_equal(stat(table, &info), 0);
  for (off_t size = info.st_size - 1; size > 0; size /= 3) {
    assert_int_equal(truncate(table, size), 0);
    assert_fails(walk(path, 3000), CREMA_E_CORRUPT, strrchr(table, '/') + 1);
  }
  assert_int_equal(remove(table), 0);
  assert_fails(walk(path, 3000), CREMA_E_CORRUPT, path);
}

static void cut(const char *table, off_t size) {
  (void)size;
  assert_int_equal(truncate(table, 0), 0);
}

static void cut_to_half(const char *table, off_t size) {
  assert_int_equal(truncate(table, size / 2), 0);
}

/* As many bytes that mean nothing. */
static void overwrite(const char *table, off_t size) {
  FILE *file = fopen(table, "r+b");
  assert_non_null(file);
  for (off_t i = 0; i < size; ++i) fputc((int)(i * 7 % 256), file);
  assert_int_equal(fclose(file), 0);
}

TEST(test_spoilt_while_read) {
  static const struct {
    void (*spoil)(const char *table, off_t size);
    crema_status status;
    const char *says;
  } cases[] = {{cut, CREMA_E_IO, "truncated while it was read"},
               {cut_to_half, CREMA_E_IO, "truncated while it was read"},
               {overwrite, CREMA_E_CORRUPT, "corrupt"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    fixture f;
    char table[600];
    struct stat info;
    cr_db *db = NULL;
    cr_db_cursor *cursor = NULL;
    fixture_make(&f);
    const char *path = fixture_path(&f, "db");
    make_table(path, table, sizeof table);
    assert_int_equal(stat(table, &info), 0);
    ok(cr_db_open("leveldb", path, CR_DB_READ, &db));
    ok(cr_db_cursor_open(db, &cursor));
    for (int k = 0; k < 10; ++k) {
      assert_record(cursor, k);
      ok(cr_db_cursor_next(cursor));
    }
    cases[i].spoil(table, info.st_size);
    crema_status status = CREMA_OK;
    while (status == CREMA_OK && cursor->valid) status = cr_db_cursor_next(cursor);
    assert_int_equal(status, cases[i].status);
    assert_error_has(path);
    assert_error_has(cases[i].says);
    if (status == CREMA_E_IO) assert_error_has(strrchr(table, '/') + 1);
    assert_false(cursor->valid);
    cr_db_cursor_close(cursor);
    cr_db_close(db);
    fixture_remove(&f);
  }
}

/* A writer that ends while tables are being merged leaves a piece of a table that belongs to
 * nothing; LevelDB takes no notice of it. */
FIXTURE_TEST(test_unfinished_table) {
  const fixture *f = *state;
  char table[600];
  cr_buffer bytes = {0};
  const char *path = fixture_path(f, "db");
  make_table(path, table, sizeof table);
  ok(cr_file_read(table, &bytes));
  ok(cr_file_write(fixture_path(f, "db/004711.ldb"), bytes.data, bytes.size / 2));
  ok(cr_file_write(fixture_path(f, "db/004712.ldb"), "", 0));
  uint64_t before = fingerprint(path);
  ok(walk(path, 3000));
  assert_true(fingerprint(path) == before);
  cr_buffer_free(&bytes);
}

/* LevelDB itself ends the process when it finds a file of that number. */
FIXTURE_TEST(test_files_of_number_zero_are_passed_over) {
  static const char *const names[] = {"000000.log", "0.log", "000000.ldb", "00.sst"};
  const fixture *f = *state;
  const char *path = fixture_db_of(f, "leveldb", "db", 5, fixture_gray);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char name[32];
    cr_db *db = NULL;
    uint64_t count = 0;
    snprintf(name, sizeof name, "db/%s", names[i]);
    ok(cr_file_write(fixture_path(f, name), "x", 1));
    ok(cr_db_open("leveldb", path, CR_DB_READ, &db));
    ok(cr_db_count(db, &count));
    assert_int_equal(count, 5);
    cr_db_close(db);
  }
}

/* A changed byte is an error or does not matter; never a crash or an endless walk. */
FIXTURE_TEST(test_damaged_files) {
  enum { SEED = 11, ROUNDS = 120 };
  static const char *const kinds[] = {".ldb", ".log"};
  const fixture *f = *state;
  cr_mt19937 rng;
  print_message("seed %d\n", SEED);
  cr_mt19937_seed(&rng, SEED);
  const char *path = fixture_path(f, "db");
  char name[600];
  cr_db *db = NULL;
  make_table(path, name, sizeof name);
  ok(cr_db_open("leveldb", path, CR_DB_WRITE, &db));
  put(db, "in the log", "a value");
  cr_db_close(db);
  for (int kind = 0; kind < 2; ++kind) {
    int refused = 0;
    cr_buffer whole = {0};
    find_file(path, kinds[kind], name, sizeof name);
    ok(cr_file_read(name, &whole));
    for (int round = 0; round < ROUNDS; ++round) {
      /* Every second time in the last 100 bytes, where a table's footer is. */
      size_t span = round % 2 == 0 || whole.size < 100 ? whole.size : 100;
      size_t at = whole.size - span + cr_mt19937_below(&rng, (uint32_t)span);
      char old = whole.data[at];
      whole.data[at] = (char)(old ^ (char)(1 + cr_mt19937_below(&rng, 255)));
      ok(cr_file_write(name, whole.data, whole.size));
      whole.data[at] = old;
      crema_status status = walk(path, 3001);
      refused += status != CREMA_OK;
      if (status != CREMA_OK) assert_error_has(path);
    }
    ok(cr_file_write(name, whole.data, whole.size));
    cr_buffer_free(&whole);
    assert_in_range(refused, ROUNDS / 4, ROUNDS);
  }
  ok(walk(path, 3001));
}

static void take(cr_reader *reader, int records, uint64_t first_place, int count) {
  for (int i = 0; i < records; ++i) {
    cr_record *record = NULL;
    char key[16];
    snprintf(key, sizeof key, "%08d", (int)((first_place + (uint64_t)i) % (uint64_t)count));
    ok(cr_reader_take(reader, 0, &record));
    assert_bytes(record->key, key);
    ok(fixture_give_back(reader, 0, record));
  }
}

/* The reader learns the number of records when it comes round. */
FIXTURE_TEST(test_reader) {
  enum { RECORDS = 7 };
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *path = fixture_path(f, "db");
  make_records(path, RECORDS);
  cr_reader_options options = {
      .backend = "leveldb", .source = path, .consumers = 1, .depth = 3, .skip = 2};
  ok(cr_reader_open(&options, &reader));
  assert_true(cr_reader_count(reader) == UINT64_MAX);
  ok(fixture_reader_start(reader));
  take(reader, 20, 2, RECORDS);
  fixture_reader_stop(reader);
  assert_true(cr_reader_count(reader) == RECORDS);
  cr_reader_close(reader);
  /* Skipping far beyond the end takes the short way. */
  options.skip = 7000000000000000004u;
  ok(cr_reader_open(&options, &reader));
  assert_true(cr_reader_count(reader) == RECORDS);
  ok(fixture_reader_start(reader));
  take(reader, 9, 7000000000000000004u % RECORDS, RECORDS);
  fixture_reader_stop(reader);
  ok(fixture_reader_seek(reader, "00000004", 40));
  ok(fixture_reader_start(reader));
  take(reader, 9, 5, RECORDS);
  cr_reader_close(reader);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
