#include "chain/measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { RUNS_MAX = 2000, CONTESTANTS_MAX = 4 };

static clockid_t timer = CLOCK_MONOTONIC;

void use_processor_time(void) {
  timer = CLOCK_PROCESS_CPUTIME_ID;
}

double seconds_now(void) {
  struct timespec t;
  clock_gettime(timer, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return count % 2 != 0 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

void measure(contestant *c, int count, int warmups, int runs, int max_runs, double budget,
             double *ratio) {
  static double seconds[CONTESTANTS_MAX][RUNS_MAX], ratios[RUNS_MAX];
  if (max_runs > RUNS_MAX) max_runs = RUNS_MAX;
  for (int w = 0; w < warmups; ++w) {
    for (int i = 0; i < count; ++i) c[i].run(c[i].state);
  }
  double start = seconds_now();
  int done = 0;
  while (done < max_runs && (done < runs || seconds_now() - start < budget)) {
    for (int k = 0; k < count; ++k) {
      int i = (k + done) % count; /* so that none always goes first */
      double before = seconds_now();
      c[i].run(c[i].state);
      seconds[i][done] = seconds_now() - before;
    }
    if (count > 1) ratios[done] = seconds[0][done] / seconds[1][done];
    ++done;
  }
  for (int i = 0; i < count; ++i) c[i].seconds = median(seconds[i], done);
  if (ratio != NULL && count > 1) *ratio = median(ratios, done);
}

int use_threads(int threads) {
#ifdef _OPENMP
  if (threads <= 0) threads = omp_get_num_procs();
  omp_set_num_threads(threads);
  return threads;
#else
  (void)threads;
  return 1;
#endif
}

bool is_given(const char *option, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], option) == 0) return true;
  }
  return false;
}

bool is_wanted(const char *name, int argc, char **argv) {
  bool any = false;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-t") == 0) {
      ++i;
      continue;
    }
    if (argv[i][0] == '-') continue;
    if (strcmp(argv[i], name) == 0) return true;
    any = true;
  }
  return !any;
}

int wanted_threads(int argc, char **argv, int threads[2]) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], "-t") == 0) {
      threads[0] = atoi(argv[i + 1]);
      return 1;
    }
  }
  threads[0] = 1;
  threads[1] = 0;
  return 2;
}
