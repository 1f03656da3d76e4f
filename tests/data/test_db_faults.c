/* Databases where something is not possible: read-only folders, lock files of others, full disks,
 * files that vanish, records that are cut off. Checks that root would pass run as the user
 * nobody. */
#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "crema/log.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "log_lines.h"

enum { RECORDS = 30 };

static const char *const backends[] = {"lmdb", "leveldb"};

/* A failed check in the child: what was expected, and what the library said. */
#define CHILD_CHECK(condition)                                 \
  do {                                                         \
    if (!(condition)) {                                        \
      print_error("%s: %s\n", #condition, crema_error_text()); \
      return 1;                                                \
    }                                                          \
  } while (0)

/* Runs `body` in a process without root's rights; it returns 0 when all was well. */
static void as_nobody(int (*body)(const char *), const char *path) {
  enum { NOBODY = 65534 };
  int state = 0;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    bool root = geteuid() == 0;
    if (root && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(2);
    _exit(body(path));
  }
  assert_int_equal(waitpid(child, &state, 0), child);
  assert_true(WIFEXITED(state));
  assert_int_equal(WEXITSTATUS(state), 0);
}

static crema_status add_record(cr_db *db, int number, size_t size) {
  char key[16];
  uint8_t *value = malloc(size);
  cr_db_txn *txn = NULL;
  if (value == NULL) return CREMA_E_NO_MEMORY;
  int length = snprintf(key, sizeof key, "%08d", number);
  memset(value, number, size);
  crema_status status = cr_db_txn_begin(db, &txn);
  if (status == CREMA_OK) {
    const cr_db_bytes bytes = {(const uint8_t *)key, (size_t)length};
    status = cr_db_put(txn, bytes, (cr_db_bytes){value, size});
    if (status == CREMA_OK) status = cr_db_commit(txn);
    else cr_db_abort(txn);
  }
  free(value);
  return status;
}

static const char *make_db(const fixture *f, const char *backend, const char *name) {
  const char *path = fixture_path(f, name);
  cr_db *db = NULL;
  ok(cr_db_open(backend, path, CR_DB_NEW, &db));
  for (int i = 0; i < RECORDS; ++i) ok(add_record(db, i, 5000));
  ok(cr_db_finish(db, CREMA_OK));
  return path;
}

/* Does something to each file of a folder. */
static void for_each_file(const char *path, mode_t mode,
                          int (*act)(const char *path, mode_t mode)) {
  DIR *directory = opendir(path);
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char name[600];
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    assert_int_equal(act(name, mode), 0);
  }
  closedir(directory);
}

/* Changes the rights of a folder and of the files in it. */
static void set_modes(const char *path, mode_t folder, mode_t files) {
  assert_int_equal(chmod(path, 0755), 0);
  for_each_file(path, files, chmod);
  assert_int_equal(chmod(path, folder), 0);
}

static void make_open_fixture(fixture *f) {
  fixture_make(f);
  assert_int_equal(chmod(f->path, 0755), 0);
}

/* Walks through all records; their number, -1 after a failure. */
static int count_records(const char *backend, const char *path) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  int count = 0;
  if (cr_db_open(backend, path, CR_DB_READ, &db) != CREMA_OK) return -1;
  crema_status status = cr_db_cursor_open(db, &cursor);
  for (; status == CREMA_OK && cursor->valid; ++count) {
    if (cursor->value.size == 0 || cursor->value.data[0] != (uint8_t)count)
      status = CREMA_E_CORRUPT;
    else status = cr_db_cursor_next(cursor);
  }
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  return status == CREMA_OK ? count : -1;
}

/* ---- read-only folders --------------------------------------------------- */

static int read_without_lock(const char *path) {
  static log_lines lines;
  listen_to(&lines, CREMA_LOG_INFO);
  CHILD_CHECK(access(path, W_OK) != 0);
  CHILD_CHECK(count_records("lmdb", path) == RECORDS);
  CHILD_CHECK(count_lines(&lines, "without a lock") == 1);
  return 0;
}

