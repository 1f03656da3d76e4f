/* The simulated devices themselves: what tests of everything else rely on. Memory, copies that must
 * not be, faults, counters, the log, races that are there and races that are not. */
#include <dirent.h>
#include <unistd.h>

#include "core/clock.h"
#include "crema/crema.h"
#include "device/backend/current.h"
#include "device/copy.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"
#include "device/registry.h"
#include "memory/sim_fixture.h"

enum { SPAN = 6 << 20 /* the memory of the fixture, and a large page */ };

/* ---- helpers ---- */

/* Device memory past the pool, straight from the simulated driver. */
static crema_devptr driver_alloc(crema_device *device, size_t bytes) {
  crema_devptr memory = {0};
  ok(device->backend->alloc(device, bytes, &memory));
  return memory;
}

static void driver_free(crema_device *device, crema_devptr memory) {
  device->backend->free(device, memory);
}

static crema_devptr at(crema_devptr memory, size_t offset) {
  return (crema_devptr){memory.address + offset};
}

static crema_status copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                         size_t bytes) {
  return context->device->backend->copy(context, kind, dst, src, bytes);
}

static void assert_race(size_t races, const char *says) {
  char text[256];
  assert_int_equal(cr_sim_races(text, sizeof text), races);
  if (strstr(text, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, says);
}

static crema_device *start(int devices, bool stepped) {
  cr_sim_options options = sim_test_options(devices);
  options.stepped = stepped;
  sim_begin(&options);
  return sim_test_device(0);
}

/* ---- memory ---- */

/* Blocks lie one behind another, begin at multiples of 256 bytes, and take the first gap that is
 * large enough. */
TEST(blocks_take_the_first_gap) {
  crema_device *device = start(1, false);
  crema_devptr a = driver_alloc(device, 1), b = driver_alloc(device, 1000);
  crema_devptr c = driver_alloc(device, 256), d = driver_alloc(device, 300);
  assert_int_equal(b.address - a.address, 256);
  assert_int_equal(c.address - b.address, 1024);
  assert_int_equal(d.address - c.address, 256);
  assert_int_equal(cr_sim_live_blocks(0), 4);
  assert_int_equal(cr_sim_live_bytes(0), 256 + 1024 + 256 + 512);
  driver_free(device, b);
  assert_int_equal(cr_sim_live_blocks(0), 3);
  assert_int_equal(cr_sim_live_bytes(0), 256 + 256 + 512);
  /* Too large for the gap, too small to fill it, what fills the rest, and what finds none. */
  crema_devptr e = driver_alloc(device, 1025), f = driver_alloc(device, 512);
  crema_devptr g = driver_alloc(device, 512), h = driver_alloc(device, 1);
  assert_int_equal(e.address - d.address, 512);
  assert_int_equal(f.address, b.address);
  assert_int_equal(g.address, b.address + 512);
  assert_int_equal(h.address - e.address, 1280);
  driver_free(device, a);
  a = driver_alloc(device, 256);
  assert_int_equal(a.address + 256, b.address);
  const crema_devptr all[] = {a, c, d, e, f, g, h};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) driver_free(device, all[i]);
  assert_int_equal(cr_sim_live_bytes(0), 0);
  sim_end();
}

TEST(many_blocks_are_kept_apart) {
  enum { BLOCKS = 200 };
  crema_device *device = start(1, false);
  crema_context *context = sim_test_context(device);
  crema_devptr block[BLOCKS];
  unsigned char value[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) {
    value[i] = (unsigned char)(i + 1);
    block[i] = driver_alloc(device, 100);
    ok(copy(context, CR_COPY_HOST_TO_DEVICE, block[i].address + 99, (uintptr_t)&value[i], 1));
  }
  ok(crema_context_finish(context));
  for (int i = 0; i < BLOCKS; i += 2) driver_free(device, block[i]);
  for (int i = 0; i < BLOCKS; ++i) {
    unsigned char found = 0;
    assert_true(cr_sim_peek(at(block[i], 99), &found, 1) == (i % 2 == 1));
    if (i % 2 == 1) assert_int_equal(found, i + 1);
  }
  for (int i = 1; i < BLOCKS; i += 2) driver_free(device, block[i]);
  crema_context_destroy(context);
  sim_end();
}

