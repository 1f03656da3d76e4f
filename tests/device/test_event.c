/* Events: rows S1-43 to S1-53. */
#include "device/stream_fixture.h"

#include <stdatomic.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "crema/event.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/registry.h"

static crema_event *new_event(crema_device *device) {
  crema_event *event = NULL;
  ok(crema_event_create(device, &event));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_INITIALIZED);
  return event;
}

static void begin_stepped(int devices) {
  cr_sim_options options = sim_test_options(devices);
  options.stepped = true;
  sim_begin(&options);
}

TEST(s1_43_an_event_needs_a_device) {
  crema_event *event = NULL;
  assert_int_equal(crema_event_create(NULL, &event), CREMA_E_ARGUMENT);
  assert_null(event);
  assert_int_equal(crema_event_wait(NULL, cr_host_context()), CREMA_E_ARGUMENT);
  ok(crema_event_create(cr_cpu_device(), &event));
  assert_int_equal(crema_event_wait(event, NULL), CREMA_E_ARGUMENT);
  crema_event_destroy(event);
  crema_event_destroy(NULL);
}

TEST(s1_44_s1_45_s1_46_cpu_events) {
  crema_context *context = cr_host_context();
  crema_event *event = new_event(cr_cpu_device());
  ok(crema_event_record(event, context, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SCHEDULED);
  assert_int_equal(crema_event_record(event, context, NULL), CREMA_E_STATE);
  ok(crema_event_set_finished(event, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  assert_int_equal(crema_event_set_finished(event, NULL), CREMA_E_STATE);
  /* Finished before it was recorded: the work was faster. */
  ok(crema_event_record(event, context, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  crema_event_reset(event);
  assert_int_equal(crema_event_query(event), CREMA_EVENT_INITIALIZED);
  ok(crema_event_set_finished(event, "no space"));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_FAILED);
  assert_string_equal(crema_event_message(event), "no space");
  ok(crema_event_record(event, context, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_FAILED);
  assert_int_equal(crema_event_wait(event, context), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "no space");
  crema_event_reset(event);
  ok(crema_event_record(event, context, "broken"));
  assert_string_equal(crema_event_message(event), "broken");
  assert_int_equal(crema_event_record(NULL, context, NULL), CREMA_E_ARGUMENT);
  crema_event_destroy(event);
}

/* ---- the full table of transitions ---- */

typedef enum event_op {
  RECORD,
  RECORD_FAILED,
  FINISH,
  FINISH_FAILED,
  QUERY,
  WORK_DONE, /* the stream comes as far as the event */
  RESET,
  EVENT_OPS
} event_op;

#define I CREMA_EVENT_INITIALIZED
#define S CREMA_EVENT_SCHEDULED
#define D CREMA_EVENT_SUCCESS
#define F CREMA_EVENT_FAILED
enum { REFUSED = 16 }; /* CREMA_E_STATE, and the state stays */

/* [with streams][state before][operation]: the state after. */
static const int transition[2][4][EVENT_OPS] = {
    {{S, F, D, F, I, I, I},
     {REFUSED + S, REFUSED + S, D, F, S, S, I},
     {D, D, REFUSED + D, REFUSED + D, D, D, I},
     {F, F, REFUSED + F, REFUSED + F, F, F, I}},
    {{S, F, D, F, I, I, I},
     {REFUSED + S, REFUSED + S, REFUSED + S, REFUSED + S, S, D, I},
     {REFUSED + D, REFUSED + D, REFUSED + D, REFUSED + D, D, D, I},
     {REFUSED + F, REFUSED + F, REFUSED + F, REFUSED + F, F, F, I}}};
#undef I
#undef S
#undef D
#undef F

static crema_status apply(crema_event *event, crema_context *context, event_op op) {
  switch (op) {
    case RECORD: return crema_event_record(event, context, NULL);
    case RECORD_FAILED: return crema_event_record(event, context, "recorded as failed");
    case FINISH: return crema_event_set_finished(event, NULL);
    case FINISH_FAILED: return crema_event_set_finished(event, "finished as failed");
    case WORK_DONE:
      while (!context->device->backend->host_memory && cr_sim_step(context)) {
      }
      break;
    case RESET: crema_event_reset(event); break;
    default: break;
  }
  return CREMA_OK;
}

static void bring_event_to(crema_event *event, crema_context *context, int to) {
  crema_event_reset(event);
  if (to == CREMA_EVENT_SCHEDULED) ok(apply(event, context, RECORD));
  if (to == CREMA_EVENT_SUCCESS) ok(apply(event, context, FINISH));
  if (to == CREMA_EVENT_FAILED) ok(apply(event, context, FINISH_FAILED));
  assert_int_equal(crema_event_query(event), to);
}

TEST(s1_44_every_state_and_operation) {
  begin_stepped(1);
  crema_context *context[2] = {cr_host_context(), sim_test_context(sim_test_device(0))};
  for (int streams = 0; streams < 2; ++streams) {
    crema_event *event = new_event(crema_context_device(context[streams]));
    for (int before = 0; before < 4; ++before) {
      for (int op = 0; op < EVENT_OPS; ++op) {
        int expected = transition[streams][before][op];
        bool refused = expected >= REFUSED;
        bring_event_to(event, context[streams], before);
        crema_status status = apply(event, context[streams], (event_op)op);
        int after = (int)crema_event_query(event);
        if (status != (refused ? CREMA_E_STATE : CREMA_OK) || after != expected % REFUSED) {
          fail_msg("streams %d, state %d, operation %d: status %d, state %d", streams, before, op,
                   (int)status, after);
        }
        /* A message exactly where something failed. */
        assert_int_equal(strcmp(crema_event_message(event), "no error") != 0,
                         after == CREMA_EVENT_FAILED);
      }
    }
    crema_event_destroy(event);
  }
  ok(crema_context_finish(context[1]));
  crema_context_destroy(context[1]);
  sim_end();
}

TEST(s1_45_recorder_and_event_are_of_one_type) {
  begin_stepped(2);
  crema_context *first = sim_test_context(sim_test_device(0));
  crema_context *second = sim_test_context(sim_test_device(1));
  crema_event *cpu = new_event(cr_cpu_device()), *device = new_event(sim_test_device(0));
  assert_fails(crema_event_record(cpu, first, NULL), CREMA_E_ARGUMENT, "cpu");
  assert_error_has("sim");
  assert_int_equal(crema_event_record(device, cr_host_context(), NULL), CREMA_E_ARGUMENT);
  assert_int_equal(crema_event_record(device, second, NULL), CREMA_E_DEVICE);
  assert_int_equal(crema_event_query(device), CREMA_EVENT_INITIALIZED);
  crema_event_destroy(device);
  crema_event_destroy(cpu);
  crema_context_destroy(second);
  crema_context_destroy(first);
  sim_end();
}

static crema_status finish_soon(void *arg) {
  cr_clock_sleep(0.01);
  return crema_event_set_finished(arg, NULL);
}

static crema_status wait_for_event(void *arg) {
  return crema_event_finish(arg) == CREMA_EVENT_SUCCESS ? CREMA_OK : CREMA_E_INTERNAL;
}

TEST(s1_46_s1_47_finishing_wakes_all_who_wait) {
  crema_event *event = new_event(cr_cpu_device());
  cr_thread *waiter[3] = {0}, *finisher = NULL;
  for (int i = 0; i < 3; ++i) {
    ok(cr_thread_start(&waiter[i], "wait", wait_for_event, event));
  }
  ok(cr_thread_start(&finisher, "finish", finish_soon, event));
  for (int i = 0; i < 3; ++i) ok(cr_thread_join(&waiter[i]));
  ok(cr_thread_join(&finisher));
  crema_event_destroy(event);
}

/* Queues one piece of work. */
static void queue_work(crema_context *context, crema_devptr memory) {
  ok(context->device->backend->zero(context, memory, 16));
}

TEST(s1_48_s1_49_device_events_follow_the_stream) {
  stream_fixture f = stream_begin(true);
  crema_event *event = new_event(f.device);
  stream_queue(&f);
  ok(crema_event_record(event, f.context, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SCHEDULED);
  assert_true(cr_sim_step(f.context));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SCHEDULED);
  assert_true(cr_sim_step(f.context));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  assert_int_equal(crema_event_record(event, f.context, NULL), CREMA_E_STATE);
  assert_string_equal(crema_event_message(event), "no error");
  crema_event_reset(event);
  ok(crema_event_record(event, f.context, "not even started"));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_FAILED);
  /* Work that fails before the event makes the event fail. */
  crema_event_reset(event);
  stream_queue_failure(&f);
  ok(crema_event_record(event, f.context, NULL));
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_FAILED);
  assert_non_null(strstr(crema_event_message(event), "simulated failure"));
  assert_int_equal(crema_context_finish(f.context), CREMA_E_DEVICE);
  crema_event_destroy(event);
  stream_end(&f);
}

/* A query finds out that work failed, and says so from then on. */
TEST(s1_49_a_query_finds_failed_work) {
  stream_fixture f = stream_begin(true);
  crema_event *event = new_event(f.device), *later = new_event(f.device);
  stream_queue_failure(&f);
  ok(crema_event_record(event, f.context, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SCHEDULED);
  while (cr_sim_step(f.context)) {
  }
  assert_int_equal(crema_event_query(event), CREMA_EVENT_FAILED);
  assert_non_null(strstr(crema_event_message(event), "simulated failure"));
  /* The f.context still has to report the failure; the event keeps its state. */
  assert_int_equal(crema_context_finish(f.context), CREMA_E_DEVICE);
  assert_int_equal(crema_event_query(event), CREMA_EVENT_FAILED);
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_FAILED);
  assert_int_equal(crema_event_wait(event, cr_host_context()), CREMA_E_DEVICE);
  assert_int_equal(crema_event_record(event, f.context, NULL), CREMA_E_STATE);
  /* Work that is queued after the failure was reported succeeds. */
  stream_queue(&f);
  ok(crema_event_record(later, f.context, NULL));
  while (cr_sim_step(f.context)) {
  }
  assert_int_equal(crema_event_query(later), CREMA_EVENT_SUCCESS);
  crema_event_destroy(later);
  crema_event_destroy(event);
  stream_end(&f);
}

static crema_event *reset_meanwhile;

/* As if another thread had seen the end first and reset the event. */
static crema_status finish_and_reset(cr_native_event *event) {
  crema_status status = cr_backend_sim.event_finish(event);
  crema_event_reset(reset_meanwhile);
  return status;
}

/* A waiter that returns to an event whose state another thread has changed leaves it so. */
TEST(s1_50_the_second_waiter_changes_nothing) {
  begin_stepped(1);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_event *event = new_event(device);
  cr_backend backend = *device->backend;
  backend.event_finish = finish_and_reset;
  ok(crema_event_record(event, context, NULL));
  reset_meanwhile = event;
  device->backend = &backend;
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_INITIALIZED);
  device->backend = &cr_backend_sim;
  assert_int_equal(crema_event_query(event), CREMA_EVENT_INITIALIZED);
  crema_event_destroy(event);
  crema_context_destroy(context);
  sim_end();
}

TEST(s1_50_finished_by_hand_and_reset) {
  begin_stepped(1);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_event *event = new_event(device);
  ok(crema_event_set_finished(event, NULL));
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  assert_int_equal(crema_event_set_finished(event, NULL), CREMA_E_STATE);
  crema_event_reset(event);
  ok(crema_event_record(event, context, NULL));
  assert_int_equal(crema_event_set_finished(event, NULL), CREMA_E_STATE);
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_SUCCESS);
  crema_event_reset(event);
  ok(crema_event_set_finished(event, "late"));
  assert_string_equal(crema_event_message(event), "late");
  crema_event_reset(event);
  assert_string_equal(crema_event_message(event), "no error");
  crema_event_destroy(event);
  crema_context_destroy(context);
  sim_end();
}

typedef struct recorder {
  crema_event *event;
  crema_context *context;
} recorder;

static crema_status record_soon(void *arg) {
  recorder *r = arg;
  cr_clock_sleep(0.01);
  return crema_event_record(r->event, r->context, NULL);
}

TEST(s1_50_finish_waits_for_the_record_first) {
  sim_begin_devices(1);
  crema_context *context = sim_test_context(sim_test_device(0));
  crema_event *event = new_event(sim_test_device(0));
  recorder r = {event, context};
  cr_thread *thread = NULL;
  ok(cr_thread_start(&thread, "record", record_soon, &r));
  assert_int_equal(crema_event_finish(event), CREMA_EVENT_SUCCESS);
  ok(cr_thread_join(&thread));
  crema_event_destroy(event);
  crema_context_destroy(context);
  sim_end();
}

typedef struct stream_waiter {
  crema_event *event;
  crema_context *context;
  atomic_bool returned;
} stream_waiter;

static crema_status wait_by_stream(void *arg) {
  stream_waiter *w = arg;
  crema_status status = crema_event_wait(w->event, w->context);
  atomic_store(&w->returned, true);
  return status;
}

/* A device waits for a device: the host waits until the event is recorded, and no longer. */
TEST(s1_51_the_host_waits_for_the_record_only) {
  begin_stepped(2);
  /* The waiting stream is on the same device, then on another one. */
  for (int other = 0; other < 2; ++other) {
    crema_device *device = sim_test_device(0);
    crema_context *first = sim_test_context(device);
    stream_waiter w = {.context = sim_test_context(sim_test_device(other)),
                       .event = new_event(device)};
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "wait", wait_by_stream, &w));
    cr_clock_sleep(0.02);
    assert_false(atomic_load(&w.returned));
    assert_int_equal(cr_sim_pending(w.context), 0);
    ok(crema_event_record(w.event, first, NULL));
    ok(cr_thread_join(&thread));
    /* Recorded, not done: now it is the stream that waits. */
    assert_int_equal(crema_event_query(w.event), CREMA_EVENT_SCHEDULED);
    assert_int_equal(cr_sim_pending(w.context), 1);
    assert_false(cr_sim_step(w.context));
    assert_true(cr_sim_step(first));
    assert_true(cr_sim_step(w.context));
    crema_event_destroy(w.event);
    crema_context_destroy(w.context);
    crema_context_destroy(first);
  }
  sim_end();
}

