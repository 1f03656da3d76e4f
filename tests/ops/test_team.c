/* How many threads work together, where the system gives fewer than are wanted, and how large their
 * stacks are tried out. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "crema/log.h"
#include "device/cpu/threads/omp_team.h"
#include "interpose.h"
#include "log_lines.h"

/* ---- what the system gives ---- */

static int can_start = 1000, started;
static size_t stack_bytes;

INTERPOSED int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                              void *arg) {
  if (!from_program()) return REAL(pthread_create)(thread, attr, run, arg);
  if (started >= can_start) return EAGAIN;
  ++started;
  return REAL(pthread_create)(thread, attr, run, arg);
}

/* Noted, not done: a test's threads need not have gigabytes. */
INTERPOSED int pthread_attr_setstacksize(pthread_attr_t *attr, size_t bytes) {
  if (!from_program()) return REAL(pthread_attr_setstacksize)(attr, bytes);
  stack_bytes = bytes;
  return 0;
}

/* Each row in a process of its own: what a process has found out stays with it. */
static void in_child(bool (*holds)(size_t row), size_t row) {
  int how = 0;
  pid_t child = fork();
  if (child == 0) _exit(holds(row) ? 0 : 1);
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) fail_msg("row %zu", row);
}

/* ---- teams ---- */

/* Twice as many as are to be started have to fit, because the library may replace them all. */
static const struct {
  int wanted, can, team;
} teams[] = {{1, 0, 1}, {1, 9, 1}, {2, 0, 1}, {2, 1, 2}, {2, 9, 2},  {3, 4, 3},
             {3, 3, 2}, {3, 1, 2}, {3, 0, 1}, {4, 6, 4}, {4, 5, 3},  {4, 4, 3},
             {4, 3, 2}, {4, 2, 2}, {4, 1, 2}, {4, 0, 1}, {8, 13, 7}, {8, 14, 8}};

static bool team_is_as_expected(size_t row) {
  int wanted = teams[row].wanted, team = teams[row].team;
  static log_lines lines;
  listen_to(&lines, CREMA_LOG_WARNING);
  can_start = teams[row].can;
  if (cr_cpu_team(wanted) != team) return false;
  int tried = started;
  /* Nothing is tried twice, and what there was is not exceeded. */
  can_start = 0;
  for (int fewer = team; fewer > 0; --fewer) {
    if (cr_cpu_team(fewer) != fewer) return false;
  }
  if (cr_cpu_team(wanted) != team || started != tried) return false;
  if (team < wanted && cr_cpu_team(wanted + 1) != team) return false;
  return count_lines(&lines, "threads can be started") == (team < wanted);
}

TEST(teams_have_what_there_is) {
#ifndef _OPENMP
  skip(); /* built without OpenMP, for tsan: teams have one thread */
#endif
  for (size_t i = 0; i < sizeof teams / sizeof *teams; ++i) in_child(team_is_as_expected, i);
}

static bool teams_grow(size_t row) {
  (void)row;
  if (cr_cpu_team(2) != 2 || started != 1) return false;
  if (cr_cpu_team(4) != 4 || started != 1 + 6) return false;
  return cr_cpu_team(3) == 3 && started == 1 + 6;
}

TEST(larger_teams_are_tried_out) {
#ifndef _OPENMP
  skip(); /* built without OpenMP, for tsan: teams have one thread */
#endif
  in_child(teams_grow, 0);
}

/* ---- stacks ---- */

static const struct {
  const char *openmp, *gnu;
  size_t bytes;
} stacks[] = {{NULL, NULL, 0},         {"512", NULL, 512 << 10}, {"512k", NULL, 512 << 10},
              {"65536B", NULL, 65536}, {"2M", NULL, 2 << 20},    {"2  m ", NULL, 2 << 20},
              {" 1 G", NULL, 1 << 30}, {NULL, "300", 300 << 10}, {"100", "300", 100 << 10},
              {"", NULL, 0},           {"large", "300", 0},      {"99999999999999999g", NULL, 0}};

static bool stack_is_as_expected(size_t row) {
  unsetenv("OMP_STACKSIZE");
  unsetenv("GOMP_STACKSIZE");
  if (stacks[row].openmp != NULL) setenv("OMP_STACKSIZE", stacks[row].openmp, 1);
  if (stacks[row].gnu != NULL) setenv("GOMP_STACKSIZE", stacks[row].gnu, 1);
  return cr_cpu_team(2) == 2 && stack_bytes == stacks[row].bytes;
}

TEST(stacks_are_as_large_as_openmp_makes_them) {
#ifndef _OPENMP
  skip(); /* built without OpenMP, for tsan: teams have one thread */
#endif
  for (size_t i = 0; i < sizeof stacks / sizeof *stacks; ++i) in_child(stack_is_as_expected, i);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
