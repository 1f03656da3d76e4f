/* Copies, blocks that know how they are released, host memory: rows S0-07, S1-01, S1-09, S1-11 to
 * S1-13, S1-17 to S1-21, S1-38. */
#include "memory/sim_fixture.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "crema/blob.h"
#include "device/backend/current.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/host_memory.h"
#include "device/memory/memory_lock.h"
#include "device/memory/numa.h"
#include "device/memory/pool.h"
#include "device/memory/tracking.h"

enum { SIZE = 300 };

/* Host memory that is counted, and not zero when it is new. */
static void *counting_alloc(void *user, size_t bytes, size_t alignment) {
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
  memset(memory, 0x77, bytes);
  ++*(int *)user;
  return memory;
}

static void counting_free(void *user, void *memory) {
  free(memory);
  --*(int *)user;
}

TEST(s0_07_s1_12_directions_are_found_by_address) {
  cr_sim_options options = sim_test_options(3);
  options.peer[2][0] = false;
  sim_begin(&options);
  crema_devptr device[3], again = {0};
  for (int i = 0; i < 3; ++i) {
    ok(cr_device_alloc(sim_test_device(i), SIZE, &device[i]));
  }
  ok(cr_device_alloc(sim_test_device(0), SIZE, &again));
  unsigned char a[SIZE], b[SIZE] = {0}, seen[SIZE];
  memset(a, 3, SIZE);
  cr_sim_reset_counts();
  ok(cr_copy_any((uintptr_t)b, (uintptr_t)a, SIZE));
  assert_memory_equal(a, b, SIZE);
  ok(cr_copy_any(device[0].address, (uintptr_t)a, SIZE));
  ok(cr_copy_any(again.address, device[0].address, SIZE));
  memset(b, 0, SIZE);
  ok(cr_copy_any((uintptr_t)b, again.address, SIZE));
  assert_memory_equal(a, b, SIZE);
  assert_int_equal(cr_sim_count(CR_SIM_H2D, 0), 1);
  assert_int_equal(cr_sim_count(CR_SIM_D2D, 0), 1);
  assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), 1);
  /* Between devices: directly, or by way of the host where they do not reach each other. */
  ok(cr_copy_any(device[1].address, device[0].address, SIZE));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 1), 1);
  ok(cr_copy_any(device[2].address, device[0].address, SIZE));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 2), 0);
  assert_int_equal(cr_sim_count(CR_SIM_H2D, 2), 1);
  for (int i = 1; i < 3; ++i) {
    assert_true(cr_sim_peek(device[i], seen, SIZE));
    assert_memory_equal(seen, a, SIZE);
  }
  cr_sim_reset_counts();
  const cr_sim_record *log = NULL;
  ok(cr_copy_any(again.address, again.address, SIZE));
  ok(cr_copy_any(0, 0, 0));
  assert_int_equal(cr_sim_log(&log), 0);
  assert_int_equal(cr_copy_any(0, again.address, SIZE), CREMA_E_ARGUMENT);
  for (int i = 0; i < 3; ++i) cr_device_free(sim_test_device(i), device[i]);
  cr_device_free(sim_test_device(0), again);
  sim_end();
}

/* Devices of different groups of eight are not connected when they are opened (S1-37): the first
 * copy between them does that. */
TEST(s0_07_copies_between_groups_of_devices) {
  cr_sim_options options = sim_test_options(10);
  options.peer[1][9] = false;
  sim_begin(&options);
  crema_devptr memory[10] = {{0}};
  unsigned char sent[SIZE], seen[SIZE];
  memset(sent, 3, SIZE);
  for (int i = 0; i < 10; ++i) {
    ok(cr_device_alloc(sim_test_device(i), SIZE, &memory[i]));
  }
  ok(cr_copy_any(memory[9].address, (uintptr_t)sent, SIZE));
  cr_sim_reset_counts();
  ok(cr_copy_any(memory[0].address, memory[9].address, SIZE));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 0), 1);
  /* By way of the host, whose memory for that is freed, also when the second half fails. */
  int live = 0;
  crema_host_allocator counted = {counting_alloc, counting_free, &live};
  cr_host_set_allocator(&counted);
  ok(cr_copy_any(memory[1].address, memory[9].address, SIZE));
  assert_int_equal(live, 0);
  cr_sim_fail(CR_SIM_H2D, 1, CREMA_E_DEVICE, false);
  assert_int_equal(cr_copy_any(memory[1].address, memory[9].address, SIZE), CREMA_E_DEVICE);
  assert_int_equal(live, 0);
  cr_host_set_allocator(NULL);
  for (int i = 0; i < 2; ++i) {
    assert_true(cr_sim_peek(memory[i], seen, SIZE));
    assert_memory_equal(seen, sent, SIZE);
  }
  for (int i = 0; i < 10; ++i) cr_device_free(sim_test_device(i), memory[i]);
  sim_end();
}

