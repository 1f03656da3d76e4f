/* Random numbers.
 *
 * There are two generators. mt19937 belongs to a context or a thread and gives sequences (weight
 * fillers, shuffling). The counter-based generator gives numbers that belong to a sample or an
 * element. The same key and counter give the same number in any thread and order. */
#ifndef CR_CORE_RNG_H
#define CR_CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Matsumoto and Nishimura, "Mersenne Twister", 1998. */
typedef struct cr_mt19937 {
  uint32_t state[624];
  int next;
} cr_mt19937;

void cr_mt19937_seed(cr_mt19937 *rng, uint32_t seed);
uint32_t cr_mt19937_next(cr_mt19937 *rng);
/* Uniform in [0, 1) with 24 significant bits. */
float cr_mt19937_uniform(cr_mt19937 *rng);
/* Normal with mean 0 and deviation 1 (Box and Muller). */
float cr_mt19937_normal(cr_mt19937 *rng);
/* The same from the same draws, with 32 bits and in double precision. */
double cr_mt19937_uniform_wide(cr_mt19937 *rng);
double cr_mt19937_normal_wide(cr_mt19937 *rng);
/* Uniform in 0..bound-1, without bias; bound > 0. */
uint32_t cr_mt19937_below(cr_mt19937 *rng, uint32_t bound);

/* Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): the
 * four words that belong to (key, counter). */
void cr_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]);

/* Mixes values into one key: seed, hash of the layer's name, and so on. */
uint64_t cr_mix_key(uint64_t a, uint64_t b);
uint64_t cr_hash_text(const char *text);

/* A seed that differs at each of the first 2^32 calls in a process (S1-16):
 * 51551 * counter++ + 61631 * pid + 64997 * seconds + 111857 * microseconds mod 2^32,
 * at the time of the first call. */
uint32_t cr_random_seed(void);

/* The same formula with its inputs given; unsigned wrap-around is the mod 2^32. */
uint32_t cr_random_seed_from(uint32_t counter, uint32_t pid, uint32_t seconds,
                             uint32_t microseconds);

#endif
