/* Memory that runs out: for programs linked with --wrap for the functions below, which are then
 * those of the library too. One allocation, the n-th after no_memory_arm(n), fails. Until
 * no_memory_end, the bytes asked for are summed up. */
#ifndef CR_TESTS_NO_MEMORY_H
#define CR_TESTS_NO_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In memory that is shared with children, whose allocations count as well. */
typedef struct no_memory_count {
  atomic_long left; /* allocations until the one that fails; below 0: none will */
  atomic_bool hit;
  atomic_size_t bytes;
} no_memory_count;

static no_memory_count *no_memory; /* NULL: never armed */

static inline void no_memory_arm(long n) {
  if (no_memory == NULL) {
    void *shared =
        mmap(NULL, sizeof *no_memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    no_memory = shared;
  }
  atomic_store(&no_memory->hit, false);
  atomic_store(&no_memory->bytes, 0);
  atomic_store(&no_memory->left, n);
}

/* Whether an allocation failed since no_memory_arm; from now on none will. */
static inline bool no_memory_end(void) {
  atomic_store(&no_memory->left, -1);
  return atomic_load(&no_memory->hit);
}

static inline bool no_memory_now(size_t bytes) {
  if (no_memory == NULL || atomic_load(&no_memory->left) < 0) return false;
  atomic_fetch_add(&no_memory->bytes, bytes);
  if (atomic_fetch_sub(&no_memory->left, 1) != 0) return false;
  atomic_store(&no_memory->hit, true);
  errno = ENOMEM;
  return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size) {
  return no_memory_now(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return no_memory_now(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
  return no_memory_now(size) ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return no_memory_now(size) ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  return no_memory_now(size) ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__wrap_strdup(const char *text) {
  return no_memory_now(strlen(text) + 1) ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size) {
  return no_memory_now(size) ? NULL : __real_strndup(text, size);
}

#endif