typedef struct copying {
  uintptr_t to, from;
} copying;

static crema_status copy_between(void *arg) {
  const copying *c = arg;
  return cr_copy_any(c->to, c->from, SIZE);
}

/* Connecting two devices counts as a collective: it waits for those who allocate. Where it fails
 * the copy goes by way of the host. */
TEST(s1_27_s4_07_a_copy_connects_devices_beside_no_allocation) {
  cr_sim_options options = sim_test_options(9);
  sim_begin(&options);
  crema_devptr first = {0}, last = {0};
  unsigned char sent[SIZE], seen[SIZE];
  cr_thread *thread = NULL;
  memset(sent, 3, SIZE);
  ok(cr_device_alloc(sim_test_device(0), SIZE, &first));
  ok(cr_device_alloc(sim_test_device(8), SIZE, &last));
  ok(cr_copy_any(first.address, (uintptr_t)sent, SIZE));
  cr_sim_reset_counts();
  copying there = {last.address, first.address};
  cr_memory_lock_shared();
  ok(cr_thread_start(&thread, "copy", copy_between, &there));
  cr_clock_sleep(0.02);
  assert_int_equal(cr_sim_count(CR_SIM_ENABLE_PEER, -1), 0);
  cr_memory_unlock_shared();
  ok(cr_thread_join(&thread));
  assert_int_equal(cr_sim_count(CR_SIM_ENABLE_PEER, 8), 1);
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 8), 1);
  cr_sim_fail(CR_SIM_ENABLE_PEER, 1, CREMA_E_DEVICE, false);
  ok(cr_copy_any(last.address, first.address, SIZE));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 8), 1);
  assert_int_equal(cr_sim_count(CR_SIM_H2D, 8), 1);
  assert_true(cr_sim_peek(last, seen, SIZE));
  assert_memory_equal(seen, sent, SIZE);
  cr_device_free(sim_test_device(0), first);
  cr_device_free(sim_test_device(8), last);
  sim_end();
}

static crema_status no_alias(crema_device *device, void *memory, crema_devptr *out) {
  (void)device;
  (void)memory;
  (void)out;
  return cr_fail(CREMA_E_DEVICE, "no alias");
}

/* A page-locked buffer that the device cannot reach is not kept. */
TEST(s4_24_a_buffer_without_an_alias) {
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  const cr_backend *whole = device->backend;
  cr_backend backend = *whole;
  backend.host_alias = no_alias;
  device->backend = &backend;
  cr_block block;
  crema_devptr alias = {0};
  assert_int_equal(cr_block_new_pinned(device, SIZE, &block, &alias), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "no alias");
  device->backend = whole;
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(crema_pinned_bytes(), 0);
  sim_end();
}

TEST(s1_09_nothing_from_nowhere) {
  crema_context *context = cr_host_context();
  int value = 5, other = 0;
  crema_devptr none = {0}, a = {(uintptr_t)&value}, b = {(uintptr_t)&other};
  ok(cr_copy_same_device(context, none, none, 0));
  assert_int_equal(cr_copy_same_device(context, none, a, 4), CREMA_E_ARGUMENT);
  assert_int_equal(cr_copy_same_device(context, b, none, 4), CREMA_E_ARGUMENT);
  ok(cr_copy_same_device(context, b, a, 4));
  assert_int_equal(other, 5);
}

