#include "core/clock.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

double cr_clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double cr_clock_date(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cr_clock_sleep(double seconds) {
  if (!(seconds > 0)) return;
  struct timespec rest = {.tv_sec = (time_t)seconds};
  rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

enum { SPINS = 32, YIELDS = 1000, LONGEST = 10 };

void cr_clock_pause(unsigned turn) {
  if (turn < SPINS) return;
  if (turn < YIELDS) {
    sched_yield();
  } else {
    const unsigned pauses = turn - YIELDS;
    cr_clock_sleep(20e-6 * (pauses < LONGEST ? pauses + 1 : LONGEST));
  }
}
