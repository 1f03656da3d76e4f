/* The memory automaton: rows S0-01 to S0-30 that concern one block, on simulated devices. */
#include "memory/sim_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"
#include "device/pool.h"
#include "memory/syncedmem.h"
#include "memory/tensor.h"

enum { SIZE = 1000 };

typedef struct fixture {
  crema_device *device;
  crema_context *context;
  crema_syncedmem *memory;
} fixture;

static fixture begin_with(const cr_sim_options *options) {
  fixture f = {0};
  sim_begin(options);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  assert_int_equal(crema_syncedmem_create(f.device, SIZE, &f.memory), CREMA_OK);
  cr_sim_reset_counts();
  return f;
}

static fixture begin(void) {
  cr_sim_options options = sim_test_options(2);
  return begin_with(&options);
}

static void end(fixture *f) {
  crema_syncedmem_destroy(f->memory);
  crema_context_destroy(f->context);
  sim_end();
}

static const unsigned char *cpu(crema_syncedmem *memory) {
  const void *data = NULL;
  assert_int_equal(crema_syncedmem_cpu_data(memory, &data), CREMA_OK);
  return data;
}

static unsigned char *mutable_cpu(crema_syncedmem *memory) {
  void *data = NULL;
  assert_int_equal(crema_syncedmem_mutable_cpu_data(memory, true, &data), CREMA_OK);
  return data;
}

static crema_devptr gpu(fixture *f) {
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_gpu_data(f->memory, f->context, &data), CREMA_OK);
  return data;
}

static crema_devptr mutable_gpu(fixture *f) {
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f->memory, f->context, true, &data), CREMA_OK);
  return data;
}

static void finish(fixture *f) {
  assert_int_equal(crema_context_finish(f->context), CREMA_OK);
}

/* Fills the device side by way of a second block. */
static void fill_gpu(fixture *f, crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  memset(bytes, value, sizeof bytes);
  assert_int_equal(f->context->device->backend->copy(f->context, CR_COPY_HOST_TO_DEVICE,
                                                     data.address, (uintptr_t)bytes, SIZE),
                   CREMA_OK);
  finish(f);
}

static void expect_bytes(const unsigned char *data, unsigned char value) {
  for (int i = 0; i < SIZE; i++) assert_int_equal(data[i], value);
}

static void expect_gpu_bytes(crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  assert_true(cr_sim_peek(data, bytes, SIZE));
  expect_bytes(bytes, value);
}

static uint64_t h2d(void) {
  return cr_sim_count(CR_SIM_H2D, -1);
}
static uint64_t d2h(void) {
  return cr_sim_count(CR_SIM_D2H, -1);
}

static void follow(crema_devptr data) {
  /* The address is deliberately taken for a pointer: that must not work. */
  volatile const char *wrong = (const char *)data.address;
  _exit(wrong[0] == 'x' ? 1 : 0);
}

static void s0_01_host_code_cannot_follow_a_device_address(void **state) {
  (void)state;
  fixture f = begin();
  crema_devptr data = gpu(&f);
  finish(&f);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    follow(data);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_true(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
  end(&f);
}

static void s0_02_host_memory_of_any_size(void **state) {
  (void)state;
  size_t sizes[] = {0, 1, 63, 64, 65, 4096, (size_t)9 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *memory = NULL;
    assert_int_equal(cr_host_alloc(sizes[i], &memory), CREMA_OK);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, sizes[i]);
    cr_host_free(memory);
  }
  void *memory = NULL;
  assert_int_equal(cr_host_alloc(SIZE_MAX - 10, &memory), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_host_alloc((size_t)1 << 60, &memory), CREMA_E_NO_MEMORY);
  assert_non_null(strstr(crema_error_text(), "1152921504606846976"));
  assert_null(memory);
}

