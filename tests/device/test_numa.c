/* What the system is asked about memory nodes, and what its answers mean. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "core/fail.h"
#include "device/memory/numa.h"
#include "interpose.h"

/* ---- a machine of eight nodes ---- */

static struct {
  long failure; /* an errno for the next call */
  unsigned here;
  int node;
  const void *page, *low;
  size_t bytes;
  unsigned long mask, mask_bits;
  long policy, flags, pages;
  int binds;
} machine;

static long answer(void) {
  if (machine.failure == 0) return 0;
  errno = (int)machine.failure;
  return -1;
}

INTERPOSED long syscall(long number, ...) {
  va_list args;
  va_start(args, number);
  if (number == SYS_getcpu) {
    (void)va_arg(args, unsigned *);
    *va_arg(args, unsigned *) = machine.here;
  } else if (number == SYS_move_pages) {
    (void)va_arg(args, int);
    machine.pages = va_arg(args, long);
    machine.page = *va_arg(args, void **);
    assert_null(va_arg(args, int *));
    *va_arg(args, int *) = machine.node;
  } else {
    assert_int_equal(number, SYS_mbind);
    ++machine.binds;
    machine.low = va_arg(args, void *);
    machine.bytes = va_arg(args, size_t);
    machine.policy = va_arg(args, int);
    machine.mask = *va_arg(args, unsigned long *);
    machine.mask_bits = va_arg(args, unsigned long);
    machine.flags = va_arg(args, int);
  }
  va_end(args);
  return answer();
}

INTERPOSED FILE *fopen(const char *path, const char *mode) {
  static char online[] = "0-1,4,6-7\n";
  if (strcmp(path, "/sys/devices/system/node/online") != 0) return REAL(fopen)(path, mode);
  return fmemopen(online, strlen(online), "r");
}

static int set_up(void **state) {
  (void)state;
  memset(&machine, 0, sizeof machine);
  cr_numa_use(NULL);
  cr_numa_enable(true);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cr_numa_enable(false);
  return 0;
}

#define NUMA_TEST(name) TEST_BETWEEN(name, set_up, tear_down)

/* ---- tests ---- */

/* The highest number that is listed, not how many are. */
NUMA_TEST(nodes_are_counted_to_the_highest) {
  assert_int_equal(cr_numa_nodes(), 8);
  assert_int_equal(cr_numa_nodes(), 8);
}

NUMA_TEST(the_node_of_the_thread) {
  machine.here = 6;
  assert_int_equal(cr_numa_current_node(), 6);
  machine.failure = ENOSYS;
  assert_int_equal(cr_numa_current_node(), -1);
}

/* One page is asked about; an error in the place of a node, and of the call, mean that it is not
 * known. Node 0 is one. */
NUMA_TEST(the_node_of_memory) {
  static char memory[16];
  static const int answers[] = {0, 5, -ENOENT, -1};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
    machine.node = answers[i];
    assert_int_equal(cr_numa_node_of(&memory[3]), answers[i] < 0 ? -1 : answers[i]);
    assert_int_equal(machine.pages, 1);
    assert_ptr_equal(machine.page, &memory[3]);
  }
  machine.node = 3;
  machine.failure = EPERM;
  assert_int_equal(cr_numa_node_of(memory), -1);
}

/* Whole pages are bound to exactly one node and moved; the kernel counts one bit more than it
 * reads. */
NUMA_TEST(memory_is_bound) {
  enum { BIND = 2, MOVE = 2 };
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  static const struct {
    uintptr_t offset;
    size_t bytes, pages;
  } rows[] = {{0, 1, 1}, {5, 10, 1}, {0, 4096, 1}, {1, 4096, 2}, {4095, 2, 2}, {0, 4097, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows && page == 4096; ++i) {
    int node = (int)i + 2;
    ok(cr_numa_bind((void *)(64 * page + rows[i].offset), rows[i].bytes, node));
    assert_int_equal(machine.binds, (int)i + 1);
    assert_ptr_equal(machine.low, (void *)(64 * page));
    assert_int_equal(machine.bytes, rows[i].pages * page);
    assert_int_equal(machine.mask, 1ul << node);
    assert_int_equal(machine.mask_bits, 8 * sizeof(unsigned long) + 1);
    assert_int_equal(machine.policy, BIND);
    assert_int_equal(machine.flags, MOVE);
  }
  assert_int_equal(cr_numa_bind((void *)(64 * page), 1, 8), CREMA_E_RANGE);
  machine.failure = EIO;
  assert_fails(cr_numa_bind((void *)(64 * page), 7, 1), CREMA_E_IO,
               "cannot move 7 bytes to memory node 1");
  assert_error_has(strerror(EIO));
}

/* What lies here stays; what lies elsewhere, or nobody knows where, comes. */
NUMA_TEST(memory_is_moved_here) {
  static char memory[16];
  machine.here = 4;
  machine.node = 4;
  ok(cr_numa_move_here(memory, 16));
  assert_int_equal(machine.binds, 0);
  assert_ptr_equal(machine.page, &memory[15]);
  machine.node = 3;
  ok(cr_numa_move_here(memory, 16));
  assert_int_equal(machine.binds, 1);
  assert_int_equal(machine.mask, 1ul << 4);
  ok(cr_numa_move_here(memory, 0));
  assert_int_equal(machine.binds, 1);
  machine.node = -ENOENT;
  ok(cr_numa_move_here(memory, 1));
  assert_int_equal(machine.binds, 2);
  cr_numa_enable(false);
  ok(cr_numa_move_here(memory, 1));
  assert_int_equal(machine.binds, 2);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
