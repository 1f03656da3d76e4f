/* System calls that fail or do less than was asked, for programs that define these calls
 * (tests/interpose.h) and ask here first. */
#ifndef CR_TESTS_CORE_REFUSED_CALLS_H
#define CR_TESTS_CORE_REFUSED_CALLS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What the next calls do: after `pass` that go through, `count` fail with `error` (0: they return
 * 0). `most`, where it is not 0, is how many bytes a call moves at once. */
typedef struct refused_call {
  int pass, count, error;
  size_t most;
  int calls;    /* made since it was set */
  size_t asked; /* of the last one */
} refused_call;

static inline bool refuses(refused_call *call) {
  ++call->calls;
  if (call->pass > 0 && call->count > 0) {
    --call->pass;
    return false;
  }
  if (call->count == 0) return false;
  --call->count;
  errno = call->error;
  return true;
}

static inline size_t bytes_allowed(refused_call *call, size_t size) {
  call->asked = size;
  return call->most != 0 && size > call->most ? call->most : size;
}

#endif
