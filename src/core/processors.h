/* How many processors the work of a thread is spread over. */
#ifndef CR_CORE_PROCESSORS_H
#define CR_CORE_PROCESSORS_H

/* Limits later parallel regions of the calling thread to `threads` threads (at least 1). */
void cr_processors_limit(int threads);

/* The same for one of `processes` processes that share this host's processors. A no-op if
 * OMP_NUM_THREADS is set or the process is bound to some processors. */
void cr_processors_share(int processes);

#endif
