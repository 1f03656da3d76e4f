/* How idle OpenMP threads wait. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "check.h"
#include "core/clock.h"
#include "device/cpu/threads/waiting.h"

enum { MOST_THREADS = 256 };

/* One thread per processor. */
static void need_threads(void) {
#ifdef _OPENMP
  if (omp_get_num_procs() < 2) skip();
  omp_set_num_threads(omp_get_num_procs());
#else
  skip();
#endif
}

static void need_counted_waiting(void) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) skip();
}

/* Looks, for some seconds at most, until threads are calm. Works meanwhile, because only a thread
 * that works competes for a processor. */
static bool becomes_calm(void) {
  double end = cr_clock_seconds() + 10;
  while (cr_clock_seconds() < end) {
    cr_cpu_waiting_look();
    if (cr_cpu_waiting_is_calm()) return true;
  }
  return false;
}

/* Seconds that this thread waited for a processor so far. */
static double waited(void) {
  unsigned long long ran = 0, ready = 0;
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%llu %llu", &ran, &ready) != 2) ready = 0;
  fclose(file);
  return (double)ready * 1e-9;
}

/* The same until they spin again. Beside other busy programs they rightly do not: then there is
 * nothing to be tested. */
static bool becomes_lively(void) {
  static const double slice = 0.05, busy = 0.03, memory = 2;
  double now = cr_clock_seconds(), end = now + 10;
  double from = now, before = waited(), contended = 0;
  for (; now < end; now = cr_clock_seconds()) {
    cr_cpu_waiting_look();
    if (!cr_cpu_waiting_is_calm()) return true;
    cr_clock_sleep(0.002);
    if (now - from < slice) continue;
    double waits = waited();
    if (waits - before > busy * (now - from)) contended = now;
    from = now;
    before = waits;
  }
  if (contended > end - memory) skip();
  return false;
}

#ifdef _OPENMP
static int count_threads(void) {
  int threads = 0;
  char line[256];
  FILE *file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  while (threads == 0 && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Threads: %d", &threads) != 1) threads = 0;
  }
  fclose(file);
  return threads;
}
#endif

/* On a machine of four or more processors where two threads are asked for, no more are started.
 * The first test: nothing has been planned yet. */
TEST(few_threads_stay_few) {
  need_threads();
#ifdef _OPENMP
  if (omp_get_num_procs() < 4) skip();
  omp_set_num_threads(2);
  int before = count_threads(), most = 0;
  double end = cr_clock_seconds() + 0.1;
  cr_cpu_waiting_planned();
  while (cr_clock_seconds() < end) {
    int now = count_threads();
    if (now > most) most = now;
  }
  assert_in_range(most, 0, before + 2);
#endif
}

TEST(planning_calms_for_a_moment) {
  need_threads();
  cr_cpu_waiting_planned();
  assert_true(cr_cpu_waiting_is_calm());
  assert_true(becomes_lively());
  cr_cpu_waiting_planned();
  assert_true(cr_cpu_waiting_is_calm());
}

static void *burn(void *arg) {
  atomic_bool *stop = arg;
  while (!atomic_load_explicit(stop, memory_order_relaxed)) continue;
  return NULL;
}

/* More busy threads than processors: some have to wait for one. */
TEST(contention_calms) {
  need_threads();
  need_counted_waiting();
  assert_true(becomes_lively());
  pthread_t thread[MOST_THREADS];
  atomic_bool stop = false;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int count = processors * 2 < MOST_THREADS ? (int)processors * 2 : MOST_THREADS;
  for (int i = 0; i < count; ++i) {
    assert_int_equal(pthread_create(&thread[i], NULL, burn, &stop), 0);
  }
  bool calmed = becomes_calm();
  atomic_store(&stop, true);
  for (int i = 0; i < count; ++i) pthread_join(thread[i], NULL);
  assert_true(calmed);
  assert_true(becomes_lively());
}

/* A thread that waited for a processor with work of its own, before it came back to a net. */
TEST(waiting_elsewhere_says_nothing) {
  need_threads();
  need_counted_waiting();
  assert_true(becomes_lively());
  pthread_t thread[MOST_THREADS];
  atomic_bool stop = false;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const int count = processors * 2 < MOST_THREADS ? (int)processors * 2 : MOST_THREADS;
  cr_cpu_waiting_look();
  cr_cpu_waiting_leave();
  for (int i = 0; i < count; ++i) {
    assert_int_equal(pthread_create(&thread[i], NULL, burn, &stop), 0);
  }
  const double end = cr_clock_seconds() + 0.5, before = waited();
  while (cr_clock_seconds() < end) continue;
  atomic_store(&stop, true);
  for (int i = 0; i < count; ++i) pthread_join(thread[i], NULL);
  assert_true(waited() - before > 0.1);
  cr_cpu_waiting_look();
  assert_false(cr_cpu_waiting_is_calm());
  cr_cpu_waiting_leave();
}

int main(void) {
  /* The choice of whoever runs the tests is not what is tested. */
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  return run_all_tests(NULL, NULL);
}
