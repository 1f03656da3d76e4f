/* Contexts, devices and what belongs to them: rows S1-02 to S1-08, S1-14, S1-15, S1-28 to S1-42. */
#include "memory/sim_fixture.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/thread.h"
#include "device/copy.h"
#include "device/pool.h"
#include "device/registry.h"

/* The same calls on every back end. */
static void run_conformance(crema_device *device) {
  crema_context *context = sim_test_context(device);
  assert_ptr_equal(crema_context_device(context), device);
  crema_devptr a = {0}, b = {0};
  assert_int_equal(cr_device_alloc(device, 1000, &a), CREMA_OK);
  assert_int_equal(cr_device_alloc_for(context, 1000, &b), CREMA_OK);
  assert_int_equal(a.address % 64, 0);
  unsigned char out[1000], in[1000];
  for (int i = 0; i < 1000; i++) in[i] = (unsigned char)i;
  assert_int_equal(cr_copy_from_cpu(context, a, in, 1000), CREMA_OK);
  assert_int_equal(device->backend->zero(context, b, 1000), CREMA_OK);
  assert_int_equal(cr_copy_same_device(context, b, (crema_devptr){a.address + 100}, 500), CREMA_OK);
  assert_int_equal(cr_copy_to_cpu(context, out, b, 1000), CREMA_OK);
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  assert_memory_equal(out, in + 100, 500);
  for (int i = 500; i < 1000; i++) assert_int_equal(out[i], 0);
  cr_native_event *event = NULL;
  bool done = false;
  assert_int_equal(device->backend->event_create(device, &event), CREMA_OK);
  assert_int_equal(device->backend->event_record(context, event), CREMA_OK);
  assert_int_equal(device->backend->event_wait(context, event), CREMA_OK);
  assert_int_equal(device->backend->event_finish(event), CREMA_OK);
  assert_int_equal(device->backend->event_query(event, &done), CREMA_OK);
  assert_true(done);
  device->backend->event_destroy(event);
  /* Half precision and back. */
  float value[4] = {1, 2.5f, -3, 1000}, back[4] = {0};
  assert_int_equal(cr_copy_from_cpu(context, a, value, sizeof value), CREMA_OK);
  cr_form half = {CREMA_F16, NULL};
  assert_int_equal(device->backend->convert(context, 4, half, b, CR_PLAIN_F32, a), CREMA_OK);
  assert_int_equal(device->backend->convert(context, 4, CR_PLAIN_F32, a, half, b), CREMA_OK);
  assert_int_equal(cr_copy_to_cpu(context, back, a, sizeof back), CREMA_OK);
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  assert_memory_equal(back, value, sizeof value);
  crema_devptr scratch = {0}, smaller = {0};
  assert_int_equal(cr_context_workspace(context, 5000, &scratch), CREMA_OK);
  assert_int_equal(cr_context_workspace(context, 100, &smaller), CREMA_OK);
  assert_int_equal(scratch.address, smaller.address);
  crema_device_info info;
  assert_int_equal(crema_device_describe(device, &info), CREMA_OK);
  assert_true(info.name[0] != '\0' && info.memory_total > 0);
  cr_device_free(device, b);
  cr_device_free(device, a);
  crema_context_destroy(context);
  crema_context_destroy(NULL);
}

static void s1_06_one_suite_for_all_back_ends(void **state) {
  (void)state;
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

static void s1_02_s1_03_types_are_constant(void **state) {
  (void)state;
  crema_device *device = NULL;
  assert_int_equal(crema_device_get(CREMA_DEVICE_CPU, 0, &device), CREMA_OK);
  assert_ptr_equal(device, cr_cpu_device());
  assert_int_equal(crema_device_get_type(device), CREMA_DEVICE_CPU);
  assert_int_equal(crema_device_get_index(device), 0);
  assert_int_equal(crema_device_count(CREMA_DEVICE_CPU), 1);
  assert_int_equal(crema_device_get(CREMA_DEVICE_CPU, 1, &device), CREMA_E_NO_DEVICE);
  cr_sim_options options = sim_test_options(3);
  sim_begin(&options);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 3);
  assert_int_equal(crema_device_get_type(sim_test_device(2)), CREMA_DEVICE_SIM);
  assert_int_equal(crema_device_get_index(sim_test_device(2)), 2);
  assert_ptr_equal(sim_test_device(2), sim_test_device(2));
  sim_end();
}