/* Nothing outside a block in use can be read, whatever block lies beside it. */
TEST(bounds_are_those_of_one_block) {
  crema_device *device = start(2, false), *second = sim_test_device(1);
  crema_devptr a = driver_alloc(device, 256), b = driver_alloc(device, 100);
  crema_devptr c = driver_alloc(second, 100);
  char bytes[512];
  assert_true(cr_sim_peek(a, bytes, 256));
  assert_int_equal((unsigned char)bytes[0], 0xA5);
  assert_int_equal((unsigned char)bytes[255], 0xA5);
  assert_true(cr_sim_peek(a, bytes, 0));
  assert_false(cr_sim_peek(a, bytes, 257));
  assert_true(cr_sim_peek(at(a, 255), bytes, 1));
  assert_false(cr_sim_peek(at(a, 255), bytes, 2));
  assert_true(cr_sim_peek(b, bytes, 100));
  assert_false(cr_sim_peek(b, bytes, 101));
  assert_false(cr_sim_peek(at(b, 101), bytes, 0));
  assert_false(cr_sim_peek(at(b, 101), bytes, 1));
  assert_false(cr_sim_peek(at(b, 300), bytes, 1));
  assert_false(cr_sim_peek((crema_devptr){a.address - 1}, bytes, 1));
  assert_int_equal(device->backend->owner(a.address), 0);
  assert_int_equal(device->backend->owner(c.address), 1);
  assert_int_equal(device->backend->owner(a.address - 1), -1);
  assert_int_equal(device->backend->owner(a.address + SPAN - 1), 0);
  assert_int_equal(device->backend->owner(a.address + SPAN), 1);
  assert_int_equal(device->backend->owner(a.address + 2 * (uintptr_t)SPAN - 1), 1);
  assert_int_equal(device->backend->owner(a.address + 2 * (uintptr_t)SPAN), -1);
  assert_int_equal(device->backend->owner((uintptr_t)bytes), -1);
  driver_free(device, a);
  assert_false(cr_sim_peek(a, bytes, 1));
  assert_true(cr_sim_peek(b, bytes, 1));
  driver_free(device, b);
  driver_free(second, c);
  sim_end();
  assert_int_equal(cr_backend_sim.owner(a.address), -1);
}

