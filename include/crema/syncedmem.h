/* The memory automaton: one block of bytes held on the host, on a device, or both.
 *
 * Four states say where the newest bytes are; the accessors move them only when
 * needed. On a device whose memory is host memory both sides are one and the state
 * never leaves HEAD_AT_CPU once set. One thread uses a block at a time, readers too; handing it to
 * another goes through a lock or a queue. An access that meets another thread's transition fails
 * with CREMA_E_STATE. A device access without a context, where there is no device to have one on,
 * fails with CREMA_E_NO_DEVICE and changes nothing. */
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

/* Makes a block of `size` bytes for use on the host and on `device`. Allocates nothing until
 * first access. Free with crema_syncedmem_destroy. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_syncedmem_create(crema_device *device, size_t size,
                                              crema_syncedmem **out) CREMA_MUST_USE;
CREMA_API void crema_syncedmem_destroy(crema_syncedmem *memory);

/* Where the newest bytes are, and how many bytes the block has. */
CREMA_API crema_head crema_syncedmem_head(const crema_syncedmem *memory);
CREMA_API size_t crema_syncedmem_size(const crema_syncedmem *memory);

/* To read: makes the side valid. From UNINITIALIZED the side is made and zero-filled.
 * A failure leaves the block as it was. *out stays owned by the block. Errors, here and below:
 * CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_NO_DEVICE, CREMA_E_STATE. */
CREMA_API crema_status crema_syncedmem_cpu_data(crema_syncedmem *memory,
                                                const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_gpu_data(crema_syncedmem *memory, crema_context *context,
                                                crema_devptr *out) CREMA_MUST_USE;

/* To read and change: makes the side valid, then the head. With `keep` false the old
 * content is not needed and is not copied (write-only access). *out stays owned by the block.
 * Errors as above. */
CREMA_API crema_status crema_syncedmem_mutable_cpu_data(crema_syncedmem *memory, bool keep,
                                                        void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_mutable_gpu_data(crema_syncedmem *memory,
                                                        crema_context *context, bool keep,
                                                        crema_devptr *out) CREMA_MUST_USE;

/* Adopts a caller's memory of at least size bytes, `data`, as the newest side; it stays the
 * caller's. Work that was queued on device memory must be done: nobody else knows of it. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_STATE. */
CREMA_API crema_status crema_syncedmem_set_cpu_data(crema_syncedmem *memory,
                                                    void *data) CREMA_MUST_USE;
CREMA_API crema_status crema_syncedmem_set_gpu_data(crema_syncedmem *memory,
                                                    crema_devptr data) CREMA_MUST_USE;

/* In HEAD_AT_CPU only: queues the copy to the device on `context` and becomes SYNCED at once. The
 * caller waits for the context before the device copy is used or the host side changed. Errors:
 * CREMA_E_STATE when the newest bytes are elsewhere, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_syncedmem_async_push(crema_syncedmem *memory,
                                                  crema_context *context) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
