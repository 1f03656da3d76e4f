/* The memory automaton of one block: rows S0-09 to S0-20, S4-08 and S4-09. */
#include "memory/block_fixture.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"

TEST(s0_09_a_new_block_depends_on_no_old_bytes) {
  /* Whatever lay where the block is made: nothing of it is taken for the block's own. */
  for (int old = 0; old < 256; old += 51) {
    crema_syncedmem memory, *made = NULL;
    memset(&memory, old, sizeof memory);
    cr_syncedmem_init(&memory, cr_cpu_device(), 0);
    void *block = malloc(sizeof memory);
    assert_non_null(block);
    memset(block, old, sizeof memory);
    free(block);
    ok(crema_syncedmem_create(cr_cpu_device(), 0, &made));
    const crema_syncedmem *both[2] = {&memory, made};
    for (int i = 0; i < 2; ++i) {
      assert_int_equal(crema_syncedmem_head(both[i]), CREMA_UNINITIALIZED);
      assert_int_equal(crema_syncedmem_size(both[i]), 0);
      assert_null(both[i]->host.data);
      assert_int_equal(both[i]->gpu.data.address, 0);
      assert_false(both[i]->host.own || both[i]->gpu.own);
    }
    cr_syncedmem_clear(&memory);
    crema_syncedmem_destroy(made);
  }
}

TEST(s0_09_s0_10_making_a_block_allocates_nothing) {
  fixture f = begin();
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  assert_int_equal(crema_syncedmem_size(f.memory), SIZE);
  assert_null(f.memory->host.data);
  assert_int_equal(f.memory->gpu.data.address, 0);
  assert_false(f.memory->host.own || f.memory->gpu.own);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  crema_syncedmem *empty = NULL;
  ok(crema_syncedmem_create(f.device, 0, &empty));
  assert_int_equal(crema_syncedmem_size(empty), 0);
  cpu(empty);
  crema_devptr data = {0};
  ok(crema_syncedmem_gpu_data(empty, f.context, &data));
  assert_int_equal(crema_syncedmem_head(empty), CREMA_SYNCED);
  crema_syncedmem_destroy(empty);
  crema_syncedmem_destroy(NULL);
  end(&f);
}

TEST(s0_12_first_read_on_the_host_gives_zeros) {
  fixture f = begin();
  expect_bytes(cpu(f.memory), 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  assert_true(f.memory->host.own);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1), 0);
  end(&f);
}

TEST(s0_13_first_read_on_the_device_gives_zeros) {
  fixture f = begin();
  crema_devptr data = gpu(&f);
  finish(&f);
  expect_gpu_bytes(data, 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  assert_true(f.memory->gpu.own);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  end(&f);
}

TEST(s0_14_host_bytes_reach_the_device_in_one_copy) {
  fixture f = begin();
  memset(mutable_cpu(f.memory), 7, SIZE);
  crema_devptr data = gpu(&f);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  assert_int_equal(h2d(), 1);
  assert_int_equal(cr_sim_bytes(CR_SIM_H2D, 0), SIZE);
  assert_int_equal(cr_sim_count(CR_SIM_ZERO, -1), 0);
  expect_gpu_bytes(data, 7);
  end(&f);
}

TEST(s0_15_device_bytes_reach_the_host_in_one_copy) {
  fixture f = begin();
  fill_gpu(&f, mutable_gpu(&f), 9);
  cr_sim_reset_counts();
  expect_bytes(cpu(f.memory), 9);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  assert_int_equal(d2h(), 1);
  assert_int_equal(cr_sim_bytes(CR_SIM_D2H, 0), SIZE);
  end(&f);
}

TEST(s0_16_a_valid_side_costs_nothing) {
  fixture f = begin();
  mutable_cpu(f.memory);
  cr_sim_reset_counts();
  for (int i = 0; i < 1000; ++i) cpu(f.memory);
  const cr_sim_record *log = NULL;
  assert_int_equal(cr_sim_log(&log), 0);
  gpu(&f);
  cr_sim_reset_counts();
  for (int i = 0; i < 1000; ++i) {
    gpu(&f);
    cpu(f.memory);
  }
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  mutable_gpu(&f);
  for (int i = 0; i < 1000; ++i) gpu(&f);
  assert_int_equal(cr_sim_log(&log), 0);
  end(&f);
}

TEST(s0_18_mutable_access_keeps_the_stale_buffer) {
  fixture f = begin();
  fill_gpu(&f, mutable_gpu(&f), 3);
  cr_sim_reset_counts();
  unsigned char *host = mutable_cpu(f.memory);
  assert_int_equal(d2h(), 1);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  host[5] = 4;
  crema_devptr before = f.memory->gpu.data;
  crema_devptr data = gpu(&f);
  assert_int_equal(data.address, before.address);
  assert_int_equal(h2d(), 1);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1), 0);
  unsigned char byte[SIZE];
  assert_true(cr_sim_peek(data, byte, SIZE));
  assert_true(byte[4] == 3 && byte[5] == 4);
  /* The other way round. */
  memset(mutable_cpu(f.memory), 8, SIZE);
  const void *stale = f.memory->host.data;
  cr_sim_reset_counts();
  data = mutable_gpu(&f);
  assert_int_equal(h2d(), 1);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  fill_gpu(&f, data, 6);
  cr_sim_reset_counts();
  assert_ptr_equal(cpu(f.memory), stale);
  expect_bytes(stale, 6);
  assert_int_equal(d2h(), 1);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, -1) + cr_sim_count(CR_SIM_ALLOC, -1), 0);
  end(&f);
}

