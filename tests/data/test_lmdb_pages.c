/* LMDB files made byte by byte: every bound of a page, of its nodes and of large values, each at
 * its last good value and one beyond. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "data/db/lmdb_walk.h"

/* Pages 0 and 1 describe the file; 2 is a branch with the leaves 3 (a, b) and 4 (c, d); the value
 * of c is on the overflow pages 5 and 6. */
enum { PAGE = 256, PAGES = 7, BIG = 300, TXN = 9 };
enum { BRANCH = 1, LEAF = 2, OVERFLOW = 4 };

static uint8_t image[PAGES * PAGE];

static void put_16(size_t at, unsigned value) {
  const uint16_t bytes = (uint16_t)value;
  memcpy(image + at, &bytes, sizeof bytes);
}

static void put_32(size_t at, uint32_t value) {
  memcpy(image + at, &value, sizeof value);
}

static void put_64(size_t at, uint64_t value) {
  memcpy(image + at, &value, sizeof value);
}

static void put_page(uint64_t number, unsigned flags, int nodes) {
  put_64(number * PAGE, number);
  put_16(number * PAGE + 10, flags);
  put_16(number * PAGE + 12, 16 + 2 * (unsigned)nodes);
}

/* A node at `offset` of the page: two halves of a size or a page number, flags, key; returns where
 * its value begins. */
static size_t put_node(size_t page, int index, size_t offset, uint32_t number, unsigned flags,
                       const char *key) {
  const size_t at = page * PAGE + offset;
  put_16(page * PAGE + 16 + 2 * (size_t)index, (unsigned)offset);
  put_16(at, number & 0xffff);
  put_16(at + 2, number >> 16);
  put_16(at + 4, flags);
  put_16(at + 6, (unsigned)strlen(key));
  memcpy(image + at + 8, key, strlen(key));
  return at + 8 + strlen(key);
}

static void put_meta(uint64_t page, uint64_t txn) {
  const size_t at = page * PAGE;
  put_64(at, page);
  put_16(at + 10, 8);
  put_32(at + 16, 0xbeefc0de);
  put_32(at + 20, 1);
  put_32(at + 40, PAGE);
  put_64(at + 40 + 40, UINT64_MAX); /* no free pages */
  put_16(at + 88 + 6, 2);           /* depth */
  put_64(at + 88 + 8, 1);
  put_64(at + 88 + 16, 2);
  put_64(at + 88 + 24, 2);
  put_64(at + 88 + 32, 4);
  put_64(at + 88 + 40, 2);
  put_64(at + 136, PAGES - 1);
  put_64(at + 144, txn);
}

static void make_image(void) {
  memset(image, 0, sizeof image);
  put_meta(0, TXN - 1);
  put_meta(1, TXN);
  put_page(2, BRANCH, 2);
  put_node(2, 0, 40, 3, 0, "");
  put_node(2, 1, 60, 4, 0, "c");
  put_page(3, LEAF, 2);
  memcpy(image + put_node(3, 0, 100, 2, 0, "a"), "A1", 2);
  /* Ends with the page. */
  memcpy(image + put_node(3, 1, PAGE - 8 - 1 - 5, 5, 0, "b"), "B1234", 5);
  put_page(4, LEAF, 2);
  put_64(put_node(4, 0, PAGE - 8 - 1 - 8, BIG, 1, "c"), 5);
  put_node(4, 1, 50, 0, 0, "d");
  put_64(5 * PAGE, 5);
  put_16(5 * PAGE + 10, OVERFLOW);
  put_32(5 * PAGE + 12, 2);
  for (int i = 0; i < BIG; ++i) image[5 * PAGE + 16 + i] = (uint8_t)(i * 7);
}

static char path[] = "/tmp/crema-pages-XXXXXX";

typedef struct opened {
  int fd;
  cr_lmdb_file file;
  cr_lmdb_walk walk;
} opened;

static void write_image(void) {
  const int fd = open(path, O_WRONLY | O_TRUNC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, image, sizeof image), sizeof image);
  assert_int_equal(close(fd), 0);
}