static void s1_04_device_of_an_address(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  for (int i = 0; i < 2; i++) {
    crema_devptr memory = {0};
    crema_device *owner = NULL;
    assert_int_equal(cr_device_alloc(sim_test_device(i), 100, &memory), CREMA_OK);
    assert_int_equal(cr_device_of_address(memory.address + 50, &owner), CREMA_OK);
    assert_ptr_equal(owner, sim_test_device(i));
    assert_int_equal(owner->backend->owner((uintptr_t)&options), -1);
    cr_device_free(sim_test_device(i), memory);
  }
  crema_device *owner = NULL;
  assert_int_equal(cr_device_of_address((uintptr_t)&options, &owner), CREMA_OK);
  assert_ptr_equal(owner, cr_cpu_device());
  sim_end();
}

static void s1_05_registry(void **state) {
  (void)state;
  const cr_backend *found = NULL;
  assert_int_equal(cr_backend_find(CREMA_DEVICE_CPU, &found), CREMA_OK);
  assert_ptr_equal(found, &cr_backend_cpu);
  assert_int_equal(cr_backend_find((crema_device_type)63, &found), CREMA_E_NO_DEVICE);
  assert_int_equal(cr_backend_find((crema_device_type)-1, &found), CREMA_E_NO_DEVICE);
  assert_int_equal(cr_backend_register(&cr_backend_cpu), CREMA_E_EXISTS);
  assert_int_equal(cr_backend_register(&cr_backend_sim), CREMA_E_EXISTS);
  cr_backend odd = cr_backend_cpu;
  odd.type = (crema_device_type)63;
  assert_int_equal(cr_backend_register(&odd), CREMA_E_RANGE);
}

