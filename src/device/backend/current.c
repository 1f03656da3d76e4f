#include "device/backend/current.h"

#include "core/fail.h"
#include "core/log.h"

static _Thread_local crema_device *current;

crema_device *cr_device_of_thread(void) {
  return current;
}

crema_status cr_device_set_current(crema_device *device) {
  if (device == current) return CREMA_OK;
  if (device->backend->set_current != NULL) CR_TRY(device->backend->set_current(device));
  current = device;
  return CREMA_OK;
}

crema_status cr_device_enter(crema_device *device, cr_device_guard *guard) {
  crema_device *before = current;
  *guard = (cr_device_guard){0};
  if (device == before || device->backend->set_current == NULL) return CREMA_OK;
  CR_TRY(cr_device_set_current(device));
  *guard = (cr_device_guard){.changed = true, .before = before};
  return CREMA_OK;
}

void cr_device_leave(cr_device_guard guard) {
  if (!guard.changed) return;
  if (guard.before == NULL) {
    current = NULL;
    return;
  }
  crema_status status = cr_device_set_current(guard.before);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("cannot return to device %s:%d: %s", guard.before->backend->name,
                   guard.before->index, crema_error_text());
  }
}
