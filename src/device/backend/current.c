#include "device/backend/current.h"

#include "core/fail.h"

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
  int driver_before = -1;
  *guard = (cr_device_guard){0};
  if (device->backend->enter_device == NULL) return CREMA_OK;
  /* Even if the thread's device is the same: other code may have changed the driver's device. */
  CR_TRY(device->backend->enter_device(device, &driver_before));
  *guard = (cr_device_guard){.entered = device, .before = current, .driver_before = driver_before};
  current = device;
  return CREMA_OK;
}

void cr_device_leave(cr_device_guard guard) {
  if (guard.entered == NULL) return;
  guard.entered->backend->leave_device(guard.driver_before);
  current = guard.before;
}