TEST(memory_runs_out_to_the_byte) {
  size_t free_bytes = 0, total = 0;
  crema_devptr memory = {0};
  crema_device *device = start(2, false);
  crema_devptr a = driver_alloc(device, SIM_TEST_MEMORY - 512);
  ok(device->backend->memory_info(device, &free_bytes, &total));
  assert_int_equal(free_bytes, 512);
  assert_int_equal(total, SIM_TEST_MEMORY);
  assert_fails(device->backend->alloc(device, 513, &memory), CREMA_E_NO_MEMORY,
               "no 513 bytes left on sim:0 (4193792 of 4194304 are in use)");
  crema_devptr b = driver_alloc(device, 512);
  assert_int_equal(device->backend->alloc(device, 1, &memory), CREMA_E_NO_MEMORY);
  driver_free(device, b);
  /* Another process takes some. */
  cr_sim_set_foreign_bytes(0, 256);
  ok(device->backend->memory_info(device, &free_bytes, &total));
  assert_int_equal(free_bytes, 256);
  assert_int_equal(device->backend->alloc(device, 257, &memory), CREMA_E_NO_MEMORY);
  b = driver_alloc(device, 256);
  cr_sim_set_foreign_bytes(0, 4096);
  ok(device->backend->memory_info(device, &free_bytes, &total));
  assert_int_equal(free_bytes, 0);
  assert_int_equal(device->backend->alloc(device, 1, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(device->backend->alloc(device, SIZE_MAX, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(memory.address, 0);
  /* The others have their own. */
  crema_device *second = sim_test_device(1);
  ok(device->backend->memory_info(second, &free_bytes, &total));
  assert_int_equal(free_bytes, SIM_TEST_MEMORY);
  cr_sim_set_foreign_bytes(0, 0);
  driver_free(device, b);
  driver_free(device, a);
  sim_end();
}

TEST(wrong_releases_are_found) {
  crema_device *device = start(2, false), *second = sim_test_device(1);
  crema_devptr a = driver_alloc(device, 512), b = driver_alloc(second, 512);
  driver_free(device, at(a, 256));
  assert_race(1, "memory is released that is not in use");
  driver_free(device, b);
  assert_race(2, "memory is released that is not in use");
  assert_int_equal(cr_sim_live_blocks(0) + cr_sim_live_blocks(1), 2);
  driver_free(device, a);
  driver_free(second, b);
  assert_race(2, "");
  driver_free(device, a);
  assert_race(3, "memory is released that is not in use");
  int host = 0;
  device->backend->host_free(device, &host);
  assert_race(4, "host memory is released as page-locked that is not");
  device->backend->host_free(device, NULL);
  sim_end_with_races(4);
}

/* ---- page-locked memory ---- */

TEST(page_locked_blocks_are_known) {
  enum { BLOCKS = 100 };
  void *block[BLOCKS];
  char byte;
  crema_devptr alias = {0};
  crema_device *device = start(1, false);
  for (int i = 0; i < BLOCKS; ++i) {
    ok(device->backend->host_alloc(device, 64, &block[i]));
    memset(block[i], i, 64);
  }
  assert_int_equal(cr_sim_pinned_blocks(), BLOCKS);
  assert_true(cr_sim_is_pinned(block[0]));
  assert_true(cr_sim_is_pinned(block[BLOCKS - 1]));
  assert_false(cr_sim_is_pinned(&byte));
  /* Its own alias, within its bounds. */
  ok(device->backend->host_alias(device, block[7], &alias));
  assert_int_equal(alias.address, (uintptr_t)block[7]);
  assert_fails(device->backend->host_alias(device, &byte, &alias), CREMA_E_ARGUMENT,
               "is not page-locked for sim:0");
  assert_true(cr_sim_peek(at(alias, 63), &byte, 1));
  assert_int_equal(byte, 7);
  assert_false(cr_sim_peek(at(alias, 63), &byte, 2));
  assert_true(cr_sim_peek(at(alias, 64), &byte, 0));
  for (int i = 0; i < BLOCKS; ++i) {
    assert_int_equal(((char *)block[i])[63], i);
    device->backend->host_free(device, block[i]);
    assert_false(cr_sim_is_pinned(block[i]));
    assert_int_equal(cr_sim_pinned_blocks(), BLOCKS - 1 - i);
  }
  sim_end();
}

/* ---- copies ---- */

TEST(copies_that_cannot_be_are_refused) {
  char host[64] = "";
  cr_sim_options options = sim_test_options(2);
  options.peer[0][1] = false;
  sim_begin(&options);
  crema_device *device = sim_test_device(0), *second = sim_test_device(1);
  crema_context *context = sim_test_context(device);
  crema_devptr a = driver_alloc(device, 64), b = driver_alloc(second, 64);
  const uintptr_t here = (uintptr_t)host;
  assert_fails(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, here, 65), CREMA_E_DEVICE,
               "sim:0 has no memory in use at");
  assert_error_has("for 65 bytes");
  assert_int_equal(copy(context, CR_COPY_DEVICE_TO_HOST, here, a.address + 1, 64), CREMA_E_DEVICE);
  assert_fails(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, b.address, 64), CREMA_E_ARGUMENT,
               "is an address of sim:1, not of the host");
  assert_fails(copy(context, CR_COPY_DEVICE_TO_HOST, a.address, b.address, 64), CREMA_E_ARGUMENT,
               "is an address of sim:0, not of the host");
  assert_int_equal(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, 0, 64), CREMA_E_ARGUMENT);
  assert_string_equal(crema_error_text(), "copy of 64 bytes from nowhere");
  assert_int_equal(copy(context, CR_COPY_DEVICE_TO_HOST, 0, a.address, 64), CREMA_E_ARGUMENT);
  assert_string_equal(crema_error_text(), "copy of 64 bytes to nowhere");
  ok(copy(context, CR_COPY_SAME_DEVICE, a.address, a.address + 63, 1));
  assert_fails(copy(context, CR_COPY_SAME_DEVICE, a.address, a.address + 31, 32), CREMA_E_ARGUMENT,
               "between ranges that overlap");
  assert_int_equal(copy(context, CR_COPY_PEER, a.address, b.address, 64), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "sim:0 has no access to sim:1");
  /* No bytes, or none to move: nothing is looked at. */
  ok(copy(context, CR_COPY_DEVICE_TO_HOST, 0, 0, 0));
  ok(copy(context, CR_COPY_SAME_DEVICE, a.address, a.address, 64));
  assert_int_equal(device->backend->zero(context, a, 65), CREMA_E_DEVICE);
  ok(device->backend->zero(context, (crema_devptr){0}, 0));
  ok(crema_context_finish(context));
  crema_context_destroy(context);
  driver_free(device, a);
  driver_free(second, b);
  sim_end();
}

/* Each byte that was asked for, and none beside. */
TEST(copies_move_their_bytes) {
  char host[300], back[300];
  crema_device *device = start(2, false), *second = sim_test_device(1);
  crema_context *context = sim_test_context(device);
  crema_devptr a = driver_alloc(device, 300), b = driver_alloc(device, 300);
  crema_devptr c = driver_alloc(second, 300);
  for (int i = 0; i < 300; ++i) host[i] = (char)(i * 7);
  const cr_copy_kind kind[] = {CR_COPY_SAME_DEVICE, CR_COPY_PEER};
  ok(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 300));
  for (int k = 0; k < 2; ++k) {
    ok(device->backend->zero(context, b, 300));
    ok(crema_context_finish(context));
    crema_devptr from = k == 0 ? a : c;
    if (k == 1) {
      crema_context *other = sim_test_context(second);
      ok(copy(other, CR_COPY_HOST_TO_DEVICE, c.address, (uintptr_t)host, 300));
      ok(crema_context_finish(other));
      crema_context_destroy(other);
    }
    ok(copy(context, kind[k], b.address + 10, from.address + 20, 200));
    ok(copy(context, CR_COPY_DEVICE_TO_HOST, (uintptr_t)back, b.address, 300));
    ok(crema_context_finish(context));
    for (int i = 0; i < 300; ++i) {
      assert_int_equal(back[i], i >= 10 && i < 210 ? host[i + 10] : 0);
    }
  }
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 0), 300);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 1), 300);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, -1), 600);
  assert_int_equal(cr_sim_bytes(CR_SIM_D2D, 0), 200);
  assert_int_equal(cr_sim_bytes(CR_SIM_PEER, 0), 200);
  assert_int_equal(cr_sim_bytes(CR_SIM_D2H, -1), 600);
  assert_int_equal(cr_sim_count(CR_SIM_ZERO, 0), 2);
  assert_int_equal(cr_sim_count(CR_SIM_ZERO, 1), 0);
  crema_context_destroy(context);
  driver_free(device, a);
  driver_free(device, b);
  driver_free(second, c);
  sim_end();
}

