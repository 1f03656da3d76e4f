#include "device/cpu/onednn/ready.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/mem_probe.h"
#include "device/cpu/threads/omp_team.h"

/* Memory that must be free before a call. The largest primitive observed takes 5 MB. The code that
 * oneDNN 2.6 generates for matrix products at their first run takes 13 MB. Other threads may take
 * memory at the same time. */
static const size_t LIBRARY_RESERVE = (size_t)32 << 20;

enum { UNKNOWN, ALLOWED, REFUSED };

static struct {
  _Atomic int code;    /* whether the system allows generated code */
  _Atomic bool warned; /* about the lack of memory */
} readiness;

/* Makes writable memory executable, as oneDNN does. systemd's MemoryDenyWriteExecute and SELinux's
 * execmem refuse that. */
static bool try_code(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno == ENOMEM; /* no answer; memory is looked at elsewhere */
  int failed = mprotect(memory, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0 ? errno : 0;
  munmap(memory, page);
  return failed == 0 || failed == ENOMEM;
}

static bool is_code_allowed(void) {
  int code = atomic_load_explicit(&readiness.code, memory_order_relaxed);
  if (code == UNKNOWN) {
    code = try_code() ? ALLOWED : REFUSED;
    int before = atomic_exchange(&readiness.code, code);
    if (code == REFUSED && before == UNKNOWN) {
      cr_log_warning(
          "the system refuses memory for generated code: "
          "the reference kernels run, which are slower");
    }
  }
  return code == ALLOWED;
}

static bool has_reserve(void) {
  if (!cr_memory_is_limited() || cr_mem_probe(LIBRARY_RESERVE)) return true;
  if (!atomic_exchange(&readiness.warned, true)) {
    cr_log_warning(
        "less than %zu MB of memory are left: "
        "reference kernels run instead of oneDNN's, which are faster",
        LIBRARY_RESERVE >> 20);
  }
  return false;
}

bool cr_dnnl_is_ready(void) {
  return is_code_allowed() && has_reserve();
}

crema_status cr_cpu_ready(const cr_plan *plan, bool planning) {
  if (!plan->kernel->library) return cr_openmp_need_memory();
  if (!is_code_allowed()) return cr_fail(CREMA_E_UNSUPPORTED, "generated code is refused");
  /* The library divides its work for this number of threads, and would start them. */
  if (!planning && cr_cpu_team(plan->threads) < plan->threads) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%d threads cannot be started", plan->threads);
  }
  /* Last, as threads take memory. */
  if (!has_reserve()) {
    return cr_fail(CREMA_E_UNSUPPORTED, "less than %zu MB are left", LIBRARY_RESERVE >> 20);
  }
  return CREMA_OK;
}
