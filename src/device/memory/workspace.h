/* Scratch memory on a device that grows only. */
#ifndef CR_DEVICE_WORKSPACE_H
#define CR_DEVICE_WORKSPACE_H

#include <stdatomic.h>

#include "device/backend/backend.h"

/* Zero-initialise but for `device`. One thread at a time; other threads may read `bytes`. */
typedef struct cr_workspace {
  crema_device *device;
  crema_devptr memory;
  atomic_size_t bytes;
} cr_workspace;

/* Makes the workspace at least `bytes` large; a no-op if it is. The old memory is released first,
 * so that both need not fit. After a failure there is no memory. The memory must be idle. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_workspace_reserve(cr_workspace *workspace, size_t bytes) CREMA_MUST_USE;

/* As reserve, but a request that cannot fit, by the estimate of free memory, leaves the old memory
 * and fails with CREMA_E_NO_MEMORY. */
crema_status cr_workspace_reserve_safely(cr_workspace *workspace, size_t bytes) CREMA_MUST_USE;

/* Releases the memory. */
void cr_workspace_release(cr_workspace *workspace);

/* Bytes that the search for the fastest algorithm may use for each of `users` workspaces at once.
 * The smaller of free + own memory and half the total, less `reserved` (temporary weights) and two
 * pages, is shared and rounded down to multiples of 256. */
crema_status cr_workspace_budget(const cr_workspace *workspace, size_t reserved, int users,
                                 size_t *out) CREMA_MUST_USE;

#endif
