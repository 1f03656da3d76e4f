#include "device/memory/host_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/fail.h"

enum { ALIGNMENT = 64 };

/* Blocks of at least this size are aligned to large pages and request them. */
#define HUGE_BYTES ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

/* Smaller requests are left to the allocator. */
#define PLAUSIBLE_BYTES ((size_t)1 << 35)

/* Lies in front of each block and keeps its alignment. */
typedef union header {
  struct {
    const crema_host_allocator *allocator;
    size_t bytes; /* with the header */
  };
  char pad[ALIGNMENT];
} header;

static void *system_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  /* Only advice: without large pages the block is as good, just slower to touch. */
  if (alignment >= HUGE_PAGE) (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  return memory;
}

static void system_free(void *user, void *memory) {
  (void)user;
  free(memory);
}

static const crema_host_allocator system_allocator = {system_alloc, system_free, NULL};

static struct {
  const crema_host_allocator *_Atomic current;
} host_allocator = {.current = &system_allocator};

/* Blocks of medium size are cut from slabs of large pages. A net has hundreds of them, its first
 * pass touches all, and in small pages the page faults would cost more than the arithmetic. A block
 * takes the first hole that is large enough, else the untouched end of the slab. One slab without
 * blocks is kept for the next block. */
#define SLAB_FROM ((size_t)32 << 10)
#define SLAB_BYTES ((size_t)8 << 20)

/* At the start of memory that was freed below other blocks of a slab. */
typedef struct hole {
  size_t bytes;
  struct hole *next; /* of the same slab, at a higher address */
} hole;

/* At the start of a slab, which is aligned to its size. */
typedef union slab {
  struct {
    union slab *next;
    hole *holes;
    size_t used; /* bytes from the start that are blocks and holes */
    size_t live; /* blocks */
  };
  char pad[ALIGNMENT];
} slab;

static struct {
  pthread_mutex_t lock;
  slab *first;
} slabs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *end_of(hole *h) {
  return (char *)h + h->bytes;
}

/* NULL: the slab has no room. */
static void *cut(slab *from, size_t bytes) {
  hole **link = &from->holes;
  while (*link != NULL && (*link)->bytes < bytes) link = &(*link)->next;
  hole *found = *link;
  if (found == NULL) {
    if (bytes > SLAB_BYTES - from->used) return NULL;
    from->used += bytes;
    return (char *)from + from->used - bytes;
  }
  *link = found->next;
  if (found->bytes > bytes) {
    hole *rest = (hole *)((char *)found + bytes);
    *rest = (hole){found->bytes - bytes, found->next};
    *link = rest;
  }
  return found;
}

/* Makes a hole of the block, together with those on both sides; there are none at the end. */
static void release_to_slab(slab *to, void *block, size_t bytes) {
  hole *before = NULL, *fresh = block;
  for (hole *h = to->holes; h != NULL && (char *)h < (char *)block; h = h->next) before = h;
  *fresh = (hole){bytes, before != NULL ? before->next : to->holes};
  if (fresh->next != NULL && end_of(fresh) == (char *)fresh->next) {
    fresh->bytes += fresh->next->bytes;
    fresh->next = fresh->next->next;
  }
  if (before != NULL && end_of(before) == (char *)fresh) {
    before->bytes += fresh->bytes;
    before->next = fresh->next;
    fresh = before;
  } else if (before != NULL) {
    before->next = fresh;
  } else {
    to->holes = fresh;
  }
  if (end_of(fresh) != (char *)to + to->used) return;
  to->used -= fresh->bytes;
  hole **link = &to->holes;
  while (*link != fresh) link = &(*link)->next;
  *link = NULL;
}

static void *slab_alloc(void *user, size_t bytes, size_t alignment) {
  (void)alignment;
  void *block = NULL;
  pthread_mutex_lock(&slabs.lock);
  slab **link = &slabs.first;
  for (; *link != NULL && block == NULL; link = &(*link)->next) {
    block = cut(*link, bytes);
    if (block != NULL) ++(*link)->live;
  }
  if (block == NULL) {
    slab *fresh = system_alloc(user, SLAB_BYTES, SLAB_BYTES);
    if (fresh != NULL) {
      *fresh = (slab){.used = sizeof *fresh, .live = 1};
      block = cut(fresh, bytes);
      *link = fresh;
    }
  }
  pthread_mutex_unlock(&slabs.lock);
  return block;
}

static void slab_free(void *user, void *memory) {
  const header *head = memory;
  slab *from = (slab *)((uintptr_t)memory & ~(SLAB_BYTES - 1)), *ended = NULL;
  pthread_mutex_lock(&slabs.lock);
  release_to_slab(from, memory, head->bytes);
  --from->live;
  int empty = 0;
  for (const slab *s = slabs.first; s != NULL; s = s->next) empty += s->live == 0;
  if (from->live == 0 && empty > 1) {
    slab **link = &slabs.first;
    while (*link != from) link = &(*link)->next;
    *link = from->next;
    ended = from;
  }
  pthread_mutex_unlock(&slabs.lock);
  system_free(user, ended);
}

static const crema_host_allocator slab_allocator = {slab_alloc, slab_free, NULL};

/* Sanitizers check the bounds of blocks only if each is allocated from the system. */
#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#define WATCHED __has_feature(address_sanitizer)
#else
#define WATCHED 0
#endif

void cr_host_set_allocator(const crema_host_allocator *allocator) {
  atomic_store(&host_allocator.current, allocator != NULL ? allocator : &system_allocator);
}

crema_status crema_host_set_allocator(const crema_host_allocator *allocator) {
  if (allocator != NULL && (allocator->alloc == NULL || allocator->free == NULL)) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: the allocator has no function to %s", __func__,
                   allocator->alloc == NULL ? "allocate" : "free");
  }
  cr_host_set_allocator(allocator);
  return CREMA_OK;
}

/* A block of several times the machine's memory is a mistake in some file, whether or not the
 * system overcommits. */
static bool beyond_machine(size_t bytes) {
  if (bytes < PLAUSIBLE_BYTES) return false;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 && bytes / 4 / (size_t)page > (size_t)pages;
}

crema_status cr_host_check(size_t bytes) {
  return beyond_machine(bytes) ? cr_fail_memory(bytes, "host memory") : CREMA_OK;
}

crema_status cr_host_alloc(size_t bytes, void **out) {
  size_t alignment = bytes >= HUGE_BYTES ? HUGE_PAGE : ALIGNMENT;
  if (bytes > PTRDIFF_MAX - 2 * HUGE_PAGE || beyond_machine(bytes)) {
    return cr_fail_memory(bytes, "host memory");
  }
  size_t rounded = sizeof(header) + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const crema_host_allocator *allocator = atomic_load(&host_allocator.current);
  const bool middling = bytes >= SLAB_FROM && bytes < HUGE_BYTES;
  if (allocator == &system_allocator && middling && !WATCHED) allocator = &slab_allocator;
  header *head = allocator->alloc(allocator->user, rounded, alignment);
  if (head == NULL && allocator == &slab_allocator) {
    /* There may be memory for a block even if there is none for a slab. */
    allocator = &system_allocator;
    head = allocator->alloc(allocator->user, rounded, alignment);
  }
  if (head == NULL) return cr_fail_memory(bytes, "host memory");
  head->allocator = allocator;
  head->bytes = rounded;
  *out = head + 1;
  return CREMA_OK;
}

void cr_host_free(void *memory) {
  if (memory == NULL) return;
  header *head = (header *)memory - 1;
  const crema_host_allocator *allocator = head->allocator;
  allocator->free(allocator->user, head);
}
