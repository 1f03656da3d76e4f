/* How the plug-in shares a process with others, over the fake runtime: which devices it opens, what
 * it leaves current, threads that have used no device yet, errors that others left behind. */
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <pthread.h>

#include "check.h"
#include "core/fail.h"
#include "crema/event.h"
#include "crema/log.h"
#include "device/backend/current.h"
#include "device/backend/order.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/driver.h"
#include "device/registry.h"
#include "fake_symbols.h"
#include "log_lines.h"
#include "memory/tensor.h"
#include "ops/op.h"

/* ---- the fake's own calls ---- */

static struct {
  unsigned (*open_devices)(void);
  void (*leave_error)(void);
  int (*current_device)(void);
  int (*left_error)(void);
  void (*refuse_memory)(int times);
  void (*set_busy)(bool busy);
  int (*spins)(void);
  void (*unload)(void);
  void (*unload_during_work)(void);
  void (*load)(void);
} fake;

static int find_fake(void **state) {
  (void)state;
  void *runtime = fake_plugin();
  void *driver = fake_library("libcuda.so.1");
  fake_find(driver, "fake_open_devices", &fake.open_devices);
  fake_find(driver, "fake_unload", &fake.unload);
  fake_find(driver, "fake_unload_during_work", &fake.unload_during_work);
  fake_find(driver, "fake_load", &fake.load);
  fake_find(runtime, "fake_leave_error", &fake.leave_error);
  fake_find(runtime, "fake_current_device", &fake.current_device);
  fake_find(runtime, "fake_left_error", &fake.left_error);
  fake_find(runtime, "fake_refuse_memory", &fake.refuse_memory);
  fake_find(runtime, "fake_set_busy", &fake.set_busy);
  fake_find(runtime, "fake_spins", &fake.spins);
  return 0;
}

/* ---- work of all kinds ---- */

static crema_status run_product(cr_op *op, crema_context *context, cr_tensor **tensor) {
  static const float wanted[4] = {14, 32, 32, 77};
  const uint64_t before = cr_device_fallbacks(context->device);
  const void *from = NULL;
  void *to = NULL;
  for (int i = 0; i < 2; ++i) {
    CR_TRY(cr_tensor_host_write(tensor[i], &to));
    for (int k = 0; k < 6; ++k) ((float *)to)[k] = (float)(k + 1);
  }
  CR_TRY(cr_op_run(op, context, tensor, NULL));
  CR_TRY(crema_context_finish(context));
  if (cr_device_fallbacks(context->device) != before)
    return cr_fail(CREMA_E_INTERNAL, "on the CPU");
  CR_TRY(cr_tensor_host_read(tensor[3], &from));
  if (memcmp(from, wanted, sizeof wanted) != 0) return cr_fail(CREMA_E_INTERNAL, "wrong product");
  return CREMA_OK;
}

/* (2,3) times (2,3)^T by cuBLASLt: rows (1,2,3) and (4,5,6). */
static crema_status multiply(crema_context *context) {
  const crema_shape factor = {2, {2, 3}}, result = {2, {2, 2}};
  const crema_shape *const shape[4] = {&factor, &factor, NULL, &result};
  const cr_op_desc product = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  cr_tensor *tensor[4] = {NULL};
  cr_op *op = NULL;
  ok(cr_op_describe(&product, 4, shape, NULL, &desc));
  for (int i = 0; i < 4; ++i) {
    if (i != 2) ok(cr_tensor_create(CREMA_F32, i == 3 ? 4 : 6, &tensor[i]));
  }
  ok(cr_op_create(&desc, &op));
  const crema_status status = run_product(op, context, tensor);
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  return status;
}

/* Zeroes by a memset, then adds 1 to each by a kernel, and waits by an event. */
static crema_status count_up(crema_context *context) {
  const cr_backend *backend = context->device->backend;
  crema_devptr memory = {0}, alias = {0};
  cr_native_event *event = NULL;
  void *host = NULL;
  bool done = false, busy = true;
  float got[8];
  CR_TRY(cr_device_alloc(context->device, sizeof got, &memory));
  CR_TRY(backend->host_alloc(context->device, 64, &host));
  CR_TRY(backend->host_alias(context->device, host, &alias));
  CR_TRY(backend->zero(context, memory, sizeof got));
  CR_TRY(backend->event_create(context->device, &event));
  CR_TRY(backend->event_record(context, event));
  CR_TRY(backend->event_wait(context, event));
  CR_TRY(backend->event_finish(event));
  CR_TRY(backend->event_query(event, &done));
  CR_TRY(backend->busy(context, &busy));
  CR_TRY(cr_copy_to_cpu(context, got, memory, sizeof got));
  CR_TRY(crema_context_finish(context));
  backend->event_destroy(event);
  backend->host_free(context->device, host);
  cr_device_free(context->device, memory);
  if (!done || busy || got[7] != 0) return cr_fail(CREMA_E_INTERNAL, "wrong content");
  return CREMA_OK;
}

