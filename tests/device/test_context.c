/* Contexts, devices and what belongs to them: rows S1-02 to S1-08, S1-14, S1-15, S1-30, S1-33 to
 * S1-42. */
#include "device/backend/current.h"
#include "device/backend/order.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/scratchpad.h"
#include "device/stream_fixture.h"
#include "log_lines.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/thread.h"
#include "device/backend/current.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"
#include "device/memory/scratchpad.h"
#include "device/registry.h"
#include "memory/math.h"
#include "memory/tensor.h"

/* The same calls on every back end. */
static void run_conformance(crema_device *device) {
  crema_context *context = sim_test_context(device);
  assert_ptr_equal(crema_context_device(context), device);
  crema_devptr a = {0}, b = {0};
  ok(cr_device_alloc(device, 1000, &a));
  ok(cr_device_alloc_for(context, 1000, &b));
  assert_int_equal(a.address % 64, 0);
  unsigned char out[1000], in[1000];
  for (int i = 0; i < 1000; ++i) in[i] = (unsigned char)i;
  ok(cr_copy_from_cpu(context, a, in, 1000));
  ok(device->backend->zero(context, b, 1000));
  ok(cr_copy_same_device(context, b, (crema_devptr){a.address + 100}, 500));
  ok(cr_copy_to_cpu(context, out, b, 1000));
  ok(crema_context_finish(context));
  assert_memory_equal(out, in + 100, 500);
  for (int i = 500; i < 1000; ++i) assert_int_equal(out[i], 0);
  cr_native_event *event = NULL;
  bool done = false;
  ok(device->backend->event_create(device, &event));
  ok(device->backend->event_record(context, event));
  ok(device->backend->event_wait(context, event));
  ok(device->backend->event_finish(event));
  ok(device->backend->event_query(event, &done));
  assert_true(done);
  device->backend->event_destroy(event);
  /* Half precision and back. */
  float value[4] = {1, 2.5f, -3, 1000}, back[4] = {0};
  ok(cr_copy_from_cpu(context, a, value, sizeof value));
  cr_format half = {CREMA_F16, NULL};
  ok(device->backend->convert(context, 4, half, b, CR_PLAIN_F32, a));
  ok(device->backend->convert(context, 4, CR_PLAIN_F32, a, half, b));
  ok(cr_copy_to_cpu(context, back, a, sizeof back));
  ok(crema_context_finish(context));
  assert_memory_equal(back, value, sizeof value);
  crema_devptr scratchpad = {0}, smaller = {0};
  ok(cr_context_workspace(context, 5000, &scratchpad));
  ok(cr_context_workspace(context, 100, &smaller));
  assert_int_equal(scratchpad.address, smaller.address);
  crema_device_info info;
  ok(crema_device_describe(device, &info));
  assert_true(info.name[0] != '\0' && info.memory_total > 0);
  cr_device_free(device, b);
  cr_device_free(device, a);
  crema_context_destroy(context);
  crema_context_destroy(NULL);
}

TEST(s1_06_one_suite_for_all_back_ends) {
  run_conformance(cr_cpu_device());
  cr_sim_options options = sim_test_options(1);
  sim_begin(&options);
  run_conformance(sim_test_device(0));
  sim_end();
  options.stepped = true;
  sim_begin(&options);
  run_conformance(sim_test_device(0));
  sim_end();
}

TEST(s1_02_s1_03_types_are_constant) {
  crema_device *device = NULL;
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &device));
  assert_ptr_equal(device, cr_cpu_device());
  assert_int_equal(crema_device_get_type(device), CREMA_DEVICE_CPU);
  assert_int_equal(crema_device_get_index(device), 0);
  assert_int_equal(crema_device_count(CREMA_DEVICE_CPU), 1);
  assert_int_equal(crema_device_get(CREMA_DEVICE_CPU, 1, &device), CREMA_E_NO_DEVICE);
  sim_begin_devices(3);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 3);
  assert_int_equal(crema_device_get_type(sim_test_device(2)), CREMA_DEVICE_SIM);
  assert_int_equal(crema_device_get_index(sim_test_device(2)), 2);
  assert_ptr_equal(sim_test_device(2), sim_test_device(2));
  /* A context is of its device's type; one of another type has another index to be asked with. */
  crema_context *context = sim_test_context(sim_test_device(2));
  assert_int_equal(crema_device_get_type(crema_context_device(context)), CREMA_DEVICE_SIM);
  assert_int_equal(crema_device_get_index(crema_context_device(context)), 2);
  crema_context_destroy(context);
  context = sim_test_context(cr_cpu_device());
  assert_int_equal(crema_device_get_type(crema_context_device(context)), CREMA_DEVICE_CPU);
  crema_context_destroy(context);
  static const int type[] = {-1, 4, 5, 9, 63};
  for (size_t i = 0; i < sizeof type / sizeof type[0]; ++i) {
    device = NULL;
    assert_int_equal(crema_device_get((crema_device_type)type[i], 0, &device), CREMA_E_NO_DEVICE);
    assert_null(device);
    assert_int_equal(crema_device_count((crema_device_type)type[i]), 0);
  }
  sim_end();
}