static void s0_03_primitives_with_nothing_to_do(void **state) {
  (void)state;
  cr_host_free(NULL);
  fixture f = begin();
  const cr_backend *backend = f.device->backend;
  crema_devptr data = gpu(&f);
  finish(&f);
  cr_sim_reset_counts();
  assert_int_equal(backend->copy(f.context, CR_COPY_SAME_DEVICE, 0, 0, 0), CREMA_OK);
  assert_int_equal(backend->copy(f.context, CR_COPY_SAME_DEVICE, data.address, data.address, SIZE),
                   CREMA_OK);
  assert_int_equal(backend->zero(f.context, data, 0), CREMA_OK);
  assert_int_equal(cr_sim_count(CR_SIM_D2D, -1) + cr_sim_count(CR_SIM_ZERO, -1), 0);
  cr_device_free(f.device, (crema_devptr){0});
  end(&f);
}

static void s0_04_pinned_blocks_remember_who_made_them(void **state) {
  (void)state;
  fixture f = begin();
  crema_syncedmem *plain = NULL;
  cr_tensor *tensor = NULL;
  assert_int_equal(crema_syncedmem_create(cr_cpu_device(), SIZE, &plain), CREMA_OK);
  assert_int_equal(cr_tensor_create(CREMA_F32, 10, &tensor), CREMA_OK);
  assert_true(cr_sim_is_pinned(cpu(f.memory)));
  assert_false(cr_sim_is_pinned(cpu(plain)));
  /* A thread that works on a device gets page-locked memory for everything. */
  assert_int_equal(cr_device_set_current(f.device), CREMA_OK);
  const void *value = NULL;
  assert_int_equal(cr_tensor_host_read(tensor, &value), CREMA_OK);
  assert_true(cr_sim_is_pinned(value));
  assert_int_equal(cr_sim_pinned_blocks(), 2);
  assert_int_equal(cr_device_set_current(cr_cpu_device()), CREMA_OK);
  cr_tensor_destroy(tensor);
  crema_syncedmem_destroy(plain);
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  /* A wrong way of freeing is reported. */
  void *mine = NULL;
  assert_int_equal(cr_host_alloc(10, &mine), CREMA_OK);
  f.device->backend->host_free(f.device, mine);
  cr_host_free(mine);
  crema_syncedmem_destroy(f.memory);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  crema_context_destroy(f.context);
  sim_end_with_races(1);
}

static void s0_05_work_runs_on_the_blocks_device(void **state) {
  (void)state;
  fixture f = begin();
  crema_device *other = sim_test_device(1);
  assert_int_equal(cr_device_set_current(other), CREMA_OK);
  cr_sim_reset_counts();
  mutable_gpu(&f);
  cpu(f.memory);
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log);
  assert_true(size > 0);
  for (size_t i = 0; i < size; i++) {
    if (log[i].op == CR_SIM_ALLOC || log[i].op == CR_SIM_ZERO || log[i].op == CR_SIM_D2H) {
      assert_int_equal(log[i].device, 0);
    }
    if (log[i].op == CR_SIM_ALLOC) assert_int_equal(log[i].current_device, 0);
  }
  assert_ptr_equal(cr_device_current(), other);
  end(&f);
}

static void s0_06_a_failed_allocation_changes_nothing(void **state) {
  (void)state;
  fixture f = begin();
  crema_syncedmem *big = NULL;
  assert_int_equal(crema_syncedmem_create(f.device, 2 * SIM_TEST_MEMORY, &big), CREMA_OK);
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_gpu_data(big, f.context, &data), CREMA_E_NO_MEMORY);
  assert_int_equal(data.address, 0);
  assert_int_equal(crema_syncedmem_head(big), CREMA_UNINITIALIZED);
  assert_non_null(strstr(crema_error_text(), "8388608 bytes on sim:0"));
  assert_non_null(strstr(crema_error_text(), "of 4194304 bytes are free"));
  crema_syncedmem_destroy(big);
  /* Somebody else's memory is in the way, then no longer. */
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY);
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, f.context, &data), CREMA_E_NO_MEMORY);
  cr_sim_set_foreign_bytes(0, 0);
  gpu(&f);
  end(&f);
}

