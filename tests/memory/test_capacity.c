/* What a block makes, copies, counts and gives back when it is smaller than its memory, and what
 * the race checker is told of it: rows S0-04, S0-12 to S0-15, S0-19 to S0-21, S0-25, S0-30. */
#include "memory/block_fixture.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/host_memory.h"
#include "device/memory/pool.h"

enum { SMALL = 100 };

TEST(s0_25_a_block_without_memory_has_no_capacity) {
  fixture f = begin();
  cr_syncedmem_resize(f.memory, 10 * SIZE);
  cr_syncedmem_resize(f.memory, SMALL);
  /* No memory was made for the larger sizes, so they do not count now. */
  gpu(&f);
  assert_int_equal(cr_sim_bytes(CR_SIM_ALLOC, 0), 128);
  crema_syncedmem *host = NULL;
  ok(crema_syncedmem_create(f.device, SIZE, &host));
  cr_syncedmem_resize(host, SMALL);
  cpu(host);
  assert_int_equal(cr_sim_bytes(CR_SIM_HOST_ALLOC, 0), SMALL);
  crema_syncedmem_destroy(host);
  end(&f);
}

TEST(s0_14_s0_15_only_the_bytes_in_use_are_copied) {
  fixture f = begin();
  memset(mutable_cpu(f.memory), 1, SIZE);
  gpu(&f);
  cr_syncedmem_resize(f.memory, SMALL);
  memset(mutable_cpu(f.memory), 2, SMALL);
  cr_sim_reset_counts();
  crema_devptr data = gpu(&f);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 0), SMALL);
  unsigned char seen[SIZE];
  assert_true(cr_sim_peek(data, seen, SIZE));
  assert_true(seen[SMALL - 1] == 2 && seen[SMALL] == 1);
  mutable_gpu(&f);
  cpu(f.memory);
  assert_int_equal(cr_sim_bytes(CR_SIM_D2H, 0), SMALL);
  /* The size may grow again up to the capacity without a new allocation. */
  cr_syncedmem_resize(f.memory, SIZE);
  assert_int_equal(cpu(f.memory)[SIZE - 1], 1);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  end(&f);
}

static void *poisoned_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory != NULL) memset(memory, 0x77, bytes);
  return memory;
}

static void poisoned_free(void *user, void *memory) {
  (void)user;
  free(memory);
}

/* Bytes that nobody wrote are zero, also those that come into use when the block grows again within
 * what was made. */
TEST(s0_12_s0_13_all_that_was_made_is_zero) {
  static const crema_host_allocator poisoned = {poisoned_alloc, poisoned_free, NULL};
  cr_host_set_allocator(&poisoned);
  for (int on_device = 0; on_device < 2; ++on_device) {
    fixture f = begin();
    /* The device side is there, and holds nothing yet. */
    cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, false);
    assert_int_equal(cr_syncedmem_zero(f.memory, f.context), CREMA_E_DEVICE);
    assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
    assert_true(f.memory->gpu.data.address != 0);
    cr_syncedmem_resize(f.memory, SMALL);
    if (on_device == 1) {
      gpu(&f);
      finish(&f);
    } else {
      cpu(f.memory);
    }
    cr_syncedmem_resize(f.memory, SIZE);
    expect_bytes(cpu(f.memory), 0);
    end(&f);
  }
  cr_host_set_allocator(NULL);
}

TEST(s0_04_page_locked_bytes_are_counted_as_made) {
  fixture f = begin();
  size_t before = crema_pinned_bytes();
  gpu(&f);
  cr_syncedmem_resize(f.memory, SMALL);
  /* The host side is made with the capacity, for the size to come back. */
  cpu(f.memory);
  assert_int_equal(crema_pinned_bytes(), before + SIZE);
  cr_syncedmem_resize(f.memory, SMALL / 2);
  cr_syncedmem_clear(f.memory);
  assert_int_equal(crema_pinned_bytes(), before);
  end(&f);
}

TEST(s0_19_adopting_both_sides_lets_the_own_ones_go) {
  fixture f = begin();
  crema_devptr theirs = {0};
  unsigned char mine[SIZE];
  memset(mine, 3, SIZE);
  ok(cr_device_alloc(f.device, SIZE, &theirs));
  size_t live = cr_pool_describe(f.device->pool).live_blocks;
  cpu(f.memory);
  gpu(&f);
  cr_sim_reset_counts();
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  assert_int_equal(cr_syncedmem_adopt_both(f.memory, f.device, theirs, NULL), CREMA_E_ARGUMENT);
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  ok(cr_syncedmem_adopt_both(f.memory, f.device, theirs, mine));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, live);
  assert_ptr_equal(cpu(f.memory), mine);
  assert_int_equal(gpu(&f).address, theirs.address);
  assert_int_equal(h2d() + d2h(), 0);
  cr_device_free(f.device, theirs);
  end(&f);
}

static void expect_races(fixture *f, size_t races) {
  crema_syncedmem_destroy(f->memory);
  crema_context_destroy(f->context);
  sim_end_with_races(races);
}

/* The race checker hears of every way in which the host gets at bytes that a push still reads. */
TEST(s0_21_the_checker_hears_of_every_host_access) {
  for (int way = 0; way < 4; ++way) {
    fixture f = begin_stepped();
    void *host = NULL;
    crema_devptr data = {0};
    memset(mutable_cpu(f.memory), 1, SIZE);
    ok(crema_syncedmem_async_push(f.memory, f.context));
    switch (way) {
      case 0: cpu(f.memory); break; /* a push reads, too */
      case 1: mutable_cpu(f.memory); break;
      case 2: ok(crema_syncedmem_mutable_cpu_data(f.memory, false, &host)); break;
      default: ok(cr_syncedmem_overwrite(f.memory, cr_host_context(), &data));
    }
    assert_int_equal(cr_sim_races(NULL, 0), way == 0 ? 0 : 1);
    finish(&f);
    expect_races(&f, way == 0 ? 0 : 1);
  }
}

/* A block that the host made and a device took over is watched from then on. */
TEST(s0_21_s0_30_a_block_that_came_from_the_host_is_watched) {
  fixture f = begin_stepped();
  crema_syncedmem memory;
  crema_devptr data = {0};
  void *host = NULL;
  cr_syncedmem_init(&memory, cr_cpu_device(), SIZE);
  ok(crema_syncedmem_mutable_cpu_data(&memory, true, &host));
  ok(cr_syncedmem_read(&memory, f.context, &data));
  ok(crema_syncedmem_mutable_cpu_data(&memory, true, &host));
  ok(crema_syncedmem_async_push(&memory, f.context));
  ok(crema_syncedmem_mutable_cpu_data(&memory, true, &host));
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  finish(&f);
  cr_syncedmem_clear(&memory);
  expect_races(&f, 1);
}

/* Devices of different groups of eight are not connected when they are opened (S1-37). */
TEST(s0_30_devices_are_connected_by_the_first_move) {
  cr_sim_options options = sim_test_options(10);
  fixture f = begin_with(&options);
  crema_context *far = sim_test_context(sim_test_device(9));
  crema_devptr data = {0};
  f.memory->movable = true;
  fill_gpu(&f, mutable_gpu(&f), 4);
  cr_sim_reset_counts();
  ok(crema_syncedmem_gpu_data(f.memory, far, &data));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, 9), 1);
  assert_int_equal(h2d() + d2h(), 0);
  expect_gpu_bytes(data, 4);
  crema_context_destroy(far);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
