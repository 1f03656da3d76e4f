/* What a walk through an LMDB file begins with, and what it refuses. */
#include <string.h>

#include "check.h"
#include "data/db/lmdb_walk.h"

enum { PAGE = 4096 };

static cr_lmdb_file file_of(uint64_t bytes, uint64_t last_page) {
  cr_lmdb_file file = {.fd = -1};
  file.size = bytes;
  file.meta.page_size = PAGE;
  file.meta.last_page = last_page;
  file.meta.entries = 17;
  file.meta.root = 3;
  return file;
}

TEST(files_without_pages_are_refused) {
  cr_lmdb_walk walk;
  cr_lmdb_file file = file_of(2 * PAGE - 1, 9);
  assert_int_equal(cr_lmdb_walk_begin(&walk, &file), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "truncated database (8191 bytes)");
  file = file_of(0, 9);
  assert_int_equal(cr_lmdb_walk_begin(&walk, &file), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "truncated database (0 bytes)");
  file = file_of(9 * PAGE, 0);
  assert_int_equal(cr_lmdb_walk_begin(&walk, &file), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "the database is corrupt: it has no pages");
  file = file_of(9 * PAGE, UINT64_MAX);
  assert_int_equal(cr_lmdb_walk_begin(&walk, &file), CREMA_E_CORRUPT);
  file = file_of(9 * PAGE, 8);
  file.meta.duplicates = true;
  assert_int_equal(cr_lmdb_walk_begin(&walk, &file), CREMA_E_UNSUPPORTED);
  assert_string_equal(crema_error_text(), "a database with several values per key");
}

/* As many pages as both the file and its meta page have. */
TEST(pages_are_those_of_the_file) {
  static const struct {
    uint64_t bytes, last_page, pages;
  } rows[] = {{2 * PAGE, 1, 2},     {2 * PAGE, 5, 2},      {9 * PAGE, 8, 9}, {9 * PAGE, 7, 8},
              {9 * PAGE - 1, 8, 8}, {9 * PAGE + 1, 99, 9}, {9 * PAGE, 1, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    cr_lmdb_walk walk;
    cr_lmdb_file file = file_of(rows[i].bytes, rows[i].last_page);
    ok(cr_lmdb_walk_begin(&walk, &file));
    assert_int_equal(walk.pages, rows[i].pages);
    assert_int_equal(walk.page_size, PAGE);
    assert_int_equal(walk.entries, 17);
    assert_int_equal(walk.root, 3);
    assert_ptr_equal(walk.file, &file);
    cr_lmdb_walk_end(&walk);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