static void s0_08_no_device_support_is_a_status(void **state) {
  (void)state;
  crema_device *device = NULL;
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  assert_int_equal(crema_device_get((crema_device_type)9, 0, &device), CREMA_E_NO_DEVICE);
  assert_null(device);
  /* On the CPU both sides are one. */
  crema_syncedmem *memory = NULL;
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_create(cr_cpu_device(), SIZE, &memory), CREMA_OK);
  assert_int_equal(crema_syncedmem_gpu_data(memory, cr_host_context(), &data), CREMA_OK);
  assert_ptr_equal((const void *)data.address, cpu(memory));
  assert_int_equal(crema_syncedmem_head(memory), CREMA_HEAD_AT_CPU);
  assert_int_equal(crema_syncedmem_async_push(memory, cr_host_context()), CREMA_OK);
  assert_int_equal(crema_syncedmem_head(memory), CREMA_HEAD_AT_CPU);
  crema_syncedmem_destroy(memory);
  assert_int_equal(crema_syncedmem_create(NULL, SIZE, &memory), CREMA_E_ARGUMENT);
}

static void s0_09_s0_10_making_a_block_allocates_nothing(void **state) {
  (void)state;
  fixture f = begin();
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  assert_int_equal(crema_syncedmem_size(f.memory), SIZE);
  assert_null(f.memory->host.data);
  assert_int_equal(f.memory->gpu.data.address, 0);
  assert_false(f.memory->host.own || f.memory->gpu.own);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1) + cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  crema_syncedmem *empty = NULL;
  assert_int_equal(crema_syncedmem_create(f.device, 0, &empty), CREMA_OK);
  assert_int_equal(crema_syncedmem_size(empty), 0);
  cpu(empty);
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_gpu_data(empty, f.context, &data), CREMA_OK);
  assert_int_equal(crema_syncedmem_head(empty), CREMA_SYNCED);
  crema_syncedmem_destroy(empty);
  crema_syncedmem_destroy(NULL);
  end(&f);
}

static void s0_12_first_read_on_the_host_gives_zeros(void **state) {
  (void)state;
  fixture f = begin();
  expect_bytes(cpu(f.memory), 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  assert_true(f.memory->host.own);
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, -1), 0);
  end(&f);
}

static void s0_13_first_read_on_the_device_gives_zeros(void **state) {
  (void)state;
  fixture f = begin();
  crema_devptr data = gpu(&f);
  finish(&f);
  expect_gpu_bytes(data, 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  assert_true(f.memory->gpu.own);
  assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  end(&f);
}

static void s0_14_host_bytes_reach_the_device_in_one_copy(void **state) {
  (void)state;
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

static void s0_15_device_bytes_reach_the_host_in_one_copy(void **state) {
  (void)state;
  fixture f = begin();
  fill_gpu(&f, mutable_gpu(&f), 9);
  cr_sim_reset_counts();
  expect_bytes(cpu(f.memory), 9);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  assert_int_equal(d2h(), 1);
  assert_int_equal(cr_sim_bytes(CR_SIM_D2H, 0), SIZE);
  end(&f);
}

static void s0_16_a_valid_side_costs_nothing(void **state) {
  (void)state;
  fixture f = begin();
  mutable_cpu(f.memory);
  cr_sim_reset_counts();
  for (int i = 0; i < 1000; i++) cpu(f.memory);
  const cr_sim_record *log = NULL;
  assert_int_equal(cr_sim_log(&log), 0);
  gpu(&f);
  cr_sim_reset_counts();
  for (int i = 0; i < 1000; i++) {
    gpu(&f);
    cpu(f.memory);
  }
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_SYNCED);
  mutable_gpu(&f);
  for (int i = 0; i < 1000; i++) gpu(&f);
  assert_int_equal(cr_sim_log(&log), 0);
  end(&f);
}

static void s0_18_mutable_access_keeps_the_stale_buffer(void **state) {
  (void)state;
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
  end(&f);
}

static void s0_19_adopted_memory(void **state) {
  (void)state;
  fixture f = begin();
  unsigned char mine[SIZE + 16];
  memset(mine, 0xCC, sizeof mine);
  crema_devptr theirs = {0};
  assert_int_equal(cr_device_alloc(f.device, SIZE, &theirs), CREMA_OK);
  assert_int_equal(crema_syncedmem_set_cpu_data(f.memory, NULL), CREMA_E_ARGUMENT);
  assert_int_equal(crema_syncedmem_set_gpu_data(f.memory, (crema_devptr){0}), CREMA_E_ARGUMENT);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  cpu(f.memory);
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  assert_int_equal(crema_syncedmem_set_cpu_data(f.memory, mine), CREMA_OK);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  assert_int_equal(crema_syncedmem_size(f.memory), SIZE);
  gpu(&f);
  assert_int_equal(crema_syncedmem_set_gpu_data(f.memory, theirs), CREMA_OK);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  fill_gpu(&f, theirs, 0x11);
  /* The host side is still the adopted one; what lies behind it is left alone. */
  assert_ptr_equal(cpu(f.memory), mine);
  expect_bytes(mine, 0x11);
  for (int i = SIZE; i < SIZE + 16; i++) assert_int_equal(mine[i], 0xCC);
  crema_syncedmem_destroy(f.memory);
  f.memory = NULL;
  expect_gpu_bytes(theirs, 0x11);
  cr_device_free(f.device, theirs);
  end(&f);
}

static void s0_20_only_owned_memory_is_freed(void **state) {
  (void)state;
  fixture f = begin();
  cpu(f.memory);
  gpu(&f);
  cr_pool_info info = cr_pool_describe(f.device->pool);
  assert_int_equal(info.live_blocks, 1);
  crema_syncedmem_destroy(f.memory);
  f.memory = NULL;
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, 0);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  end(&f);
}