/* Everything on a device, by a thread that has done nothing with any. */
typedef struct visit {
  int index;
  crema_context *context; /* NULL: one is made */
  crema_status status;
  char text[256];
} visit;

static crema_status work(visit *v) {
  crema_device *device = NULL, *owner = NULL;
  crema_devptr memory = {0};
  crema_device_info info;
  crema_context *made = NULL, *context = v->context;
  CR_TRY(crema_device_get(CREMA_DEVICE_CUDA, v->index, &device));
  if (context == NULL) CR_TRY(crema_context_create(device, 1, &made));
  if (context == NULL) context = made;
  CR_TRY(multiply(context));
  CR_TRY(count_up(context));
  CR_TRY(crema_device_describe(device, &info));
  CR_TRY(cr_device_alloc(device, 100, &memory));
  CR_TRY(cr_device_of_address(memory.address, &owner));
  if (owner != device) return cr_fail(CREMA_E_INTERNAL, "wrong owner");
  cr_device_free(device, memory);
  crema_context_destroy(made);
  return CREMA_OK;
}

static void *run_visit(void *state) {
  visit *v = state;
  v->status = work(v);
  if (v->status != CREMA_OK) {
    strncpy(v->text, crema_error_text(), sizeof v->text - 1);
  }
  return NULL;
}

static void visit_by_thread(int index, crema_context *context) {
  visit v = {.index = index, .context = context};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_visit, &v), 0);
  pthread_join(thread, NULL);
  if (v.status != CREMA_OK) fail_msg("%s", v.text);
}

/* One call on a device, by a thread that makes no other. */
typedef enum single_call { FINISH, BUSY, QUERY, WAIT, DESTROY, HOST_FREE, CALLS } single_call;

typedef struct single {
  single_call call;
  crema_context *context;
  cr_native_event *event;
  void *host;
  crema_status status;
} single;

static void *run_single(void *state) {
  single *s = state;
  const cr_backend *backend = s->context->device->backend;
  bool answer = false;
  s->status = CREMA_OK;
  switch (s->call) {
    case FINISH: s->status = backend->finish(s->context); break;
    case BUSY: s->status = backend->busy(s->context, &answer); break;
    case QUERY: s->status = backend->event_query(s->event, &answer); break;
    case WAIT: s->status = backend->event_finish(s->event); break;
    case DESTROY: backend->event_destroy(s->event); break;
    default: backend->host_free(s->context->device, s->host); break;
  }
  return NULL;
}

static void call_by_threads(crema_context *context) {
  single s = {.context = context};
  const cr_backend *backend = context->device->backend;
  ok(backend->event_create(context->device, &s.event));
  ok(backend->event_record(context, s.event));
  ok(backend->host_alloc(context->device, 64, &s.host));
  for (int call = 0; call < CALLS; ++call) {
    pthread_t thread;
    s.call = (single_call)call;
    assert_int_equal(pthread_create(&thread, NULL, run_single, &s), 0);
    pthread_join(thread, NULL);
    ok(s.status);
    if (fake.open_devices() != 2) fail_msg("call %d opened another device", call);
  }
}

/* ---- tests ---- */

/* Opening a device takes time and memory of it; only the one that is asked for is opened, whatever
 * the thread's current device is. */
TEST(only_the_chosen_device_is_opened) {
  crema_device *device = NULL;
  int here = 0;
  assert_int_equal(crema_device_count(CREMA_DEVICE_CUDA), 3);
  ok(cr_device_of_address((uintptr_t)&here, &device));
  assert_int_equal(fake.open_devices(), 0);
  visit_by_thread(1, NULL);
  assert_int_equal(fake.open_devices(), 2);
  ok(cr_device_of_address((uintptr_t)&here, &device));
  assert_int_equal(crema_device_get_type(device), CREMA_DEVICE_CPU);
  visit_by_thread(1, NULL);
  assert_int_equal(fake.open_devices(), 2);
  crema_context *context = NULL;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 1, &device));
  ok(crema_context_create(device, 1, &context));
  call_by_threads(context);
  crema_context_destroy(context);
  assert_int_equal(fake.open_devices(), 2);
}

/* cuBLASLt wants the thread to be bound to the device, which device 0 being current does not
 * mean. */
