/* What is asked of a device's driver itself, past the pool: how much memory there is, and
 * page-locked host memory. */
#ifndef CR_DEVICE_MEMORY_DRIVER_H
#define CR_DEVICE_MEMORY_DRIVER_H

#include "device/backend/backend.h"

/* What the driver says about the device's memory; the total is the smaller of what the driver and
 * the device say (S4-15). Not while a collective is launched. For devices with memory of their own.
 */
crema_status cr_device_memory_info(crema_device *device, size_t *free_bytes,
                                   size_t *total_bytes) CREMA_MUST_USE;

/* Host memory for copies to and from `device`: page-locked where that means something. For a device
 * whose memory is host memory: cr_host_alloc. Free with the same device and number of bytes. */
crema_status cr_pinned_alloc(crema_device *device, size_t bytes, void **out) CREMA_MUST_USE;
void cr_pinned_free(crema_device *device, void *memory, size_t bytes);

#endif
