/* Blocks on their way between streams, threads and devices: rows S0-21, S0-27, S0-29, S0-30. */
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "memory/block_fixture.h"

#include "core/clock.h"
#include "core/fail.h"
#include "core/queue.h"
#include "core/thread.h"
#include "device/memory/pool.h"

TEST(s0_21_async_push) {
  fixture f = begin_stepped();
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  memset(mutable_cpu(f.memory), 1, SIZE);
  gpu(&f);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  memset(mutable_cpu(f.memory), 2, SIZE);
  ok(crema_syncedmem_async_push(f.memory, f.context));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  expect_gpu_bytes(f.memory->gpu.data, 1);
  assert_int_equal(cr_sim_pending(f.context), 1);
  assert_true(cr_sim_step(f.context));
  expect_gpu_bytes(f.memory->gpu.data, 2);
  finish(&f);
  mutable_gpu(&f);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  end(&f);
}

TEST(s0_21_writing_before_the_push_is_done_is_a_race) {
  fixture f = begin_stepped();
  unsigned char *host = mutable_cpu(f.memory);
  ok(crema_syncedmem_async_push(f.memory, f.context));
  assert_int_equal(cr_sim_races(NULL, 0), 0);
  /* Found by the accessor, and found again when the changed bytes are copied. */
  mutable_cpu(f.memory);
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  host[0] ^= 1;
  assert_true(cr_sim_step(f.context));
  assert_int_equal(cr_sim_races(NULL, 0), 2);
  finish(&f);
  mutable_cpu(f.memory);
  assert_int_equal(cr_sim_races(NULL, 0), 2);
  crema_syncedmem_destroy(f.memory);
  crema_context_destroy(f.context);
  sim_end_with_races(2);
}

TEST(s0_21_freeing_before_the_push_is_done_is_a_race) {
  fixture f = begin_stepped();
  mutable_cpu(f.memory);
  ok(crema_syncedmem_async_push(f.memory, f.context));
  /* The push made the device side, which its first use does not. */
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, 0), 1);
  /* Still the block's own memory, so that the step below touches nothing that is gone. */
  cr_host_side side = f.memory->host;
  cr_sim_host_access(side.data, SIZE, false);
  assert_int_equal(cr_sim_races(NULL, 0), 0);
  finish(&f);
  memset(mutable_cpu(f.memory), 1, SIZE);
  ok(crema_syncedmem_async_push(f.memory, f.context));
  crema_syncedmem_destroy(f.memory);
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  char text[256];
  cr_sim_races(text, sizeof text);
  assert_non_null(strstr(text, "released"));
  crema_context_destroy(f.context);
  sim_end_with_races(1);
}

/* Device memory is adopted while a push still reads the host side; what then comes back to the host
 * side comes after it, from the same device or another one. */
TEST(s0_19_s0_21_adopting_memory_while_a_push_is_under_way) {
  cr_sim_options options = sim_test_options(2);
  options.stepped = true;
  for (int other = 0; other < 2; ++other) {
    fixture f = begin_with(&options);
    crema_device *device = sim_test_device(other);
    crema_devptr theirs = {0};
    unsigned char bytes[SIZE];
    memset(bytes, 6, SIZE);
    ok(cr_device_alloc(device, SIZE, &theirs));
    crema_context *context = sim_test_context(device);
    ok(device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, theirs.address, (uintptr_t)bytes,
                             SIZE));
    ok(crema_context_finish(context));
    memset(mutable_cpu(f.memory), 1, SIZE);
    ok(crema_syncedmem_async_push(f.memory, f.context));
    ok(cr_syncedmem_adopt(f.memory, device, theirs));
    expect_bytes(cpu(f.memory), 6);
    crema_syncedmem_destroy(f.memory);
    f.memory = NULL;
    cr_device_free(device, theirs);
    crema_context_destroy(context);
    end(&f);
  }
}

TEST(s0_21_reading_on_another_stream_before_it_is_a_race) {
  fixture f = begin_stepped();
  crema_context *other = sim_test_context(f.device);
  crema_devptr target = {0};
  ok(cr_device_alloc(f.device, SIZE, &target));
  mutable_cpu(f.memory);
  ok(crema_syncedmem_async_push(f.memory, f.context));
  crema_devptr source = f.memory->gpu.data;
  /* Past the automaton nothing orders the two streams. */
  ok(other->device->backend->copy(other, CR_COPY_SAME_DEVICE, target.address, source.address,
                                  SIZE));
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  /* The accessor orders them. */
  crema_devptr data = {0};
  ok(crema_syncedmem_gpu_data(f.memory, other, &data));
  ok(other->device->backend->copy(other, CR_COPY_SAME_DEVICE, target.address, data.address, SIZE));
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  ok(crema_context_finish(other));
  cr_device_free(f.device, target);
  crema_context_destroy(other);
  crema_syncedmem_destroy(f.memory);
  crema_context_destroy(f.context);
  sim_end_with_races(1);
}

