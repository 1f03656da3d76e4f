/* Lets every allocation of an operation fail, one at a time: a status and a text must come of it,
 * and all that was allocated before must be given back. To be included once. */
#ifndef CR_TESTS_EACH_ALLOCATION_H
#define CR_TESTS_EACH_ALLOCATION_H

#include "allocations.h"

#include "check.h"
#include "crema/status.h"

/* Frees what it makes. */
typedef crema_status fallible(void *user);

/* `expected`: what the operation returns while there is memory. `least`: so many allocations it
 * makes. */
static inline void each_allocation_fails(const char *name, fallible *run, void *user,
                                         crema_status expected, long least) {
  assert_int_equal(run(user), expected); /* makes what the process keeps */
  enum { TRIES = 4 };
  long before = live_blocks();
  for (long n = 0, tries = 1;; ++n, tries = 1) {
    no_memory_arm(n);
    crema_status status = run(user);
    bool hit = no_memory_end();
    /* Threads of a library may have made something for themselves, once; a loss comes again. */
    for (; live_blocks() != before && tries < TRIES; ++tries) {
      before = live_blocks();
      no_memory_arm(n);
      status = run(user);
      hit = no_memory_end();
    }
    if (live_blocks() != before) {
      fail_msg("%s, allocation %ld: %ld blocks are lost", name, n, live_blocks() - before);
    }
    if (!hit) {
      assert_int_equal(status, expected);
      assert_in_range(n, least, INT64_MAX);
      return;
    }
    if (status == expected) continue; /* memory that is not essential causes no failure */
    if (status != CREMA_E_NO_MEMORY || crema_error_text()[0] == '\0') {
      fail_msg("%s, allocation %ld: %s: %s", name, n, crema_status_name(status),
               crema_error_text());
    }
  }
}

#endif
