/* One process's end of a group of NCCL's.
 *
 * A call returns when the device has done it: a thread that polls hears of a failed rank, while the
 * device would wait for that rank for ever. After a failure the end must be aborted, which ends the
 * device's wait. */
#ifndef CR_PARALLEL_NCCL_END_H
#define CR_PARALLEL_NCCL_END_H

#include "parallel/world.h"

/* Zeroed: there is none. */
typedef struct cr_nccl_end {
  cr_world *world; /* which reports failures */
  crema_device *device;
  const cr_collectives *library;
  cr_member *member;
  cr_native_event *done; /* the end of a call */
} cr_nccl_end;

/* Joins the group `id` by `device`, as the rank that this process is in the world; all must call
 * it. Close the end even after a failure. */
crema_status cr_nccl_end_join(cr_nccl_end *end, cr_world *world, crema_device *device,
                              const cr_group_id *id) CREMA_MUST_USE;

/* One collective call, on `context`, a context of the device. Errors: another rank's failure;
 * NCCL's own as CREMA_E_DEVICE; too long a wait for the other ranks. */
crema_status cr_nccl_end_run(const cr_nccl_end *end, crema_context *context,
                             const cr_collective *call) CREMA_MUST_USE;

/* Ends work under way, also on the device. Keeps the thread's failure `status`. */
void cr_nccl_end_abort(const cr_nccl_end *end, crema_status status);

/* Unless the end was aborted, waits until all ranks close theirs or one fails. Keeps the thread's
 * error text. */
void cr_nccl_end_close(cr_nccl_end *end);

#endif
