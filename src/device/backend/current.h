/* The device that a driver uses for the calling thread. */
#ifndef CR_DEVICE_BACKEND_CURRENT_H
#define CR_DEVICE_BACKEND_CURRENT_H

#include "device/backend/backend.h"

/* The device that the thread works on; NULL: none was set, which means the CPU (cr_device_current
 * in device/device.h). */
crema_device *cr_device_of_thread(void);
crema_status cr_device_set_current(crema_device *device) CREMA_MUST_USE;

/* Makes `device` current for the calling thread during a call (S1-40). */
typedef struct cr_device_guard {
  crema_device *entered; /* NULL: nothing was changed */
  crema_device *before;  /* NULL: none was set */
  int driver_before;     /* the driver's previous device */
} cr_device_guard;
crema_status cr_device_enter(crema_device *device, cr_device_guard *guard) CREMA_MUST_USE;
/* Restores the thread's device and the driver's; a no-op after a failed cr_device_enter. */
void cr_device_leave(cr_device_guard guard);

#endif
