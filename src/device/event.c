/* Events with states, for the CPU and for devices with streams. In crema_event_wait:
 *
 *   - The host waits until the event is finished, if the event belongs to the CPU or to another
 *     type of device than the waiting context.
 *   - Otherwise the host waits only until the event is recorded, and the context's stream waits for
 *     the rest. The stream that recorded the event needs no wait.
 *
 * A device's event changes to SUCCESS or FAILED when a call asks for its state. */
#include "crema/event.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/device.h"

enum { MESSAGE_MAX = 512 };

struct crema_event {
  crema_device *device;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  crema_event_state state;
  char message[MESSAGE_MAX];
  uint64_t context;        /* id of the context that recorded it */
  cr_native_event *native; /* devices with streams only */
};

static bool has_streams(const crema_event *event) {
  return event->native != NULL;
}

crema_status crema_event_create(crema_device *device, crema_event **out) {
  CR_REQUIRE(device);
  CR_REQUIRE(out);
  crema_event *event = calloc(1, sizeof *event);
  if (event == NULL) return cr_fail_memory(sizeof *event, "an event");
  event->device = device;
  if (!device->backend->host_memory) {
    crema_status status = device->backend->event_create(device, &event->native);
    if (status != CREMA_OK) {
      free(event);
      return status;
    }
  }
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  *out = event;
  return CREMA_OK;
}

void crema_event_destroy(crema_event *event) {
  if (event == NULL) return;
  if (event->native != NULL) event->device->backend->event_destroy(event->native);
  pthread_cond_destroy(&event->changed);
  pthread_mutex_destroy(&event->lock);
  free(event);
}

static void set_state(crema_event *event, crema_event_state state, const char *message) {
  event->state = state;
  snprintf(event->message, sizeof event->message, "%s", message != NULL ? message : "");
  pthread_cond_broadcast(&event->changed);
}

static bool is_finished(const crema_event *event) {
  return event->state == CREMA_EVENT_SUCCESS || event->state == CREMA_EVENT_FAILED;
}

/* Turns SCHEDULED into SUCCESS or FAILED when the device's work is done. */
static void poll_device(crema_event *event) {
  if (event->state != CREMA_EVENT_SCHEDULED || !has_streams(event)) return;
  bool done = false;
  crema_status status = event->device->backend->event_query(event->native, &done);
  if (status != CREMA_OK) {
    set_state(event, CREMA_EVENT_FAILED, crema_error_text());
  } else if (done) {
    set_state(event, CREMA_EVENT_SUCCESS, NULL);
  }
}

static void wait_until_recorded(crema_event *event) {
  while (event->state == CREMA_EVENT_INITIALIZED) pthread_cond_wait(&event->changed, &event->lock);
}

/* The host waits for the end and releases the lock while waiting. */
static void wait_until_finished(crema_event *event) {
  wait_until_recorded(event);
  if (!has_streams(event)) {
    while (!is_finished(event)) pthread_cond_wait(&event->changed, &event->lock);
    return;
  }
  while (event->state == CREMA_EVENT_SCHEDULED) {
    pthread_mutex_unlock(&event->lock);
    crema_status status = event->device->backend->event_finish(event->native);
    pthread_mutex_lock(&event->lock);
    /* Another waiter may have been here first. */
    if (event->state != CREMA_EVENT_SCHEDULED) break;
    set_state(event, status == CREMA_OK ? CREMA_EVENT_SUCCESS : CREMA_EVENT_FAILED,
              status == CREMA_OK ? NULL : crema_error_text());
  }
}

static crema_status record_locked(crema_event *event, crema_context *context, const char *failure) {
  if (is_finished(event) && !has_streams(event)) return CREMA_OK;
  if (event->state != CREMA_EVENT_INITIALIZED) {
    return cr_fail(CREMA_E_STATE, "an event was recorded twice");
  }
  if (failure != NULL) {
    set_state(event, CREMA_EVENT_FAILED, failure);
    return CREMA_OK;
  }
  if (has_streams(event)) {
    cr_device_guard guard;
    CR_TRY(cr_device_enter(context->device, &guard));
    crema_status status = context->device->backend->event_record(context, event->native);
    cr_device_leave(guard);
    CR_TRY(status);
  }
  event->context = context->id;
  set_state(event, CREMA_EVENT_SCHEDULED, NULL);
  return CREMA_OK;
}

