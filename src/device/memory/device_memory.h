/* Device memory, from the device's pool if it has one. */
#ifndef CR_DEVICE_MEMORY_DEVICE_MEMORY_H
#define CR_DEVICE_MEMORY_DEVICE_MEMORY_H

#include "device/backend/backend.h"

/* bytes 0 is legal. Errors: CREMA_E_NO_MEMORY naming bytes, device, free and total memory. */
crema_status cr_device_alloc(crema_device *device, size_t bytes, crema_devptr *out) CREMA_MUST_USE;

/* As cr_device_alloc, for memory that the context is the first to use. */
crema_status cr_device_alloc_for(crema_context *context, size_t bytes,
                                 crema_devptr *out) CREMA_MUST_USE;

/* Accepts no memory (address 0). The memory must not be in use by queued work. */
void cr_device_free(crema_device *device, crema_devptr memory);

/* As cr_device_free, but work queued on the context `id` (0: none) may still use the memory. Other
 * contexts get it after that work is complete. */
void cr_device_free_after(crema_device *device, crema_devptr memory, uint64_t id);

/* How often the calling thread has allocated or freed device memory by the functions above. */
uint64_t cr_device_memory_changes(void);

#endif
