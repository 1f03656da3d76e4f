/* The contexts that threads have of their own: rows S1-28, S1-29, S1-31, S1-32. */
#include "device/backend/order.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/stream_fixture.h"

#include <limits.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/memory_lock.h"
#include "memory/math.h"

typedef struct seen {
  crema_device *device;
  crema_context *context;
  uint64_t id;
} seen;

static crema_status ask_for_context(void *arg) {
  seen *s = arg;
  CR_TRY(cr_thread_context(s->device, 0, &s->context));
  s->id = s->context->id;
  return CREMA_OK;
}

TEST(s1_28_contexts_by_thread_device_and_stream) {
  sim_begin_devices(2);
  crema_context *first = NULL, *again = NULL, *other = NULL, *foreign = NULL;
  ok(cr_thread_context(sim_test_device(0), 0, &first));
  ok(cr_thread_context(sim_test_device(0), 0, &again));
  ok(cr_thread_context(sim_test_device(0), 5, &other));
  ok(cr_thread_context(sim_test_device(1), 0, &foreign));
  assert_ptr_equal(first, again);
  assert_true(first != other && first != foreign);
  assert_int_equal(cr_thread_context(sim_test_device(0), -1, &again), CREMA_E_RANGE);
  ok(cr_thread_context(cr_cpu_device(), 3, &again));
  assert_ptr_equal(again, cr_host_context());
  assert_int_equal(cr_sim_live_streams(), 3);
  for (int i = 0; i < 1000; ++i) {
    seen s = {.device = sim_test_device(0)};
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "short", ask_for_context, &s));
    ok(cr_thread_join(&thread));
    assert_true(s.id != first->id);
  }
  assert_int_equal(cr_sim_live_streams(), 3);
  sim_end();
}

static crema_status ask_and_say(void *arg) {
  (void)cr_host_context();
  atomic_store((atomic_bool *)arg, true);
  return CREMA_OK;
}

/* The launch of a collective may take as long as other processes let it wait. */
TEST(a_context_of_the_host_waits_for_no_collective) {
  atomic_bool there = false;
  cr_thread *thread = NULL;
  cr_collective_begin();
  ok(cr_thread_start(&thread, "host", ask_and_say, &there));
  for (int i = 0; i < 10000 && !atomic_load(&there); ++i) cr_clock_sleep(1e-3);
  const bool in_time = atomic_load(&there);
  cr_collective_end();
  ok(cr_thread_join(&thread));
  assert_true(in_time);
}

/* Runs one kernel on the device's stream 0 of the calling thread. */
static crema_status run_kernel(crema_device *device, crema_context **out) {
  cr_tensor *tensor = NULL;
  crema_devptr memory = {0};
  CR_TRY(cr_thread_context(device, 0, out));
  CR_TRY(cr_tensor_create(CREMA_F32, 100, &tensor));
  crema_status status = cr_tensor_write(tensor, *out, CR_PLAIN_F32, &memory);
  if (status == CREMA_OK) status = cr_tensor_scale(tensor, 2);
  if (status == CREMA_OK) status = crema_context_finish(*out);
  cr_tensor_destroy(tensor);
  return status;
}

typedef struct handle_seen {
  crema_device *device;
  cr_sim_handle handle;
  bool early;
} handle_seen;

static crema_status see_handle(void *arg) {
  handle_seen *h = arg;
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(h->device, 0, &context));
  h->early = cr_sim_handle_of(context, &h->handle);
  CR_TRY(run_kernel(h->device, &context));
  CR_TRY(run_kernel(h->device, &context));
  bool there = cr_sim_handle_of(context, &h->handle);
  return there && h->handle.stream == context->id ? CREMA_OK : CREMA_E_INTERNAL;
}

TEST(s1_28_s1_29_library_handles) {
  sim_begin_devices(2);
  handle_seen of[3] = {{.device = sim_test_device(0)},
                       {.device = sim_test_device(1)},
                       {.device = sim_test_device(0)}};
  ok(see_handle(&of[0]));
  ok(see_handle(&of[1]));
  assert_int_equal(cr_sim_count(CR_SIM_HANDLE_OPEN, -1), 2);
  cr_sim_reset_counts();
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "handle", see_handle, &of[2]));
  ok(cr_thread_join(&thread));
  /* Made late, bound to the stream, scalars on the host, one for each thread and device. */
  for (int i = 0; i < 3; ++i) {
    assert_false(of[i].early);
    assert_true(of[i].handle.host_pointers);
    for (int k = 0; k < i; ++k) {
      assert_int_not_equal(of[i].handle.number, of[k].handle.number);
      assert_int_not_equal(of[i].handle.stream, of[k].handle.stream);
    }
  }
  /* The thread's handle was destroyed with it, before its stream. */
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log), handle = size, stream = size;
  for (size_t i = 0; i < size; ++i) {
    if (log[i].stream != of[2].handle.stream) continue;
    if (log[i].op == CR_SIM_HANDLE_CLOSE) handle = i;
    if (log[i].op == CR_SIM_STREAM_CLOSE) stream = i;
  }
  assert_true(handle < stream && stream < size);
  assert_int_equal(cr_sim_count(CR_SIM_HANDLE_OPEN, -1), 1);
  assert_int_equal(cr_sim_count(CR_SIM_HANDLE_CLOSE, -1), 1);
  /* A context without kernels has none. */
  crema_context *context = sim_test_context(sim_test_device(0));
  crema_context_destroy(context);
  assert_int_equal(cr_sim_count(CR_SIM_HANDLE_OPEN, -1), 1);
  sim_end();
}

