/* Counts the allocations of the program's own code (the test and the static library are one
 * program), not those inside compute libraries. Sanitizers bring a malloc of their own, so nothing
 * is counted there. To be included once. */
#ifndef CR_TESTS_OWN_ALLOCATIONS_H
#define CR_TESTS_OWN_ALLOCATIONS_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_long allocations;

/* How threads wait is decided anew while the program runs, by how busy the machine is, and a change
 * allocates. A policy that the environment gives is left alone. */
__attribute__((constructor)) static void fix_policy_of_waiting(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
}

static inline long own_allocations(void) {
  return atomic_load(&allocations);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#else
#define COUNTS 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* From the linker: where the program's own code lies. */
extern const char __executable_start, etext;

/* Counted functions are not inlined: they would see the return address of their caller. */
#define COUNTED __attribute__((noinline))

static void count(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  if (at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) return;
  atomic_fetch_add(&allocations, 1);
}

COUNTED void *malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}

COUNTED void *calloc(size_t items, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(items, size);
}

COUNTED void *realloc(void *memory, size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}

COUNTED void *aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

COUNTED int posix_memalign(void **out, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  void *memory = __libc_memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *out = memory;
  return 0;
}
#endif

#endif
