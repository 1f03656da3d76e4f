/* The rows of the mechanisms that ask for a device with memory of its own, on whatever device there
 * is: the argument names it: cpu, sim, cuda or opencl. What only a simulated device can show is in the
 * other programs of this folder. Exit code 77: there is no such device. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "crema/event.h"
#include "device/backend/current.h"
#include "device/backend/order.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/driver.h"
#include "device/memory/memory_lock.h"
#include "device/memory/pool.h"
#include "memory/blob.h"
#include "memory/math.h"
#include "memory/syncedmem.h"

enum { NO_DEVICE = 77, SIZE = 10000 };

static crema_device *device;
static crema_context *context, *other;

/* With a single memory there is nothing to copy or to order, so the test would prove nothing and is
 * skipped. */
static bool host_memory(void) {
  return device->backend->host_memory;
}

static void send(crema_context *by, crema_devptr to, unsigned char value) {
  unsigned char bytes[SIZE];
  memset(bytes, value, SIZE);
  ok(cr_copy_from_cpu(by, to, bytes, SIZE));
  ok(crema_context_finish(by));
}

static void expect(crema_devptr from, unsigned char value) {
  unsigned char bytes[SIZE];
  ok(cr_copy_any((uintptr_t)bytes, from.address, SIZE));
  for (int i = 0; i < SIZE; ++i) assert_int_equal(bytes[i], value);
}

static crema_syncedmem *new_block(void) {
  crema_syncedmem *memory = NULL;
  ok(crema_syncedmem_create(device, SIZE, &memory));
  return memory;
}

static unsigned char *mutable_cpu(crema_syncedmem *memory) {
  void *data = NULL;
  ok(crema_syncedmem_mutable_cpu_data(memory, true, &data));
  return data;
}

static crema_devptr take(cr_pool *pool, size_t bytes, uint64_t user) {
  crema_devptr memory = {0};
  ok(cr_pool_alloc(pool, bytes, user, &memory));
  return memory;
}

/* ---- S0 ---- */

TEST(s0_01_addresses_belong_to_the_device) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_devptr memory = {0};
  int here = 0;
  ok(cr_device_alloc(device, 100, &memory));
  assert_int_equal(device->backend->owner(memory.address), device->index);
  assert_int_equal(device->backend->owner((uintptr_t)&here), -1);
  cr_device_free(device, memory);
}

TEST(s0_04_pinned_memory_goes_back_to_its_maker) {
  if (host_memory()) skip(); /* for memory of a device alone */
  size_t before = crema_pinned_bytes();
  cr_tensor *tensor = NULL;
  const void *data = NULL;
  crema_devptr alias = {0};
  ok(cr_tensor_create(CREMA_F32, 100, &tensor));
  ok(cr_device_set_current(device));
  ok(cr_tensor_host_read(tensor, &data));
  assert_int_equal(crema_pinned_bytes(), before + 400);
  ok(device->backend->host_alias(device, (void *)(uintptr_t)data, &alias));
  ok(cr_device_set_current(cr_cpu_device()));
  cr_tensor_destroy(tensor);
  assert_int_equal(crema_pinned_bytes(), before);
  /* Made for the CPU, freed while the thread works on the device. */
  ok(cr_tensor_create(CREMA_F32, 100, &tensor));
  ok(cr_tensor_host_read(tensor, &data));
  ok(cr_device_set_current(device));
  cr_tensor_destroy(tensor);
  ok(cr_device_set_current(cr_cpu_device()));
}

TEST(s0_06_s4_12_more_memory_than_there_is) {
  crema_syncedmem *memory = NULL;
  crema_devptr data = {0};
  ok(crema_syncedmem_create(device, (size_t)1 << 46, &memory));
  assert_fails(crema_syncedmem_gpu_data(memory, context, &data), CREMA_E_NO_MEMORY,
               "70368744177664 bytes");
  assert_int_equal(crema_syncedmem_head(memory), CREMA_UNINITIALIZED);
  crema_syncedmem_destroy(memory);
  /* It leaves nothing behind: neither memory nor an error. */
  ok(crema_context_finish(context));
  memory = new_block();
  ok(crema_syncedmem_gpu_data(memory, context, &data));
  crema_syncedmem_destroy(memory);
}