TEST(s1_04_device_of_an_address) {
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  for (int i = 0; i < 2; ++i) {
    crema_devptr memory = {0};
    crema_device *owner = NULL;
    ok(cr_device_alloc(sim_test_device(i), 100, &memory));
    ok(cr_device_of_address(memory.address + 50, &owner));
    assert_ptr_equal(owner, sim_test_device(i));
    assert_int_equal(owner->backend->owner((uintptr_t)&options), -1);
    cr_device_free(sim_test_device(i), memory);
  }
  crema_device *owner = NULL;
  ok(cr_device_of_address((uintptr_t)&options, &owner));
  assert_ptr_equal(owner, cr_cpu_device());
  sim_end();
}

TEST(s1_05_registry) {
  const cr_backend *found = NULL;
  ok(cr_backend_find(CREMA_DEVICE_CPU, &found));
  assert_ptr_equal(found, &cr_backend_cpu);
  for (int type = -2; type < 70; ++type) {
    if (type == CREMA_DEVICE_CUDA || type == CREMA_DEVICE_OPENCL) continue; /* there or not */
    bool known = type == CREMA_DEVICE_CPU || type == CREMA_DEVICE_SIM;
    assert_int_equal(cr_backend_find((crema_device_type)type, &found),
                     known ? CREMA_OK : CREMA_E_NO_DEVICE);
    if (known) assert_int_equal(found->type, type);
  }
  assert_int_equal(cr_backend_register(&cr_backend_cpu), CREMA_E_EXISTS);
  assert_int_equal(cr_backend_register(&cr_backend_sim), CREMA_E_EXISTS);
  cr_backend odd = cr_backend_cpu;
  odd.type = (crema_device_type)63;
  assert_int_equal(cr_backend_register(&odd), CREMA_E_RANGE);
}

TEST(s1_07_s1_40_the_current_device) {
  sim_begin_devices(2);
  crema_device *first = sim_test_device(0), *second = sim_test_device(1);
  assert_ptr_equal(cr_device_current(), cr_cpu_device());
  ok(cr_device_set_current(first));
  cr_device_guard guard;
  cr_sim_reset_counts();
  ok(cr_device_enter(first, &guard));
  cr_device_leave(guard);
  assert_int_equal(cr_sim_count(CR_SIM_SET_DEVICE, -1), 0);
  ok(cr_device_enter(second, &guard));
  assert_ptr_equal(cr_device_current(), second);
  cr_device_leave(guard);
  assert_ptr_equal(cr_device_current(), first);
  assert_int_equal(cr_sim_count(CR_SIM_SET_DEVICE, -1), 2);
  /* The CPU needs no switch: its work leaves the thread's device alone. */
  cr_sim_reset_counts();
  ok(cr_device_enter(cr_cpu_device(), &guard));
  assert_ptr_equal(cr_device_current(), first);
  cr_device_leave(guard);
  assert_int_equal(cr_sim_count(CR_SIM_SET_DEVICE, -1), 0);
  /* Work of a context runs on its stream and device, whatever the thread's device is. */
  crema_context *context = sim_test_context(second);
  crema_devptr bytes = {0};
  const cr_sim_record *log = NULL;
  char host[16] = {0};
  ok(cr_device_alloc(second, sizeof host, &bytes));
  cr_sim_reset_counts();
  ok(cr_copy_from_cpu(context, bytes, host, sizeof host));
  size_t size = cr_sim_log(&log), copies = 0;
  for (size_t i = 0; i < size; ++i) {
    if (log[i].op != CR_SIM_H2D) continue;
    ++copies;
    assert_int_equal(log[i].device, 1);
    assert_int_equal(log[i].current_device, 1);
    assert_int_equal(log[i].stream, context->id);
  }
  assert_int_equal(copies, 1);
  assert_ptr_equal(cr_device_current(), first);
  ok(crema_context_finish(context));
  cr_device_free(second, bytes);
  crema_context_destroy(context);
  /* Restored when the guarded call fails, too. */
  cr_sim_fail(CR_SIM_ALLOC, 1, CREMA_E_DEVICE, false);
  crema_devptr memory = {0};
  assert_int_equal(cr_device_alloc(second, 100, &memory), CREMA_E_DEVICE);
  assert_ptr_equal(cr_device_current(), first);
  /* A switch that fails changes nothing. */
  cr_sim_fail(CR_SIM_SET_DEVICE, 1, CREMA_E_DEVICE, false);
  assert_int_equal(cr_device_enter(second, &guard), CREMA_E_DEVICE);
  cr_device_leave(guard);
  assert_ptr_equal(cr_device_current(), first);
  sim_end();
  assert_ptr_equal(cr_device_current(), cr_cpu_device());
}

