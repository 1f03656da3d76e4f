/* Scratch memory on a device that grows only. */
#ifndef CR_DEVICE_WORKSPACE_H
#define CR_DEVICE_WORKSPACE_H

#include "device/backend/backend.h"

/* Zero-initialise but for `device`. One thread at a time. */
typedef struct cr_workspace {
  crema_device *device;
  crema_devptr memory;
  size_t bytes;
  size_t needed; /* most that an algorithm chosen so far works with */
  int passes;    /* backward passes since the first search */
} cr_workspace;

/* Makes the workspace at least `bytes` large. The old memory is given back first, so that both need
 * not fit; on failure nothing is left. bytes 0 and less than there is: no-op. The memory must
 * be idle. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_workspace_reserve(cr_workspace *workspace, size_t bytes) CREMA_MUST_USE;

/* As reserve, but a request that cannot fit, by the estimate of free memory, leaves the old memory
 * and fails with CREMA_E_NO_MEMORY. *grown says whether the memory is another one now. */
crema_status cr_workspace_reserve_safely(cr_workspace *workspace, size_t bytes,
                                         bool *grown) CREMA_MUST_USE;

/* Gives the memory back. */
void cr_workspace_release(cr_workspace *workspace);

/* Bytes that the search for the fastest algorithm may use for each of `users` workspaces that are
 * there at once: the smaller of free + own memory and half the total, less `reserved` (temporary
 * weights) and two pages, shared and rounded down to whole 256 bytes. */
crema_status cr_workspace_budget(const cr_workspace *workspace, size_t reserved, int users,
                                 size_t *out) CREMA_MUST_USE;

/* ---- searching for the fastest algorithm of a convolution (S4-23) ---- */

/* One way of computing something, with what a search measured. */
typedef struct cr_algorithm {
  int id;
  double seconds;
  size_t bytes; /* of workspace */
} cr_algorithm;

/* Makes the workspace as large as a search may use, see cr_workspace_budget; when the device has
 * less than it says, half as much, and so on. The memory must be idle. Errors: CREMA_E_NO_MEMORY
 * when nothing can be had. */
crema_status cr_workspace_reserve_search(cr_workspace *workspace, size_t reserved,
                                         int users) CREMA_MUST_USE;

/* The id of the fastest algorithm that works with the workspace there is; of equally fast ones that
 * with the least memory. Errors: CREMA_E_UNSUPPORTED when none does. */
crema_status cr_workspace_choose(cr_workspace *workspace, const cr_algorithm *table, int count,
                                 int *id) CREMA_MUST_USE;

/* As cr_workspace_choose, for a user of the context's scratchpad (cr_context_workspace), which
 * afterwards is as large as the chosen one needs. Its budget is that of a workspace that owns the
 * present scratchpad; when the device has less memory than it says, an algorithm that needs less is
 * chosen. Errors: CREMA_E_UNSUPPORTED when no algorithm works with what there is. */
crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) CREMA_MUST_USE;

/* Told after each backward pass. After the second one all algorithms are chosen, and the workspace
 * is cut down to what they work with. The memory must be idle. */
crema_status cr_workspace_end_backward(cr_workspace *workspace) CREMA_MUST_USE;

#endif
