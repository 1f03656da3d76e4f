/* How long a wait lasts and what it is made of. The program's own nanosleep and
 * sched_yield count their calls. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>

#include "check.h"
#include "core/clock.h"
#include "interpose.h"

static int sleeps, yields, interruptions;
static bool really;
static double asked; /* seconds, of the last sleep */

INTERPOSED int nanosleep(const struct timespec *time, struct timespec *rest) {
  if (!from_program()) return REAL(nanosleep)(time, rest);
  ++sleeps;
  asked = (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
  if (really) return REAL(nanosleep)(time, rest);
  if (interruptions == 0) return 0;
  --interruptions;
  *rest = (struct timespec){.tv_sec = time->tv_sec / 2, .tv_nsec = time->tv_nsec / 2};
  errno = EINTR;
  return -1;
}

INTERPOSED int sched_yield(void) {
  if (!from_program()) return REAL(sched_yield)();
  ++yields;
  return 0;
}

static int begin(void **state) {
  (void)state;
  sleeps = yields = interruptions = 0;
  really = false;
  asked = 0;
  return 0;
}

#define CLOCK_TEST(name) TEST_BETWEEN(name, begin, NULL)

CLOCK_TEST(seconds_pass) {
  really = true;
  const double before = cr_clock_seconds();
  cr_clock_sleep(0.02);
  const double lapse = cr_clock_seconds() - before;
  assert_true(lapse >= 0.02 && lapse < 60);
  really = false;
}

CLOCK_TEST(a_sleep_has_its_parts) {
  cr_clock_sleep(2.25);
  assert_int_equal(sleeps, 1);
  assert_float_equal(asked, 2.25, 1e-6);
  cr_clock_sleep(0.125);
  assert_float_equal(asked, 0.125, 1e-6);
}

CLOCK_TEST(nobody_sleeps_for_no_time) {
  cr_clock_sleep(0);
  cr_clock_sleep(-1);
  cr_clock_sleep((double)NAN);
  assert_int_equal(sleeps, 0);
}

/* A signal does not shorten it. */
CLOCK_TEST(an_interrupted_sleep_goes_on) {
  interruptions = 2;
  cr_clock_sleep(4);
  assert_int_equal(sleeps, 3);
  assert_float_equal(asked, 1, 1e-6);
}

/* At once at first, then after others, then after more and more time. */
CLOCK_TEST(who_waits_longer_leaves_more_to_others) {
  static const struct {
    unsigned turn;
    int yields, sleeps;
    double seconds;
  } rows[] = {{0, 0, 0, 0},       {31, 0, 0, 0},       {32, 1, 0, 0},
              {999, 1, 0, 0},     {1000, 0, 1, 20e-6}, {1001, 0, 1, 40e-6},
              {1009, 0, 1, 2e-4}, {1010, 0, 1, 2e-4},  {1000000, 0, 1, 2e-4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    begin(NULL);
    cr_clock_pause(rows[i].turn);
    assert_int_equal(yields, rows[i].yields);
    assert_int_equal(sleeps, rows[i].sleeps);
    assert_float_equal(asked, rows[i].seconds, 1e-6);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
