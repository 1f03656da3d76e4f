/* Timing: medians of interleaved runs. */
#ifndef BENCH_CHAIN_MEASURE_H
#define BENCH_CHAIN_MEASURE_H

#include <stdbool.h>

typedef struct contestant {
  const char *name;
  void (*run)(void *state);
  void *state;
  double seconds; /* out: the median of a run */
} contestant;

/* Monotonic time in seconds; after use_processor_time the time that this process has had a
 * processor, which says what a single thread takes on a machine that does other work. */
double seconds_now(void);
void use_processor_time(void);

/* Runs all in turn, `warmups` times unmeasured and then until every one has at least `runs` runs
 * and all together `budget` seconds have passed, or max_runs are reached. Gives each one's median,
 * and in *ratio (may be NULL) the median of the ratios first : second of neighbouring runs. */
void measure(contestant *c, int count, int warmups, int runs, int max_runs, double budget,
             double *ratio);

/* The command line: PROGRAM [-t THREADS] [OPTION...] [NETWORK...]. Without -t: one thread and then
 * all. */
bool is_given(const char *option, int argc, char **argv);
bool is_wanted(const char *name, int argc, char **argv);
/* Thread counts to measure with, at most two; returns how many. */
int wanted_threads(int argc, char **argv, int threads[2]);

/* OpenMP threads from now on; 0: all. Returns the number. */
int use_threads(int threads);

#endif