static void s1_07_s1_40_the_current_device(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  crema_device *first = sim_test_device(0), *second = sim_test_device(1);
  assert_ptr_equal(cr_device_current(), cr_cpu_device());
  assert_int_equal(cr_device_set_current(first), CREMA_OK);
  cr_device_guard guard;
  cr_sim_reset_counts();
  assert_int_equal(cr_device_enter(first, &guard), CREMA_OK);
  cr_device_leave(guard);
  assert_int_equal(cr_sim_count(CR_SIM_SET_DEVICE, -1), 0);
  assert_int_equal(cr_device_enter(second, &guard), CREMA_OK);
  assert_ptr_equal(cr_device_current(), second);
  cr_device_leave(guard);
  assert_ptr_equal(cr_device_current(), first);
  assert_int_equal(cr_sim_count(CR_SIM_SET_DEVICE, -1), 2);
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

static void s1_08_finish_reports_a_late_failure_once(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr memory = {0};
  assert_int_equal(cr_device_alloc(device, 16, &memory), CREMA_OK);
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  assert_int_equal(device->backend->zero(context, memory, 16), CREMA_OK);
  assert_int_equal(device->backend->zero(context, memory, 16), CREMA_OK);
  assert_int_equal(crema_context_finish(context), CREMA_E_DEVICE);
  assert_non_null(strstr(crema_error_text(), "simulated failure"));
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  cr_device_free(device, memory);
  crema_context_destroy(context);
  assert_int_equal(crema_context_finish(cr_host_context()), CREMA_OK);
  sim_end();
}

static void s1_10_results_are_visible_after_finish_only(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr memory = {0};
  unsigned char value[16], out[16] = {0};
  memset(value, 9, sizeof value);
  assert_int_equal(cr_device_alloc(device, 16, &memory), CREMA_OK);
  assert_int_equal(cr_copy_from_cpu(context, memory, value, 16), CREMA_OK);
  assert_int_equal(cr_copy_to_cpu(context, out, memory, 16), CREMA_OK);
  unsigned char now[16];
  assert_true(cr_sim_peek(memory, now, 16));
  assert_true(now[0] != 9 && out[0] == 0);
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  assert_true(cr_sim_peek(memory, now, 16));
  assert_true(now[0] == 9 && out[0] == 9);
  cr_device_free(device, memory);
  crema_context_destroy(context);
  sim_end();
}

static void s1_14_s1_15_s1_30_generators_belong_to_contexts(void **state) {
  (void)state;
  crema_context *a = NULL, *b = NULL, *c = NULL;
  assert_int_equal(crema_context_create(cr_cpu_device(), 5489, &a), CREMA_OK);
  assert_int_equal(crema_context_create(cr_cpu_device(), 5489, &b), CREMA_OK);
  assert_int_equal(crema_context_create(cr_cpu_device(), 7, &c), CREMA_OK);
  assert_int_equal(cr_mt19937_next(&a->rng), 3499211612u);
  for (int i = 0; i < 100; i++) cr_mt19937_next(&c->rng);
  assert_int_equal(cr_mt19937_next(&b->rng), 3499211612u);
  assert_int_equal(cr_mt19937_next(&a->rng), cr_mt19937_next(&b->rng));
  crema_context_destroy(a);
  crema_context_destroy(b);
  crema_context_destroy(c);
}

/* ---- S1-28 to S1-32 ---- */

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

static void s1_28_s1_29_contexts_by_thread_device_and_stream(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  crema_context *first = NULL, *again = NULL, *other = NULL, *foreign = NULL;
  assert_int_equal(cr_thread_context(sim_test_device(0), 0, &first), CREMA_OK);
  assert_int_equal(cr_thread_context(sim_test_device(0), 0, &again), CREMA_OK);
  assert_int_equal(cr_thread_context(sim_test_device(0), 5, &other), CREMA_OK);
  assert_int_equal(cr_thread_context(sim_test_device(1), 0, &foreign), CREMA_OK);
  assert_ptr_equal(first, again);
  assert_true(first != other && first != foreign);
  assert_int_equal(cr_thread_context(sim_test_device(0), -1, &again), CREMA_E_RANGE);
  assert_int_equal(cr_thread_context(cr_cpu_device(), 3, &again), CREMA_OK);
  assert_ptr_equal(again, cr_host_context());
  assert_int_equal(cr_sim_live_streams(), 3);
  for (int i = 0; i < 1000; i++) {
    seen s = {.device = sim_test_device(0)};
    cr_thread *thread = NULL;
    assert_int_equal(cr_thread_start(&thread, "short", ask_for_context, &s), CREMA_OK);
    assert_int_equal(cr_thread_join(&thread), CREMA_OK);
    assert_true(s.id != first->id);
  }
  assert_int_equal(cr_sim_live_streams(), 3);
  sim_end();
}

static void s1_31_streams_in_turn_and_busy_ones_skipped(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_devptr memory = {0};
  assert_int_equal(cr_device_alloc(device, 16, &memory), CREMA_OK);
  crema_context *context[33];
  for (int i = 0; i < 33; i++) {
    assert_int_equal(cr_thread_context_next(device, &context[i]), CREMA_OK);
  }
  assert_ptr_equal(context[32], context[0]);
  for (int i = 1; i < 32; i++) assert_true(context[i] != context[i - 1]);
  assert_int_equal(device->backend->zero(context[1], memory, 16), CREMA_OK);
  crema_context *next = NULL;
  assert_int_equal(cr_thread_context_next(device, &next), CREMA_OK);
  assert_ptr_equal(next, context[2]);
  /* With all of them busy it still answers. */
  for (int i = 0; i < 32; i++) {
    cr_native_event *event = NULL;
    assert_int_equal(device->backend->event_create(device, &event), CREMA_OK);
    assert_int_equal(device->backend->event_record(context[i], event), CREMA_OK);
    device->backend->event_destroy(event);
  }
  assert_int_equal(cr_thread_context_next(device, &next), CREMA_OK);
  assert_non_null(next);
  cr_device_free(device, memory);
  sim_end();
}

static void s1_32_busy_or_not(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr memory = {0};
  bool busy = true;
  assert_int_equal(cr_device_alloc(device, 16, &memory), CREMA_OK);
  assert_int_equal(device->backend->busy(context, &busy), CREMA_OK);
  assert_false(busy);
  assert_int_equal(device->backend->zero(context, memory, 16), CREMA_OK);
  assert_int_equal(device->backend->busy(context, &busy), CREMA_OK);
  assert_true(busy);
  assert_true(cr_sim_step(context));
  assert_int_equal(device->backend->busy(context, &busy), CREMA_OK);
  assert_false(busy);
  assert_int_equal(crema_context_finish(context), CREMA_OK);
  cr_device_free(device, memory);
  crema_context_destroy(context);
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

static void s1_34_a_device_is_opened_once_and_late(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  sim_begin(&options);
  const cr_sim_record *log = NULL;
  crema_context *cpu = sim_test_context(cr_cpu_device());
  crema_context_destroy(cpu);
  assert_int_equal(cr_sim_log(&log), 0);
  enum { THREADS = 64 };
  cr_thread *thread[THREADS] = {0};
  crema_device *device[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(cr_thread_start(&thread[i], "open", open_device, &device[i]), CREMA_OK);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(cr_thread_join(&thread[i]), CREMA_OK);
  for (int i = 0; i < THREADS; i++) assert_ptr_equal(device[i], device[0]);
  /* The pool is made once, and asks the driver for its memory. */
  assert_int_equal(cr_sim_count(CR_SIM_MEMORY_INFO, -1), 1);
  sim_end();
}

static void s1_33_a_context_on_the_current_device(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  crema_context *context = sim_test_context(NULL);
  assert_ptr_equal(crema_context_device(context), cr_cpu_device());
  crema_context_destroy(context);
  assert_int_equal(cr_device_set_current(sim_test_device(1)), CREMA_OK);
  context = sim_test_context(NULL);
  assert_ptr_equal(crema_context_device(context), sim_test_device(1));
  crema_context_destroy(context);
  sim_end();
}

static int warnings;

static void count_warning(void *user, crema_log_level level, const char *file, int line,
                          const char *message) {
  (void)user;
  (void)file;
  (void)line;
  (void)message;
  warnings += level == CREMA_LOG_WARNING;
}

static void s1_35_s1_39_no_device_and_a_failing_driver(void **state) {
  (void)state;
  crema_device *device = NULL;
  cr_sim_options options = sim_test_options(0);
  sim_begin(&options);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  sim_end();
  options = sim_test_options(2);
  options.count_failure = CREMA_E_DEVICE;
  sim_begin(&options);
  warnings = 0;
  crema_log_set(count_warning, NULL, CREMA_LOG_WARNING);
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  assert_int_equal(warnings, 1);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  assert_non_null(strstr(crema_error_text(), "simulated driver failure"));
  sim_end();
}

static void s1_36_more_devices_than_places(void **state) {
  (void)state;
  crema_device *device = NULL;
  cr_sim_options options = sim_test_options(17);
  sim_begin(&options);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_RANGE);
  assert_non_null(strstr(crema_error_text(), "17"));
  assert_non_null(strstr(crema_error_text(), "16"));
  sim_end();
}

static void s1_37_peers_in_groups_of_eight(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(10);
  options.peer[2][5] = false;
  sim_begin(&options);
  int order[10] = {3, 9, 0, 7, 1, 8, 2, 6, 5, 4};
  for (int i = 0; i < 10; i++) sim_test_device(order[i]);
  int enabled[10][10] = {{0}};
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log);
  for (size_t i = 0; i < size; i++) {
    if (log[i].op == CR_SIM_ENABLE_PEER) enabled[log[i].device][log[i].src]++;
  }
  for (int a = 0; a < 10; a++) {
    for (int b = 0; b < 10; b++) {
      bool expected = a != b && a / 8 == b / 8 && !(a == 2 && b == 5);
      assert_int_equal(enabled[a][b], expected ? 1 : 0);
    }
  }
  assert_ptr_equal(cr_device_current(), cr_cpu_device());
  /* Once more is a success. */
  assert_int_equal(sim_test_device(0)->backend->enable_peer(sim_test_device(0), sim_test_device(1)),
                   CREMA_OK);
  sim_end();
}

static void s1_41_a_foreign_library_version(void **state) {
  (void)state;
  crema_device *device = NULL;
  cr_sim_options options = sim_test_options(1);
  options.library_version = 7;
  sim_begin(&options);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_UNSUPPORTED);
  assert_non_null(strstr(crema_error_text(), "version 7"));
  assert_non_null(strstr(crema_error_text(), "sim:0"));
  sim_end();
}