TEST(s1_08_finish_reports_a_late_failure_once) {
  stream_fixture f = stream_begin(false);
  stream_queue_failure(&f);
  stream_queue(&f);
  assert_fails(crema_context_finish(f.context), CREMA_E_DEVICE, "simulated failure");
  ok(crema_context_finish(f.context));
  /* A kernel that fails while it runs. */
  cr_tensor *tensor = NULL;
  crema_devptr memory = {0};
  ok(cr_tensor_create(CREMA_F32, 100, &tensor));
  crema_context *own = NULL;
  ok(cr_thread_context(f.device, 0, &own));
  ok(cr_tensor_write(tensor, own, CR_PLAIN_F32, &memory));
  cr_sim_fail(CR_SIM_KERNEL, 1, CREMA_E_DEVICE, true);
  ok(cr_tensor_scale(tensor, 2));
  assert_int_equal(crema_context_finish(own), CREMA_E_DEVICE);
  ok(crema_context_finish(own));
  cr_tensor_destroy(tensor);
  ok(crema_context_finish(cr_host_context()));
  stream_end(&f);
}

TEST(s1_10_results_are_visible_after_finish_only) {
  stream_fixture f = stream_begin(true);
  unsigned char value[16], out[16] = {0};
  memset(value, 9, sizeof value);
  crema_devptr second = {0};
  ok(cr_device_alloc(f.device, 16, &second));
  ok(cr_copy_from_cpu(f.context, f.memory, value, 16));
  ok(cr_copy_same_device(f.context, second, f.memory, 16));
  ok(cr_copy_to_cpu(f.context, out, second, 16));
  /* Each step makes one copy visible. */
  for (int step = 0; step < 4; ++step) {
    unsigned char first_bytes[16], second_bytes[16];
    assert_true(cr_sim_peek(f.memory, first_bytes, 16) && cr_sim_peek(second, second_bytes, 16));
    assert_int_equal(first_bytes[0] == 9, step >= 1);
    assert_int_equal(second_bytes[15] == 9, step >= 2);
    assert_int_equal(out[15] == 9, step >= 3);
    assert_int_equal(cr_sim_step(f.context), step < 3);
  }
  ok(crema_context_finish(f.context));
  cr_device_free(f.device, second);
  stream_end(&f);
}

TEST(s1_14_s1_15_s1_30_generators_belong_to_contexts) {
  crema_context *a = NULL, *b = NULL, *c = NULL;
  ok(crema_context_create(cr_cpu_device(), 5489, &a));
  ok(crema_context_create(cr_cpu_device(), 5489, &b));
  ok(crema_context_create(cr_cpu_device(), 7, &c));
  assert_int_equal(cr_mt19937_next(&a->rng), 3499211612u);
  for (int i = 0; i < 100; ++i) cr_mt19937_next(&c->rng);
  assert_int_equal(cr_mt19937_next(&b->rng), 3499211612u);
  assert_int_equal(cr_mt19937_next(&a->rng), cr_mt19937_next(&b->rng));
  /* The CPU never has work that is still to be done. */
  bool busy = true;
  ok(cr_context_busy(a, &busy));
  assert_false(busy);
  assert_true(a->device->backend->host_memory);
  crema_context_destroy(a);
  crema_context_destroy(b);
  crema_context_destroy(c);
}

static uint32_t first_draw(crema_device *device, uint64_t seed) {
  crema_context *context = NULL;
  ok(crema_context_create(device, seed, &context));
  uint32_t draw = cr_mt19937_next(&context->rng);
  crema_context_destroy(context);
  return draw;
}