/* A copy takes at least its bytes over the bandwidth and the latency; one direction at a time. */
TEST(links_take_their_time) {
  char host[1000];
  cr_sim_options options = sim_test_options(1);
  options.check_races = false;
  options.bandwidth = 1e5;
  options.latency = 0.004;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *first = sim_test_context(device), *second = sim_test_context(device);
  crema_devptr a = driver_alloc(device, sizeof host), b = driver_alloc(device, sizeof host);
  memset(host, 1, sizeof host);
  double begin = cr_clock_seconds();
  ok(copy(first, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, sizeof host));
  ok(copy(second, CR_COPY_HOST_TO_DEVICE, b.address, (uintptr_t)host, sizeof host));
  ok(crema_context_finish(first));
  assert_true(cr_clock_seconds() - begin >= 0.014);
  ok(crema_context_finish(second));
  assert_true(cr_clock_seconds() - begin >= 0.028);
  crema_context_destroy(second);
  crema_context_destroy(first);
  driver_free(device, a);
  driver_free(device, b);
  sim_end();
}

/* ---- faults, counters, log ---- */

TEST(faults_hit_when_they_are_due) {
  crema_devptr memory = {0};
  crema_device *device = start(1, false);
  cr_sim_fail(CR_SIM_ALLOC, 2, CREMA_E_DEVICE, false);
  cr_sim_fail(CR_SIM_MEMORY_INFO, 1, CREMA_E_IO, false);
  crema_devptr a = driver_alloc(device, 64);
  assert_int_equal(device->backend->alloc(device, 65, &memory), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "simulated failure of: allocation of 65 bytes on sim:0");
  crema_devptr b = driver_alloc(device, 64);
  size_t free_bytes, total;
  assert_int_equal(device->backend->memory_info(device, &free_bytes, &total), CREMA_E_IO);
  ok(device->backend->memory_info(device, &free_bytes, &total));
  /* Whatever comes; then what was outstanding is forgotten. */
  cr_sim_fail(CR_SIM_ANY, 2, CREMA_E_CLOSED, false);
  ok(device->backend->memory_info(device, &free_bytes, &total));
  assert_int_equal(device->backend->alloc(device, 64, &memory), CREMA_E_CLOSED);
  cr_sim_fail(CR_SIM_ANY, 1, CREMA_E_CLOSED, false);
  cr_sim_clear_faults();
  ok(device->backend->memory_info(device, &free_bytes, &total));
  driver_free(device, a);
  driver_free(device, b);
  sim_end();
}

