/* Random numbers: known vectors and S1-15, S1-16. */
#include <math.h>
#include <stdlib.h>

#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "core/rng.h"
#include "core/thread.h"

/* The first seed of a process is drawn when it starts; which second it was is found out again. */
static bool is_of_now(uint32_t seed, uint32_t counter, uint32_t pid) {
  struct timeval now;
  gettimeofday(&now, NULL);
  for (uint32_t ago = 0; ago < 600; ++ago) {
    uint32_t second = (uint32_t)now.tv_sec - ago;
    uint32_t rest = seed - cr_random_seed_from(counter, pid, second, 0);
    for (uint32_t micro = 0; micro < 1000000; ++micro) {
      if (rest == 111857u * micro) return true;
    }
  }
  return false;
}

/* The first test, as it counts the seeds. */
TEST(s1_16_seeds_are_of_the_time_and_the_process) {
  assert_true(is_of_now(cr_random_seed(), 0, (uint32_t)getpid()));
  assert_true(is_of_now(cr_random_seed(), 1, (uint32_t)getpid()));
}

TEST(s1_15_mt19937_known_vectors) {
  cr_mt19937 rng;
  /* The reference implementation's default seed; the 10000th draw is given by the C++ standard. */
  cr_mt19937_seed(&rng, 5489);
  assert_int_equal(cr_mt19937_next(&rng), 3499211612u);
  assert_int_equal(cr_mt19937_next(&rng), 581869302u);
  /* The last one of the first state, as Python's generator has it. */
  for (int i = 2; i < 623; ++i) cr_mt19937_next(&rng);
  assert_int_equal(cr_mt19937_next(&rng), 4020325887u);
  for (int i = 624; i < 9999; ++i) cr_mt19937_next(&rng);
  assert_int_equal(cr_mt19937_next(&rng), 4123659995u);
}

/* Caffe seeds a thread's generator with the next draw of its parent's. */
TEST(s2_04_seeds_drawn_from_a_generator) {
  static const uint32_t known[][2] = {{9658361, 4244559767u}, {3435563, 1726478280u}};
  for (int i = 0; i < 2; ++i) {
    cr_mt19937 parent, child;
    cr_mt19937_seed(&parent, known[i][0]);
    cr_mt19937_seed(&child, cr_mt19937_next(&parent));
    assert_int_equal(cr_mt19937_next(&child), known[i][1]);
  }
}

TEST(uniform_and_normal_moments) {
  enum { DRAWS = 200000 };
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 42);
  double sum = 0, squares = 0;
  for (int i = 0; i < DRAWS; ++i) {
    double u = cr_mt19937_uniform(&rng);
    assert_true(u >= 0 && u < 1);
    sum += u;
  }
  assert_true(fabs(sum / DRAWS - 0.5) < 0.005);
  sum = 0;
  for (int i = 0; i < DRAWS; ++i) {
    double x = cr_mt19937_normal(&rng);
    assert_true(isfinite(x));
    sum += x;
    squares += x * x;
  }
  assert_true(fabs(sum / DRAWS) < 0.01);
  assert_true(fabs(squares / DRAWS - 1) < 0.02);
}

TEST(below_is_even) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 7);
  int count[6] = {0};
  for (int i = 0; i < 60000; ++i) count[cr_mt19937_below(&rng, 6)]++;
  for (int i = 0; i < 6; ++i) assert_in_range(count[i], 9600, 10400);
  for (int i = 0; i < 100; ++i) assert_int_equal(cr_mt19937_below(&rng, 1), 0);
}

/* Vectors from the known-answer file of Random123 (Salmon et al.). */
TEST(philox_known_vectors) {
  uint32_t out[4];
  cr_philox(0, 0, 0, out);
  const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  assert_memory_equal(out, zeros, sizeof zeros);
  cr_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
  const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  assert_memory_equal(out, ones, sizeof ones);
  cr_philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, out);
  const uint32_t pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  assert_memory_equal(out, pi, sizeof pi);
}

TEST(keys_differ) {
  assert_true(cr_mix_key(1, 2) != cr_mix_key(2, 1));
  assert_true(cr_mix_key(0, 0) != cr_mix_key(0, 1));
  assert_true(cr_hash_text("conv1") != cr_hash_text("conv2"));
  assert_true(cr_hash_text("") != cr_hash_text("a"));
}

enum { SEED_THREADS = 8, SEEDS_PER_THREAD = 12500 };

static crema_status draw_seeds(void *arg) {
  uint32_t *seed = arg;
  for (int i = 0; i < SEEDS_PER_THREAD; ++i) seed[i] = cr_random_seed();
  return CREMA_OK;
}