TEST(s0_19_adopted_memory) {
  fixture f = begin();
  unsigned char mine[SIZE + 16];
  memset(mine, 0xCC, sizeof mine);
  crema_devptr theirs = {0};
  ok(cr_device_alloc(f.device, SIZE, &theirs));
  assert_int_equal(crema_syncedmem_set_cpu_data(f.memory, NULL), CREMA_E_ARGUMENT);
  assert_int_equal(crema_syncedmem_set_gpu_data(f.memory, (crema_devptr){0}), CREMA_E_ARGUMENT);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  cpu(f.memory);
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  ok(crema_syncedmem_set_cpu_data(f.memory, mine));
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  assert_int_equal(crema_syncedmem_size(f.memory), SIZE);
  gpu(&f);
  size_t live = cr_pool_describe(f.device->pool).live_blocks;
  ok(crema_syncedmem_set_gpu_data(f.memory, theirs));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  /* The owned device side went, once; adopting again frees nothing. The host side stays adopted. */
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, live - 1);
  ok(crema_syncedmem_set_gpu_data(f.memory, theirs));
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, live - 1);
  assert_ptr_equal(f.memory->host.data, mine);
  assert_false(f.memory->host.own || f.memory->gpu.own);
  assert_int_equal(crema_syncedmem_set_gpu_data(f.memory, (crema_devptr){0}), CREMA_E_ARGUMENT);
  assert_int_equal(crema_syncedmem_set_cpu_data(f.memory, NULL), CREMA_E_ARGUMENT);
  assert_int_equal(f.memory->gpu.data.address, theirs.address);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  fill_gpu(&f, theirs, 0x11);
  /* The host side is still the adopted one; what lies behind it is left alone. */
  assert_ptr_equal(cpu(f.memory), mine);
  expect_bytes(mine, 0x11);
  for (int i = SIZE; i < SIZE + 16; ++i) assert_int_equal(mine[i], 0xCC);
  crema_syncedmem_destroy(f.memory);
  f.memory = NULL;
  expect_gpu_bytes(theirs, 0x11);
  cr_device_free(f.device, theirs);
  end(&f);
}

TEST(s0_20_only_owned_memory_is_freed) {
  fixture f = begin();
  cpu(f.memory);
  gpu(&f);
  cr_pool_info info = cr_pool_describe(f.device->pool);
  assert_int_equal(info.live_blocks, 1);
  /* Freed on its own device, whatever the thread's device is. */
  crema_device *other = sim_test_device(1);
  ok(cr_device_set_current(other));
  cr_sim_reset_counts();
  crema_syncedmem_destroy(f.memory);
  f.memory = NULL;
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, 0);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_FREE, 0), 1);
  cr_pool_trim(f.device->pool);
  assert_int_equal(cr_sim_live_blocks(0), 0);
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log), frees = 0;
  for (size_t i = 0; i < size; ++i) {
    if (log[i].op != CR_SIM_FREE) continue;
    ++frees;
    assert_int_equal(log[i].device, 0);
    assert_int_equal(log[i].current_device, 0);
  }
  assert_int_equal(frees, 1);
  assert_ptr_equal(cr_device_current(), other);
  end(&f);
}

