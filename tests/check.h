/* cmocka with what it needs, and checks of the library's calls. */
#ifndef CR_TESTS_CHECK_H
#define CR_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four headers above. */
#include <cmocka.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crema/status.h"

/* A test's head. `state` is what its set-up left there. */
#define TEST(name) TEST_BETWEEN(name, NULL, NULL)
/* The same with a set-up before the test and a tear-down after it; NULL: none. */
#define TEST_BETWEEN(name, set_up, tear_down)                                 \
  static void name(void **state);                                             \
  __attribute__((constructor)) static void register_##name(void) {            \
    register_test((struct CMUnitTest){#name, name, set_up, tear_down, NULL}); \
  }                                                                           \
  static void name(__attribute__((unused)) void **state)

/* The call must succeed; else the library's error text is shown. */
#define ok(call) check_ok((call), #call, __FILE__, __LINE__)
/* The library's error text must contain `part`. */
#define assert_error_has(part) check_error_has((part), __FILE__, __LINE__)
/* The call must fail with this code and a text that contains `part`. */
#define assert_fails(call, code, part) \
  check_fails((call), (code), (part), #call, __FILE__, __LINE__)

/* The same where `text` is all of the library's error text. */
#define assert_says(call, code, text) check_says((call), (code), (text), #call, __FILE__, __LINE__)

/* The tests of this file, in the order in which they stand in it. */
enum { MAX_TESTS = 64 };
static struct CMUnitTest registered_tests[MAX_TESTS];
static size_t registered_count;

static inline void register_test(struct CMUnitTest test) {
  if (registered_count == MAX_TESTS) abort();
  registered_tests[registered_count++] = test;
}

static CMFixtureFunction last_tear_down;
static int tear_down_failed;

/* cmocka tells that the tear-down of a group fails, but returns how many tests did. */
static inline int tear_down_all(void **state) {
  tear_down_failed = last_tear_down != NULL && last_tear_down(state) != 0;
  return tear_down_failed;
}

/* So many files stay open on purpose: for a test program to set before its tests run. */
static int files_kept;

/* How many descriptors are open; 0 where the system does not tell. */
static inline int files_open(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  if (dir == NULL) return 0;
  while (readdir(dir) != NULL) ++count;
  closedir(dir);
  return count;
}

/* Whether more files are open than before. A thread that is about to end gets a second to close
 * its. */
static inline int files_left(int before) {
  for (int i = 0; i < 100 && files_open() > before; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  int left = files_open() - before;
  if (left <= 0) return 0;
  print_error("%d files are still open after the last test; the open ones:\n", left);
  for (int fd = 0; fd < 1024; ++fd) {
    char link[32], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    if (size >= 0) print_error("%d: %.*s\n", fd, (int)size, path);
  }
  return 1;
}

/* The program's arguments. glibc passes the arguments of `main` to constructors. */
static int argument_count;
static char **arguments;

__attribute__((constructor)) static void note_arguments(int argc, char **argv) {
  argument_count = argc;
  arguments = argv;
}

/* How many arguments `main` reads itself. The next one chooses tests. */
static int arguments_read;

static inline bool test_is_wanted(const char *name, const char *pattern) {
  if (pattern == NULL) return true;
  if (strpbrk(pattern, "*?[") != NULL) return fnmatch(pattern, name, 0) == 0;
  return strstr(name, pattern) != NULL;
}

enum { MAX_CHOSEN = 512 };

/* Runs the tests that the program's last argument matches: a glob, or a part of the name. Without
 * an argument it runs all; --list prints the names. Returns how many tests failed. */
static inline int run_group(const struct CMUnitTest *tests, size_t count, CMFixtureFunction set_up,
                            CMFixtureFunction tear_down) {
  static struct CMUnitTest chosen[MAX_CHOSEN];
  const int at = 1 + arguments_read;
  const char *pattern = at < argument_count ? arguments[at] : NULL;
  const bool list = pattern != NULL && strcmp(pattern, "--list") == 0;
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (list) puts(tests[i].name);
    if (!test_is_wanted(tests[i].name, pattern)) continue;
    if (found == MAX_CHOSEN) abort();
    chosen[found++] = tests[i];
  }
  if (list) return 0;
  if (found == 0) {
    fprintf(stderr, "no test matches \"%s\"; --list prints the names\n", pattern ? pattern : "");
    return 1;
  }
  return _cmocka_run_group_tests("tests", chosen, found, set_up, tear_down);
}

/* The same for an array. */
#define run_each_of(tests, set_up, tear_down) \
  run_group(tests, sizeof(tests) / sizeof(tests)[0], set_up, tear_down)

/* The value for `main` to return: how many of the file's tests failed. `set_up` runs before the
 * first, `tear_down` after the last and counts as a test; NULL: none. A file that stays open counts
 * as a failure. */
static inline int run_all_tests(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
  int before = files_open() + files_kept;
  last_tear_down = tear_down;
  int failed = run_group(registered_tests, registered_count, set_up, tear_down_all);
  return failed + tear_down_failed + files_left(before);
}

static inline void check_ok(crema_status status, const char *call, const char *file, int line) {
  if (status == CREMA_OK) return;
  print_error("%s: %s: %s\n", call, crema_status_name(status), crema_error_text());
  _fail(file, line);
}

static inline void check_error_has(const char *part, const char *file, int line) {
  if (strstr(crema_error_text(), part) != NULL) return;
  print_error("\"%s\" is not in \"%s\"\n", part, crema_error_text());
  _fail(file, line);
}

static inline void check_status(crema_status status, crema_status code, const char *call,
                                const char *file, int line) {
  if (status == code) return;
  print_error("%s: %s instead of %s\n", call, crema_status_name(status), crema_status_name(code));
  _fail(file, line);
}

static inline void check_fails(crema_status status, crema_status code, const char *part,
                               const char *call, const char *file, int line) {
  check_status(status, code, call, file, line);
  check_error_has(part, file, line);
}

static inline void check_says(crema_status status, crema_status code, const char *text,
                              const char *call, const char *file, int line) {
  check_status(status, code, call, file, line);
  if (strcmp(crema_error_text(), text) == 0) return;
  print_error("\"%s\" is not \"%s\"\n", crema_error_text(), text);
  _fail(file, line);
}

#endif