TEST(late_faults_come_out_of_the_wait) {
  char host[64] = "", found[64];
  crema_device *device = start(1, false);
  crema_context *context = sim_test_context(device);
  crema_devptr a = driver_alloc(device, 64);
  cr_sim_fail(CR_SIM_H2D, 1, CREMA_E_DEVICE, true);
  ok(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 64));
  assert_int_equal(crema_context_finish(context), CREMA_E_DEVICE);
  assert_true(cr_sim_peek(a, found, 64));
  assert_int_equal((unsigned char)found[0], 0xA5);
  ok(crema_context_finish(context));
  crema_context_destroy(context);
  driver_free(device, a);
  sim_end();
}

/* Oldest first, with who did what to which bytes. */
TEST(operations_are_logged) {
  enum { MANY = 1500 };
  const cr_sim_record *log = NULL;
  char host[8] = "";
  crema_device *device = start(2, false), *second = sim_test_device(1);
  crema_context *context = sim_test_context(second);
  crema_devptr a = driver_alloc(second, 8);
  cr_sim_reset_counts();
  assert_int_equal(cr_sim_log(&log), 0);
  ok(copy(context, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 8));
  assert_int_equal(cr_sim_log(&log), 1);
  assert_int_equal(log[0].op, CR_SIM_H2D);
  assert_int_equal(log[0].device, 1);
  assert_int_equal(log[0].stream, context->id);
  assert_int_equal(log[0].bytes, 8);
  assert_int_equal(log[0].dst, a.address);
  assert_int_equal(log[0].src, (uintptr_t)host);
  ok(crema_context_finish(context));
  cr_sim_reset_counts();
  size_t free_bytes, total;
  for (int i = 0; i < MANY; ++i) {
    crema_device *asked = i % 3 == 0 ? second : device;
    ok(device->backend->memory_info(asked, &free_bytes, &total));
  }
  assert_int_equal(cr_sim_log(&log), MANY);
  for (int i = 0; i < MANY; ++i) {
    assert_int_equal(log[i].op, CR_SIM_MEMORY_INFO);
    assert_int_equal(log[i].device, i % 3 == 0);
  }
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, 0), 1000);
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, 1), 500);
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, -1), 1500);
  crema_context_destroy(context);
  driver_free(second, a);
  sim_end();
}