TEST(s1_11_copies_to_a_type) {
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr a = {0}, b = {0};
  unsigned char host[SIZE];
  ok(cr_device_alloc(device, SIZE, &a));
  ok(cr_device_alloc(device, SIZE, &b));
  cr_sim_reset_counts();
  ok(cr_copy_to_type(context, CREMA_DEVICE_SIM, b.address, a, SIZE));
  ok(cr_copy_to_type(context, CREMA_DEVICE_CPU, (uintptr_t)host, a, SIZE));
  assert_int_equal(cr_sim_count(CR_SIM_D2D, 0), 1);
  assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), 1);
  assert_fails(cr_copy_to_type(context, CREMA_DEVICE_CUDA, b.address, a, SIZE), CREMA_E_UNSUPPORTED,
               "sim");
  int one = 1, two = 0;
  ok(cr_copy_to_type(cr_host_context(), CREMA_DEVICE_CPU, (uintptr_t)&two,
                     (crema_devptr){(uintptr_t)&one}, sizeof one));
  assert_int_equal(two, 1);
  assert_int_equal(cr_copy_to_type(context, (crema_device_type)9, b.address, a, SIZE),
                   CREMA_E_UNSUPPORTED);
  assert_fails(cr_copy_to_type(cr_host_context(), CREMA_DEVICE_SIM, b.address, a, SIZE),
               CREMA_E_UNSUPPORTED, "cpu");
  assert_error_has("sim");
  ok(crema_context_finish(context));
  cr_device_free(device, a);
  cr_device_free(device, b);
  crema_context_destroy(context);
  sim_end();
}

typedef struct named {
  int number;
  int copies;
} named;

static void copy_named(const void *src, void *dst) {
  ((named *)dst)->number = ((const named *)src)->number;
  ((named *)dst)->copies++;
}

TEST(s1_13_items_with_a_copy_function) {
  named from[3] = {{1, 0}, {2, 0}, {3, 0}}, to[3] = {{0, 0}};
  cr_item_type hooked = {sizeof(named), "named", copy_named};
  cr_item_type plain = {sizeof(named), "bytes", NULL};
  crema_context *host = cr_host_context();
  ok(cr_copy_items(host, &hooked, 3, (uintptr_t)to, (uintptr_t)from));
  for (int i = 0; i < 3; ++i) assert_true(to[i].number == i + 1 && to[i].copies == 1);
  ok(cr_copy_items(host, &plain, 3, (uintptr_t)to, (uintptr_t)from));
  assert_int_equal(to[0].copies, 0);
  ok(cr_copy_items(host, &hooked, 0, 0, 0));
  assert_int_equal(cr_copy_items(host, &hooked, 1, 0, (uintptr_t)from), CREMA_E_ARGUMENT);
  assert_int_equal(cr_copy_items(host, &plain, SIZE_MAX, (uintptr_t)to, (uintptr_t)from),
                   CREMA_E_RANGE);
  sim_begin_devices(1);
  crema_context *context = sim_test_context(sim_test_device(0));
  crema_devptr memory = {0};
  ok(cr_device_alloc(sim_test_device(0), 2 * sizeof from, &memory));
  assert_fails(cr_copy_items(context, &hooked, 3, memory.address, memory.address + 24),
               CREMA_E_UNSUPPORTED, "requires fundamental types");
  ok(cr_copy_items(context, &plain, 3, memory.address, memory.address + 24));
  ok(crema_context_finish(context));
  cr_device_free(sim_test_device(0), memory);
  crema_context_destroy(context);
  sim_end();
}

/* ---- blocks ---- */