static void open_image(opened *o) {
  bool current = false;
  *o = (opened){0};
  write_image();
  o->fd = open(path, O_RDONLY);
  ok(cr_lmdb_file_open(o->fd, TXN, &o->file, &current));
  assert_true(current);
  ok(cr_lmdb_walk_begin(&o->walk, &o->file));
}

static void close_image(opened *o) {
  cr_lmdb_walk_end(&o->walk);
  cr_lmdb_walk_end(&o->walk); /* as often as one likes */
  cr_lmdb_file_close(&o->file);
  cr_lmdb_file_close(&o->file);
  close(o->fd);
}

/* ---- good files ---- */

static void assert_record(const cr_lmdb_walk *walk, char key, const char *value, size_t offset) {
  assert_int_equal(walk->key.size, 1);
  assert_int_equal(walk->key.data[0], key);
  assert_int_equal(walk->value.size, strlen(value));
  assert_memory_equal(walk->value.data, value, strlen(value));
  assert_int_equal(walk->offset, offset);
}

static void assert_big(opened *o) {
  cr_buffer store = {0};
  cr_db_bytes value = {0};
  assert_int_equal(o->walk.key.data[0], 'c');
  assert_null(o->walk.value.data);
  assert_int_equal(o->walk.value.size, BIG);
  assert_int_equal(o->walk.offset, 5 * PAGE + 16);
  ok(cr_lmdb_read_value(&o->file, o->walk.offset, BIG, &store, &value));
  assert_int_equal(value.size, BIG);
  assert_memory_equal(value.data, image + 5 * PAGE + 16, BIG);
  cr_buffer_free(&store);
}

TEST(all_records) {
  cr_buffer store = {0};
  cr_db_bytes value = {0};
  opened o;
  bool valid = false;
  make_image();
  open_image(&o);
  for (int round = 0; round < 2; ++round) {
    ok(cr_lmdb_walk_first(&o.walk, &valid));
    assert_true(valid);
    assert_record(&o.walk, 'a', "A1", 3 * PAGE + 100 + 9);
    ok(cr_lmdb_walk_next(&o.walk, &valid));
    assert_true(valid);
    assert_record(&o.walk, 'b', "B1234", 4 * PAGE - 5);
    /* A small value can be read at its offset, too. */
    ok(cr_lmdb_read_value(&o.file, o.walk.offset, 5, &store, &value));
    assert_memory_equal(value.data, "B1234", 5);
    assert_int_equal(value.size, 5);
    ok(cr_lmdb_walk_next(&o.walk, &valid));
    assert_true(valid);
    assert_big(&o);
    ok(cr_lmdb_walk_next(&o.walk, &valid));
    assert_true(valid);
    assert_record(&o.walk, 'd', "", 4 * PAGE + 59);
    ok(cr_lmdb_walk_next(&o.walk, &valid));
    assert_false(valid);
    ok(cr_lmdb_walk_next(&o.walk, &valid));
    assert_false(valid);
  }
  cr_buffer_free(&store);
  close_image(&o);
}

TEST(found_keys) {
  static const struct {
    const char *key;
    bool found;
  } cases[] = {{"a", true},   {"b", true},   {"c", true},   {"d", true},  {"A", false}, {"", false},
               {"aa", false}, {"bz", false}, {"cc", false}, {"e", false}, {"dd", false}};
  opened o;
  make_image();
  open_image(&o);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const cr_db_bytes key = {(const uint8_t *)cases[i].key, strlen(cases[i].key)};
    bool valid = !cases[i].found, more = false;
    ok(cr_lmdb_walk_seek(&o.walk, key, &valid));
    assert_int_equal(valid, cases[i].found);
    ok(cr_lmdb_walk_next(&o.walk, &more));
    assert_int_equal(more, cases[i].found && cases[i].key[0] != 'd');
  }
  close_image(&o);
}