static void s0_21_async_push(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  fixture f = begin_with(&options);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  memset(mutable_cpu(f.memory), 1, SIZE);
  gpu(&f);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_E_STATE);
  memset(mutable_cpu(f.memory), 2, SIZE);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_OK);
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

static void s0_21_writing_before_the_push_is_done_is_a_race(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  fixture f = begin_with(&options);
  unsigned char *host = mutable_cpu(f.memory);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_OK);
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

static void s0_21_reading_on_another_stream_before_it_is_a_race(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  fixture f = begin_with(&options);
  crema_context *other = sim_test_context(f.device);
  crema_devptr target = {0};
  assert_int_equal(cr_device_alloc(f.device, SIZE, &target), CREMA_OK);
  mutable_cpu(f.memory);
  assert_int_equal(crema_syncedmem_async_push(f.memory, f.context), CREMA_OK);
  crema_devptr source = f.memory->gpu.data;
  /* Past the automaton nothing orders the two streams. */
  assert_int_equal(other->device->backend->copy(other, CR_COPY_SAME_DEVICE, target.address,
                                                source.address, SIZE),
                   CREMA_OK);
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  /* The accessor orders them. */
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, other, &data), CREMA_OK);
  assert_int_equal(
      other->device->backend->copy(other, CR_COPY_SAME_DEVICE, target.address, data.address, SIZE),
      CREMA_OK);
  assert_int_equal(cr_sim_races(NULL, 0), 1);
  assert_int_equal(crema_context_finish(other), CREMA_OK);
  cr_device_free(f.device, target);
  crema_context_destroy(other);
  crema_syncedmem_destroy(f.memory);
  crema_context_destroy(f.context);
  sim_end_with_races(1);
}

static void s0_27_use_on_a_foreign_device_is_detected(void **state) {
  (void)state;
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

static void s0_29_concurrent_use_trips(void **state) {
  (void)state;
  fixture f = begin();
  /* As if another thread were in the middle of a transition. */
  assert_false(atomic_flag_test_and_set(&f.memory->moving));
  crema_devptr data = {0};
  const void *host = NULL;
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, f.context, &data), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_cpu_data(f.memory, &host), CREMA_E_STATE);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_UNINITIALIZED);
  atomic_flag_clear(&f.memory->moving);
  gpu(&f);
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
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, second, &data), CREMA_OK);
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1), peers ? 1 : 0);
  assert_int_equal(d2h(), peers ? 0 : 1);
  assert_int_equal(second->device->backend->owner(data.address), 1);
  expect_gpu_bytes(data, 5);
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, 0);
  expect_bytes(cpu(f.memory), 5);
  /* Back again, to be overwritten: no bytes are moved. */
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, second, true, &data), CREMA_OK);
  cr_sim_reset_counts();
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data), CREMA_OK);
  assert_int_equal(cr_sim_count(CR_SIM_PEER, -1) + h2d() + d2h(), 0);
  fill_gpu(&f, data, 6);
  expect_bytes(cpu(f.memory), 6);
  crema_context_destroy(second);
  end(&f);
}