TEST(a_new_thread_can_multiply) {
  crema_device *device = NULL;
  crema_context *context = NULL;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  ok(crema_context_create(device, 1, &context));
  visit_by_thread(0, context);
  crema_context_destroy(context);
}

/* Once both devices are in use, calls for one leave the other current. */
TEST(the_current_device_stays) {
  crema_device *device[2] = {NULL};
  crema_context *context = NULL;
  for (int i = 0; i < 2; ++i) ok(crema_device_get(CREMA_DEVICE_CUDA, i, &device[i]));
  ok(crema_context_create(device[1], 1, &context));
  const cr_backend *backend = device[0]->backend;
  ok(backend->set_current(device[0]));
  ok(backend->zero(context, (crema_devptr){0}, 0));
  crema_devptr memory = {0};
  ok(backend->alloc(device[1], 64, &memory));
  assert_int_equal(fake.current_device(), 0);
  /* The same of calls of the library, whose own idea of the thread's device does not count. */
  for (int own = 0; own < 2; ++own) {
    cr_device_guard guard;
    ok(cr_device_set_current(own == 0 ? cr_cpu_device() : device[1]));
    ok(backend->set_current(device[0]));
    ok(cr_device_enter(device[1], &guard));
    assert_int_equal(fake.current_device(), 1);
    cr_device_leave(guard);
    assert_int_equal(fake.current_device(), 0);
    size_t free_bytes = 0, total_bytes = 0;
    ok(cr_device_memory_info(device[1], &free_bytes, &total_bytes));
    crema_context *another = NULL;
    ok(crema_context_create(device[1], 1, &another));
    crema_context_destroy(another);
    assert_int_equal(fake.current_device(), 0);
  }
  ok(cr_device_set_current(cr_cpu_device()));
  ok(backend->zero(context, memory, 64));
  ok(backend->finish(context));
  assert_int_equal(backend->owner(memory.address), 1);
  backend->free(device[1], memory);
  assert_int_equal(fake.current_device(), 0);
  crema_context_destroy(context);
}

/* Whoever builds chooses for which devices there is code. */
TEST(a_device_without_code_is_refused) {
  crema_device *device = NULL;
  setenv("FAKE_CUDA_NO_CODE", "1", 1);
  assert_fails(crema_device_get(CREMA_DEVICE_CUDA, 2, &device), CREMA_E_UNSUPPORTED,
               "the device has compute capability 9.0, and this build has no code for it");
  assert_int_equal(fake.left_error(), 0);
  unsetenv("FAKE_CUDA_NO_CODE");
  ok(crema_device_get(CREMA_DEVICE_CUDA, 2, &device));
}

/* The runtime keeps the last error of a thread until somebody asks. What another library left there
 * is not ours. */
TEST(errors_of_others_are_not_ours) {
  crema_device *device = NULL;
  crema_context *context = NULL;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  ok(crema_context_create(device, 1, &context));
  fake.leave_error();
  ok(multiply(context));
  fake.leave_error();
  /* A conversion is a kernel. */
  crema_devptr memory = {0};
  ok(cr_device_alloc(device, 64, &memory));
  ok(device->backend->zero(context, memory, 64));
  fake.leave_error();
  ok(device->backend->convert(context, 4, (cr_format){CREMA_F32, NULL},
                              (crema_devptr){memory.address + 32}, (cr_format){CREMA_I32, NULL},
                              memory));
  cr_device_free(device, memory);
  crema_context_destroy(context);
}

/* Memory that is refused leaves no error to the next who asks for one: neither when idle blocks
 * make room for a second try, nor when that fails, too. */
TEST(s4_12_a_refusal_leaves_no_error) {
  crema_device *device = NULL;
  crema_devptr idle = {0}, memory = {0};
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  for (int refusals = 1; refusals <= 2; ++refusals) {
    ok(cr_device_alloc(device, 1000, &idle));
    cr_device_free(device, idle);
    fake.refuse_memory(refusals);
    crema_status status = cr_device_alloc(device, (size_t)5 << 20, &memory);
    assert_int_equal(status, refusals == 1 ? CREMA_OK : CREMA_E_NO_MEMORY);
    assert_int_equal(fake.left_error(), 0);
    if (status == CREMA_OK) cr_device_free(device, memory);
  }
  /* Nor does freeing memory that is not the device's. */
  device->backend->free(device, (crema_devptr){64});
  assert_int_equal(fake.left_error(), 0);
}

