/* Functions of shared libraries, such as libc's, that a test program defines itself. The linker
 * takes the program's definition for the library under test, which is part of the program, and for
 * the shared libraries. REAL(name) is the definition that it hides.
 *
 *   INTERPOSED int fsync(int fd) {
 *     return from_program() && refuses(&syncing) ? -1 : REAL(fsync)(fd);
 *   }
 */
#ifndef CR_TESTS_INTERPOSE_H
#define CR_TESTS_INTERPOSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SANITIZE_THREAD__
#define NOT_INSTRUMENTED __attribute__((no_sanitize_thread))
#else
#define NOT_INSTRUMENTED
#endif

/* Not inlined into a caller in the test, as from_program looks at the return address. Without
 * ThreadSanitizer's calls, as libraries may call it before the sanitizer has begun. */
#define INTERPOSED __attribute__((noinline, used)) NOT_INSTRUMENTED

/* The next definition of `name` after the program's. Ends the program if there is none. */
void *interpose_next(const char *name);

NOT_INSTRUMENTED static inline void *interpose_find(_Atomic(void *) *next_definition,
                                                    const char *name) {
  void *function = atomic_load_explicit(next_definition, memory_order_relaxed);
  if (function == NULL) {
    function = interpose_next(name);
    atomic_store_explicit(next_definition, function, memory_order_relaxed);
  }
  return function;
}

#define REAL(name)                                              \
  ({                                                            \
    static _Atomic(void *) next_definition;                     \
    (__typeof__(&name))interpose_find(&next_definition, #name); \
  })

/* From the linker: the bounds of the program's own code. */
extern const char __executable_start, etext;

/* True if the program's own code made the call, false for code in a shared library. */
#define from_program() interpose_is_program(__builtin_return_address(0))

NOT_INSTRUMENTED static inline bool interpose_is_program(const void *caller) {
  const uintptr_t at = (uintptr_t)caller;
  return at >= (uintptr_t)&__executable_start && at < (uintptr_t)&etext;
}

#endif
