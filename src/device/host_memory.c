/* Host memory: aligned, and backed by large pages where that pays. */
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

/* A block of several times the machine's memory is a mistake in some file, whatever the system's
 * policy of overcommitment would say to it. */
static bool beyond_machine(size_t bytes) {
  if (bytes < PLAUSIBLE_BYTES) return false;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 && bytes / 4 / (size_t)page > (size_t)pages;
}

crema_status cr_host_alloc(size_t bytes, void **out) {
  size_t alignment = bytes >= HUGE_BYTES ? HUGE_PAGE : ALIGNMENT;
  if (bytes > PTRDIFF_MAX - alignment || beyond_machine(bytes))
    return cr_fail_memory(bytes, "host memory");
  size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (rounded == 0) rounded = ALIGNMENT;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, rounded) != 0) {
    return cr_fail_memory(bytes, "host memory");
  }
#ifdef MADV_HUGEPAGE
  /* Only advice: without large pages the block is as good, just slower to touch. */
  if (bytes >= HUGE_BYTES) (void)madvise(memory, rounded / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  *out = memory;
  return CREMA_OK;
}

void cr_host_free(void *memory) {
  free(memory);
}
