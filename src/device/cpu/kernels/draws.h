/* Many words of the counter-based generator (core/rng.h) at once. */
#ifndef CR_DEVICE_CPU_KERNELS_DRAWS_H
#define CR_DEVICE_CPU_KERNELS_DRAWS_H

#include <stdint.h>

enum { CR_DRAWS_GROUP = 8 };

/* The four words each of `count` counters from (counter_high, first) on, in order; count is a
 * multiple of CR_DRAWS_GROUP. */
void cr_cpu_draw(uint64_t key, uint64_t counter_high, uint64_t first, int64_t count,
                 uint32_t *words);

#endif