/* ---- races ---- */

/* Two streams that nothing orders: any use beside a write of the same bytes. */
TEST(unordered_uses_are_found) {
  static const struct {
    size_t first, second; /* offsets of 64 bytes each */
    bool first_writes, second_writes, found;
  } rows[] = {{0, 0, true, true, true},    {0, 0, true, false, true}, {0, 0, false, true, true},
              {0, 0, false, false, false}, {0, 63, true, true, true}, {63, 0, true, true, true},
              {0, 64, true, true, false},  {64, 0, true, true, false}};
  char host[2][64];
  memset(host, 0, sizeof host);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    crema_device *device = start(1, true);
    crema_context *stream[2] = {sim_test_context(device), sim_test_context(device)};
    crema_devptr a = driver_alloc(device, 256);
    for (int k = 0; k < 2; ++k) {
      bool writes = k == 0 ? rows[i].first_writes : rows[i].second_writes;
      uintptr_t place = a.address + (k == 0 ? rows[i].first : rows[i].second);
      ok(writes ? copy(stream[k], CR_COPY_HOST_TO_DEVICE, place, (uintptr_t)host[k], 64)
                : copy(stream[k], CR_COPY_DEVICE_TO_HOST, (uintptr_t)host[k], place, 64));
    }
    if (rows[i].found) {
      assert_race(1, rows[i].second_writes ? "a write meets an unordered use by another stream"
                                           : "a read meets an unordered write by another stream");
    } else {
      assert_race(0, "");
    }
    for (int k = 0; k < 2; ++k) {
      ok(crema_context_finish(stream[k]));
      crema_context_destroy(stream[k]);
    }
    driver_free(device, a);
    sim_end_with_races(rows[i].found);
  }
}

/* The same stream, or the host that waited in between. */
TEST(ordered_uses_are_no_races) {
  char host[64] = "";
  crema_device *device = start(1, true);
  crema_context *first = sim_test_context(device), *second = sim_test_context(device);
  crema_devptr a = driver_alloc(device, 64);
  for (int i = 0; i < 2; ++i) {
    ok(copy(first, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 64));
  }
  ok(crema_context_finish(first));
  ok(copy(second, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 64));
  assert_race(0, "");
  /* The host, and a release, beside a copy in flight. */
  cr_sim_host_access(host, 64, false);
  assert_race(0, "");
  cr_sim_host_access(host + 63, 1, true);
  assert_race(1, "the host changes memory that a copy in flight uses");
  cr_sim_host_access(host + 64, 1, true);
  assert_race(1, "");
  driver_free(device, a);
  assert_race(2, "memory is released while queued work uses it");
  ok(crema_context_finish(second));
  cr_sim_host_access(host, 64, true);
  assert_race(2, "");
  a = driver_alloc(device, 64);
  ok(copy(second, CR_COPY_DEVICE_TO_HOST, (uintptr_t)host, a.address, 64));
  cr_sim_host_access(host, 1, false);
  assert_race(3, "the host reads memory that a copy in flight writes");
  ok(crema_context_finish(second));
  /* What a copy reads is looked at when it runs, too. */
  ok(copy(second, CR_COPY_HOST_TO_DEVICE, a.address, (uintptr_t)host, 64));
  host[13] ^= 1;
  ok(crema_context_finish(second));
  assert_race(4, "the host changed memory before its copy was done");
  driver_free(device, a);
  crema_context_destroy(second);
  crema_context_destroy(first);
  sim_end_with_races(4);
}

/* ---- the simulation ---- */

