/* Scratch memory that all contexts share that one thread uses on one device. */
#ifndef CR_DEVICE_MEMORY_SCRATCHPAD_H
#define CR_DEVICE_MEMORY_SCRATCHPAD_H

#include "device/backend/backend.h"

/* Scratch memory of at least `bytes` bytes on the context's device. It only grows and is shared by
 * everything that the calling thread runs on the device (S4-22), so that it is as large as the
 * largest user needs, not as all together: its content lasts until the next user. Work queued on
 * other contexts that uses it is waited for on the queue. It is freed with the last context that
 * used it. bytes 0 gives what there is, possibly no memory. On failure the old memory stays.
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_context_workspace(crema_context *context, size_t bytes,
                                  crema_devptr *out) CREMA_MUST_USE;

/* Ends the context's use of the scratchpad that it holds, if any. */
void cr_scratchpad_leave(crema_context *context);

/* Bytes of scratchpad on the device, of all threads. */
size_t cr_device_scratchpad_bytes(crema_device *device);

#endif
