/* LevelDB folders made file by file: which tables are sound, which names are manifests, and what a
 * view of the folder holds. */
#define _GNU_SOURCE /* locks of open file descriptions */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "data/db/leveldb_view.h"
#include "folder.h"

static void write_file(const char *name, const void *bytes, size_t size) {
  ok(cr_file_write(path_of(name), bytes, size));
}

/* ---- tables -------------------------------------------------------------- */

static size_t put_varint(uint8_t *at, uint64_t value) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) at[size++] = (uint8_t)(value | 0x80);
  at[size++] = (uint8_t)value;
  return size;
}

/* A table of `size` bytes whose footer names two blocks. */
static void write_table(const char *name, size_t size, const uint64_t block[4]) {
  static const uint8_t magic[] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
  uint8_t bytes[1024] = {0};
  uint8_t *footer = bytes + size - 48;
  size_t used = 0;
  for (int i = 0; i < 4; ++i) used += put_varint(footer + used, block[i]);
  memcpy(footer + 40, magic, sizeof magic);
  write_file(name, bytes, size);
}

static crema_status check(void) {
  return cr_leveldb_check(folder);
}

static const char damaged[] = "000005.ldb: a truncated or corrupt table of a LevelDB database";

/* Blocks end five bytes, their trailer, before the end of the file. */
TEST(footers) {
  static const struct {
    size_t size;
    uint64_t block[4]; /* offset and size, twice */
    bool sound;
  } cases[] = {
      {48, {0, 0, 0, 0}, true},
      {48, {0, 43, 0, 0}, true},
      {48, {0, 44, 0, 0}, false},
      {48, {43, 0, 0, 0}, true},
      {48, {44, 0, 0, 0}, false},
      {48, {0, 0, 0, 43}, true},
      {48, {0, 0, 0, 44}, false},
      {48, {0, 0, 43, 0}, true},
      {48, {0, 0, 44, 0}, false},
      {600, {300, 295, 0, 0}, true},
      {600, {300, 296, 0, 0}, false},
      {600, {16384, 0, 0, 0}, false},
      {600, {0, 0, 595, 0}, true},
      {600, {0, 0, 601, 0}, false},
      {600, {0, 601, 0, 0}, false},
      {600, {600, 0, 0, 0}, false},
      {600, {1, UINT64_MAX, 0, 0}, false},
      {600, {UINT64_MAX, 1, 0, 0}, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    write_table("000005.ldb", cases[i].size, cases[i].block);
    if (cases[i].sound) ok(check());
    else assert_fails(check(), CREMA_E_CORRUPT, damaged);
  }
  unlink(path_of("000005.ldb"));
}

TEST(damaged_footers) {
  static const uint64_t none[4] = {0};
  cr_buffer table = {0};
  uint8_t endless[48];
  write_table("000005.ldb", 48, none);
  ok(cr_file_read(path_of("000005.ldb"), &table));
  write_file("000005.ldb", table.data, 47);
  assert_fails(check(), CREMA_E_CORRUPT, damaged);
  write_file("000005.ldb", "", 0);
  assert_fails(check(), CREMA_E_CORRUPT, damaged);
  for (size_t i = 40; i < 48; ++i) {
    table.data[i] ^= 1;
    write_file("000005.ldb", table.data, 48);
    assert_fails(check(), CREMA_E_CORRUPT, damaged);
    table.data[i] ^= 1;
  }
  /* Numbers that do not end within the 40 bytes. */
  memcpy(endless, table.data, 48);
  memset(endless, 0x80, 40);
  write_file("000005.ldb", endless, 48);
  assert_fails(check(), CREMA_E_CORRUPT, damaged);
  cr_buffer_free(&table);
  unlink(path_of("000005.ldb"));
}

/* By the ends of their names; only whole names of something are tables. */
TEST(names_of_tables) {
  static const struct {
    const char *name;
    bool table;
  } cases[] = {{"1.ldb", true},   {"1.sst", true},  {".ldb", false}, {".sst", false},
               {"1.ldbx", false}, {"1.log", false}, {"ldb", false},  {"x1.ldb", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    write_text(cases[i].name, "no table");
    assert_int_equal(check(), cases[i].table ? CREMA_E_CORRUPT : CREMA_OK);
    unlink(path_of(cases[i].name));
  }
}

/* ---- the manifest -------------------------------------------------------- */

TEST(manifests) {
  static const struct {
    const char *current;
    bool named;
  } cases[] = {{"MANIFEST-000001\n", true},
               {"MANIFEST-000001", true},
               {"MANIFEST-\n", false},
               {"MANIFEST-", false},
               {"MANIFEST-1", true},
               {"manifest-1", false},
               {"MANIFEST-1/2", false},
               {"", false},
               {"\n", false},
               {"MANIFEST-1234567890123456789012\n", true},
               {"MANIFEST-12345678901234567890123\n", false},
               {"MANIFEST-1\n\n", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    write_text("CURRENT", cases[i].current);
    crema_status status = check();
    if (strncmp(cases[i].current, "MANIFEST-000001", 15) == 0) {
      ok(status);
    } else if (cases[i].named) {
      assert_fails(status, CREMA_E_CORRUPT, "corrupt LevelDB database (MANIFEST-1");
      assert_fails(status, CREMA_E_CORRUPT, " is missing)");
    } else {
      assert_fails(status, CREMA_E_CORRUPT, "corrupt LevelDB database (CURRENT names no manifest)");
    }
  }
  unlink(path_of("CURRENT"));
  assert_fails(check(), CREMA_E_NOT_FOUND,
               "no database: neither CURRENT (LevelDB) nor data.mdb (LMDB) is in it");
  write_text("data.mdb", "");
  assert_fails(check(), CREMA_E_CORRUPT, "an LMDB database, not a LevelDB one (backend: LMDB)");
  unlink(path_of("data.mdb"));
  write_text("CURRENT", "MANIFEST-000001\n");
  assert_fails(cr_leveldb_check(path_of("gone")), CREMA_E_NOT_FOUND, "gone: no such database");
}

/* ---- views --------------------------------------------------------------- */

static bool is_in(const char *place, const char *name) {
  char path[600];
  struct stat info;
  snprintf(path, sizeof path, "%s/%s", place, name);
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

TEST(views) {
  static const char *const linked[] = {"CURRENT",    "MANIFEST-000001", "000004.log", "000005.ldb",
                                       "000006.sst", "00a.log",         "10.log"};
  static const char *const left[] = {"MANIFEST-000002", "LOCK",       "LOG",  "000000.log",
                                     "0.ldb",           "000007.ldb", "notes"};
  static const uint64_t none[4] = {0};
  cr_leveldb_view view;
  char place[512];
  for (size_t i = 2; i < sizeof linked / sizeof *linked; ++i) {
    if (strchr(linked[i], 'd') != NULL || strstr(linked[i], "sst") != NULL) {
      write_table(linked[i], 48, none);
    } else {
      write_text(linked[i], "");
    }
  }
  for (size_t i = 0; i < sizeof left / sizeof *left; ++i) write_text(left[i], "no table");
  ok(cr_leveldb_view_open(folder, &view));
  snprintf(place, sizeof place, "%s", view.folder.path);
  for (size_t i = 0; i < sizeof linked / sizeof *linked; ++i) {
    if (!is_in(place, linked[i])) fail_msg("%s is not in the view", linked[i]);
  }
  assert_int_equal(count_names_at(place, ""), (int)(sizeof linked / sizeof *linked));
  assert_true(view.lock >= 0);
  /* So that runs in other containers do not take it for one that was left behind. */
  const int own = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(flock(own, LOCK_EX | LOCK_NB), -1);
  close(own);
  cr_leveldb_view_close(&view);
  assert_int_not_equal(access(place, F_OK), 0);
  assert_int_equal(view.lock, -1);
  cr_leveldb_view_close(&view);
  for (size_t i = 2; i < sizeof linked / sizeof *linked; ++i) unlink(path_of(linked[i]));
  for (size_t i = 0; i < sizeof left / sizeof *left; ++i) unlink(path_of(left[i]));
}

/* Readers share the lock; a writer keeps them out, and a folder without LOCK has none. */
TEST(locks) {
  cr_leveldb_view one, two;
  write_text("LOCK", "");
  ok(cr_leveldb_view_open(folder, &one));
  ok(cr_leveldb_view_open(folder, &two));
  cr_leveldb_view_close(&two);
  struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  const int fd = open(path_of("LOCK"), O_RDWR | O_CLOEXEC);
  assert_int_equal(fcntl(fd, F_OFD_SETLK, &wanted), -1);
  cr_leveldb_view_close(&one);
  assert_int_equal(fcntl(fd, F_OFD_SETLK, &wanted), 0);
  assert_fails(cr_leveldb_view_open(folder, &one), CREMA_E_STATE,
               "locked by another process, which has it open for writing");
  assert_true(one.lock == -1 && one.folder.path == NULL);
  close(fd);
  unlink(path_of("LOCK"));
  ok(cr_leveldb_view_open(folder, &one));
  assert_int_equal(one.lock, -1);
  cr_leveldb_view_close(&one);
}

static int make_database(void **state) {
  if (make_folder(state) != 0) return 1;
  write_text("CURRENT", "MANIFEST-000001\n");
  write_text("MANIFEST-000001", "");
  return 0;
}

static int remove_database(void **state) {
  unlink(path_of("CURRENT"));
  unlink(path_of("MANIFEST-000001"));
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_database, remove_database);
}