TEST(one_runs_at_a_time) {
  cr_sim_options options = sim_test_options(1);
  cr_sim_leaks leaks = {.host_blocks = 7};
  assert_false(cr_sim_running());
  cr_sim_stop(&leaks);
  assert_int_equal(leaks.host_blocks, 7);
  options.devices = CR_SIM_MAX_DEVICES + 1;
  assert_int_equal(cr_sim_start(&options), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "33 simulated devices; 0 to 32 are possible");
  options.devices = -1;
  assert_int_equal(cr_sim_start(&options), CREMA_E_RANGE);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  options.devices = 3;
  sim_begin(&options);
  assert_true(cr_sim_running());
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 3);
  assert_int_equal(cr_sim_start(&options), CREMA_E_STATE);
  assert_string_equal(crema_error_text(), "a simulation is running already");
  sim_end();
  assert_false(cr_sim_running());
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  for (int devices = 0; devices <= CR_SIM_MAX_DEVICES; devices += CR_SIM_MAX_DEVICES) {
    options.devices = devices;
    sim_begin(&options);
    assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), devices);
    sim_end();
  }
}

/* What is not given back is told. */
TEST(leaks_are_counted) {
  void *host = NULL;
  crema_devptr memory = {0};
  cr_sim_leaks leaks = {0};
  crema_device *device = start(1, false);
  ok(device->backend->host_alloc(device, 64, &host));
  ok(cr_device_alloc(device, 1000, &memory));
  assert_int_equal(cr_sim_live_streams(), 0);
  crema_context *context = sim_test_context(device);
  assert_int_equal(cr_sim_live_streams(), 1);
  crema_context_destroy(context);
  cr_sim_stop(&leaks);
  assert_int_equal(leaks.device_blocks, 1);
  assert_true(leaks.device_bytes >= 1000);
  assert_int_equal(leaks.host_blocks, 1);
  assert_int_equal(leaks.streams, 0);
  assert_int_equal(leaks.events, 0);
}

TEST(devices_describe_themselves) {
  crema_device_info info;
  crema_device *device = start(2, false), *second = sim_test_device(1);
  ok(crema_device_describe(second, &info));
  assert_string_equal(info.name, "simulated device 1");
  assert_string_equal(info.library, "the kernels of the CPU");
  assert_int_equal(info.memory_total, SIM_TEST_MEMORY);
  assert_int_equal(info.compute_units, 1);
  assert_int_equal(info.capability_major, 1);
  assert_true(device->backend->can_access_peer(device, second));
  assert_false(device->backend->can_access_peer(device, device));
  sim_end();
}

/* ---- the thread's device ---- */

/* Whatever is done with another device, the thread's own is as before. */
TEST(the_threads_device_stays) {
  enum { BYTES = 64 };
  crema_context *context = NULL, *waiter = NULL;
  crema_event *event = NULL;
  crema_devptr memory = {0};
  crema_device_info info;
  char host[BYTES] = "";
  crema_device *first = start(2, false), *second = sim_test_device(1);
  ok(cr_device_set_current(first));
#define SAME(call)                                \
  do {                                            \
    call;                                         \
    assert_ptr_equal(cr_device_current(), first); \
  } while (0)
#define STAYS(call) SAME(assert_int_equal(call, CREMA_OK))
  STAYS(crema_context_create(second, 1, &context));
  STAYS(crema_context_create(second, 2, &waiter));
  STAYS(crema_device_describe(second, &info));
  STAYS(cr_device_alloc(second, BYTES, &memory));
  STAYS(cr_copy_from_cpu(context, memory, host, BYTES));
  STAYS(crema_event_create(second, &event));
  STAYS(crema_event_record(event, context, NULL));
  STAYS(crema_event_wait(event, waiter));
  SAME((void)crema_event_query(event));
  SAME(assert_int_equal(crema_event_finish(event), CREMA_EVENT_SUCCESS));
  STAYS(crema_context_finish(context));
  STAYS(crema_context_finish(waiter));
  SAME(crema_event_destroy(event));
  SAME(cr_device_free(second, memory));
  SAME(crema_context_destroy(waiter));
  SAME(crema_context_destroy(context));
#undef STAYS
#undef SAME
  sim_end();
}

