/* The allocator of a test program: it counts the program's own allocations (the test and the static
 * library are one program), counts the blocks that are not freed, and lets one allocation of the
 * program fail. Sanitizers bring their own allocator, so nothing is counted there. To be
 * included once. */
#ifndef CR_TESTS_ALLOCATIONS_H
#define CR_TESTS_ALLOCATIONS_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#else
#define COUNTS 1
#endif

static atomic_long allocations, live;

/* How often the program has asked for memory. */
static inline long own_allocations(void) {
  return atomic_load(&allocations);
}

/* Blocks of the process, of all libraries, that were allocated and not freed. */
static inline long live_blocks(void) {
  return atomic_load(&live);
}

/* crema changes at run time how threads wait, by how busy the machine is, and a change allocates.
 * It leaves a policy of the environment alone. */
__attribute__((constructor)) static void fix_policy_of_waiting(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
}

/* ---- memory that runs out ---- */

/* In memory that is shared with children, whose allocations count as well. */
typedef struct no_memory_count {
  atomic_long left; /* allocations until the one that fails; below 0: none will */
  atomic_bool hit;
  atomic_size_t bytes; /* asked for since no_memory_arm */
} no_memory_count;

static no_memory_count *no_memory; /* NULL: never armed */

/* The n-th allocation of the program from now on fails. */
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

NOT_INSTRUMENTED static inline bool no_memory_now(size_t bytes) {
  if (no_memory == NULL || atomic_load(&no_memory->left) < 0) return false;
  atomic_fetch_add(&no_memory->bytes, bytes);
  if (atomic_fetch_sub(&no_memory->left, 1) != 0) return false;
  atomic_store(&no_memory->hit, true);
  errno = ENOMEM;
  return true;
}

/* ---- the functions ---- */

#if COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);
#define REAL_MALLOC __libc_malloc
#define REAL_CALLOC __libc_calloc
#define REAL_REALLOC __libc_realloc
#define REAL_MEMALIGN __libc_memalign
#else
#define REAL_MALLOC REAL(malloc)
#define REAL_CALLOC REAL(calloc)
#define REAL_REALLOC REAL(realloc)
#define REAL_MEMALIGN REAL(memalign)
#endif

NOT_INSTRUMENTED static inline void *allocation_made(void *made) {
  if (COUNTS && made != NULL) atomic_fetch_add(&live, 1);
  return made;
}

/* Whether a request of this size fails. */
NOT_INSTRUMENTED static inline bool allocation_fails(bool own, size_t size) {
  if (own) atomic_fetch_add(&allocations, 1);
  return own && no_memory_now(size);
}

INTERPOSED void *malloc(size_t size) {
  return allocation_fails(from_program(), size) ? NULL : allocation_made(REAL_MALLOC(size));
}

INTERPOSED void *calloc(size_t items, size_t size) {
  return allocation_fails(from_program(), items * size) ? NULL
                                                        : allocation_made(REAL_CALLOC(items, size));
}

INTERPOSED void *realloc(void *memory, size_t size) {
  if (allocation_fails(from_program(), size)) return NULL;
  void *made = REAL_REALLOC(memory, size);
  return memory == NULL ? allocation_made(made) : made;
}

INTERPOSED void *aligned_alloc(size_t alignment, size_t size) {
  return allocation_fails(from_program(), size) ? NULL
                                                : allocation_made(REAL_MEMALIGN(alignment, size));
}

INTERPOSED int posix_memalign(void **out, size_t alignment, size_t size) {
  if (allocation_fails(from_program(), size)) return ENOMEM;
  void *made = allocation_made(REAL_MEMALIGN(alignment, size));
  if (made == NULL) return ENOMEM;
  *out = made;
  return 0;
}

INTERPOSED char *strdup(const char *text) {
  return from_program() && no_memory_now(strlen(text) + 1) ? NULL : REAL(strdup)(text);
}

INTERPOSED char *strndup(const char *text, size_t size) {
  return from_program() && no_memory_now(size) ? NULL : REAL(strndup)(text, size);
}

#if COUNTS
/* Called by OpenMP's library. */
INTERPOSED void *memalign(size_t alignment, size_t size) {
  return allocation_made(__libc_memalign(alignment, size));
}

INTERPOSED void free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&live, 1);
  __libc_free(memory);
}
#endif

#endif
