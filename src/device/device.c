#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/pool.h"

crema_device_type crema_device_get_type(const crema_device *device) {
  return device->backend->type;
}

int crema_device_get_index(const crema_device *device) {
  return device->index;
}

crema_status crema_device_describe(crema_device *device, crema_device_info *out) {
  memset(out, 0, sizeof *out);
  crema_status status = device->backend->describe(device, out);
  return cr_fail_in(status, "device %s:%d", device->backend->name, device->index);
}

/* ---- the thread's current device ---- */

static _Thread_local crema_device *current;

crema_device *cr_device_current(void) {
  return current != NULL ? current : cr_cpu_device();
}

crema_status cr_device_set_current(crema_device *device) {
  if (device == cr_device_current()) return CREMA_OK;
  if (device->backend->set_current != NULL) CR_TRY(device->backend->set_current(device));
  current = device;
  return CREMA_OK;
}

crema_status cr_device_enter(crema_device *device, cr_device_guard *guard) {
  *guard = (cr_device_guard){NULL};
  crema_device *before = cr_device_current();
  if (before == device || device->backend->set_current == NULL) return CREMA_OK;
  CR_TRY(cr_device_set_current(device));
  guard->device = before;
  return CREMA_OK;
}

void cr_device_leave(cr_device_guard guard) {
  if (guard.device == NULL) return;
  if (cr_device_set_current(guard.device) != CREMA_OK) {
    cr_log_warning("cannot return to device %s:%d: %s", guard.device->backend->name,
                   guard.device->index, crema_error_text());
  }
}

/* ---- memory ---- */

static crema_status alloc_for(crema_device *device, size_t bytes, uint64_t user,
                              crema_devptr *out) {
  crema_devptr memory = {0};
  /* Zero bytes are legal and give an address of their own. */
  if (bytes == 0) bytes = 1;
  if (device->pool != NULL) {
    CR_TRY(cr_pool_alloc(device->pool, bytes, user, &memory));
  } else {
    crema_status status = device->backend->alloc(device, bytes, &memory);
    if (status != CREMA_OK) {
      return cr_fail_in(status, "device %s:%d", device->backend->name, device->index);
    }
  }
  *out = memory;
  return CREMA_OK;
}

crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  return alloc_for(device, bytes, 0, out);
}

crema_status cr_device_alloc_for(crema_context *context, size_t bytes, crema_devptr *out) {
  return alloc_for(context->device, bytes, context->id, out);
}

void cr_device_free_after(crema_device *device, crema_devptr memory, uint64_t id) {
  if (memory.address == 0) return;
  if (device->pool == NULL) {
    device->backend->free(device, memory);
  } else if (cr_pool_free(device->pool, memory, id) != CREMA_OK) {
    cr_log_error("%s", crema_error_text());
  }
}

void cr_device_free(crema_device *device, crema_devptr memory) {
  cr_device_free_after(device, memory, 0);
}
