/* How many processors the work of a thread is spread over. */
#ifndef CR_CORE_PROCESSORS_H
#define CR_CORE_PROCESSORS_H

/* From now on parallel regions of the calling thread have at most so many threads (at least 1). */
void cr_processors_limit(int threads);

/* The same for one of `processes` processes that share this host and its processors, unless
 * OMP_NUM_THREADS says how many threads there are or each process has processors of its own. */
void cr_processors_share(int processes);

#endif
