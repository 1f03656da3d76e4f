#include "device/backend/order.h"

#include <stdatomic.h>

#include "core/fail.h"
#include "device/backend/current.h"

void cr_context_number(crema_context *context) {
  static _Atomic uint64_t ids;
  context->id = atomic_fetch_add(&ids, 1) + 1;
}

void cr_context_list(crema_context *context) {
  crema_device *device = context->device;
  if (device->backend->host_memory) return;
  pthread_mutex_lock(&device->lock);
  context->next = device->contexts;
  if (context->next != NULL) context->next->before = context;
  device->contexts = context;
  pthread_mutex_unlock(&device->lock);
}

void cr_context_unlist(crema_context *context) {
  crema_device *device = context->device;
  if (device->backend->host_memory) return;
  pthread_mutex_lock(&device->lock);
  if (context->next != NULL) context->next->before = context->before;
  if (context->before != NULL) {
    context->before->next = context->next;
  } else {
    device->contexts = context->next;
  }
  pthread_mutex_unlock(&device->lock);
}

/* With the device's lock held; NULL if the context is destroyed. */
static crema_context *find_context(crema_device *device, uint64_t id) {
  crema_context *context = device->contexts;
  while (context != NULL && context->id != id) context = context->next;
  return context;
}

static crema_status follow_locked(crema_context *context, uint64_t id) {
  const cr_backend *backend = context->device->backend;
  crema_context *other = find_context(context->device, id);
  if (other == NULL) return CREMA_OK; /* it was finished when it was destroyed */
  if (other->order == NULL) CR_TRY(backend->event_create(context->device, &other->order));
  CR_TRY(backend->event_record(other, other->order));
  return backend->event_wait(context, other->order);
}

crema_status cr_context_follow(crema_context *context, uint64_t id) {
  crema_device *device = context->device;
  if (id == 0 || id == context->id || device->backend->host_memory) return CREMA_OK;
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  pthread_mutex_lock(&device->lock);
  crema_status status = follow_locked(context, id);
  pthread_mutex_unlock(&device->lock);
  cr_device_leave(guard);
  return status;
}

crema_status cr_context_failure(crema_device *device, uint64_t id) {
  if (id == 0 || device->backend->failure == NULL) return CREMA_OK;
  pthread_mutex_lock(&device->lock);
  crema_context *context = find_context(device, id);
  crema_status status = context == NULL ? CREMA_OK : device->backend->failure(context);
  pthread_mutex_unlock(&device->lock);
  return status;
}

crema_status cr_context_busy(crema_context *context, bool *out) {
  *out = false;
  const cr_backend *backend = context->device->backend;
  return backend->busy == NULL ? CREMA_OK : backend->busy(context, out);
}

static crema_status mark_locked(crema_device *device, uint64_t id, cr_native_event **event,
                                bool *busy) {
  crema_context *context = find_context(device, id);
  if (context == NULL) return CREMA_OK;
  CR_TRY(cr_context_busy(context, busy));
  if (!*busy) return CREMA_OK;
  if (*event == NULL) CR_TRY(device->backend->event_create(device, event));
  return device->backend->event_record(context, *event);
}

crema_status cr_context_mark(crema_device *device, uint64_t id, cr_native_event **event,
                             bool *busy) {
  *busy = false;
  if (id == 0 || device->backend->host_memory) return CREMA_OK;
  cr_device_guard guard;
  CR_TRY(cr_device_enter(device, &guard));
  pthread_mutex_lock(&device->lock);
  crema_status status = mark_locked(device, id, event, busy);
  pthread_mutex_unlock(&device->lock);
  cr_device_leave(guard);
  return status;
}