TEST(s1_31_streams_in_turn_and_busy_ones_skipped) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_devptr memory = {0};
  ok(cr_device_alloc(device, 16, &memory));
  crema_context *context[33];
  for (int i = 0; i < 33; ++i) {
    ok(cr_thread_context_next(device, &context[i]));
  }
  assert_ptr_equal(context[32], context[0]);
  for (int i = 1; i < 32; ++i) assert_true(context[i] != context[i - 1]);
  ok(device->backend->zero(context[1], memory, 16));
  crema_context *next = NULL;
  ok(cr_thread_context_next(device, &next));
  assert_ptr_equal(next, context[2]);
  /* With all of them busy there still is one. */
  for (int i = 0; i < 32; ++i) {
    cr_native_event *event = NULL;
    ok(device->backend->event_create(device, &event));
    ok(device->backend->event_record(context[i], event));
    device->backend->event_destroy(event);
  }
  crema_context *turn[64];
  for (int i = 0; i < 64; ++i) {
    ok(cr_thread_context_next(device, &turn[i]));
    /* In turn, so that none gets all the work. */
    for (int k = 0; k < i && k < 32; ++k) {
      if (i < 32) assert_ptr_not_equal(turn[i], turn[k]);
    }
    if (i >= 32) assert_ptr_equal(turn[i], turn[i - 32]);
  }
  assert_int_equal(cr_sim_live_streams(), 32);
  /* As soon as one has nothing left to do it is taken, whichever is next in turn. */
  while (cr_sim_step(context[7])) {
  }
  for (int i = 0; i < 3; ++i) {
    ok(cr_thread_context_next(device, &next));
    assert_ptr_equal(next, context[7]);
  }
  /* Every number from 0 up to the largest names a stream; a negative one does not. */
  static const int number[] = {32, 1000, INT_MAX - 1, INT_MAX};
  crema_context *named[4], *again = NULL;
  for (int i = 0; i < 4; ++i) {
    ok(cr_thread_context(device, number[i], &named[i]));
    for (int k = 0; k < 32; ++k) assert_ptr_not_equal(named[i], context[k]);
    for (int k = 0; k < i; ++k) assert_ptr_not_equal(named[i], named[k]);
    ok(cr_thread_context(device, number[i], &again));
    assert_ptr_equal(again, named[i]);
  }
  assert_int_equal(cr_thread_context(device, -1, &next), CREMA_E_RANGE);
  assert_int_equal(cr_thread_context(device, INT_MIN, &next), CREMA_E_RANGE);
  cr_device_free(device, memory);
  sim_end();
}

/* Asking neither hides a failure nor causes one: the next wait reports it, once. */
TEST(s1_32_asking_leaves_failures_alone) {
  stream_fixture f = stream_begin(true);
  bool busy = false;
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  for (int i = 0; i < 2; ++i) {
    stream_queue(&f);
  }
  for (int left = 2; left > 0; --left) {
    ok(cr_context_busy(f.context, &busy));
    assert_true(busy);
    assert_true(cr_sim_step(f.context));
  }
  for (int i = 0; i < 3; ++i) {
    ok(cr_context_busy(f.context, &busy));
    assert_false(busy);
  }
  assert_int_equal(crema_context_finish(f.context), CREMA_E_DEVICE);
  ok(cr_context_busy(f.context, &busy));
  ok(crema_context_finish(f.context));
  stream_end(&f);
}

TEST(s1_32_busy_or_not) {
  stream_fixture f = stream_begin(true);
  bool busy = true;
  ok(cr_context_busy(f.context, &busy));
  assert_false(busy);
  stream_queue(&f);
  ok(cr_context_busy(f.context, &busy));
  assert_true(busy);
  assert_true(cr_sim_step(f.context));
  ok(cr_context_busy(f.context, &busy));
  assert_false(busy);
  ok(crema_context_finish(f.context));
  stream_end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
