/* Page-locked memory of a context, where its kernels write a result for the host (S4-24). */
#ifndef CR_DEVICE_MEMORY_RESULT_H
#define CR_DEVICE_MEMORY_RESULT_H

#include "device/backend/backend.h"

/* Room for a double in host memory, by the address at which the context's device reaches it: no
 * copy is needed. It is created at its first use and lives as long as the context. For devices with
 * their own memory. */
crema_status cr_context_result(crema_context *context, crema_devptr *out) CREMA_MUST_USE;

/* Waits for the context and reads the double. */
crema_status cr_context_read_result(crema_context *context, double *out) CREMA_MUST_USE;

/* Frees it; a no-op without one. */
void cr_context_result_free(crema_context *context);

#endif
