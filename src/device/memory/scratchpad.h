/* Scratch memory that all contexts share that one thread uses on one device. */
#ifndef CR_DEVICE_MEMORY_SCRATCHPAD_H
#define CR_DEVICE_MEMORY_SCRATCHPAD_H

#include "device/backend/backend.h"

/* Scratch memory of at least `bytes` bytes on the context's device. It grows until a shrink (see
 * cr_context_end_backward) and is shared by everything that the calling thread runs on the device
 * (S4-22), so that it is as large as the largest user needs, not as all together: its content lasts
 * until the next user. Work queued on other contexts that uses it is waited for on the queue; the
 * host waits only if the device has no room for the old and the new memory at once. It is freed
 * with the last context that used it. bytes 0 gives what there is, possibly no memory. On failure
 * the old memory stays. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_context_workspace(crema_context *context, size_t bytes,
                                  crema_devptr *out) CREMA_MUST_USE;

/* Ends the context's use of the scratchpad that it holds, if any. */
void cr_scratchpad_leave(crema_context *context);

/* Bytes of scratchpad on the device, of all threads. */
size_t cr_device_scratchpad_bytes(crema_device *device);

/* ---- choosing the fastest algorithm of a convolution (S4-23) ---- */

/* One way of computing something, with what is known of it. */
typedef struct cr_algorithm {
  int id;
  double seconds;
  size_t bytes; /* of scratchpad */
} cr_algorithm;

/* The id of the fastest algorithm that works with the scratchpad that can be had (see
 * cr_workspace_budget), which afterwards is as large as that needs; of equally fast ones that with
 * the least memory. When the device has less memory than it says, an algorithm that needs less is
 * chosen. Errors: CREMA_E_UNSUPPORTED when no algorithm works with what there is. */
crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) CREMA_MUST_USE;

/* To be told after each backward pass on the context. After the second one since an algorithm was
 * chosen last, the scratchpad is cut down to what was asked for since then; that waits until it is
 * idle. */
crema_status cr_context_end_backward(crema_context *context) CREMA_MUST_USE;

#endif
