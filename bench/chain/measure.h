/* Timing: medians of interleaved runs. */
#ifndef BENCH_CHAIN_MEASURE_H
#define BENCH_CHAIN_MEASURE_H

typedef struct contestant {
  const char *name;
  void (*run)(void *state);
  void *state;
  double seconds; /* out: the median of a run */
} contestant;

/* Monotonic time in seconds. */
double seconds_now(void);

/* Runs all in turn, `warmups` times unmeasured and then until every one has at least `runs` runs
 * and all together `budget` seconds have passed, or max_runs are reached. Gives each one's median,
 * and in *ratio (may be NULL) the median of the ratios first : second of neighbouring runs. */
void measure(contestant *c, int count, int warmups, int runs, int max_runs, double budget,
             double *ratio);

/* OpenMP threads from now on; 0: all. Returns the number. */
int use_threads(int threads);

#endif