/* Which of host and stream waits, in the four cells of the matrix. */
TEST(s1_51_who_waits) {
  begin_stepped(1);
  crema_device *device = sim_test_device(0);
  crema_context *first = sim_test_context(device), *second = sim_test_context(device);
  crema_devptr memory = {0};
  ok(cr_device_alloc(device, 16, &memory));
  crema_event *cpu = new_event(cr_cpu_device()), *event = new_event(device);
  /* A device waits for a device: the host goes on, the second stream cannot. */
  queue_work(first, memory);
  ok(crema_event_record(event, first, NULL));
  ok(crema_event_wait(event, second));
  assert_int_equal(cr_sim_pending(first), 2);
  assert_int_equal(cr_sim_pending(second), 1);
  assert_false(cr_sim_step(second));
  assert_true(cr_sim_step(first));
  assert_true(cr_sim_step(first));
  assert_true(cr_sim_step(second));
  /* The recording stream has nothing to wait for. */
  crema_event_reset(event);
  queue_work(first, memory);
  ok(crema_event_record(event, first, NULL));
  ok(crema_event_wait(event, first));
  assert_int_equal(cr_sim_pending(first), 2);
  /* The CPU waits for a device: the host blocks until the work is done. */
  ok(crema_event_wait(event, cr_host_context()));
  assert_int_equal(cr_sim_pending(first), 0);
  assert_int_equal(crema_event_query(event), CREMA_EVENT_SUCCESS);
  /* A device or the CPU waits for the CPU: the host blocks until somebody finishes the event. */
  crema_context *waiters[2] = {second, cr_host_context()};
  for (int i = 0; i < 2; ++i) {
    crema_event_reset(cpu);
    cr_thread *finisher = NULL;
    ok(cr_thread_start(&finisher, "finish", finish_soon, cpu));
    ok(crema_event_wait(cpu, waiters[i]));
    assert_int_equal(crema_event_query(cpu), CREMA_EVENT_SUCCESS);
    ok(cr_thread_join(&finisher));
  }
  assert_int_equal(cr_sim_pending(second), 0);
  /* Whoever waits for an event that failed gets the failure. */
  crema_event_reset(event);
  ok(crema_event_record(event, first, "nothing was copied"));
  assert_int_equal(crema_event_wait(event, second), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "nothing was copied");
  assert_int_equal(crema_event_wait(event, cr_host_context()), CREMA_E_DEVICE);
  assert_int_equal(cr_sim_pending(second), 0);
  crema_event_destroy(event);
  crema_event_destroy(cpu);
  cr_device_free(device, memory);
  crema_context_destroy(second);
  crema_context_destroy(first);
  sim_end();
}

TEST(s1_52_the_message_without_a_failure) {
  crema_event *event = new_event(cr_cpu_device());
  assert_string_equal(crema_event_message(event), "no error");
  ok(crema_event_set_finished(event, NULL));
  assert_string_equal(crema_event_message(event), "no error");
  crema_event_destroy(event);
}

TEST(s1_53_truth_table) {
  for (int parent = 0; parent < 3; ++parent) {
    for (int child = 0; child < 3; ++child) {
      for (int s = 0; s < 4; ++s) {
        for (int async = 0; async < 2; ++async) {
          bool expected = s == CREMA_EVENT_SUCCESS ||
                          (s == CREMA_EVENT_SCHEDULED && parent == child && async == 1);
          assert_int_equal(crema_event_can_schedule((crema_device_type)parent, (crema_event_state)s,
                                                    (crema_device_type)child, async == 1),
                           expected);
        }
      }
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
