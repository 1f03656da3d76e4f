/* The counter-based generator of core/rng.h, for the device: the same words for the same key and
 * counter (Philox-4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
#ifndef CR_GPU_KERNELS_PHILOX_H
#define CR_GPU_KERNELS_PHILOX_H

#include "device/gpu/kernels/hd.h"

CR_HD void cr_hd_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low,
                        uint32_t out[4]) {
  uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
  uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* The counter of a pass. A kernel of a graph was recorded with the counter of one pass, and finds at
 * `passes` how many followed it. */
CR_HD uint64_t cr_hd_counter(uint64_t counter, const CR_GLOBAL uint64_t *passes) {
  return passes != NULL ? counter + *passes : counter;
}

#endif
