#include "core/rng.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

enum { MT_SIZE = 624, MT_SHIFT = 397 };

void cr_mt19937_seed(cr_mt19937 *rng, uint32_t seed) {
  rng->state[0] = seed;
  for (uint32_t i = 1; i < MT_SIZE; ++i) {
    uint32_t before = rng->state[i - 1];
    rng->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
  }
  rng->next = MT_SIZE;
}

static uint32_t twist(uint32_t high, uint32_t low) {
  uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ ((low & 1u) != 0 ? 0x9908b0dfu : 0u);
}

static void refill(cr_mt19937 *rng) {
  uint32_t *s = rng->state;
  for (int i = 0; i < MT_SIZE - MT_SHIFT; ++i) s[i] = s[i + MT_SHIFT] ^ twist(s[i], s[i + 1]);
  for (int i = MT_SIZE - MT_SHIFT; i < MT_SIZE - 1; ++i) {
    s[i] = s[i + MT_SHIFT - MT_SIZE] ^ twist(s[i], s[i + 1]);
  }
  s[MT_SIZE - 1] = s[MT_SHIFT - 1] ^ twist(s[MT_SIZE - 1], s[0]);
  rng->next = 0;
}

uint32_t cr_mt19937_next(cr_mt19937 *rng) {
  if (rng->next >= MT_SIZE) refill(rng);
  uint32_t y = rng->state[rng->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

float cr_mt19937_uniform(cr_mt19937 *rng) {
  return (float)(cr_mt19937_next(rng) >> 8) * 0x1p-24f;
}

double cr_mt19937_uniform_wide(cr_mt19937 *rng) {
  return (double)cr_mt19937_next(rng) * 0x1p-32;
}

double cr_mt19937_normal_wide(cr_mt19937 *rng) {
  /* r = sqrt(-2 ln u), angle = 2 pi v; u is taken from (0, 1] so that the logarithm exists. */
  double u = ((double)cr_mt19937_next(rng) + 1.0) * 0x1p-32;
  double v = (double)cr_mt19937_next(rng) * 0x1p-32;
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

float cr_mt19937_normal(cr_mt19937 *rng) {
  return (float)cr_mt19937_normal_wide(rng);
}

uint32_t cr_mt19937_below(cr_mt19937 *rng, uint32_t bound) {
  /* Numbers below `reject` (2^32 mod bound) would make small results likelier. */
  uint32_t reject = (0u - bound) % bound;
  uint32_t draw;
  do {
    draw = cr_mt19937_next(rng);
  } while (draw < reject);
  return draw % bound;
}

void cr_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
  uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
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

/* Finaliser of splitmix64 (Steele, Lea, Flood, 2014): every input bit reaches every output bit. */
static uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t cr_mix_key(uint64_t a, uint64_t b) {
  return scramble(scramble(a + 0x9e3779b97f4a7c15u) ^ (b + 0x632be59bd9b4e019u));
}

uint64_t cr_hash_text(const char *text) {
  /* FNV-1a, scrambled so that short texts differ in their high bits too. */
  uint64_t hash = 14695981039346656037u;
  for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; ++p) {
    hash = (hash ^ *p) * 1099511628211u;
  }
  return scramble(hash);
}

uint32_t cr_random_seed_from(uint32_t counter, uint32_t pid, uint32_t seconds,
                             uint32_t microseconds) {
  return 51551u * counter + 61631u * pid + 64997u * seconds + 111857u * microseconds;
}

/* The time of the process's first seed, never 0. With the time of each call two seeds could
 * coincide; with a single time they differ by an odd multiple of the counter's difference, which is
 * never 0. */
static uint64_t first_time(void) {
  static _Atomic uint64_t first;
  uint64_t time = atomic_load(&first), none = 0;
  if (time != 0) return time;
  struct timeval now;
  gettimeofday(&now, NULL);
  time = (uint64_t)now.tv_sec << 32 | (uint64_t)now.tv_usec;
  return atomic_compare_exchange_strong(&first, &none, time) ? time : none;
}

uint32_t cr_random_seed(void) {
  static atomic_uint counter;
  uint64_t time = first_time();
  return cr_random_seed_from(atomic_fetch_add(&counter, 1), (uint32_t)getpid(),
                             (uint32_t)(time >> 32), (uint32_t)time);
}
