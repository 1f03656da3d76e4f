/* Random numbers: known vectors and S1-15, S1-16. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/rng.h"
#include "core/thread.h"

static void s1_15_mt19937_known_vectors(void **state) {
  (void)state;
  cr_mt19937 rng;
  /* The reference implementation's default seed; the 10000th draw is given by the C++ standard. */
  cr_mt19937_seed(&rng, 5489);
  assert_int_equal(cr_mt19937_next(&rng), 3499211612u);
  assert_int_equal(cr_mt19937_next(&rng), 581869302u);
  for (int i = 2; i < 9999; ++i) cr_mt19937_next(&rng);
  assert_int_equal(cr_mt19937_next(&rng), 4123659995u);
}

/* Caffe seeds a thread's generator with the next draw of its parent's. */
static void s2_04_seeds_drawn_from_a_generator(void **state) {
  (void)state;
  static const uint32_t known[][2] = {{9658361, 4244559767u}, {3435563, 1726478280u}};
  for (int i = 0; i < 2; ++i) {
    cr_mt19937 parent, child;
    cr_mt19937_seed(&parent, known[i][0]);
    cr_mt19937_seed(&child, cr_mt19937_next(&parent));
    assert_int_equal(cr_mt19937_next(&child), known[i][1]);
  }
}

static void uniform_and_normal_moments(void **state) {
  (void)state;
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

static void below_is_even(void **state) {
  (void)state;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 7);
  int count[6] = {0};
  for (int i = 0; i < 60000; ++i) count[cr_mt19937_below(&rng, 6)]++;
  for (int i = 0; i < 6; ++i) assert_in_range(count[i], 9600, 10400);
  for (int i = 0; i < 100; ++i) assert_int_equal(cr_mt19937_below(&rng, 1), 0);
}

/* Vectors from the known-answer file of Random123 (Salmon et al.). */
static void philox_known_vectors(void **state) {
  (void)state;
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

static void keys_differ(void **state) {
  (void)state;
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

static void s1_16_random_seed_formula(void **state) {
  (void)state;
  assert_int_equal(cr_random_seed_from(1, 0, 0, 0), 51551u);
  assert_int_equal(cr_random_seed_from(3, 1234, 1700000000u, 999999u),
                   (uint32_t)(51551ull * 3 + 61631ull * 1234 + 64997ull * 1700000000ull +
                              111857ull * 999999ull));
  /* The time is read once, so that only the counter tells two calls apart. */
  uint32_t before = cr_random_seed();
  for (int i = 0; i < 10000; ++i) {
    uint32_t seed = cr_random_seed();
    assert_int_equal(seed - before, 51551u);
    before = seed;
  }
}

static void s1_16_random_seeds_are_distinct(void **state) {
  (void)state;
  uint32_t *seed = malloc(sizeof *seed * SEED_THREADS * SEEDS_PER_THREAD);
  assert_non_null(seed);
  cr_thread *thread[SEED_THREADS] = {0};
  for (int i = 0; i < SEED_THREADS; ++i) {
    assert_int_equal(cr_thread_start(&thread[i], "seeds", draw_seeds, seed + i * SEEDS_PER_THREAD),
                     CREMA_OK);
  }
  for (int i = 0; i < SEED_THREADS; ++i) assert_int_equal(cr_thread_join(&thread[i]), CREMA_OK);
  int total = SEED_THREADS * SEEDS_PER_THREAD, repeats = 0;
  qsort(seed, (size_t)total, sizeof *seed, compare_seeds);
  for (int i = 1; i < total; ++i) repeats += seed[i] == seed[i - 1];
  free(seed);
  assert_int_equal(repeats, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s1_15_mt19937_known_vectors),
      cmocka_unit_test(s2_04_seeds_drawn_from_a_generator),
      cmocka_unit_test(uniform_and_normal_moments),
      cmocka_unit_test(below_is_even),
      cmocka_unit_test(philox_known_vectors),
      cmocka_unit_test(keys_differ),
      cmocka_unit_test(s1_16_random_seed_formula),
      cmocka_unit_test(s1_16_random_seeds_are_distinct),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
