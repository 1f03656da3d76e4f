/* Lists of images and window files: the largest values that are taken, what each record holds, and
 * for whatever is missing or wrong the line and what was expected there. */
#include <limits.h>

#include "check.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/window_list.h"
#include "folder.h"

static const char file[] = "list";

static void assert_list_fails(const char *text, crema_status status, const char *words) {
  const char *path = path_of(file);
  if (status != CREMA_E_PARSE || strstr(crema_error_text(), words) == NULL ||
      strncmp(crema_error_text(), path, strlen(path)) != 0) {
    fail_msg("%s: %s: \"%s\", not \"%s\"", text, crema_status_name(status), crema_error_text(),
             words);
  }
}

TEST(image_lists) {
  static const struct {
    const char *text, *name;
    int label;
    size_t line;
  } cases[] = {{"a 2147483647", "a", INT_MAX, 1},
               {"a -2147483648\n", "a", INT_MIN, 1},
               {"\n\n a b\t7 \t\r\n\n", " a b", 7, 3},
               {"a\t \t+1", "a", 1, 1},
               {"\xEF\xBB\xBF" "a 1\r\n", "a", 1, 1}, /* by an editor on Windows */
               {"1 2 3", "1 2", 3, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_image_list list;
    write_text(file, cases[i].text);
    ok(cr_image_list_read(path_of(file), &list));
    assert_int_equal(list.count, 1);
    assert_string_equal(list.path, path_of(file));
    assert_string_equal(list.entry[0].name, cases[i].name);
    assert_int_equal(list.entry[0].label, cases[i].label);
    assert_int_equal(list.entry[0].line, cases[i].line);
    cr_image_list_free(&list);
    assert_true(list.entry == NULL && list.path == NULL && list.count == 0);
  }
}

TEST(refused_image_lists) {
  static const struct {
    const char *text, *words;
  } cases[] = {{"a 2147483648", ":1: expected a file name and an integer label, found \"a "},
               {"a -2147483649", ":1: expected"},
               {"a 99999999999999999999", ":1: expected"},
               {"x 1\na 1x", ":2: expected"},
               {"x 1\n\na x1", ":3: expected"},
               {"a 1.5", ":1: expected"},
               {"5", ":1: expected a file name and an integer label, found \"5\""},
               {"", ": the list is empty"},
               {" \t\r\n", ": the list is empty"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_image_list list;
    write_text(file, cases[i].text);
    assert_list_fails(cases[i].text, cr_image_list_read(path_of(file), &list), cases[i].words);
    assert_true(list.entry == NULL && list.path == NULL);
  }
}

#define HEAD "# 0\na.jpg\n3 20 30\n"

TEST(window_files) {
  static const char text[] = "\xEF\xBB\xBF" HEAD
      "2\n-5 0.25 1 2 3 4\n6 -1e3 -2147483648 -1 2147483647 0\n"
      "# 2147483647 \t b.jpg 1 1 1 0\r\n"
      "#\n7\nc.jpg 2147483647 2147483647 2147483647\n1 1 1 5 6 7 8";
  cr_window_list list;
  write_text(file, text);
  ok(cr_window_list_read(path_of(file), &list));
  assert_int_equal(cr_window_list_images(&list), 3);
  assert_int_equal(cr_window_list_windows(&list), 3);
  const cr_window_image *image = cr_window_list_image(&list, 0);
  assert_string_equal(image->name, "a.jpg");
  assert_true(image->channels == 3 && image->height == 20 && image->width == 30);
  image = cr_window_list_image(&list, 1);
  assert_string_equal(image->name, "b.jpg");
  assert_true(image->channels == 1 && image->height == 1 && image->width == 1);
  image = cr_window_list_image(&list, 2);
  assert_true(image->channels == INT_MAX && image->height == INT_MAX && image->width == INT_MAX);
  const cr_listed_window *w = cr_window_list_window(&list, 0);
  assert_true(w->image == 0 && w->label == -5 && w->overlap == 0.25f && w->line == 5);
  assert_true(w->x1 == 1 && w->y1 == 2 && w->x2 == 3 && w->y2 == 4);
  w = cr_window_list_window(&list, 1);
  assert_true(w->image == 0 && w->label == 6 && w->overlap == -1000 && w->line == 6);
  assert_true(w->x1 == INT_MIN && w->y1 == -1 && w->x2 == INT_MAX && w->y2 == 0);
  w = cr_window_list_window(&list, 2);
  assert_true(w->image == 2 && w->label == 1 && w->overlap == 1 && w->line == 11);
  assert_true(w->x1 == 5 && w->y1 == 6 && w->x2 == 7 && w->y2 == 8);
  cr_window_list_free(&list);
  assert_true(list.path == NULL && list.text.data == NULL && list.windows.data == NULL &&
              list.images.data == NULL);
}

TEST(refused_window_files) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", ": the file is empty"},
      {" \n", ": the file has no windows"},
      {HEAD "0\n", ": the file has no windows"},
      {"a.jpg", ":1: expected \"#\" before an image, found \"a.jpg\""},
      {"#1 a", ":1: expected \"#\" before an image, found \"#1\""},
      {"#", ":1: expected the number of an image, found \"the end of the file\""},
      {"# x", ":1: expected the number of an image, found \"x\""},
      {"# -1 a.jpg", ":1: expected the number of an image, found \"-1\""},
      {"# 2147483648", ":1: expected the number of an image"},
      {"# 99999999999999999999", ":1: expected the number of an image"},
      {"# 1x", ":1: expected the number of an image, found \"1x\""},
      {"# 0\n", ":2: expected the name of an image, found \"the end of the file\""},
      {"# 0\na.jpg\n", ":3: expected the channels of an image"},
      {"# 0\na.jpg\n0 1 1 1", ":3: expected the channels of an image, found \"0\""},
      {"# 0\na.jpg\n1 0 1 1", ":3: expected the height of an image, found \"0\""},
      {"# 0\na.jpg\n1 1 0 1", ":3: expected the width of an image, found \"0\""},
      {"# 0\na.jpg\n1\n1\n1\n-1", ":6: expected the number of windows, found \"-1\""},
      {HEAD "1\n", ":5: expected the class of a window, found \"the end of the file\""},
      {HEAD "1\nx", ":5: expected the class of a window, found \"x\""},
      {HEAD "1\n1", ":5: expected the overlap of a window, found \"the end of the file\""},
      {HEAD "1\n1 a", ":5: expected the overlap of a window, found \"a\""},
      {HEAD "1\n1 0.5x", ":5: expected the overlap of a window, found \"0.5x\""},
      {HEAD "1\n1 nan 1 1 1 1", ":5: expected the overlap of a window, found \"nan\""},
      {HEAD "1\n1 inf 1 1 1 1", ":5: expected the overlap of a window, found \"inf\""},
      {HEAD "1\n1 0.5 ?", ":5: expected x1 of a window, found \"?\""},
      {HEAD "1\n1 0.5 1\n?", ":6: expected y1 of a window, found \"?\""},
      {HEAD "1\n1 0.5 1 1 ?", ":5: expected x2 of a window, found \"?\""},
      {HEAD "1\n1 0.5 1 1 1 -2147483649", ":5: expected y2 of a window"},
      {HEAD "2\n1 0.5 1 1 1 1\n", ":6: expected the class of a window"},
      {HEAD "1\n1 0.5 1 1 1 1\n\n\n9", ":8: expected \"#\" before an image, found \"9\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_window_list list;
    write_text(file, cases[i].text);
    assert_list_fails(cases[i].text, cr_window_list_read(path_of(file), &list), cases[i].words);
    assert_true(list.path == NULL && list.text.data == NULL);
  }
}

static int remove_file(void **state) {
  unlink(path_of(file));
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_folder, remove_file);
}