TEST(s1_14_s1_30_s1_33_seeds_of_contexts) {
  sim_begin_devices(1);
  crema_device *device[2] = {cr_cpu_device(), sim_test_device(0)};
  for (int i = 0; i < 2; ++i) {
    /* The sequence depends on the seed alone, not on the device. */
    assert_int_equal(first_draw(device[i], 5489), 3499211612u);
    assert_int_equal(first_draw(device[i], 77), first_draw(device[0], 77));
    assert_int_not_equal(first_draw(device[i], CREMA_SEED_ANY),
                         first_draw(device[i], CREMA_SEED_ANY));
  }
  /* All bits of a seed count, the upper half too. */
  for (int bit = 0; bit < 64; ++bit) {
    assert_int_not_equal(first_draw(device[0], 77), first_draw(device[0], 77 ^ (uint64_t)1 << bit));
  }
  /* Without a given seed it is the next one of the process (S1-16), 51551 more than the last. */
  for (int i = 0; i < 2; ++i) {
    cr_mt19937 expected;
    cr_mt19937_seed(&expected, cr_random_seed() + 51551u);
    assert_int_equal(first_draw(device[i], CREMA_SEED_ANY), cr_mt19937_next(&expected));
  }
  crema_context *a = sim_test_context(device[1]), *b = sim_test_context(device[1]);
  assert_ptr_not_equal(&a->rng, &b->rng);
  for (int i = 0; i < 10; ++i) {
    /* Numbers drawn by another context in between change nothing. */
    uint32_t of_a = cr_mt19937_next(&a->rng);
    assert_int_equal(cr_mt19937_next(&b->rng), of_a);
  }
  crema_context_destroy(a);
  crema_context_destroy(b);
  sim_end();
}

/* ---- S1-33 to S1-42 ---- */

static crema_status open_device(void *arg) {
  crema_device **out = arg;
  crema_context *context = NULL;
  CR_TRY(crema_device_get(CREMA_DEVICE_SIM, 0, out));
  CR_TRY(crema_context_create(*out, 0, &context));
  crema_context_destroy(context);
  return CREMA_OK;
}

TEST(s1_34_a_device_is_opened_once_and_late) {
  sim_begin_devices(1);
  const cr_sim_record *log = NULL;
  /* A program that uses no device makes no call of a driver, and its memory is ordinary memory. */
  crema_context *cpu = sim_test_context(cr_cpu_device());
  cr_tensor *tensor = NULL;
  crema_devptr data = {0};
  const void *host = NULL;
  ok(cr_tensor_create(CREMA_F32, 100, &tensor));
  ok(cr_tensor_update(tensor, cpu, CR_PLAIN_F32, &data));
  ok(cr_tensor_scale(tensor, 3));
  ok(cr_tensor_host_read(tensor, &host));
  assert_false(cr_sim_is_pinned(host));
  cr_tensor_destroy(tensor);
  crema_context_destroy(cpu);
  assert_int_equal(cr_sim_log(&log), 0);
  assert_int_equal(cr_sim_count(CR_SIM_COUNT, -1), 0);
  enum { THREADS = 64 };
  cr_thread *thread[THREADS] = {0};
  crema_device *device[THREADS] = {0};
  for (int i = 0; i < THREADS; ++i) {
    ok(cr_thread_start(&thread[i], "open", open_device, &device[i]));
  }
  for (int i = 0; i < THREADS; ++i) ok(cr_thread_join(&thread[i]));
  for (int i = 0; i < THREADS; ++i) assert_ptr_equal(device[i], device[0]);
  /* The pool is made once, and asks the driver how much memory there is. */
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, -1), 1);
  sim_end();
}

TEST(s1_33_a_context_on_the_current_device) {
  sim_begin_devices(2);
  crema_context *context = sim_test_context(NULL);
  assert_ptr_equal(crema_context_device(context), cr_cpu_device());
  crema_context_destroy(context);
  const cr_sim_record *log = NULL;
  assert_int_equal(cr_sim_log(&log), 0);
  ok(cr_device_set_current(sim_test_device(1)));
  context = sim_test_context(NULL);
  assert_ptr_equal(crema_context_device(context), sim_test_device(1));
  crema_context_destroy(context);
  sim_end();
}

static log_lines lines;

TEST(s1_35_nothing_is_set_up_without_devices) {
  crema_device *device = NULL;
  sim_begin_devices(0);
  listen_to(&lines, CREMA_LOG_WARNING);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  stop_listening();
  assert_int_equal(lines.count, 0);
  /* No pool, and host memory is not page-locked. */
  cr_block block;
  const cr_sim_record *log = NULL;
  ok(cr_block_new(cr_device_current(), 100, NULL, &block));
  assert_false(cr_sim_is_pinned((const void *)block.address));
  ok(cr_block_free(&block));
  assert_int_equal(cr_sim_log(&log), 0);
  sim_end();
}