TEST(s0_27_use_on_a_foreign_device_is_detected) {
  fixture f = begin();
  crema_context *foreign = sim_test_context(sim_test_device(1));
  crema_devptr data = {0};
  memset(mutable_cpu(f.memory), 1, SIZE);
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, foreign, &data), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "memory of sim:0 is used on sim:1");
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, foreign, false, &data),
                   CREMA_E_DEVICE);
  assert_int_equal(crema_syncedmem_async_push(f.memory, foreign), CREMA_E_DEVICE);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  gpu(&f);
  crema_context_destroy(foreign);
  end(&f);
}

/* As if another thread were in the middle of a transition: whatever the state, every access is
 * refused, even where nothing would have to be moved. */
TEST(s0_29_concurrent_use_trips) {
  fixture f = begin();
  for (int head = 0; head < 4; ++head) {
    crema_devptr data = {0};
    const void *host = NULL;
    void *change = NULL;
    unsigned char mine[SIZE];
    if (head == CREMA_HEAD_AT_CPU || head == CREMA_SYNCED) mutable_cpu(f.memory);
    if (head == CREMA_HEAD_AT_GPU) mutable_gpu(&f);
    if (head == CREMA_SYNCED) gpu(&f);
    assert_int_equal(crema_syncedmem_head(f.memory), head);
    atomic_store(&f.memory->moving, true);
    const crema_status status[] = {
        crema_syncedmem_gpu_data(f.memory, f.context, &data),
        crema_syncedmem_gpu_data(f.memory, cr_host_context(), &data),
        crema_syncedmem_mutable_gpu_data(f.memory, f.context, true, &data),
        crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data),
        crema_syncedmem_cpu_data(f.memory, &host),
        crema_syncedmem_mutable_cpu_data(f.memory, true, &change),
        crema_syncedmem_mutable_cpu_data(f.memory, false, &change),
        cr_syncedmem_overwrite(f.memory, f.context, &data),
        cr_syncedmem_overwrite(f.memory, cr_host_context(), &data),
        cr_syncedmem_zero(f.memory, f.context),
        crema_syncedmem_async_push(f.memory, f.context),
        crema_syncedmem_set_cpu_data(f.memory, mine),
        crema_syncedmem_set_gpu_data(f.memory, (crema_devptr){64}),
    };
    for (size_t i = 0; i < sizeof status / sizeof status[0]; ++i) {
      if (status[i] != CREMA_E_STATE) fail_msg("state %d, way %zu", head, i);
    }
    assert_int_equal(crema_syncedmem_head(f.memory), head);
    atomic_store(&f.memory->moving, false);
    gpu(&f);
    cr_syncedmem_clear(f.memory);
  }
  end(&f);
}

typedef struct slow {
  crema_syncedmem *memory;
  crema_context *context;
} slow;

static crema_status push_slowly(void *arg) {
  slow *s = arg;
  crema_devptr data = {0};
  return crema_syncedmem_gpu_data(s->memory, s->context, &data);
}

/* One thread is in the middle of a long copy; every access by another one is refused. */
TEST(s0_29_two_threads_at_once_trip) {
  cr_sim_options options = sim_test_options(1);
  options.latency = 0.2;
  fixture f = begin_with(&options);
  crema_context *other = sim_test_context(f.device);
  unsigned char mine[SIZE] = {0};
  memset(mutable_cpu(f.memory), 4, SIZE);
  slow s = {f.memory, other};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "slow", push_slowly, &s));
  while (cr_sim_count(CR_SIM_H2D, 0) == 0) cr_clock_sleep(0.001);
  crema_devptr data = {0};
  assert_fails(crema_syncedmem_gpu_data(f.memory, f.context, &data), CREMA_E_STATE, "two threads");
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, f.context, true, &data),
                   CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data),
                   CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_set_cpu_data(f.memory, mine), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_set_gpu_data(f.memory, (crema_devptr){64}), CREMA_E_STATE);
  /* The newest bytes are on the host, and who wrote there now would change what is copied. */
  const void *host = NULL;
  void *change = NULL;
  assert_int_equal(crema_syncedmem_cpu_data(f.memory, &host), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_mutable_cpu_data(f.memory, true, &change), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_mutable_cpu_data(f.memory, false, &change), CREMA_E_STATE);
  /* By the simulation's lock what was looked at here comes before what the other thread does next:
   * a thread sanitizer sees no race in this deliberate one. */
  (void)cr_sim_count(CR_SIM_H2D, 0);
  ok(cr_thread_join(&thread));
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  expect_gpu_bytes(f.memory->gpu.data, 4);
  gpu(&f);
  crema_context_destroy(other);
  end(&f);
}