TEST(s0_13_fresh_device_memory_is_zero) {
  if (host_memory()) skip(); /* for memory of a device alone */
  /* Memory that was used before. */
  for (int i = 0; i < 3; ++i) {
    crema_syncedmem *memory = new_block();
    crema_devptr data = {0};
    ok(crema_syncedmem_mutable_gpu_data(memory, context, true, &data));
    ok(crema_context_finish(context));
    expect(data, 0);
    send(context, data, 0xEE);
    crema_syncedmem_destroy(memory);
  }
}

TEST(s0_14_s0_15_s0_18_there_and_back) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_syncedmem *memory = new_block();
  crema_devptr data = {0}, again = {0};
  memset(mutable_cpu(memory), 7, SIZE);
  ok(crema_syncedmem_gpu_data(memory, context, &data));
  expect(data, 7);
  assert_int_equal(crema_syncedmem_head(memory), CREMA_SYNCED);
  ok(crema_syncedmem_mutable_gpu_data(memory, context, true, &data));
  send(context, data, 9);
  assert_int_equal(mutable_cpu(memory)[SIZE - 1], 9);
  mutable_cpu(memory)[0] = 1;
  /* The stale side is overwritten where it is. */
  ok(crema_syncedmem_gpu_data(memory, context, &again));
  assert_int_equal(again.address, data.address);
  crema_syncedmem_destroy(memory);
}

TEST(s0_21_push_and_use_on_another_stream) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_syncedmem *memory = new_block();
  crema_devptr data = {0};
  for (int i = 1; i < 20; ++i) {
    memset(mutable_cpu(memory), i, SIZE);
    ok(crema_syncedmem_async_push(memory, other));
    ok(crema_syncedmem_gpu_data(memory, context, &data));
    /* A copy on the second stream comes after the push on the first. */
    crema_devptr to = {0};
    ok(cr_device_alloc_for(context, SIZE, &to));
    ok(cr_copy_same_device(context, to, data, SIZE));
    ok(crema_context_finish(context));
    expect(to, (unsigned char)i);
    ok(crema_context_finish(other));
    cr_device_free(device, to);
  }
  crema_syncedmem_destroy(memory);
}

TEST(s0_26_sums_where_the_values_are) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_blob *blob = NULL;
  crema_shape shape = cr_shape_1(1000);
  float *data = NULL;
  crema_devptr on_device = {0};
  double sum = 0, squares = 0;
  ok(crema_blob_create(&shape, &blob));
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int i = 0; i < 1000; ++i) data[i] = (float)(i - 500);
  ok(cr_tensor_update(blob->data, context, CR_PLAIN_F32, &on_device));
  ok(cr_tensor_asum(blob->data, &sum));
  ok(cr_tensor_sumsq(blob->data, &squares));
  assert_true(sum == 250000 && squares == 83333500);
  ok(cr_tensor_scale(blob->data, 2));
  ok(cr_tensor_asum(blob->data, &sum));
  assert_true(sum == 500000);
  crema_blob_destroy(blob);
}

TEST(s0_30_a_block_moves_between_devices) {
  if (host_memory() || crema_device_count(device->backend->type) < 2) skip();
  crema_device *second = NULL;
  crema_context *there = NULL;
  crema_devptr data = {0};
  ok(crema_device_get(device->backend->type, 1, &second));
  ok(crema_context_create(second, 1, &there));
  crema_syncedmem memory;
  cr_syncedmem_init(&memory, device, SIZE);
  ok(cr_syncedmem_write(&memory, context, true, &data));
  send(context, data, 5);
  ok(cr_syncedmem_read(&memory, there, &data));
  assert_int_equal(device->backend->owner(data.address), 1);
  expect(data, 5);
  assert_int_equal(mutable_cpu(&memory)[3], 5);
  ok(cr_syncedmem_read(&memory, context, &data));
  expect(data, 5);
  cr_syncedmem_clear(&memory);
  crema_context_destroy(there);
}

/* ---- S1 ---- */

TEST(s1_12_copies_by_address_are_complete_on_return) {
  if (host_memory()) skip(); /* for memory of a device alone */
  unsigned char sent[SIZE];
  crema_devptr a = {0}, b = {0};
  ok(cr_device_alloc(device, SIZE, &a));
  ok(cr_device_alloc(device, SIZE, &b));
  for (int i = 0; i < 10; ++i) {
    memset(sent, i, SIZE);
    ok(cr_copy_any(a.address, (uintptr_t)sent, SIZE));
    ok(cr_copy_any(b.address, a.address, SIZE));
    expect(b, (unsigned char)i);
  }
  cr_device_free(device, a);
  cr_device_free(device, b);
}