TEST(s1_39_a_failing_driver_has_no_devices) {
  /* No device, a driver that is too old, one that cannot start, one that fails otherwise. */
  static const crema_status failure[] = {CREMA_E_NO_DEVICE, CREMA_E_UNSUPPORTED, CREMA_E_DEVICE,
                                         CREMA_E_INTERNAL};
  for (size_t i = 0; i < sizeof failure / sizeof failure[0]; ++i) {
    crema_device *device = NULL;
    cr_sim_options options = sim_test_options(2);
    options.count_failure = failure[i];
    sim_begin(&options);
    listen_to(&lines, CREMA_LOG_WARNING);
    for (int again = 0; again < 3; ++again) {
      assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
      assert_fails(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE,
                   "simulated driver failure");
    }
    stop_listening();
    /* The answer is kept, and logged once. */
    assert_int_equal(lines.count, 1);
    assert_int_equal(cr_sim_count(CR_SIM_COUNT, -1), 1);
    sim_end();
  }
}

TEST(s1_39_answers_are_kept) {
  cr_sim_options options = sim_test_options(3);
  options.peer[0][2] = false;
  sim_begin(&options);
  for (int i = 0; i < 5; ++i) assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 3);
  assert_int_equal(cr_sim_count(CR_SIM_COUNT, -1), 1);
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      assert_int_equal(crema_device_reaches(sim_test_device(a), sim_test_device(b)),
                       !(a == 0 && b == 2));
    }
    assert_false(crema_device_reaches(sim_test_device(a), cr_cpu_device()));
  }
  /* The driver is asked once for what never changes; free memory does change. */
  crema_device_info info;
  crema_devptr memory = {0};
  cr_sim_reset_counts();
  ok(crema_device_describe(sim_test_device(1), &info));
  size_t before = info.memory_free;
  ok(cr_device_alloc(sim_test_device(1), 4096, &memory));
  ok(crema_device_describe(sim_test_device(1), &info));
  assert_string_equal(info.name, "simulated device 1");
  assert_int_equal(info.memory_free, before - 4096);
  assert_int_equal(info.memory_total, SIM_TEST_MEMORY);
  assert_int_equal(cr_sim_count(CR_SIM_DESCRIBE, 1), 1);
  cr_device_free(sim_test_device(1), memory);
  /* The thread's device is not asked for: it is remembered. */
  ok(cr_device_set_current(sim_test_device(1)));
  cr_sim_reset_counts();
  for (int i = 0; i < 100; ++i) assert_ptr_equal(cr_device_current(), sim_test_device(1));
  const cr_sim_record *log = NULL;
  assert_int_equal(cr_sim_log(&log), 0);
  sim_end();
}

TEST(s1_36_more_devices_than_slots) {
  crema_device *device = NULL;
  sim_begin_devices(17);
  assert_fails(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_RANGE, "17");
  assert_error_has("16");
  sim_end();
}

TEST(s1_37_peers_in_groups_of_eight) {
  cr_sim_options options = sim_test_options(10);
  options.peer[2][5] = false;
  sim_begin(&options);
  int order[10] = {3, 9, 0, 7, 1, 8, 2, 6, 5, 4};
  for (int i = 0; i < 10; ++i) sim_test_device(order[i]);
  int enabled[10][10] = {{0}};
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log);
  for (size_t i = 0; i < size; ++i) {
    if (log[i].op == CR_SIM_ENABLE_PEER) ++enabled[log[i].device][log[i].src];
  }
  for (int a = 0; a < 10; ++a) {
    for (int b = 0; b < 10; ++b) {
      bool expected = a != b && a / 8 == b / 8 && !(a == 2 && b == 5);
      assert_int_equal(enabled[a][b], expected ? 1 : 0);
    }
  }
  assert_ptr_equal(cr_device_current(), cr_cpu_device());
  /* Once more is a success. */
  ok(sim_test_device(0)->backend->enable_peer(sim_test_device(0), sim_test_device(1)));
  sim_end();
}

TEST(s1_41_a_foreign_library_version) {
  crema_device *device = NULL;
  cr_sim_options options = sim_test_options(1);
  options.library_version = 7;
  sim_begin(&options);
  assert_fails(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_UNSUPPORTED, "version 7");
  assert_error_has("sim:0");
  sim_end();
}

TEST(s1_42_destroying_a_context_with_failed_work) {
  stream_fixture f = stream_begin(false);
  stream_queue_failure(&f);
  listen_to(&lines, CREMA_LOG_WARNING);
  crema_context_destroy(f.context);
  stop_listening();
  assert_int_equal(lines.count, 1);
  f.context = NULL;
  stream_end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
