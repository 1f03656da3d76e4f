/* What CR_ASSERT does in the presets that define CR_CHECKS, and in a release build. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/assert.h"

#ifndef CR_CHECKS
#error "this program is compiled with CR_CHECKS, see tests.cmake"
#endif

bool assert_as_released(int *evaluated); /* assert_released.c */

static void write_message(void *user, crema_log_level level, const char *file, int line,
                          const char *text) {
  char message[256];
  const int size = snprintf(message, sizeof message, "%d %s:%d %s", level, file, line, text);
  assert_int_equal(write(*(int *)user, message, (size_t)size), size);
}

TEST(a_condition_that_holds_is_evaluated_once) {
  int evaluated = 0;
  CR_ASSERT(++evaluated == 1);
  assert_int_equal(evaluated, 1);
}

TEST(a_condition_that_does_not_hold_is_logged_and_ends_the_process) {
  int ends[2], status = 0, one = 1;
  char message[256] = "", expected[64];
  assert_true(pipe(ends) == 0);
  const int line = __LINE__ + 5;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    crema_log_set(write_message, &ends[1], CREMA_LOG_ERROR);
    CR_ASSERT(one == 2);
    _exit(0);
  }
  close(ends[1]);
  assert_true(read(ends[0], message, sizeof message - 1) > 0);
  close(ends[0]);
  assert_true(waitpid(child, &status, 0) == child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  snprintf(expected, sizeof expected, "test_assert.c:%d assertion failed: one == 2", line);
  assert_true(strstr(message, expected) != NULL);
}

TEST(a_release_build_evaluates_nothing) {
  int evaluated = 0;
  assert_true(assert_as_released(&evaluated));
  assert_int_equal(evaluated, 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