TEST(no_records) {
  opened o;
  bool valid = true;
  make_image();
  put_64(PAGE + 88 + 40, UINT64_MAX);
  put_64(PAGE + 88 + 32, 0);
  open_image(&o);
  assert_null(o.file.root);
  ok(cr_lmdb_walk_first(&o.walk, &valid));
  assert_false(valid);
  valid = true;
  ok(cr_lmdb_walk_seek(&o.walk, (cr_db_bytes){image, 1}, &valid));
  assert_false(valid);
  ok(cr_lmdb_walk_next(&o.walk, &valid));
  assert_false(valid);
  close_image(&o);
}

/* ---- damaged ones ---- */

typedef struct damage {
  size_t at;
  unsigned value;    /* 2 bytes */
  const char *words; /* NULL: still good */
} damage;

/* Goes through all records. */
static crema_status go_through(opened *o) {
  bool valid = false;
  crema_status status = cr_lmdb_walk_first(&o->walk, &valid);
  while (status == CREMA_OK && valid) status = cr_lmdb_walk_next(&o->walk, &valid);
  if (status != CREMA_OK) {
    assert_false(valid);
    assert_int_equal(o->walk.depth, 0);
  }
  return status;
}

TEST(damaged_pages) {
  static const damage cases[] = {
      /* numbers of pages */
      {3 * PAGE, 4, "page 3 has another number"},
      {2 * PAGE + 40, 1, "page 1 lies outside the file"},
      {2 * PAGE + 40, 7, "page 7 lies outside the file"},
      {2 * PAGE + 40, 4, NULL},
      {2 * PAGE + 42, 1, "page 65539 lies outside the file"},
      {2 * PAGE + 44, 1, "page 4294967299 lies outside the file"},
      /* kinds */
      {3 * PAGE + 10, 0, "page 3 is no tree page"},
      {3 * PAGE + 10, OVERFLOW, "page 3 is no tree page"},
      {3 * PAGE + 10, LEAF | BRANCH, "page 3 is no tree page"},
      {3 * PAGE + 10, LEAF | 0x20, "page 3 is no tree page"},
      {3 * PAGE + 10, LEAF | 0x10, NULL}, /* dirty: of no meaning in a file */
      /* lists of nodes */
      {3 * PAGE + 12, 16, "page 3 has no proper list of nodes"},
      {3 * PAGE + 12, 17, "page 3 has no proper list of nodes"},
      {3 * PAGE + 12, 18, NULL},
      {3 * PAGE + 12, 21, "page 3 has no proper list of nodes"},
      {3 * PAGE + 12, PAGE + 1, "page 3 has no proper list of nodes"},
      {3 * PAGE + 12, PAGE + 2, "page 3 has no proper list of nodes"},
      /* nodes */
      {3 * PAGE + 16, 15, "page 3 has a node outside itself"},
      {3 * PAGE + 16, PAGE - 8, NULL},
      {3 * PAGE + 16, PAGE - 7, "page 3 has a node outside itself"},
      {2 * PAGE + 18, PAGE - 7, "page 2 has a node outside itself"},
      /* keys and values: the node at 100 has 148 bytes behind its header */
      {3 * PAGE + 106, 146, NULL},
      {3 * PAGE + 106, 147, "page 3 has a value outside itself"},
      {3 * PAGE + 106, 149, "page 3 has a key outside itself"},
      {3 * PAGE + 100, 147, NULL},
      {3 * PAGE + 100, 148, "page 3 has a value outside itself"},
      {3 * PAGE + 102, 1, "page 3 has a value outside itself"},
      {3 * PAGE + 104, 2, "page 3 has a value outside itself"},
      {3 * PAGE + 104, 4, "page 3 has a value outside itself"},
      {3 * PAGE + 104, 8, NULL}, /* no kind of value */
      /* the large value: 300 bytes from page 5 on, of 7 */
      {5 * PAGE - 8, 1, "page 1 lies outside the file"},
      {5 * PAGE - 8, 7, "page 7 lies outside the file"},
      {5 * PAGE - 8, 6, "page 6 does not hold the value that belongs there"},
      {5 * PAGE - 17, 2 * PAGE - 16, NULL},
      {5 * PAGE - 17, 2 * PAGE - 15, "page 5 does not hold the value that belongs there"},
      {5 * PAGE - 15, 1, "page 5 does not hold the value that belongs there"},
      {5 * PAGE - 11, 9, "page 4 has a value outside itself"},
      {5 * PAGE - 11, 10, "page 4 has a key outside itself"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    opened o;
    make_image();
    put_16(cases[i].at, cases[i].value);
    if (cases[i].at == 3 * PAGE + 16 && cases[i].value == PAGE - 8) {
      memset(image + 4 * PAGE - 8, 0, 8); /* a node that is only a header */
    }
    open_image(&o);
    crema_status status = go_through(&o);
    if (cases[i].words == NULL) {
      if (status != CREMA_OK) fail_msg("case %zu: %s", i, crema_error_text());
    } else {
      assert_fails(status, CREMA_E_CORRUPT, cases[i].words);
    }
    close_image(&o);
  }
}

TEST(loops) {
  opened o;
  make_image();
  put_16(2 * PAGE + 40, 2); /* the root is its own child */
  open_image(&o);
  assert_fails(go_through(&o), CREMA_E_CORRUPT, "page 2 is part of a loop");
  close_image(&o);
  /* As many records as the file says, and no more. */
  for (uint64_t entries = 2; entries <= 5; ++entries) {
    make_image();
    put_64(PAGE + 88 + 32, entries);
    open_image(&o);
    if (entries < 4)
      assert_fails(go_through(&o), CREMA_E_CORRUPT, "page 2 leads to too many records");
    else ok(go_through(&o));
    close_image(&o);
  }
}

/* The first page of a large value says what it is. */
TEST(damaged_values) {
  static const struct {
    size_t at;
    unsigned value;
    size_t size;
    bool good;
  } cases[] = {{5 * PAGE, 5, BIG, true},
               {5 * PAGE, 6, BIG, false},
               {5 * PAGE + 10, LEAF, BIG, false},
               {5 * PAGE + 10, OVERFLOW | 1, BIG, false},
               {5 * PAGE + 12, 1, BIG, false},
               {5 * PAGE + 12, 3, BIG, true},
               {5 * PAGE + 12, 1, PAGE - 16, true},
               {5 * PAGE + 12, 1, PAGE - 15, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_buffer store = {0};
    cr_db_bytes value;
    opened o;
    make_image();
    put_16(cases[i].at, cases[i].value);
    open_image(&o);
    crema_status status = cr_lmdb_read_value(&o.file, 5 * PAGE + 16, cases[i].size, &store, &value);
    if (cases[i].good) ok(status);
    else assert_fails(status, CREMA_E_CORRUPT, "page 5 does not hold the value that belongs there");
    cr_buffer_free(&store);
    close_image(&o);
  }
  opened o;
  cr_buffer store = {0};
  cr_db_bytes value;
  make_image();
  open_image(&o);
  assert_fails(cr_lmdb_read_value(&o.file, 6 * PAGE, PAGE + 1, &store, &value), CREMA_E_CORRUPT,
               "truncated LMDB database: it ends at byte 1792");
  cr_buffer_free(&store);
  close_image(&o);
}

/* ---- what the file says of itself ---- */

TEST(descriptions) {
  static const struct {
    uint32_t size;
    bool good;
  } sizes[] = {{256, true}, {512, true},     {65536, true}, {128, false},
               {0, false},  {131072, false}, {257, false},  {768, false}};
  cr_lmdb_meta meta;
  make_image();
  put_64(PAGE + 40 + 8, 10);
  put_64(PAGE + 40 + 16, 20);
  put_64(PAGE + 40 + 24, 30);
  put_64(PAGE + 88 + 8, 100);
  put_64(PAGE + 88 + 16, 200);
  put_64(PAGE + 88 + 24, 300);
  ok(cr_lmdb_meta_parse(image + PAGE, &meta));
  assert_int_equal(meta.page_size, PAGE);
  assert_int_equal(meta.txn, TXN);
  assert_int_equal(meta.last_page, PAGES - 1);
  assert_int_equal(meta.used_pages, 2 + 60 + 600);
  assert_int_equal(meta.entries, 4);
  assert_int_equal(meta.root, 2);
  assert_false(meta.duplicates);
  put_16(PAGE + 88 + 4, 4);
  ok(cr_lmdb_meta_parse(image + PAGE, &meta));
  assert_true(meta.duplicates);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    char words[64];
    put_32(PAGE + 40, sizes[i].size);
    crema_status status = cr_lmdb_meta_parse(image + PAGE, &meta);
    snprintf(words, sizeof words, "pages of %u bytes", sizes[i].size);
    if (sizes[i].good) ok(status);
    else assert_fails(status, CREMA_E_CORRUPT, words);
  }
  put_32(PAGE + 16, 0xbeefc0df);
  assert_fails(cr_lmdb_meta_parse(image + PAGE, &meta), CREMA_E_CORRUPT,
               "not an LMDB database (no magic number)");
}

/* The newer of the two descriptions counts, whichever page it is on. */
TEST(newest_description) {
  cr_lmdb_meta meta;
  for (int newer = 0; newer < 2; ++newer) {
    make_image();
    put_64(144, newer == 0 ? TXN + 1 : TXN - 1);
    put_64(88 + 32, 77);
    write_image();
    const int fd = open(path, O_RDONLY);
    ok(cr_lmdb_meta_newest(fd, &meta));
    assert_int_equal(meta.entries, newer == 0 ? 77 : 4);
    assert_int_equal(meta.txn, newer == 0 ? TXN + 1 : TXN);
    close(fd);
  }
  make_image();
  put_32(PAGE + 40, 512);
  write_image();
  int fd = open(path, O_RDONLY);
  assert_fails(cr_lmdb_meta_newest(fd, &meta), CREMA_E_CORRUPT, "pages of 256 and 512 bytes");
  close(fd);
  assert_int_equal(truncate(path, PAGE + CR_LMDB_META_SIZE - 1), 0);
  fd = open(path, O_RDONLY);
  assert_fails(cr_lmdb_meta_newest(fd, &meta), CREMA_E_CORRUPT,
               "truncated LMDB database: it ends at byte 407");
  close(fd);
}

/* Snapshots are found by their transaction; pages of even ones are described on page 0. */
TEST(snapshots) {
  static const struct {
    uint64_t txn;
    bool current;
  } cases[] = {{TXN, true}, {TXN - 1, true}, {TXN - 2, false}, {TXN + 1, false}};
  make_image();
  write_image();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_lmdb_file file;
    bool current = !cases[i].current;
    const int fd = open(path, O_RDONLY);
    ok(cr_lmdb_file_open(fd, cases[i].txn, &file, &current));
    assert_int_equal(current, cases[i].current);
    if (current) {
      assert_int_equal(file.meta.txn, cases[i].txn);
      assert_int_equal(file.size, sizeof image);
      assert_memory_equal(file.root, image + 2 * PAGE, PAGE);
      assert_memory_equal(file.meta_bytes, image + (cases[i].txn % 2) * PAGE, CR_LMDB_META_SIZE);
    } else {
      assert_null(file.root);
    }
    cr_lmdb_file_close(&file);
    close(fd);
  }
}

/* A root outside the file is left to the walk. */
TEST(roots) {
  static const struct {
    uint64_t root;
    bool kept;
  } cases[] = {{1, false}, {2, true}, {PAGES - 1, true}, {PAGES, false}, {UINT64_MAX, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    opened o;
    make_image();
    put_64(PAGE + 88 + 40, cases[i].root);
    open_image(&o);
    assert_int_equal(o.file.root != NULL, cases[i].kept);
    close_image(&o);
  }
}

static int make_file(void **state) {
  (void)state;
  const int fd = mkstemp(path);
  return fd < 0 ? 1 : close(fd);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  return run_all_tests(make_file, remove_file);
}
