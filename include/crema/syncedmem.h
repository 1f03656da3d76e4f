/* Synchronised memory: one block of bytes that is held on the host, on a device, or on both.
 *
 * A four-state machine (crema_head) records where the newest bytes are. The accessors copy bytes
 * and change the state only if necessary. If the device's memory is host memory, both sides are the
 * same and the state stays at HEAD_AT_CPU after the first access.
 *
 * One thread uses a block at a time, even for reading. Pass it to another thread through a lock or
 * a queue. An access during a state change by another thread fails with CREMA_E_STATE. A device
 * access without a context, if there is no device to create one on, fails with CREMA_E_NO_DEVICE
 * and changes nothing. */
#ifndef CREMA_SYNCEDMEM_H
#define CREMA_SYNCEDMEM_H

#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the newest bytes are. */
typedef enum crema_head {
  CREMA_UNINITIALIZED = 0, /* nowhere yet: the block reads as zeros */
  CREMA_HEAD_AT_CPU = 1,   /* on the host */
  CREMA_HEAD_AT_GPU = 2,   /* on the device */
  CREMA_SYNCED = 3         /* on both */
} crema_head;

/* A block of bytes on the host, on a device, or both. */
typedef struct crema_syncedmem crema_syncedmem;

/* Creates a block of `size` bytes for use on the host and on `device`. Memory is allocated at the
 * first access. Free with crema_syncedmem_destroy. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_syncedmem_create(crema_device *device, size_t size,
                                              crema_syncedmem **out) CREMA_MUST_USE;

/* Frees a block. Accepts NULL. */
CREMA_API void crema_syncedmem_destroy(crema_syncedmem *memory);

/* Where the newest bytes are, and the block's size in bytes. */
CREMA_API crema_head crema_syncedmem_head(const crema_syncedmem *memory);
CREMA_API size_t crema_syncedmem_size(const crema_syncedmem *memory);

/* Read access: brings the newest bytes to the host or device side. A block that is UNINITIALIZED is
 * allocated there and filled with zeros. `context` queues the copy. *out stays owned by the block.
 * Errors leave the block unchanged: CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_NO_DEVICE,
 * CREMA_E_STATE. */
CREMA_API crema_status crema_syncedmem_cpu_data(crema_syncedmem *memory,
                                                const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_gpu_data(crema_syncedmem *memory, crema_context *context,
                                                crema_devptr *out) CREMA_MUST_USE;

/* Write access: brings the newest bytes to the host or device side and makes this side the head.
 * With `keep` false (write-only access) the old bytes are not copied. *out stays owned by the
 * block. Errors as for read access. */
CREMA_API crema_status crema_syncedmem_mutable_cpu_data(crema_syncedmem *memory, bool keep,
                                                        void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_mutable_gpu_data(crema_syncedmem *memory,
                                                        crema_context *context, bool keep,
                                                        crema_devptr *out) CREMA_MUST_USE;

/* Uses the caller's memory `data` as the host or device side and makes this side the head. `data`
 * must have at least the block's size and stays the caller's. Work that the caller queued on device
 * memory must be complete, because the block does not wait for it. Errors: CREMA_E_ARGUMENT,
 * CREMA_E_STATE. */
CREMA_API crema_status crema_syncedmem_set_cpu_data(crema_syncedmem *memory,
                                                    void *data) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_set_gpu_data(crema_syncedmem *memory,
                                                    crema_devptr data) CREMA_MUST_USE;

/* Queues a copy of the host side to the device on `context` and makes the block SYNCED immediately.
 * The caller must wait for the context before it uses the device side or changes the host side.
 * Errors: CREMA_E_STATE unless the state is HEAD_AT_CPU, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_syncedmem_async_push(crema_syncedmem *memory,
                                                  crema_context *context) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
