/* Host memory: aligned, and backed by large pages where that pays. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/fail.h"
#include "device/device.h"

enum { ALIGNMENT = 64 };

/* From here on a block is aligned to large pages and asks for them. */
#define HUGE_BYTES ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

crema_status cr_host_alloc(size_t bytes, void **out) {
  size_t alignment = bytes >= HUGE_BYTES ? HUGE_PAGE : ALIGNMENT;
  if (bytes > PTRDIFF_MAX - alignment) return cr_fail_memory(bytes, "host memory");
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