TEST(s1_22_s1_23_s4_10_pools_of_every_mode) {
  if (host_memory()) skip(); /* for memory of a device alone */
  for (int mode = CR_POOL_NONE; mode <= CR_POOL_THC; ++mode) {
    cr_pool_options options = cr_pool_options_for((cr_pool_mode)mode);
    cr_pool *pool = NULL;
    ok(cr_pool_create(device, &options, &pool));
    assert_int_equal(take(pool, 0, 0).address, 0);
    crema_devptr a = take(pool, 1000, 0), b = take(pool, 1000, 0), c = take(pool, 100000, 0);
    assert_true(a.address != b.address && b.address != c.address && a.address != c.address);
    uintptr_t before = a.address;
    ok(cr_pool_free(pool, a, 0));
    a = take(pool, 1000, 0);
    if (mode != CR_POOL_NONE) assert_int_equal(a.address, before);
    ok(cr_pool_free(pool, a, 0));
    assert_int_equal(cr_pool_free(pool, (crema_devptr){12345}, 0), CREMA_E_ARGUMENT);
    ok(cr_pool_free(pool, b, 0));
    ok(cr_pool_free(pool, c, 0));
    assert_int_equal(cr_pool_describe(pool).live_blocks, 0);
    size_t free_bytes = 0, total = 0;
    ok(cr_pool_memory(pool, true, &free_bytes, &total));
    assert_true(free_bytes > 0 && free_bytes <= total);
    cr_pool_destroy(pool);
  }
}

/* The device's table, with calls that check whether a collective is being launched. */
static struct {
  const cr_backend *real;
  atomic_bool collective, over;
  atomic_int calls, inside;
} watch;

static void watched(void) {
  atomic_fetch_add(&watch.calls, 1);
  if (atomic_load(&watch.collective)) atomic_fetch_add(&watch.inside, 1);
}

static crema_status watched_alloc(crema_device *of, size_t bytes, crema_devptr *out) {
  watched();
  crema_status status = watch.real->alloc(of, bytes, out);
  watched();
  return status;
}

static void watched_free(crema_device *of, crema_devptr memory) {
  watched();
  watch.real->free(of, memory);
  watched();
}

static crema_status watched_host_alloc(crema_device *of, size_t bytes, void **out) {
  watched();
  crema_status status = watch.real->host_alloc(of, bytes, out);
  watched();
  return status;
}

static void watched_host_free(crema_device *of, void *memory) {
  watched();
  watch.real->host_free(of, memory);
  watched();
}

static crema_status watched_info(crema_device *of, size_t *free_bytes, size_t *total_bytes) {
  watched();
  crema_status status = watch.real->memory_info(of, free_bytes, total_bytes);
  watched();
  return status;
}

enum { STORMS = 3, COLLECTIVES = 50 };

/* A collective waits until no thread is in such a call, and may begin between any two of them. */
static void pause_shortly(void) {
  cr_clock_sleep(1e-5);
}

/* Repeats one kind of call: device memory, page-locked memory, how much memory there is. */
static crema_status storm(void *arg) {
  const uintptr_t kind = (uintptr_t)arg;
  while (!atomic_load(&watch.over)) {
    crema_devptr memory = {0};
    cr_block pinned;
    size_t free_bytes = 0, total = 0;
    switch (kind) {
      case 0:
        CR_TRY(cr_device_alloc(device, (size_t)5 << 20, &memory));
        pause_shortly();
        cr_device_free(device, memory);
        break;
      case 1:
        CR_TRY(cr_block_new(device, 4096, &(cr_block_options){.pinned = true}, &pinned));
        pause_shortly();
        CR_TRY(cr_block_free(&pinned));
        break;
      default: CR_TRY(cr_device_memory_info(device, &free_bytes, &total));
    }
    pause_shortly();
  }
  return CREMA_OK;
}

/* While a collective is launched no thread allocates, frees or asks for memory of the device or
 * page-locked memory; in between they all do. */
