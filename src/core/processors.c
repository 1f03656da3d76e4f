#define _GNU_SOURCE /* secure_getenv */

#include "core/processors.h"

#ifdef _OPENMP
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

void cr_processors_limit(int threads) {
  if (threads < 1) threads = 1;
  if (threads < omp_get_max_threads()) omp_set_num_threads(threads);
}

void cr_processors_share(int processes) {
  const int own = omp_get_num_procs();
  if (processes < 2 || secure_getenv("OMP_NUM_THREADS") != NULL) return;
  /* A process that was bound to some processors has these for itself. */
  if (own == (int)sysconf(_SC_NPROCESSORS_ONLN)) cr_processors_limit(own / processes);
}

#else

void cr_processors_limit(int threads) {
  (void)threads;
}

void cr_processors_share(int processes) {
  (void)processes;
}

#endif