/* Blocks that came from the driver, not those that it refused. */
TEST(pools_count_what_the_driver_gave) {
  crema_devptr memory[3] = {{0}};
  crema_device *device = start(1, false);
  uint64_t before = cr_pool_describe(device->pool).driver_allocs;
  for (int i = 0; i < 3; ++i) {
    ok(cr_device_alloc(device, (size_t)65536 << i, &memory[i]));
    assert_int_equal(cr_pool_describe(device->pool).driver_allocs, before + (uint64_t)i + 1);
  }
  crema_devptr none = {0};
  assert_int_equal(cr_device_alloc(device, 2 * (size_t)SIM_TEST_MEMORY, &none), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_pool_describe(device->pool).driver_allocs, before + 3);
  for (int i = 0; i < 3; ++i) cr_device_free(device, memory[i]);
  sim_end();
}

/* The memory that such work uses is given back at the end, of each simulation anew. */
TEST(pinned_memory_is_kept_for_queued_work) {
  char bytes[64];
  for (int round = 0; round < 3; ++round) {
    crema_device *device = start(1, true);
    crema_context *context = sim_test_context(device);
    crema_devptr memory = driver_alloc(device, 64);
    for (int i = 0; i < 2; ++i) {
      void *host = NULL;
      assert_int_equal(device->backend->host_alloc(device, 64, &host), CREMA_OK);
      memset(host, 7 + i, 64);
      assert_int_equal(copy(context, CR_COPY_HOST_TO_DEVICE, memory.address, (uintptr_t)host, 64),
                       CREMA_OK);
      device->backend->host_free(device, host);
      assert_race((size_t)i + 1, "memory is released while queued work uses it");
      assert_int_equal(cr_sim_pinned_blocks(), 0);
    }
    assert_int_equal(crema_context_finish(context), CREMA_OK);
    assert_true(cr_sim_peek(memory, bytes, 64));
    assert_true(bytes[0] == 8 && bytes[63] == 8);
    driver_free(device, memory);
    crema_context_destroy(context);
    sim_end_with_races(2);
  }
}

/* Threads of this process that are streams, how many of them sleep, and how often they were
 * switched: read from the system. */
static long count_streams(long *sleeping, long *switches) {
  long streams = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  *sleeping = *switches = 0;
  for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    char path[64], line[128];
    bool is_stream = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
      long number = 0;
      if (strncmp(line, "Name:\tcrema-sim", 15) == 0) is_stream = true;
      if (!is_stream) break;
      if (strncmp(line, "Name:", 5) == 0) ++streams;
      if (strncmp(line, "State:\tS", 8) == 0) ++*sleeping;
      if (sscanf(line, "%*[a-z]_ctxt_switches: %ld", &number) == 1) *switches += number;
    }
    if (file != NULL) fclose(file);
  }
  closedir(tasks);
  return streams;
}

/* Streams without work are asleep, after a while, and stay so. */
TEST(idle_streams_sleep) {
  enum { TRIES = 1000 };
  if (access("/proc/self/task", R_OK) != 0) skip(); /* nothing tells whether threads sleep */
  crema_device *device = start(1, false);
  crema_context *context = sim_test_context(device);
  crema_devptr memory = driver_alloc(device, 64);
  assert_int_equal(device->backend->zero(context, memory, 64), CREMA_OK);
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  long sleeping = 0, switches = 0, before = -1, streams = 0;
  int quiet = 0;
  for (int i = 0; i < TRIES && quiet < 3; ++i) {
    cr_clock_sleep(5e-3);
    streams = count_streams(&sleeping, &switches);
    /* Its thread may have to wait for a processor before it has its name. */
    quiet = streams == 1 && sleeping == 1 && switches == before ? quiet + 1 : 0;
    before = switches;
  }
  assert_int_equal(quiet, 3);
  driver_free(device, memory);
  crema_context_destroy(context);
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