static void s0_30_switching_devices_with_peer_access(void **state) {
  (void)state;
  run_switch(true);
}

static void s0_30_switching_devices_by_way_of_the_host(void **state) {
  (void)state;
  run_switch(false);
}

static void s4_08_write_only_access_copies_nothing(void **state) {
  (void)state;
  fixture f = begin();
  void *host = NULL;
  crema_devptr data = {0};
  fill_gpu(&f, mutable_gpu(&f), 5);
  cr_sim_reset_counts();
  assert_int_equal(crema_syncedmem_mutable_cpu_data(f.memory, false, &host), CREMA_OK);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_CPU);
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, f.context, false, &data), CREMA_OK);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  assert_int_equal(h2d() + d2h(), 0);
  crema_syncedmem *fresh = NULL;
  assert_int_equal(crema_syncedmem_create(f.device, SIZE, &fresh), CREMA_OK);
  assert_int_equal(crema_syncedmem_mutable_gpu_data(fresh, f.context, false, &data), CREMA_OK);
  finish(&f);
  expect_gpu_bytes(data, 0);
  crema_syncedmem_destroy(fresh);
  assert_int_equal(crema_syncedmem_create(f.device, SIZE, &fresh), CREMA_OK);
  assert_int_equal(crema_syncedmem_mutable_cpu_data(fresh, false, &host), CREMA_OK);
  expect_bytes(host, 0);
  crema_syncedmem_destroy(fresh);
  end(&f);
}

static void s4_09_memory_outlives_its_stream(void **state) {
  (void)state;
  fixture f = begin();
  crema_context *shortlived = sim_test_context(f.device);
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_mutable_gpu_data(f.memory, shortlived, true, &data), CREMA_OK);
  crema_context_destroy(shortlived);
  expect_bytes(cpu(f.memory), 0);
  mutable_gpu(&f);
  expect_bytes(cpu(f.memory), 0);
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s0_01_host_code_cannot_follow_a_device_address),
      cmocka_unit_test(s0_02_host_memory_of_any_size),
      cmocka_unit_test(s0_03_primitives_with_nothing_to_do),
      cmocka_unit_test(s0_04_pinned_blocks_remember_who_made_them),
      cmocka_unit_test(s0_05_work_runs_on_the_blocks_device),
      cmocka_unit_test(s0_06_a_failed_allocation_changes_nothing),
      cmocka_unit_test(s0_08_no_device_support_is_a_status),
      cmocka_unit_test(s0_09_s0_10_making_a_block_allocates_nothing),
      cmocka_unit_test(s0_12_first_read_on_the_host_gives_zeros),
      cmocka_unit_test(s0_13_first_read_on_the_device_gives_zeros),
      cmocka_unit_test(s0_14_host_bytes_reach_the_device_in_one_copy),
      cmocka_unit_test(s0_15_device_bytes_reach_the_host_in_one_copy),
      cmocka_unit_test(s0_16_a_valid_side_costs_nothing),
      cmocka_unit_test(s0_18_mutable_access_keeps_the_stale_buffer),
      cmocka_unit_test(s0_19_adopted_memory),
      cmocka_unit_test(s0_20_only_owned_memory_is_freed),
      cmocka_unit_test(s0_21_async_push),
      cmocka_unit_test(s0_21_writing_before_the_push_is_done_is_a_race),
      cmocka_unit_test(s0_21_reading_on_another_stream_before_it_is_a_race),
      cmocka_unit_test(s0_27_use_on_a_foreign_device_is_detected),
      cmocka_unit_test(s0_29_concurrent_use_trips),
      cmocka_unit_test(s0_30_switching_devices_with_peer_access),
      cmocka_unit_test(s0_30_switching_devices_by_way_of_the_host),
      cmocka_unit_test(s4_08_write_only_access_copies_nothing),
      cmocka_unit_test(s4_09_memory_outlives_its_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