/* LMDB wants to make or write a lock file; where it may not, it is opened without one (S2-15). */
TEST(s2_15_read_only_lmdb_is_read_without_a_lock) {
  fixture f;
  char lock[600];
  make_open_fixture(&f);
  const char *path = make_db(&f, "lmdb", "db");
  snprintf(lock, sizeof lock, "%s/lock.mdb", path);
  /* A lock file of somebody else. */
  set_modes(path, 0555, 0444);
  as_nobody(read_without_lock, path);
  /* None, and no right to make one. */
  assert_int_equal(chmod(path, 0755), 0);
  assert_int_equal(unlink(lock), 0);
  set_modes(path, 0555, 0444);
  as_nobody(read_without_lock, path);
  assert_int_not_equal(access(lock, F_OK), 0);
  set_modes(path, 0755, 0644);
  fixture_remove(&f);
}

static int read_leveldb(const char *path) {
  CHILD_CHECK(access(path, W_OK) != 0);
  CHILD_CHECK(count_records("leveldb", path) == RECORDS);
  return 0;
}

TEST(s2_15_read_only_leveldb_is_read) {
  fixture f;
  make_open_fixture(&f);
  const char *path = make_db(&f, "leveldb", "db");
  set_modes(path, 0555, 0444);
  as_nobody(read_leveldb, path);
  set_modes(path, 0755, 0644);
  fixture_remove(&f);
}

static int write_fails(const char *path) {
  for (int b = 0; b < 2; ++b) {
    char inside[600];
    cr_db *db = NULL;
    snprintf(inside, sizeof inside, "%s/new", path);
    CHILD_CHECK(cr_db_open(backends[b], inside, CR_DB_NEW, &db) == CREMA_E_IO);
    CHILD_CHECK(strstr(crema_error_text(), inside) != NULL);
    CHILD_CHECK(strstr(crema_error_text(), "Permission denied") != NULL);
    CHILD_CHECK(cr_db_open(backends[b], inside, CR_DB_WRITE, &db) == CREMA_E_IO);
  }
  return 0;
}

TEST(s2_15_unwritable_paths_are_named) {
  fixture f;
  make_open_fixture(&f);
  assert_int_equal(chmod(f.path, 0555), 0);
  as_nobody(write_fails, f.path);
  assert_int_equal(chmod(f.path, 0755), 0);
  fixture_remove(&f);
}

/* ---- full disks ---------------------------------------------------------- */

/* A limit on the size of files stands for a disk that is full: writes fail from there on. */
static int fill_up(const char *path) {
  const struct rlimit limit = {1 << 20, 1 << 20};
  const char *backend = strstr(path, "leveldb") != NULL ? "leveldb" : "lmdb";
  cr_db *db = NULL;
  signal(SIGXFSZ, SIG_IGN);
  CHILD_CHECK(cr_db_open(backend, path, CR_DB_WRITE, &db) == CREMA_OK);
  CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  crema_status status = CREMA_OK;
  int written = RECORDS;
  while (status == CREMA_OK && written < 1000) {
    status = add_record(db, written, 100000);
    written += status == CREMA_OK;
  }
  CHILD_CHECK(status == CREMA_E_IO);
  CHILD_CHECK(strstr(crema_error_text(), path) != NULL);
  CHILD_CHECK(written > RECORDS && written < 50);
  cr_db_close(db);
  /* Reading needs no room. What was committed before is whole. */
  if (strcmp(backend, "lmdb") == 0) CHILD_CHECK(count_records(backend, path) == written);
  return 0;
}

TEST(s2_15_a_full_disk_loses_nothing) {
  for (int b = 0; b < 2; ++b) {
    fixture f;
    int ended = 0;
    make_open_fixture(&f);
    const char *path = make_db(&f, backends[b], backends[b]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fill_up(path));
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    assert_true(count_records(backends[b], path) >= RECORDS);
    fixture_remove(&f);
  }
}

/* ---- files that vanish --------------------------------------------------- */

static int remove_file(const char *path, mode_t unused) {
  (void)unused;
  return unlink(path);
}

static void remove_all(const char *path) {
  for_each_file(path, 0, remove_file);
  assert_int_equal(rmdir(path), 0);
}

