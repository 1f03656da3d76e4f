/* Scratch memory that all contexts share that one thread uses on one device. */
#ifndef CR_DEVICE_MEMORY_SCRATCHPAD_H
#define CR_DEVICE_MEMORY_SCRATCHPAD_H

#include "device/backend/backend.h"

/* Scratch memory of at least `bytes` bytes on the context's device. It grows until a shrink
 * (cr_context_end_backward). All work of the calling thread on the device shares it (S4-22), so it
 * has the size of the largest user; its content lasts until the next user. The queue waits for work
 * of other contexts that uses it; the host waits only if the device has no room for the old and the
 * new memory at once. It is freed with the last context that used it. bytes 0 gives the present
 * memory, possibly none. On failure the old memory stays. Errors: CREMA_E_NO_MEMORY,
 * CREMA_E_DEVICE. */
crema_status cr_context_workspace(crema_context *context, size_t bytes,
                                  crema_devptr *out) CREMA_MUST_USE;

/* Ends the context's use of the scratchpad that it holds, if any. */
void cr_scratchpad_leave(crema_context *context);

/* Bytes of scratchpad on the device, of all threads. */
size_t cr_device_scratchpad_bytes(crema_device *device);

/* Choosing the fastest algorithm of a convolution (S4-23): */

/* One way to compute something, with its costs. */
typedef struct cr_algorithm {
  int id;
  double seconds;
  size_t bytes; /* of scratchpad */
} cr_algorithm;

/* The id of the fastest algorithm whose scratchpad fits (cr_workspace_budget). If two are equally
 * fast, it is the algorithm with less memory. The scratchpad then has that size. When the device
 * has less memory than it says, an algorithm with less is chosen. Errors: CREMA_E_UNSUPPORTED when
 * none fits. */
crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) CREMA_MUST_USE;

/* Call it after each backward pass on the context. The second call after the last choice of an
 * algorithm cuts the scratchpad down to the largest request after that choice, once it is idle. */
crema_status cr_context_end_backward(crema_context *context) CREMA_MUST_USE;

#endif
