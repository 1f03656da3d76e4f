/* CREMA_VERBOSE: the environment, names, lines. */
#include "core/verbose.h"

#include <limits.h>

#include "check.h"
#include "log_lines.h"

/* The level of a process that starts with this environment. */
static int level_of(const char *text) {
  if (text == NULL) unsetenv("CREMA_VERBOSE");
  else setenv("CREMA_VERBOSE", text, 1);
  atomic_store(&cr_verbose_level, INT_MAX);
  int level = 0;
  while (cr_verbose(level + 1)) ++level;
  return level;
}

TEST(the_environment_says_how_much) {
  assert_int_equal(level_of(NULL), 0);
  assert_int_equal(level_of(""), 0);
  assert_int_equal(level_of("0"), 0);
  assert_int_equal(level_of("1"), 1);
  assert_int_equal(level_of("2"), 2);
}

TEST(the_environment_is_read_once) {
  assert_int_equal(level_of("1"), 1);
  setenv("CREMA_VERBOSE", "2", 1);
  assert_false(cr_verbose(2));
}

TEST(a_value_that_is_not_known_is_reported) {
  const char *const values[] = {"3", "yes", "-1", "12", "1 "};
  static log_lines lines;
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
    listen_to(&lines, CREMA_LOG_WARNING);
    assert_int_equal(level_of(values[i]), 0);
    assert_int_equal(count_lines(&lines, "expected 0, 1 or 2"), 1);
    stop_listening();
  }
}

TEST(a_name_is_one_field) {
  char longer[200];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  assert_string_equal(cr_verbose_name("conv1").text, "conv1");
  assert_string_equal(cr_verbose_name("a,b,c").text, "a;b;c");
  assert_string_equal(cr_verbose_name("").text, "-");
  assert_string_equal(cr_verbose_name(NULL).text, "-");
  assert_true(strlen(cr_verbose_name(longer).text) < 100);
}

TEST(equal_labels_are_one_text) {
  const char *first = cr_verbose_label("%s[%d]", "conv1", 0);
  assert_string_equal(first, "conv1[0]");
  assert_ptr_equal(cr_verbose_label("conv1[0]"), first);
  assert_ptr_not_equal(cr_verbose_label("conv1[1]"), first);
}

TEST(a_line_begins_with_its_kind) {
  static log_lines lines;
  listen_to(&lines, CREMA_LOG_INFO);
  cr_verbose_line("run", "%s,%d", "conv1", 3);
  stop_listening();
  assert_string_equal(lines.text, "crema_verbose,run,conv1,3\n");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