/* A database that is deleted while it is read can be read on; opening it again tells its name. */
TEST(s2_12_a_database_that_vanishes) {
  for (int b = 0; b < 2; ++b) {
    fixture f;
    cr_reader *reader = NULL;
    cr_record *record = NULL;
    cr_buffer store = {0};
    cr_db_bytes value;
    fixture_make(&f);
    const char *path = make_db(&f, backends[b], "db");
    const cr_reader_options options = {
        .backend = backends[b], .source = path, .consumers = 1, .depth = 2};
    ok(cr_reader_open(&options, &reader));
    ok(fixture_reader_start(reader));
    for (int k = 0; k < 3 * RECORDS; ++k) {
      if (k == 5) remove_all(path);
      ok(cr_reader_take(reader, 0, &record));
      ok(cr_record_value(record, &store, &value));
      assert_int_equal(value.size, 5000);
      assert_int_equal(value.data[4999], k % RECORDS);
      ok(fixture_give_back(reader, 0, record));
    }
    cr_buffer_free(&store);
    cr_reader_close(reader);
    assert_fails(cr_reader_open(&options, &reader), CREMA_E_NOT_FOUND, path);
    fixture_remove(&f);
  }
}

/* ---- records that are cut off -------------------------------------------- */

/* As fixture_gray, but record 6 lacks its last bytes, and with them a part of its pixels. */
static void cut_gray(int index, cr_buffer *value) {
  fixture_gray(index, value);
  if (index == 6) value->size -= 9;
}

TEST(s2_21_a_record_that_is_cut_off) {
  enum { BATCH = 4 };
  for (int skip = 0; skip < 2; ++skip) {
    fixture f;
    cr_reader *reader = NULL;
    cr_transformer *transformer = NULL;
    cr_datum_source *source = NULL;
    cr_pipeline *pipeline = NULL;
    cr_batch *batch = NULL;
    fixture_make(&f);
    const char *path = fixture_db(&f, "db", 10, cut_gray);
    const cr_reader_options from = {
        .backend = "lmdb", .source = path, .consumers = 1, .depth = 3 * BATCH};
    ok(cr_reader_open(&from, &reader));
    ok(cr_transformer_create(NULL, CAFFE__PHASE__TEST, 1, NULL, &transformer));
    const cr_datum_source_options options = {
        .records = {.reader = reader, .skip_corrupt = skip == 1},
        .transformer = transformer,
        .items = BATCH,
        .tops = 2};
    ok(fixture_pipeline(&options, 2, &source, &pipeline));
    ok(cr_pipeline_start(pipeline, 0));
    ok(fixture_take(pipeline, &batch));
    crema_status status = fixture_take(pipeline, &batch);
    if (skip == 1) {
      static const float wanted[BATCH] = {4, 5, 7, 8};
      ok(status);
      assert_memory_equal(batch->top[1].values, wanted, sizeof wanted);
    } else {
      assert_int_equal(status, CREMA_E_CORRUPT);
      assert_error_has("record '00000006'");
      assert_error_has(path);
    }
    cr_pipeline_destroy(pipeline);
    cr_datum_source_destroy(source);
    cr_reader_close(reader);
    cr_transformer_destroy(transformer);
    fixture_remove(&f);
  }
}

/* Another process reads and is killed. */
static int be_killed_reading(const char *path) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  CHILD_CHECK(cr_db_open("lmdb", path, CR_DB_READ, &db) == CREMA_OK);
  CHILD_CHECK(cr_db_cursor_open(db, &cursor) == CREMA_OK);
  raise(SIGKILL);
  return 1;
}

/* LMDB has 126 slots for readers. Those of killed processes are reused, also while the database is
 * open elsewhere, so that its lock file is never made anew. A process that was forked reads on its
 * own: LMDB would take what it does for its parent's. */
static void kill_readers(bool forked) {
  enum { KILLED = 130 };
  fixture f;
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  fixture_make(&f);
  const char *path = make_db(&f, "lmdb", "db");
  ok(cr_db_open("lmdb", path, CR_DB_READ, &db));
  for (int i = 0; i < KILLED; ++i) {
    pid_t child = fork();
    if (child == 0) {
      if (forked) _exit(be_killed_reading(path));
      execl("/proc/self/exe", "test", "--read", path, (char *)NULL);
      _exit(2);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  }
  ok(cr_db_cursor_open(db, &cursor));
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  fixture_remove(&f);
}

TEST(test_killed_readers_free_their_slots) {
  kill_readers(false);
}

TEST(test_forked_readers_have_slots_of_their_own) {
  kill_readers(true);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--read") == 0) return be_killed_reading(argv[2]);
  return run_all_tests(NULL, NULL);
}