crema_status crema_event_record(crema_event *event, crema_context *context, const char *failure) {
  CR_REQUIRE(event);
  CR_REQUIRE(context);
  const cr_backend *mine = event->device->backend, *theirs = context->device->backend;
  if (mine->type != theirs->type) {
    return cr_fail(CREMA_E_ARGUMENT, "an event of %s cannot be recorded by a context of %s",
                   mine->name, theirs->name);
  }
  if (event->device->index != context->device->index) {
    return cr_fail(CREMA_E_DEVICE, "an event of %s:%d cannot be recorded by a context of %s:%d",
                   mine->name, event->device->index, theirs->name, context->device->index);
  }
  pthread_mutex_lock(&event->lock);
  crema_status status = record_locked(event, context, failure);
  pthread_mutex_unlock(&event->lock);
  return status;
}

crema_status crema_event_set_finished(crema_event *event, const char *failure) {
  CR_REQUIRE(event);
  pthread_mutex_lock(&event->lock);
  bool allowed = event->state == CREMA_EVENT_INITIALIZED ||
                 (event->state == CREMA_EVENT_SCHEDULED && !has_streams(event));
  if (allowed)
    set_state(event, failure != NULL ? CREMA_EVENT_FAILED : CREMA_EVENT_SUCCESS, failure);
  pthread_mutex_unlock(&event->lock);
  if (allowed) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "the event is scheduled or finished already");
}

crema_event_state crema_event_query(crema_event *event) {
  if (event == NULL) return CREMA_EVENT_FAILED;
  pthread_mutex_lock(&event->lock);
  poll_device(event);
  crema_event_state state = event->state;
  pthread_mutex_unlock(&event->lock);
  return state;
}

crema_event_state crema_event_finish(crema_event *event) {
  if (event == NULL) return CREMA_EVENT_FAILED;
  pthread_mutex_lock(&event->lock);
  wait_until_finished(event);
  crema_event_state state = event->state;
  pthread_mutex_unlock(&event->lock);
  return state;
}

static crema_status failure_of(crema_event *event) {
  if (event->state != CREMA_EVENT_FAILED) return CREMA_OK;
  return cr_fail(CREMA_E_DEVICE, "%s", event->message);
}

static crema_status wait_on_stream(crema_event *event, crema_context *context) {
  wait_until_recorded(event);
  if (event->state != CREMA_EVENT_SCHEDULED || event->context == context->id) {
    return failure_of(event);
  }
  cr_device_guard guard;
  CR_TRY(cr_device_enter(context->device, &guard));
  crema_status status = context->device->backend->event_wait(context, event->native);
  cr_device_leave(guard);
  return status;
}

crema_status crema_event_wait(crema_event *event, crema_context *context) {
  CR_REQUIRE(event);
  CR_REQUIRE(context);
  bool same_type = event->device->backend == context->device->backend;
  pthread_mutex_lock(&event->lock);
  crema_status status;
  if (same_type && has_streams(event)) {
    status = wait_on_stream(event, context);
  } else {
    wait_until_finished(event);
    status = failure_of(event);
  }
  pthread_mutex_unlock(&event->lock);
  return status;
}

void crema_event_reset(crema_event *event) {
  if (event == NULL) return;
  pthread_mutex_lock(&event->lock);
  event->context = 0;
  set_state(event, CREMA_EVENT_INITIALIZED, NULL);
  pthread_mutex_unlock(&event->lock);
}

const char *crema_event_message(crema_event *event) {
  if (event == NULL) return "no event";
  pthread_mutex_lock(&event->lock);
  bool failed = event->state == CREMA_EVENT_FAILED;
  pthread_mutex_unlock(&event->lock);
  return failed ? event->message : "no error";
}

bool crema_event_can_schedule(crema_device_type parent, crema_event_state state,
                              crema_device_type child, bool child_is_async) {
  switch (state) {
    case CREMA_EVENT_SUCCESS: return true;
    case CREMA_EVENT_SCHEDULED: return parent == child && child_is_async;
    case CREMA_EVENT_INITIALIZED:
    case CREMA_EVENT_FAILED: break;
  }
  return false;
}