TEST(s1_27_s4_07_no_allocation_beside_a_collective) {
  if (host_memory()) skip(); /* for memory of a device alone */ /* which no driver manages */
  cr_thread *thread[STORMS] = {0};
  watch.real = device->backend;
  cr_backend backend = *watch.real;
  backend.alloc = watched_alloc;
  backend.free = watched_free;
  backend.host_alloc = watched_host_alloc;
  backend.host_free = watched_host_free;
  backend.memory_info = watched_info;
  device->backend = &backend;
  for (uintptr_t i = 0; i < STORMS; ++i) {
    ok(cr_thread_start(&thread[i], "storm", storm, (void *)i));
  }
  for (int i = 0; i < COLLECTIVES; ++i) {
    int before = atomic_load(&watch.calls);
    while (atomic_load(&watch.calls) < before + 2 * STORMS) pause_shortly();
    cr_collective_begin();
    atomic_store(&watch.collective, true);
    cr_clock_sleep(0.0002);
    atomic_store(&watch.collective, false);
    cr_collective_end();
  }
  atomic_store(&watch.over, true);
  for (int i = 0; i < STORMS; ++i) ok(cr_thread_join(&thread[i]));
  device->backend = watch.real;
  assert_int_equal(atomic_load(&watch.inside), 0);
}

typedef struct seen {
  crema_context *context;
  uint64_t id;
} seen;

static crema_status use_own_context(void *arg) {
  seen *s = arg;
  crema_devptr memory = {0};
  CR_TRY(cr_thread_context(device, 0, &s->context));
  s->id = s->context->id;
  CR_TRY(cr_device_alloc_for(s->context, SIZE, &memory));
  crema_status status = device->backend->zero(s->context, memory, SIZE);
  cr_device_free_after(device, memory, s->id);
  return status;
}

TEST(s1_28_contexts_of_threads) {
  if (host_memory()) skip(); /* for memory of a device alone */
  seen mine = {0}, again = {0};
  ok(use_own_context(&mine));
  ok(use_own_context(&again));
  assert_ptr_equal(mine.context, again.context);
  for (int i = 0; i < 50; ++i) {
    seen s = {0};
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "short", use_own_context, &s));
    ok(cr_thread_join(&thread));
    assert_int_not_equal(s.id, mine.id);
  }
}

TEST(s1_32_idle_when_the_work_is_done) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_devptr memory = {0};
  bool busy = true;
  ok(cr_device_alloc(device, (size_t)16 << 20, &memory));
  for (int i = 0; i < 20; ++i) {
    ok(device->backend->zero(context, memory, (size_t)16 << 20));
    ok(cr_context_busy(context, &busy));
  }
  ok(crema_context_finish(context));
  ok(cr_context_busy(context, &busy));
  assert_false(busy);
  ok(crema_context_finish(context));
  cr_device_free(device, memory);
}

TEST(s1_39_what_devices_say) {
  int count = crema_device_count(device->backend->type);
  crema_device_info info;
  assert_true(count > device->index);
  assert_true(crema_device_reaches(device, device));
  for (int i = 0; i < 2; ++i) ok(crema_device_describe(device, &info));
  assert_true(info.name[0] != '\0' && info.compute_units > 0);
  assert_true(info.memory_free > 0 && info.memory_free <= info.memory_total);
}

static crema_event *new_event(crema_device *of) {
  crema_event *event = NULL;
  ok(crema_event_create(of, &event));
  return event;
}

static crema_status finish_soon(void *arg) {
  cr_clock_sleep(0.01);
  return crema_event_set_finished(arg, NULL);
}

TEST(s1_48_s1_49_s1_50_an_event_in_a_stream) {
  if (host_memory()) skip(); /* for memory of a device alone */
  crema_event *event = new_event(device);
  crema_devptr memory = {0};
  ok(cr_device_alloc(device, SIZE, &memory));
  for (int i = 0; i < 10; ++i) {
    assert_int_equal(crema_event_query(event), CREMA_EVENT_INITIALIZED);
    ok(device->backend->zero(context, memory, SIZE));
    ok(crema_event_record(event, context, NULL));
    assert_int_equal(crema_event_record(event, context, NULL), CREMA_E_STATE);
    while (crema_event_query(event) == CREMA_EVENT_SCHEDULED) cr_clock_sleep(1e-5);
    assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
    assert_int_equal(crema_event_finish(event), CREMA_EVENT_SUCCESS);
    assert_string_equal(crema_event_message(event), "no error");
    crema_event_reset(event);
  }
  cr_device_free(device, memory);
  crema_event_destroy(event);
}

