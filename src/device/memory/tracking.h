/* Counting of device memory (S1-26): current and highest totals per device, off by default. */
#ifndef CR_DEVICE_TRACKING_H
#define CR_DEVICE_TRACKING_H

#include "device/backend/backend.h"

/* Turns counting on or off. Blocks allocated while it is off are not counted, and their release has
 * no effect. Turning it off clears all totals. */
void cr_tracking_enable(bool on);
bool cr_tracking_enabled(void);

/* For the pool, which stores the result of add in the block and passes it to remove. */
bool cr_tracking_add(const crema_device *device, size_t bytes);
void cr_tracking_remove(const crema_device *device, size_t bytes, bool counted);

typedef struct cr_tracking_totals {
  size_t current;
  size_t highest;
} cr_tracking_totals;

/* Totals of one device, or of all for NULL. Errors: CREMA_E_STATE when counting is off. */
crema_status cr_tracking_read(const crema_device *device, cr_tracking_totals *out) CREMA_MUST_USE;

/* How often the total over all devices had grown by more than 128 MiB since the last
 * report; each time a line went to the log. */
unsigned cr_tracking_reports(void);

#endif
