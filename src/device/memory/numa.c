#include "device/memory/numa.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { MASK_BITS = 8 * sizeof(unsigned long), BIND_POLICY = 2, MOVE_PAGES = 2 };

static int count_nodes(void) {
  FILE *file = fopen("/sys/devices/system/node/online", "r");
  if (file == NULL) return 1;
  /* "0" or "0-3" or "0,2-3": the last number is the highest node. */
  char text[256];
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = '\0';
  int highest = 0;
  for (const char *p = text; *p != '\0'; p += strspn(p, "-,\n")) {
    int node = 0, used = 0;
    if (sscanf(p, "%d%n", &node, &used) != 1) break;
    if (node > highest) highest = node;
    p += used;
  }
  return highest + 1;
}

/* They do not change. */
static int system_nodes(void) {
  static atomic_int known;
  int nodes = atomic_load(&known);
  if (nodes == 0) atomic_store(&known, nodes = count_nodes());
  return nodes;
}

#ifdef __linux__

static int system_current(void) {
  unsigned cpu = 0, node = 0;
  return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : -1;
}

static int system_node_of(const void *memory) {
  void *page = (void *)(uintptr_t)memory;
  int node = -1;
  long failed = syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0);
  return failed == 0 && node >= 0 ? node : -1;
}

static int system_bind(void *low, size_t bytes, int node) {
  unsigned long mask = 1ul << node;
  long failed =
      syscall(SYS_mbind, low, bytes, BIND_POLICY, &mask, (unsigned long)MASK_BITS + 1, MOVE_PAGES);
  return failed == 0 ? 0 : errno;
}

#else

static int system_current(void) {
  return 0;
}

static int system_node_of(const void *memory) {
  (void)memory;
  return 0;
}

static int system_bind(void *low, size_t bytes, int node) {
  (void)low, (void)bytes, (void)node;
  return 0;
}

#endif

static const cr_numa_system real_system = {system_nodes, system_current, system_node_of,
                                           system_bind};

static struct {
  const cr_numa_system *_Atomic system; /* NULL: not queried */
  atomic_int on;                        /* below 0: as the environment says */
} numa = {.on = -1};

void cr_numa_use(const cr_numa_system *system) {
  atomic_store(&numa.system, system != NULL ? system : &real_system);
}

static const cr_numa_system *machine(void) {
  if (atomic_load(&numa.system) == NULL) cr_numa_use(NULL);
  return atomic_load(&numa.system);
}

void cr_numa_enable(bool on) {
  atomic_store(&numa.on, on);
}

bool cr_numa_enabled(void) {
  if (atomic_load(&numa.on) < 0) {
    const char *text = getenv("CREMA_NUMA");
    cr_numa_enable(text != NULL && strcmp(text, "1") == 0);
  }
  return atomic_load(&numa.on) == 1;
}

crema_status cr_numa_bind(void *memory, size_t bytes, int node) {
  if (!cr_numa_enabled() || node < 0 || bytes == 0) return CREMA_OK;
  const cr_numa_system *system = machine();
  if (node >= system->nodes() || node >= MASK_BITS) {
    return cr_fail(CREMA_E_RANGE, "there is no memory node %d", node);
  }
  /* Only whole pages can be placed. */
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t low = (uintptr_t)memory / page * page;
  uintptr_t high = ((uintptr_t)memory + bytes + page - 1) / page * page;
  int failed = system->bind((void *)low, high - low, node);
  if (failed != 0) {
    return cr_fail_errno(failed, "cannot move %zu bytes to memory node %d", bytes, node);
  }
  return CREMA_OK;
}

crema_status cr_numa_move_here(void *memory, size_t bytes) {
  if (cr_numa_nodes() < 2 || bytes == 0) return CREMA_OK;
  int here = cr_numa_current_node();
  /* Memory that the driver has filled from here is here already. */
  const char *last = (const char *)memory + bytes - 1;
  if (here >= 0 && cr_numa_node_of(memory) == here && cr_numa_node_of(last) == here) {
    return CREMA_OK;
  }
  return cr_numa_bind(memory, bytes, here);
}

int cr_numa_node_of(const void *memory) {
  return cr_numa_enabled() ? machine()->node_of(memory) : -1;
}

int cr_numa_nodes(void) {
  return cr_numa_enabled() ? machine()->nodes() : -1;
}

int cr_numa_current_node(void) {
  return cr_numa_enabled() ? machine()->current() : -1;
}