static int compare_seeds(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

TEST(s1_16_random_seed_formula) {
  assert_int_equal(cr_random_seed_from(1, 0, 0, 0), 51551u);
  assert_int_equal(cr_random_seed_from(3, 1234, 1700000000u, 999999u),
                   (uint32_t)(51551ull * 3 + 61631ull * 1234 + 64997ull * 1700000000ull +
                              111857ull * 999999ull));
  /* The time is read once, so two calls differ only by the counter. */
  uint32_t before = cr_random_seed();
  for (int i = 0; i < 10000; ++i) {
    uint32_t seed = cr_random_seed();
    assert_int_equal(seed - before, 51551u);
    before = seed;
  }
}

TEST(s1_16_random_seeds_are_distinct) {
  uint32_t *seed = malloc(sizeof *seed * SEED_THREADS * SEEDS_PER_THREAD);
  assert_non_null(seed);
  cr_thread *thread[SEED_THREADS] = {0};
  for (int i = 0; i < SEED_THREADS; ++i) {
    ok(cr_thread_start(&thread[i], "seeds", draw_seeds, seed + i * SEEDS_PER_THREAD));
  }
  for (int i = 0; i < SEED_THREADS; ++i) ok(cr_thread_join(&thread[i]));
  int total = SEED_THREADS * SEEDS_PER_THREAD, repeats = 0;
  qsort(seed, (size_t)total, sizeof *seed, compare_seeds);
  for (int i = 1; i < total; ++i) repeats += seed[i] == seed[i - 1];
  free(seed);
  assert_int_equal(repeats, 0);
}

/* Every draw by its definition, from the numbers of the generator. */
TEST(distributions_follow_their_definitions) {
  cr_mt19937 rng, copy;
  cr_mt19937_seed(&rng, 4357);
  for (int i = 0; i < 2000; ++i) {
    copy = rng;
    uint32_t first = cr_mt19937_next(&copy), second = cr_mt19937_next(&copy);
    copy = rng;
    assert_true(cr_mt19937_uniform(&copy) == (float)(first >> 8) / 16777216.0f);
    copy = rng;
    double u = (first + 1.0) / 4294967296.0, angle = 8 * atan(1) * (second / 4294967296.0);
    assert_true(fabs(cr_mt19937_normal(&copy) - sqrt(-2 * log(u)) * cos(angle)) < 1e-5);
    cr_mt19937_next(&rng);
  }
  /* 2^32 = 3 * 1431655765 + 1: of all numbers 0 alone is drawn again; of 2^31 + 1, nearly half. */
  const uint32_t bound[] = {3, 0x80000001u, 1000, 0xffffffffu};
  for (int k = 0; k < 4; ++k) {
    uint32_t excess = (uint32_t)(((uint64_t)1 << 32) % bound[k]);
    for (int i = 0; i < 500; ++i) {
      copy = rng;
      uint32_t number;
      do number = cr_mt19937_next(&copy);
      while (number < excess);
      assert_int_equal(cr_mt19937_below(&rng, bound[k]), number % bound[k]);
      assert_int_equal(rng.next, copy.next);
    }
  }
}

/* splitmix64 as published, and FNV-1a with the vectors of its authors before it is scrambled. */
static uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

TEST(keys_are_as_ever) {
  static const struct {
    const char *text;
    uint64_t fnv;
  } rows[] = {
      {"", 0xcbf29ce484222325u}, {"a", 0xaf63dc4c8601ec8cu}, {"foobar", 0x85944171f73967e8u}};
  const uint64_t golden = 0x9e3779b97f4a7c15u;
  assert_true(splitmix(1234567) == 6457827717110365317u);
  for (int i = 0; i < 3; ++i) {
    assert_true(cr_hash_text(rows[i].text) == splitmix(rows[i].fnv - golden));
  }
  for (uint64_t a = 0; a < 50; ++a) {
    uint64_t b = a * a * 0x123456789u;
    uint64_t inner = splitmix(a) ^ (b + 0x632be59bd9b4e019u);
    assert_true(cr_mix_key(a, b) == splitmix(inner - golden));
  }
}

/* A number is drawn again when it is below the excess, and not when it is the excess itself, which
 * is made to be what comes next. */
TEST(the_last_number_of_no_excess_counts) {
  cr_mt19937 rng, copy;
  int tried = 0;
  cr_mt19937_seed(&rng, 99);
  for (int i = 0; i < 100; ++i) {
    copy = rng;
    uint32_t next = cr_mt19937_next(&copy), bound = 0u - next;
    if (next == 0 || next >= bound) {
      rng = copy;
      continue;
    }
    assert_int_equal(cr_mt19937_below(&rng, bound), next);
    assert_int_equal(rng.next, copy.next);
    ++tried;
  }
  assert_true(tried > 20);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