/* What a program hands over is what blobs get their memory from, from then on. */
TEST(s1_17_a_program_brings_its_allocator) {
  int live = 0;
  crema_shape shape = {.axes = 1, .dim = {SIZE}};
  const crema_host_allocator counted = {counting_alloc, counting_free, &live};
  const crema_host_allocator no_alloc = {NULL, counting_free, &live};
  const crema_host_allocator no_free = {counting_alloc, NULL, &live};
  crema_blob *blob = NULL;
  float *values = NULL;
  ok(crema_host_set_allocator(&counted));
  assert_fails(crema_host_set_allocator(&no_alloc), CREMA_E_ARGUMENT, "no function to allocate");
  assert_fails(crema_host_set_allocator(&no_free), CREMA_E_ARGUMENT, "no function to free");
  ok(crema_blob_create(&shape, &blob));
  ok(crema_blob_mutable_cpu_data(blob, &values));
  assert_int_equal(live, 1);
  ok(crema_host_set_allocator(NULL));
  ok(crema_blob_mutable_cpu_diff(blob, &values));
  assert_int_equal(live, 1);
  crema_blob_destroy(blob);
  assert_int_equal(live, 0);
}

TEST(s1_01_s1_17_the_release_is_chosen_at_allocation) {
  int live_a = 0, live_b = 0;
  crema_host_allocator a = {counting_alloc, counting_free, &live_a};
  crema_host_allocator b = {counting_alloc, counting_free, &live_b};
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  cr_block block[4];
  ok(cr_block_new(cr_cpu_device(), SIZE, NULL, &block[0]));
  cr_host_set_allocator(&a);
  ok(cr_block_new(cr_cpu_device(), SIZE, NULL, &block[1]));
  assert_int_equal(live_a, 1);
  cr_host_set_allocator(&b);
  ok(cr_block_new(device, SIZE, &(cr_block_options){.pinned = true}, &block[2]));
  ok(cr_block_new(device, SIZE, NULL, &block[3]));
  assert_int_equal(live_b, 1);
  /* Every setting of the process and of the thread changes before they are freed. */
  cr_host_set_allocator(NULL);
  cr_block_report_enable(true);
  cr_numa_enable(true);
  cr_tracking_enable(true);
  ok(cr_device_set_current(device));
  for (int i = 0; i < 4; ++i) ok(cr_block_free(&block[i]));
  ok(cr_device_set_current(cr_cpu_device()));
  cr_tracking_enable(false);
  cr_numa_enable(false);
  cr_block_report_enable(false);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(cr_pool_describe(device->pool).live_blocks, 0);
  assert_int_equal(live_a, 0);
  assert_int_equal(live_b, 0);
  assert_int_equal(cr_block_report_read().bytes, 0);
  assert_int_equal(block[0].address, 0);
  ok(cr_block_free(&block[0]));
  cr_block none;
  ok(cr_block_new(device, 0, NULL, &none));
  assert_int_equal(none.address, 0);
  sim_end();
}

TEST(s1_17_alignment_of_every_size) {
  for (size_t bytes = 1; bytes < 5000; ++bytes) {
    cr_block block;
    ok(cr_block_new(cr_cpu_device(), bytes, NULL, &block));
    assert_int_equal(block.address % 64, 0);
    ok(cr_block_free(&block));
  }
}

TEST(s1_18_zero_fill) {
  int live = 0;
  crema_host_allocator poisoned = {counting_alloc, counting_free, &live};
  cr_host_set_allocator(&poisoned);
  cr_block zeroed, raw;
  ok(cr_block_new(cr_cpu_device(), SIZE, NULL, &zeroed));
  ok(cr_block_new(cr_cpu_device(), SIZE, &(cr_block_options){.keep_content = true}, &raw));
  for (int i = 0; i < SIZE; ++i) {
    assert_int_equal(((unsigned char *)zeroed.address)[i], 0);
    assert_int_equal(((unsigned char *)raw.address)[i], 0x77);
  }
  ok(cr_block_free(&zeroed));
  ok(cr_block_free(&raw));
  cr_host_set_allocator(NULL);
  assert_int_equal(live, 0);
}

/* ---- memory nodes ---- */

static struct {
  int nodes, current, bound_to, failure, calls;
  uintptr_t low;
  size_t bytes;
} machine;

static int machine_nodes(void) {
  return machine.nodes;
}
static int machine_current(void) {
  return machine.current;
}
static int machine_node_of(const void *memory) {
  (void)memory;
  return machine.bound_to;
}

static int machine_bind(void *low, size_t bytes, int node) {
  ++machine.calls;
  machine.low = (uintptr_t)low;
  machine.bytes = bytes;
  machine.bound_to = node;
  return machine.failure;
}

