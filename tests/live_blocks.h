/* Counts the blocks of memory that a test program holds, so that it can see that a failure loses
 * none. To be included once. */
#ifndef CR_TESTS_LIVE_BLOCKS_H
#define CR_TESTS_LIVE_BLOCKS_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* Blocks of the process that were allocated and not freed. Sanitizers bring a malloc of their own,
 * and look for leaks themselves. */
static atomic_long live;

static inline long live_blocks(void) {
  return atomic_load(&live);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void *count(void *made) {
  if (made != NULL) atomic_fetch_add(&live, 1);
  return made;
}

void *malloc(size_t size) {
  return count(__libc_malloc(size));
}

void *calloc(size_t items, size_t size) {
  return count(__libc_calloc(items, size));
}

void *realloc(void *memory, size_t size) {
  void *made = __libc_realloc(memory, size);
  return memory == NULL ? count(made) : made;
}

void *aligned_alloc(size_t alignment, size_t size) {
  return count(__libc_memalign(alignment, size));
}

/* What OpenMP's library calls. */
void *memalign(size_t alignment, size_t size) {
  return count(__libc_memalign(alignment, size));
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  *out = count(__libc_memalign(alignment, size));
  return *out == NULL ? ENOMEM : 0;
}

void free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&live, 1);
  __libc_free(memory);
}
#endif

#endif
