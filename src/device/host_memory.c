/* Host memory: aligned, and backed by large pages where that pays. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/fail.h"
#include "device/device.h"

enum { ALIGNMENT = 64 };

/* From here on a block is aligned to large pages and asks for them. */
#define HUGE_BYTES ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

/* Smaller requests are left to the allocator to judge. */
#define PLAUSIBLE_BYTES ((size_t)1 << 35)

/* Lies in front of each block and keeps its alignment. */
typedef union header {
  const cr_host_allocator *allocator;
  char pad[ALIGNMENT];
} header;

static void *system_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  /* Only advice: without large pages the block is as good, just slower to touch. */
  if (alignment == HUGE_PAGE) (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  return memory;
}

static void system_free(void *user, void *memory) {
  (void)user;
  free(memory);
}

static const cr_host_allocator system_allocator = {system_alloc, system_free, NULL};

static struct {
  const cr_host_allocator *_Atomic current;
} host_allocator = {.current = &system_allocator};

void cr_host_set_allocator(const cr_host_allocator *allocator) {
  atomic_store(&host_allocator.current, allocator != NULL ? allocator : &system_allocator);
}

/* A block of several times the machine's memory is a mistake in some file, whatever the system's
 * policy of overcommitment would say to it. */
static bool beyond_machine(size_t bytes) {
  if (bytes < PLAUSIBLE_BYTES) return false;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 && bytes / 4 / (size_t)page > (size_t)pages;
}

crema_status cr_host_alloc(size_t bytes, void **out) {
  size_t alignment = bytes >= HUGE_BYTES ? HUGE_PAGE : ALIGNMENT;
  if (bytes > PTRDIFF_MAX - 2 * HUGE_PAGE || beyond_machine(bytes)) {
    return cr_fail_memory(bytes, "host memory");
  }
  size_t rounded = sizeof(header) + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const cr_host_allocator *allocator = atomic_load(&host_allocator.current);
  header *head = allocator->alloc(allocator->user, rounded, alignment);
  if (head == NULL) return cr_fail_memory(bytes, "host memory");
  head->allocator = allocator;
  *out = head + 1;
  return CREMA_OK;
}

void cr_host_free(void *memory) {
  if (memory == NULL) return;
  header *head = (header *)memory - 1;
  const cr_host_allocator *allocator = head->allocator;
  allocator->free(allocator->user, head);
}