TEST(s1_19_s1_20_memory_nodes) {
  static const cr_numa_system shim = {machine_nodes, machine_current, machine_node_of,
                                      machine_bind};
  char memory[10];
  cr_numa_use(&shim);
  machine.nodes = 4;
  machine.current = 2;
  machine.bound_to = -1;
  /* Off: nothing happens, nothing is known. */
  ok(cr_numa_move_here(memory, 10));
  ok(cr_numa_bind(memory, 10, 1));
  assert_int_equal(machine.calls, 0);
  assert_int_equal(cr_numa_node_of(memory), -1);
  assert_int_equal(cr_numa_nodes(), -1);
  assert_int_equal(cr_numa_current_node(), -1);
  cr_numa_enable(true);
  assert_int_equal(cr_numa_nodes(), 4);
  assert_int_equal(cr_numa_current_node(), 2);
  ok(cr_numa_move_here((void *)0x12345, 10000));
  assert_int_equal(machine.bound_to, 2);
  assert_int_equal(machine.low, 0x12000);
  assert_int_equal(machine.bytes, 0x15000 - 0x12000);
  assert_int_equal(cr_numa_node_of(memory), 2);
  /* What lies there already stays, once both of its ends do. */
  ok(cr_numa_move_here(memory, 10));
  ok(cr_numa_bind(memory, 10, -1));
  assert_int_equal(machine.calls, 1);
  assert_int_equal(cr_numa_bind(memory, 10, 4), CREMA_E_RANGE);
  machine.nodes = 200;
  assert_int_equal(cr_numa_bind(memory, 10, 64), CREMA_E_RANGE);
  machine.failure = 1;
  assert_int_equal(cr_numa_bind(memory, 10, 3), CREMA_E_IO);
  /* A block that cannot be placed is not made. */
  cr_block block;
  assert_int_equal(cr_block_new(cr_cpu_device(), SIZE, NULL, &block), CREMA_E_IO);
  machine.failure = 0;
  ok(cr_block_new(cr_cpu_device(), SIZE, NULL, &block));
  /* The switch between allocation and release is harmless (S1-38). */
  cr_numa_enable(false);
  ok(cr_block_free(&block));
  cr_numa_use(NULL);
  cr_numa_enable(true);
  assert_true(cr_numa_nodes() >= 1);
  cr_numa_enable(false);
}

TEST(s1_19_the_real_machine) {
  cr_numa_enable(true);
  int nodes = cr_numa_nodes();
  if (nodes < 2) {
    cr_numa_enable(false);
    skip(); /* one node: there is nothing to choose */
  }
  /* Placed on each node in turn, and found there. */
  size_t bytes = (size_t)1 << 20;
  for (int node = 0; node < nodes; ++node) {
    void *memory = NULL;
    ok(cr_host_alloc(bytes, &memory));
    if (cr_numa_bind(memory, bytes, node) == CREMA_OK) {
      memset(memory, 1, bytes);
      assert_int_equal(cr_numa_node_of((char *)memory + bytes / 2), node);
    }
    cr_host_free(memory);
  }
  cr_numa_enable(false);
}

static crema_status make_pinned(void *arg) {
  cr_block *block = arg;
  return cr_block_new(sim_test_device(0), SIZE, &(cr_block_options){.pinned = true}, block);
}

TEST(s1_38_pinned_memory) {
  cr_block before, pinned = {0};
  ok(cr_block_new(cr_cpu_device(), SIZE, NULL, &before));
  sim_begin_devices(1);
  ok(cr_device_set_current(sim_test_device(0)));
  /* Page-locked memory is zero, whatever was there before, and is not allocated while a collective
   * is launched. */
  cr_thread *thread = NULL;
  int live = 0;
  crema_host_allocator poisoned = {counting_alloc, counting_free, &live};
  cr_host_set_allocator(&poisoned);
  cr_collective_begin();
  ok(cr_thread_start(&thread, "pinned", make_pinned, &pinned));
  cr_clock_sleep(0.02);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  cr_collective_end();
  ok(cr_thread_join(&thread));
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  assert_int_equal(crema_pinned_bytes(), SIZE);
  for (int i = 0; i < SIZE; ++i) assert_int_equal(((unsigned char *)pinned.address)[i], 0);
  /* Memory that was made before the thread worked on a device goes back to where it came from. */
  ok(cr_block_free(&before));
  ok(cr_block_free(&pinned));
  assert_int_equal(cr_sim_count(CR_SIM_HOST_FREE, -1), 1);
  assert_int_equal(crema_pinned_bytes(), 0);
  cr_host_set_allocator(NULL);
  sim_end();
}