TEST(s1_51_who_waits) {
  crema_event *of_cpu = new_event(cr_cpu_device()), *of_device = new_event(device);
  crema_devptr a = {0}, b = {0};
  ok(cr_device_alloc(device, SIZE, &a));
  ok(cr_device_alloc(device, SIZE, &b));
  if (!host_memory()) {
    for (int i = 1; i < 20; ++i) {
      unsigned char bytes[SIZE];
      memset(bytes, i, SIZE);
      ok(cr_copy_from_cpu(context, a, bytes, SIZE));
      ok(crema_event_record(of_device, context, NULL));
      ok(crema_event_wait(of_device, other)); /* a stream waits for a stream */
      ok(cr_copy_same_device(other, b, a, SIZE));
      ok(crema_event_wait(of_device, cr_host_context())); /* the host waits for a stream */
      assert_int_equal(crema_event_query(of_device), CREMA_EVENT_SUCCESS);
      ok(crema_context_finish(other));
      expect(b, (unsigned char)i);
      crema_event_reset(of_device);
    }
  }
  crema_context *waiters[2] = {context, cr_host_context()};
  for (int i = 0; i < 2; ++i) {
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "finish", finish_soon, of_cpu));
    ok(crema_event_wait(of_cpu, waiters[i]));
    assert_int_equal(crema_event_query(of_cpu), CREMA_EVENT_SUCCESS);
    ok(cr_thread_join(&thread));
    crema_event_reset(of_cpu);
  }
  cr_device_free(device, a);
  cr_device_free(device, b);
  crema_event_destroy(of_device);
  crema_event_destroy(of_cpu);
}

/* ---- S4 ---- */

/* Memory that is freed while a stream still writes it goes to another stream only when that is
 * done: what the other one writes stays. */
TEST(s4_17_reuse_by_another_stream) {
  if (host_memory()) skip(); /* for memory of a device alone */
  enum { LARGE = 4 << 20 };
  for (int i = 0; i < 50; ++i) {
    crema_devptr a = {0}, b = {0};
    ok(cr_device_alloc_for(context, LARGE, &a));
    for (int k = 0; k < 4; ++k) ok(device->backend->zero(context, a, LARGE));
    cr_device_free_after(device, a, context->id);
    ok(cr_device_alloc_for(other, LARGE, &b));
    send(other, b, (unsigned char)(i + 1));
    ok(crema_context_finish(context));
    expect(b, (unsigned char)(i + 1));
    cr_device_free(device, b);
  }
}

TEST(s4_24_page_locked_memory_by_its_alias) {
  if (host_memory()) skip(); /* for memory of a device alone */
  enum { COUNT = 1000 };
  cr_block buffer;
  crema_devptr alias = {0}, memory = {0};
  uint16_t got[COUNT];
  assert_int_equal(cr_block_new_pinned(device, 0, &buffer, &alias), CREMA_E_ARGUMENT);
  ok(cr_block_new_pinned(device, COUNT * sizeof(float), &buffer, &alias));
  ok(cr_device_alloc(device, sizeof got, &memory));
  for (int i = 0; i < COUNT; ++i) ((float *)buffer.address)[i] = 1.5f;
  /* Work of the device reads the host's values through the alias. */
  ok(device->backend->convert(context, COUNT, (cr_format){CREMA_F16, NULL}, memory, CR_PLAIN_F32,
                              alias));
  ok(crema_context_finish(context));
  ok(cr_copy_any((uintptr_t)got, memory.address, sizeof got));
  for (int i = 0; i < COUNT; ++i) assert_int_equal(got[i], 0x3e00);
  cr_device_free(device, memory);
  ok(cr_block_free(&buffer));
}

static bool open_device(const char *name) {
  static const char *const names[] = {"cpu", "cuda", "sim", "opencl"};
  const int first = 0;
  int type = 0;
  while (type < 4 && strcmp(name, names[type]) != 0) ++type;
  if (type == 4) {
    fprintf(stderr, "there are devices cpu, sim, cuda and opencl, not \"%s\"\n", name);
    exit(2);
  }
  return crema_device_open((crema_device_type)type, &first, 1) == CREMA_OK &&
         crema_device_get((crema_device_type)type, 0, &device) == CREMA_OK &&
         crema_context_create(device, 1, &context) == CREMA_OK &&
         crema_context_create(device, 2, &other) == CREMA_OK;
}

int main(int argc, char **argv) {
  arguments_read = 1; /* the device */
  if (!open_device(argc > 1 ? argv[1] : "sim")) {
    printf("skipped: %s\n", crema_error_text());
    return NO_DEVICE;
  }
  int failed = run_all_tests(NULL, NULL);
  crema_context_destroy(other);
  crema_context_destroy(context);
  return failed;
}