/* "Not ready" is an answer, not a failure. */
TEST(s1_32_a_busy_stream_leaves_no_error) {
  crema_device *device = NULL;
  crema_context *context = NULL;
  bool busy = false;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  ok(crema_context_create(device, 1, &context));
  fake.set_busy(true);
  ok(cr_context_busy(context, &busy));
  assert_true(busy);
  assert_int_equal(fake.left_error(), 0);
  fake.set_busy(false);
  ok(cr_context_busy(context, &busy));
  assert_false(busy);
  ok(crema_context_finish(context));
  crema_context_destroy(context);
}

/* Waits in every way for a device that is opened with CREMA_CUDA_WAIT=`mode`; returns how often the
 * thread did not sleep. */
static int spins_in_mode(const char *mode) {
  crema_device *device = NULL;
  crema_context *context = NULL;
  crema_event *event = NULL;
  cr_thread_contexts_release();
  cr_registry_close(CREMA_DEVICE_CUDA);
  setenv("CREMA_CUDA_WAIT", mode, 1);
  const int before = fake.spins();
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  ok(crema_context_create(device, 1, &context));
  ok(count_up(context));
  ok(multiply(context));
  ok(crema_event_create(device, &event));
  ok(crema_event_record(event, context, NULL));
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_SUCCESS);
  crema_event_destroy(event);
  crema_context_destroy(context);
  unsetenv("CREMA_CUDA_WAIT");
  return fake.spins() - before;
}

TEST(threads_sleep_while_they_wait_if_asked_to) {
  crema_device *device = NULL;
  assert_true(spins_in_mode("spin") > 3);
  assert_int_equal(spins_in_mode("sleep"), 0);
  assert_true(spins_in_mode("") > 3);
  cr_registry_close(CREMA_DEVICE_CUDA);
  setenv("CREMA_CUDA_WAIT", "nap", 1);
  assert_fails(crema_device_get(CREMA_DEVICE_CUDA, 0, &device), CREMA_E_ARGUMENT,
               "CREMA_CUDA_WAIT is spin or sleep, not 'nap'");
  unsetenv("CREMA_CUDA_WAIT");
  const int first = 0;
  ok(crema_device_open(CREMA_DEVICE_CUDA, &first, 1)); /* without a warning later */
}

/* ---- the log ---- */

static log_lines lines;

/* cuBLASLt takes no product without elements: the op runs on the CPU. That is logged once and
 * counted every time. */
TEST(work_without_a_kernel_runs_on_the_cpu) {
  crema_device *device = NULL;
  crema_context *context = NULL;
  const crema_shape empty = {2, {0, 3}}, weights = {2, {2, 3}}, made = {2, {0, 2}};
  const crema_shape *const shape[4] = {&empty, &weights, NULL, &made};
  const cr_op_desc product = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  cr_tensor *tensor[4] = {NULL};
  cr_op *op = NULL;
  void *to = NULL;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  ok(crema_context_create(device, 1, &context));
  ok(cr_op_describe(&product, 4, shape, NULL, &desc));
  ok(cr_tensor_create(CREMA_F32, 0, &tensor[0]));
  ok(cr_tensor_create(CREMA_F32, 6, &tensor[1]));
  ok(cr_tensor_create(CREMA_F32, 0, &tensor[3]));
  ok(cr_tensor_host_write(tensor[1], &to));
  memset(to, 0, 6 * sizeof(float));
  ok(cr_op_create(&desc, &op));
  listen_to(&lines, CREMA_LOG_WARNING);
  const uint64_t before = cr_device_fallbacks(device);
  for (int i = 0; i < 3; ++i) ok(cr_op_run(op, context, tensor, NULL));
  assert_int_equal(cr_device_fallbacks(device) - before, 3);
  stop_listening();
  assert_int_equal(count_lines(&lines, "has no kernel on cuda"), 1);
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  crema_context_destroy(context);
}

/* A library that is at work when the driver goes fails with whatever it likes. That is the end of
 * the process, not a library that does not start: nothing is logged and nothing is remembered. */
TEST(libraries_lose_the_driver) {
  crema_device *device = NULL;
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  listen_to(&lines, CREMA_LOG_WARNING);
  for (int used_before = 0; used_before < 2; ++used_before) {
    crema_context *context = NULL;
    ok(crema_context_create(device, 1, &context));
    if (used_before) ok(multiply(context));
    fake.unload_during_work();
    assert_int_equal(multiply(context), CREMA_E_CLOSED);
    fake.load();
    ok(multiply(context));
    crema_context_destroy(context);
  }
  stop_listening();
  assert_int_equal(lines.count, 0);
}

/* Threads may end after the runtime has gone at the end of the process. Nothing is left to free,
 * and nobody could read a log. */
