/* Lists of images and window files: what is no list is refused, with the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

static void test_image_lists_that_are_refused(void **state) {
  (void)state;
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
  fixture f;
  fixture_make(&f);
  const char *path = fixture_path(&f, "list.txt");
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    cr_image_list list = {0};
    assert_int_equal(cr_file_write(path, table[i].text, table[i].size), CREMA_OK);
    assert_int_equal(cr_image_list_read(path, &list), CREMA_E_PARSE);
    assert_non_null(strstr(crema_error_text(), table[i].where));
    assert_non_null(strstr(crema_error_text(), table[i].why));
  }
  fixture_remove(&f);
}

static void test_columns_of_image_lists(void **state) {
  (void)state;
  static const char text[] = "a.jpg 1\r\n\nb c.jpg \t -2\nd.jpg 3";
  static const struct {
    const char *name;
    int label;
    size_t line;
  } expected[] = {{"a.jpg", 1, 1}, {"b c.jpg", -2, 3}, {"d.jpg", 3, 4}};
  fixture f;
  cr_image_list list = {0};
  fixture_make(&f);
  const char *path = fixture_path(&f, "list.txt");
  assert_int_equal(cr_file_write(path, text, sizeof text - 1), CREMA_OK);
  assert_int_equal(cr_image_list_read(path, &list), CREMA_OK);
  assert_int_equal(list.count, 3);
  for (size_t i = 0; i < list.count; ++i) {
    assert_string_equal(list.entry[i].name, expected[i].name);
    assert_int_equal(list.entry[i].label, expected[i].label);
    assert_int_equal(list.entry[i].line, expected[i].line);
  }
  cr_image_list_free(&list);
  fixture_remove(&f);
}

static void test_window_files_that_are_refused(void **state) {
  (void)state;
  static const refusal table[] = {
      REFUSAL("# 0\na.jpg\n3 10 10\n1\n1 0.5 0 0 9 9\n\0# 1\n", ":6:", "zero byte"),
      REFUSAL("# 0\na\0b.jpg\n3 10 10\n1\n1 0.5 0 0 9 9\n", ":2:", "zero byte"),
  };
  fixture f;
  fixture_make(&f);
  const char *path = fixture_path(&f, "windows.txt");
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    cr_window_list list = {0};
    assert_int_equal(cr_file_write(path, table[i].text, table[i].size), CREMA_OK);
    assert_int_equal(cr_window_list_read(path, &list), CREMA_E_PARSE);
    assert_non_null(strstr(crema_error_text(), table[i].where));
    assert_non_null(strstr(crema_error_text(), table[i].why));
  }
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_image_lists_that_are_refused),
      cmocka_unit_test(test_columns_of_image_lists),
      cmocka_unit_test(test_window_files_that_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
