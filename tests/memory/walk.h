/* Random walks: a seed that can be repeated, and the search for a short sequence that fails. */
#ifndef CR_TESTS_MEMORY_WALK_H
#define CR_TESTS_MEMORY_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The steps of a long walk. One thread takes them all, so that a thread sanitizer, which makes each
 * of them many times as slow, has seen everything much sooner. */
#ifdef __SANITIZE_THREAD__
enum { WALK_STEPS = 50000 };
#else
enum { WALK_STEPS = 1000000 };
#endif

/* From CREMA_TEST_SEED or the clock; printed. */
static inline uint32_t walk_seed(void) {
  const char *given = getenv("CREMA_TEST_SEED");
  uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL);
  print_message("seed %u (CREMA_TEST_SEED repeats it)\n", seed);
  return seed;
}

/* Leaves out parts of a sequence of `count` steps of `size` bytes each, halving the parts' length,
 * as long as the rest still fails; ends when no single step can be left out. Returns what is left.
 */
static inline size_t walk_shrink(void *steps, size_t count, size_t size,
                                 bool (*fails)(void *user, const void *steps, size_t count),
                                 void *user) {
  char *kept = steps, *trial = malloc(count * size + 1);
  assert_non_null(trial);
  for (size_t part = count / 2 + 1;;) {
    bool shorter = false;
    for (size_t at = 0; at + part <= count;) {
      memcpy(trial, kept, at * size);
      memcpy(trial + at * size, kept + (at + part) * size, (count - at - part) * size);
      if (!fails(user, trial, count - part)) {
        at += part;
        continue;
      }
      count -= part;
      memcpy(kept, trial, count * size);
      shorter = true;
    }
    if (part > 1) {
      part /= 2;
    } else if (!shorter) {
      break;
    }
  }
  free(trial);
  return count;
}

#endif