typedef struct relay {
  cr_queue_pair *pair;
  crema_device *device;
} relay;

enum { RELAYS = 200 };

/* Takes a block from the queue, changes it on the device, hands it back. */
static crema_status far_side(void *arg) {
  relay *r = arg;
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(r->device, 0, &context));
  for (int i = 0; i < RELAYS; ++i) {
    void *element = NULL;
    crema_devptr data = {0};
    CR_TRY(cr_queue_pop(r->pair->full, NULL, &element));
    CR_TRY(crema_syncedmem_mutable_gpu_data(element, context, true, &data));
    CR_TRY(r->device->backend->zero(context, data, SIZE / 2));
    CR_TRY(cr_queue_push(r->pair->free, element));
  }
  return CREMA_OK;
}

/* Two threads take turns with a block through a queue, and nothing is refused, in any state of the
 * block. */
TEST(s0_29_hand_over_by_queue) {
  fixture f = begin();
  cr_queue_pair pair;
  void *element[1] = {f.memory};
  relay r = {&pair, f.device};
  cr_thread *thread = NULL;
  ok(cr_queue_pair_init(&pair, element, 1));
  ok(cr_thread_start(&thread, "far", far_side, &r));
  for (int i = 0; i < RELAYS; ++i) {
    void *got = NULL;
    ok(cr_queue_pop(pair.free, NULL, &got));
    unsigned char *host = mutable_cpu(got);
    if (i > 0) assert_int_equal(host[SIZE / 2 - 1], 0);
    if (i > 0) assert_int_equal(host[SIZE / 2], (unsigned char)(i - 1));
    memset(host, i, SIZE);
    ok(cr_queue_push(pair.full, got));
  }
  ok(cr_thread_join(&thread));
  cr_queue_pair_free(&pair, NULL);
  end(&f);
}

static void run_switch(bool peers) {
  cr_sim_options options = sim_test_options(2);
  options.peer[0][1] = options.peer[1][0] = peers;
  fixture f = begin_with(&options);
  crema_context *second = sim_test_context(sim_test_device(1));
  f.memory->movable = true;
  fill_gpu(&f, mutable_gpu(&f), 5);
  cr_sim_reset_counts();
  crema_devptr data = {0};
  ok(crema_syncedmem_gpu_data(f.memory, second, &data));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1), peers ? 1 : 0);
  assert_int_equal(d2h(), peers ? 0 : 1);
  assert_int_equal(second->device->backend->owner(data.address), 1);
  expect_gpu_bytes(data, 5);
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, 0);
  expect_bytes(cpu(f.memory), 5);
  /* Back again, to be overwritten: no bytes are moved. */
  ok(crema_syncedmem_mutable_gpu_data(f.memory, second, true, &data));
  cr_sim_reset_counts();
  ok(crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data));
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1) + h2d() + d2h(), 0);
  fill_gpu(&f, data, 6);
  expect_bytes(cpu(f.memory), 6);
  crema_context_destroy(second);
  end(&f);
}

TEST(s0_30_switching_devices_with_peer_access) {
  run_switch(true);
}

TEST(s0_30_switching_devices_by_way_of_the_host) {
  run_switch(false);
}

/* A copy into the host side that the block knows nothing of: every way to the bytes is watched. */
TEST(s0_21_all_ways_to_the_host_side_are_watched) {
  enum { CPU_DATA, MUTABLE_CPU_DATA, READ, WRITE, OVERWRITE, WAYS };
  fixture f = begin_stepped();
  unsigned char *host = mutable_cpu(f.memory);
  crema_devptr other = {0}, data = {0};
  size_t races = 0;
  ok(cr_device_alloc(f.device, SIZE, &other));
  for (int way = 0; way < WAYS; ++way) {
    ok(f.device->backend->copy(f.context, CR_COPY_DEVICE_TO_HOST, (uintptr_t)host, other.address,
                               SIZE));
    assert_int_equal(cr_sim_races(NULL, 0), races);
    crema_status status = CREMA_OK;
    switch (way) {
      case CPU_DATA: cpu(f.memory); break;
      case MUTABLE_CPU_DATA: mutable_cpu(f.memory); break;
      case READ: status = cr_syncedmem_read(f.memory, cr_host_context(), &data); break;
      case WRITE: status = cr_syncedmem_write(f.memory, cr_host_context(), true, &data); break;
      default: status = cr_syncedmem_overwrite(f.memory, cr_host_context(), &data); break;
    }
    ok(status);
    races += way == MUTABLE_CPU_DATA || way == WRITE ? 2 : 1; /* they read, then change */
    assert_int_equal(cr_sim_races(NULL, 0), races);
    finish(&f);
  }
  cr_device_free(f.device, other);
  crema_syncedmem_destroy(f.memory);
  crema_context_destroy(f.context);
  sim_end_with_races(races);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