typedef struct remains {
  crema_device *device, *peer;
  crema_context *context;
  cr_native_event *native;
  crema_event *event;
  crema_devptr memory, pooled;
  void *host;
  cr_block block;
  cr_tensor *tensor;
} remains;

static void leave_something(remains *r) {
  crema_devptr data = {0};
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &r->device));
  ok(crema_device_get(CREMA_DEVICE_CUDA, 1, &r->peer));
  ok(crema_context_create(r->device, 1, &r->context));
  ok(multiply(r->context));
  ok(r->device->backend->event_create(r->device, &r->native));
  ok(r->device->backend->alloc(r->device, 64, &r->memory));
  ok(r->device->backend->host_alloc(r->device, 64, &r->host));
  ok(cr_device_alloc_for(r->context, (size_t)5 << 20, &r->pooled));
  ok(crema_event_create(r->device, &r->event));
  ok(crema_event_record(r->event, r->context, NULL));
  ok(cr_block_new_pinned(r->device, 64, &r->block, &data));
  ok(cr_tensor_create(CREMA_F32, 16, &r->tensor));
  ok(cr_tensor_write(r->tensor, r->context, CR_PLAIN_F32, &data));
}

/* Every call of the table that can fail says that the driver has gone. */
static void expect_closed(const remains *r) {
  const cr_backend *b = r->device->backend;
  crema_context other = {.device = r->device};
  crema_devptr memory = r->memory;
  cr_native_event *event = NULL;
  void *host = NULL;
  size_t bytes = 0;
  int count = 0;
  bool answer = false;
  crema_device_info info;
  const crema_status got[] = {
      b->count(&count),
      b->open(&(crema_device){.backend = b}),
      b->describe(r->device, &info),
      b->alloc(r->device, 64, &memory),
      b->host_alloc(r->device, 64, &host),
      b->context_open(&other),
      b->finish(r->context),
      b->copy(r->context, CR_COPY_SAME_DEVICE, r->memory.address, r->memory.address + 32, 32),
      b->zero(r->context, r->memory, 64),
      b->convert(r->context, 4, (cr_format){CREMA_F16, NULL}, memory, CR_PLAIN_F32,
                 (crema_devptr){memory.address + 32}),
      b->event_create(r->device, &event),
      b->event_record(r->context, r->native),
      b->event_wait(r->context, r->native),
      b->event_query(r->native, &answer),
      b->event_finish(r->native),
      b->host_alias(r->device, r->host, &memory),
      b->memory_info(r->device, &bytes, &bytes),
      b->busy(r->context, &answer),
      b->set_current(r->device),
      b->enable_peer(r->device, r->peer),
      multiply(r->context),
  };
  for (size_t i = 0; i < sizeof got / sizeof got[0]; ++i) {
    if (got[i] != CREMA_E_CLOSED) fail_msg("call %zu: %s", i, crema_status_name(got[i]));
  }
  assert_int_equal(count, 0);
  assert_int_equal(b->owner(r->memory.address), -1);
  assert_false(b->can_access_peer(r->device, r->peer));
}

TEST(s0_06_s1_22_s4_13_giving_back_after_the_end) {
  remains r = {0};
  leave_something(&r);
  fake.unload();
  listen_to(&lines, CREMA_LOG_WARNING);
  expect_closed(&r);
  const cr_backend *backend = r.device->backend;
  backend->event_destroy(r.native);
  backend->free(r.device, r.memory);
  backend->host_free(r.device, r.host);
  cr_device_free_after(r.device, r.pooled, r.context->id);
  cr_tensor_destroy(r.tensor);
  ok(cr_block_free(&r.block));
  crema_event_destroy(r.event);
  crema_context_destroy(r.context);
  stop_listening();
  assert_int_equal(lines.count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_the_chosen_device_is_opened),
      cmocka_unit_test(a_new_thread_can_multiply),
      cmocka_unit_test(the_current_device_stays),
      cmocka_unit_test(a_device_without_code_is_refused),
      cmocka_unit_test(errors_of_others_are_not_ours),
      cmocka_unit_test(s4_12_a_refusal_leaves_no_error),
      cmocka_unit_test(s1_32_a_busy_stream_leaves_no_error),
      cmocka_unit_test(threads_sleep_while_they_wait_if_asked_to),
      cmocka_unit_test(work_without_a_kernel_runs_on_the_cpu),
      cmocka_unit_test(libraries_lose_the_driver),
      cmocka_unit_test(s0_06_s1_22_s4_13_giving_back_after_the_end), /* the last one */
  };
  return run_each_of(tests, find_fake, NULL);
}
