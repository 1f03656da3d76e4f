#include "parallel/nccl_end.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "device/memory/memory_lock.h"
#include "parallel/world_private.h"

/* NCCL may notice that a rank has ended before the rank's message arrives. */
static const double EXPLAINING_SECONDS = 0.3;

/* The message of the rank that failed explains NCCL's failure here. */
static crema_status explained(const cr_nccl_end *end, crema_status status) {
  const double now = cr_clock_seconds();
  if (status == CREMA_OK) return CREMA_OK;
  cr_error *own = cr_error_keep();
  crema_status cause = CREMA_OK;
  for (unsigned turn = 0; cause == CREMA_OK; ++turn) {
    if (cr_clock_seconds() > now + EXPLAINING_SECONDS) break;
    cause = cr_world_hear(end->world, now);
    cr_clock_pause(turn);
  }
  if (cause == CREMA_OK) cause = cr_error_again(status, own);
  free(own);
  return cause;
}

/* Waits until the work started at `since` is queued. */
static crema_status await_queued(const cr_nccl_end *end, double since) {
  bool busy = true;
  for (unsigned turn = 0; busy; ++turn) {
    CR_TRY(cr_world_hear(end->world, since));
    CR_TRY(explained(end, end->library->progress(end->member, &busy)));
    if (busy) cr_clock_pause(turn);
  }
  return CREMA_OK;
}

/* No thread of this process allocates in the meantime. Waits for the other processes only if NCCL
 * must connect the ranks first. */
static crema_status queue_call(const cr_nccl_end *end, crema_context *context,
                               const cr_collective *call, double since) {
  cr_collective_begin();
  crema_status status = explained(end, end->library->start(end->member, context, call));
  if (status == CREMA_OK) status = await_queued(end, since);
  cr_collective_end();
  return status;
}

/* Waits until the device has done the work of `context`. */
static crema_status await_device(const cr_nccl_end *end, crema_context *context, double since) {
  const cr_backend *backend = end->device->backend;
  bool done = false, busy = false;
  CR_TRY(backend->event_record(context, end->done));
  for (unsigned turn = 0;; ++turn) {
    CR_TRY(backend->event_query(end->done, &done));
    if (done) return CREMA_OK;
    CR_TRY(cr_world_hear(end->world, since));
    CR_TRY(explained(end, end->library->progress(end->member, &busy)));
    cr_clock_pause(turn);
  }
}

crema_status cr_nccl_end_run(const cr_nccl_end *end, crema_context *context,
                             const cr_collective *call) {
  const double since = cr_clock_seconds();
  CR_TRY(cr_world_hear(end->world, since));
  if (call->count == 0) return CREMA_OK;
  CR_TRY(queue_call(end, context, call, since));
  return await_device(end, context, since);
}

crema_status cr_nccl_end_join(cr_nccl_end *end, cr_world *world, crema_device *device,
                              const cr_group_id *id) {
  *end = (cr_nccl_end){.world = world, .device = device, .library = device->backend->collectives};
  CR_TRY(device->backend->event_create(device, &end->done));
  cr_collective_begin();
  crema_status status =
      end->library->join(id, &device, 1, cr_world_rank(world), cr_world_size(world), &end->member);
  if (status == CREMA_OK) status = await_queued(end, cr_clock_seconds());
  cr_collective_end();
  return status;
}

void cr_nccl_end_abort(const cr_nccl_end *end, crema_status status) {
  if (end->member == NULL) return;
  cr_error *own = cr_error_keep();
  end->library->abort(end->member);
  (void)cr_error_again(status, own);
  free(own);
}

/* Ends the group together with the other ranks. */
static crema_status finalize(const cr_nccl_end *end) {
  CR_TRY(end->library->finalize(end->member));
  return await_queued(end, cr_clock_seconds());
}

void cr_nccl_end_close(cr_nccl_end *end) {
  if (end->member != NULL) {
    cr_error *own = cr_error_keep();
    cr_memory_lock_shared(); /* NCCL frees its memory */
    const crema_status status = finalize(end);
    end->library->leave(end->member);
    cr_memory_unlock_shared();
    if (status != CREMA_OK) (void)cr_error_again(status, own);
    free(own);
  }
  if (end->done != NULL) end->device->backend->event_destroy(end->done);
  *end = (cr_nccl_end){0};
}
