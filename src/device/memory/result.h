/* Where a kernel writes what the host waits for: page-locked memory of its context (S4-24). */
#ifndef CR_DEVICE_MEMORY_RESULT_H
#define CR_DEVICE_MEMORY_RESULT_H

#include "device/backend/backend.h"

/* Room for a double in host memory, by the address at which the context's device reaches it: its
 * value need not be copied. It is made when first needed and lasts as long as the context. For
 * devices with memory of their own. */
crema_status cr_context_result(crema_context *context, crema_devptr *out) CREMA_MUST_USE;

/* Waits for the context and gives what its work wrote there. */
crema_status cr_context_read_result(crema_context *context, double *out) CREMA_MUST_USE;

/* Frees it; a no-op when there is none. */
void cr_context_result_free(crema_context *context);

#endif
