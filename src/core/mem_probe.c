#include "core/mem_probe.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/fail.h"

bool cr_mem_probe(size_t bytes) {
  /* Writable and private, as allocators map it: other kinds of mapping count against fewer
   * limits. */
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

static bool has_limit(int resource) {
  struct rlimit limit;
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Whether the system is in its mode 2 of overcommitting: not at all. */
static bool is_never_overcommitted(void) {
  char mode = '0';
  int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t got = read(file, &mode, 1);
  close(file);
  return got == 1 && mode == '2';
}

bool cr_address_space_is_limited(void) {
  return has_limit(RLIMIT_AS);
}

bool cr_memory_is_limited(void) {
  enum { UNKNOWN, UNLIMITED, LIMITED };
  static _Atomic int answer;
  int known = atomic_load_explicit(&answer, memory_order_relaxed);
  if (known == UNKNOWN) {
    bool limited =
        cr_address_space_is_limited() || has_limit(RLIMIT_DATA) || is_never_overcommitted();
    known = limited ? LIMITED : UNLIMITED;
    atomic_store_explicit(&answer, known, memory_order_relaxed);
  }
  return known == LIMITED;
}

crema_status cr_need_memory(size_t bytes, const char *who) {
  if (!cr_memory_is_limited() || cr_mem_probe(bytes)) return CREMA_OK;
  return cr_fail(CREMA_E_NO_MEMORY, "less than %zu MB of memory are left for %s", bytes >> 20, who);
}