/* Page-locked memory is placed like other host memory, and the switch may be flipped while it
 * lives. */
TEST(s1_38_placed_pinned_memory) {
  static const cr_numa_system shim = {machine_nodes, machine_current, machine_node_of,
                                      machine_bind};
  sim_begin_devices(1);
  cr_block_options pinned = {.pinned = true};
  cr_numa_use(&shim);
  machine.nodes = 2;
  machine.current = 1;
  machine.bound_to = -1;
  machine.failure = 0;
  for (int on = 0; on < 2; ++on) {
    cr_block block;
    machine.calls = 0;
    cr_numa_enable(on == 1);
    ok(cr_block_new(sim_test_device(0), SIZE, &pinned, &block));
    assert_int_equal(machine.calls, on);
    assert_true(cr_sim_is_pinned((const void *)block.address));
    cr_numa_enable(on == 0);
    ok(cr_block_free(&block));
    assert_int_equal(cr_sim_pinned_blocks(), 0);
  }
  /* Memory that cannot be placed is not kept. */
  cr_block block;
  cr_numa_enable(true);
  machine.bound_to = -1;
  machine.failure = 1;
  assert_int_equal(cr_block_new(sim_test_device(0), SIZE, &pinned, &block), CREMA_E_IO);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  machine.failure = 0;
  cr_numa_enable(false);
  cr_numa_use(NULL);
  sim_end();
}

static crema_status make_and_free(void *arg) {
  (void)arg;
  for (int i = 0; i < 1000; ++i) {
    cr_block block;
    CR_TRY(cr_block_new(cr_cpu_device(), 64, NULL, &block));
    if (i % 10 == 0) cr_block_report_enable(i % 20 == 0);
    CR_TRY(cr_block_free(&block));
  }
  return CREMA_OK;
}

TEST(s1_21_the_host_memory_report) {
  cr_block before, during;
  ok(cr_block_new(cr_cpu_device(), 100, NULL, &before));
  cr_block_report_enable(true);
  ok(cr_block_new(cr_cpu_device(), 200, NULL, &during));
  assert_int_equal(cr_block_report_read().blocks, 1);
  assert_int_equal(cr_block_report_read().bytes, 200);
  ok(cr_block_free(&before));
  assert_int_equal(cr_block_report_read().bytes, 200);
  cr_block_report_enable(false);
  ok(cr_block_free(&during));
  assert_int_equal(cr_block_report_read().blocks, 0);
  assert_int_equal(cr_block_report_read().bytes, 0);
  /* Memory that is not listed is not released: neither a second time nor at a foreign address. */
  cr_block twice, foreign;
  cr_block_report_enable(true);
  ok(cr_block_new(cr_cpu_device(), 100, NULL, &twice));
  cr_block again = twice;
  foreign = twice;
  foreign.address += 64;
  assert_int_equal(cr_block_free(&foreign), CREMA_E_ARGUMENT);
  ok(cr_block_free(&twice));
  assert_int_equal(cr_block_free(&again), CREMA_E_ARGUMENT);
  cr_block_report_enable(false);
  cr_thread *thread[4] = {0};
  for (int i = 0; i < 4; ++i) {
    ok(cr_thread_start(&thread[i], "blocks", make_and_free, NULL));
  }
  for (int i = 0; i < 4; ++i) ok(cr_thread_join(&thread[i]));
  cr_block_report_enable(false);
  assert_int_equal(cr_block_report_read().blocks, 0);
  assert_int_equal(cr_block_report_read().bytes, 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