static void s1_42_destroying_a_context_with_failed_work(void **state) {
  (void)state;
  cr_sim_options options = sim_test_options(1);
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr memory = {0};
  assert_int_equal(cr_device_alloc(device, 16, &memory), CREMA_OK);
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  assert_int_equal(device->backend->zero(context, memory, 16), CREMA_OK);
  warnings = 0;
  crema_log_set(count_warning, NULL, CREMA_LOG_WARNING);
  crema_context_destroy(context);
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  assert_int_equal(warnings, 1);
  cr_device_free(device, memory);
  sim_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s1_02_s1_03_types_are_constant),
      cmocka_unit_test(s1_04_device_of_an_address),
      cmocka_unit_test(s1_05_registry),
      cmocka_unit_test(s1_06_one_suite_for_all_back_ends),
      cmocka_unit_test(s1_07_s1_40_the_current_device),
      cmocka_unit_test(s1_08_finish_reports_a_late_failure_once),
      cmocka_unit_test(s1_10_results_are_visible_after_finish_only),
      cmocka_unit_test(s1_14_s1_15_s1_30_generators_belong_to_contexts),
      cmocka_unit_test(s1_28_s1_29_contexts_by_thread_device_and_stream),
      cmocka_unit_test(s1_31_streams_in_turn_and_busy_ones_skipped),
      cmocka_unit_test(s1_32_busy_or_not),
      cmocka_unit_test(s1_33_a_context_on_the_current_device),
      cmocka_unit_test(s1_34_a_device_is_opened_once_and_late),
      cmocka_unit_test(s1_35_s1_39_no_device_and_a_failing_driver),
      cmocka_unit_test(s1_36_more_devices_than_places),
      cmocka_unit_test(s1_37_peers_in_groups_of_eight),
      cmocka_unit_test(s1_41_a_foreign_library_version),
      cmocka_unit_test(s1_42_destroying_a_context_with_failed_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
