/* Lists of images and window files: what is no list is refused, with the line. */
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "data/fixture.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/window_list.h"

typedef struct refusal {
  const char *text;
  size_t size;
  const char *where, *why;
} refusal;

#define REFUSAL(text, where, why) \
  { text, sizeof text - 1, where, why }

static crema_status read_images(const char *path) {
  cr_image_list list = {0};
  return cr_image_list_read(path, &list);
}

static crema_status read_windows(const char *path) {
  cr_window_list list = {0};
  return cr_window_list_read(path, &list);
}

static void expect_refusals(const fixture *f, crema_status (*read)(const char *path),
                            const refusal *table, size_t count) {
  const char *path = fixture_path(f, "list.txt");
  for (size_t i = 0; i < count; ++i) {
    ok(cr_file_write(path, table[i].text, table[i].size));
    assert_fails(read(path), CREMA_E_PARSE, table[i].where);
    assert_error_has(table[i].why);
  }
}

FIXTURE_TEST(test_image_lists_that_are_refused) {
  static const refusal table[] = {
      REFUSAL("a.jpg 1\n\0b.jpg 2\n", ":2:", "zero byte"),
      REFUSAL("a.jpg 1\nb.jpg\0 2\nc.jpg 3\n", ":2:", "zero byte"),
      REFUSAL("a.jpg 1\n 4\n", ":2:", "expected a file name"),
      REFUSAL("a.jpg 1\n\t \t4\n", ":2:", "expected a file name"),
      REFUSAL("a.jpg 1\n7\n", ":2:", "expected a file name"),
      REFUSAL("a.jpg\n", ":1:", "expected a file name"),
      REFUSAL("a.jpg 2147483648\n", ":1:", "2147483648"),
      REFUSAL("\n \n", "", "the list is empty"),
  };
  expect_refusals(*state, read_images, table, sizeof table / sizeof table[0]);
}

FIXTURE_TEST(test_columns_of_image_lists) {
  static const char text[] = "a.jpg 1\r\n\nb c.jpg \t -2\nd.jpg 3";
  static const struct {
    const char *name;
    int label;
    size_t line;
  } expected[] = {{"a.jpg", 1, 1}, {"b c.jpg", -2, 3}, {"d.jpg", 3, 4}};
  const fixture *f = *state;
  cr_image_list list = {0};
  const char *path = fixture_path(f, "list.txt");
  ok(cr_file_write(path, text, sizeof text - 1));
  ok(cr_image_list_read(path, &list));
  assert_int_equal(list.count, 3);
  for (size_t i = 0; i < list.count; ++i) {
    assert_string_equal(list.entry[i].name, expected[i].name);
    assert_int_equal(list.entry[i].label, expected[i].label);
    assert_int_equal(list.entry[i].line, expected[i].line);
  }
  cr_image_list_free(&list);
}

FIXTURE_TEST(test_window_files_that_are_refused) {
  static const refusal table[] = {
      REFUSAL("# 0\na.jpg\n3 10 10\n1\n1 0.5 0 0 9 9\n\0# 1\n", ":6:", "zero byte"),
      REFUSAL("# 0\na\0b.jpg\n3 10 10\n1\n1 0.5 0 0 9 9\n", ":2:", "zero byte"),
  };
  expect_refusals(*state, read_windows, table, sizeof table / sizeof table[0]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
