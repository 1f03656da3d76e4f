/* Requests to a device's driver past the pool: the amount of memory, and page-locked host
 * memory. */
#ifndef CR_DEVICE_MEMORY_DRIVER_H
#define CR_DEVICE_MEMORY_DRIVER_H

#include "device/backend/backend.h"

/* The device's memory; the total is the smaller of the driver's and the device's number (S4-15).
 * Not while a collective is launched. For devices with their own memory. */
crema_status cr_device_memory_info(crema_device *device, size_t *free_bytes,
                                   size_t *total_bytes) CREMA_MUST_USE;

/* Host memory for copies to and from `device`: page-locked, or from cr_host_alloc for a device that
 * uses host memory. Free with the same device and number of bytes. */
crema_status cr_pinned_alloc(crema_device *device, size_t bytes, void **out) CREMA_MUST_USE;
void cr_pinned_free(crema_device *device, void *memory, size_t bytes);

#endif