TEST(s4_08_write_only_access_copies_nothing) {
  fixture f = begin();
  void *host = NULL;
  crema_devptr data = {0};
  fill_gpu(&f, mutable_gpu(&f), 5);
  cr_sim_reset_counts();
  ok(crema_syncedmem_mutable_cpu_data(f.memory, false, &host));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  ok(crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  assert_int_equal(h2d() + d2h(), 0);
  /* The content is what happens to be there: fresh memory shows its poison, not the other side. */
  crema_syncedmem *apart = NULL;
  ok(crema_syncedmem_create(f.device, SIZE, &apart));
  memset(mutable_cpu(apart), 7, SIZE);
  cr_pool_trim(f.device->pool);
  cr_sim_reset_counts();
  ok(crema_syncedmem_mutable_gpu_data(apart, f.context, false, &data));
  finish(&f);
  expect_gpu_bytes(data, 0xA5);
  assert_int_equal(cr_sim_count(CR_SIM_ZERO, -1) + h2d(), 0);
  fill_gpu(&f, data, 3);
  ok(crema_syncedmem_mutable_cpu_data(apart, false, &host));
  expect_bytes(host, 7);
  assert_int_equal(d2h(), 0);
  crema_syncedmem_destroy(apart);
  crema_syncedmem *fresh = NULL;
  ok(crema_syncedmem_create(f.device, SIZE, &fresh));
  ok(crema_syncedmem_mutable_gpu_data(fresh, f.context, false, &data));
  finish(&f);
  expect_gpu_bytes(data, 0);
  crema_syncedmem_destroy(fresh);
  ok(crema_syncedmem_create(f.device, SIZE, &fresh));
  ok(crema_syncedmem_mutable_cpu_data(fresh, false, &host));
  expect_bytes(host, 0);
  crema_syncedmem_destroy(fresh);
  end(&f);
}

/* A size that the device has no memory for does not spoil the block for a smaller one, although the
 * host side was made for the larger. */
TEST(s0_28_a_size_too_large_is_forgotten) {
  fixture f = begin();
  crema_devptr data = {0};
  cr_syncedmem_resize(f.memory, 2 * SIM_TEST_MEMORY);
  memset(mutable_cpu(f.memory), 7, SIZE);
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, f.context, &data), CREMA_E_NO_MEMORY);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  cr_syncedmem_resize(f.memory, SIZE);
  data = gpu(&f);
  unsigned char seen[SIZE];
  assert_true(cr_sim_peek(data, seen, sizeof seen));
  expect_bytes(seen, 7);
  expect_bytes(cpu(f.memory), 7);
  /* Once more the other way round: neither side is taken for larger than it is. */
  cr_syncedmem_resize(f.memory, SIM_TEST_MEMORY / 2);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  assert_int_equal(cpu(f.memory)[SIM_TEST_MEMORY / 2 - 1], 0);
  gpu(&f);
  end(&f);
}

TEST(s4_09_memory_outlives_its_stream) {
  fixture f = begin();
  crema_context *shortlived = sim_test_context(f.device);
  crema_devptr data = {0};
  ok(crema_syncedmem_mutable_gpu_data(f.memory, shortlived, true, &data));
  crema_context_destroy(shortlived);
  expect_bytes(cpu(f.memory), 0);
  mutable_gpu(&f);
  expect_bytes(cpu(f.memory), 0);
  end(&f);
}

/* A stream goes only when its work on the block is done; the block remembers it by a name that is
 * never used again, so that freeing the block later asks nothing of a stream that is gone. */
TEST(s4_09_a_stream_ends_after_its_work_on_the_block) {
  fixture f = begin_stepped();
  crema_context *shortlived = sim_test_context(f.device);
  uint64_t name = shortlived->id;
  crema_devptr data = {0};
  ok(crema_syncedmem_mutable_gpu_data(f.memory, shortlived, true, &data));
  assert_int_equal(f.memory->gpu.user, name);
  assert_ptr_equal(f.memory->gpu.device, f.device);
  assert_true(cr_sim_pending(shortlived) > 0);
  crema_context_destroy(shortlived);
  expect_gpu_bytes(data, 0);
  crema_context *next = sim_test_context(f.device);
  assert_true(next->id != name);
  cr_sim_reset_counts();
  crema_syncedmem_destroy(f.memory);
  f.memory = NULL;
  assert_int_equal(cr_sim_count(CR_SIM_EVENT_RECORD, -1), 0);
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, 0);
  crema_context_destroy(next);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
