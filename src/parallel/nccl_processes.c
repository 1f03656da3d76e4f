/* The exchange between processes by NCCL, each of which has one device: MPI hands NCCL's id out and
 * carries failures, the values go from device to device.
 *
 * A call returns when the device has done it, because only a thread that asks hears of a rank that
 * has failed: a device would wait for that rank for ever. Then this rank's member is aborted, which
 * ends what the device waits for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "parallel/world_private.h"

/* NCCL may notice that a rank has gone before the rank's message is here. */
static const double EXPLAINING_SECONDS = 0.3;

typedef struct process_exchange {
  cr_exchange base;
  cr_world *world;
  const cr_collectives *library;
  cr_member *member;
  cr_native_event *done; /* the end of a call */
  cr_span *span;
} process_exchange;

static process_exchange *of(cr_exchange *end) {
  return (process_exchange *)end;
}

/* ---- waiting ---- */

/* What a rank says that has failed is the reason for what NCCL says here. */
static crema_status explained(const process_exchange *x, crema_status status) {
  const double end = cr_clock_seconds() + EXPLAINING_SECONDS;
  if (status == CREMA_OK) return CREMA_OK;
  cr_error *own = cr_error_keep();
  crema_status cause = CREMA_OK;
  for (unsigned turn = 0; cause == CREMA_OK && cr_clock_seconds() < end; ++turn) {
    cause = cr_world_hear(x->world);
    cr_clock_pause(turn);
  }
  if (cause == CREMA_OK) cause = cr_error_again(status, own);
  free(own);
  return cause;
}

/* Until what was started is queued. */
static crema_status await_queued(const process_exchange *x) {
  bool busy = true;
  for (unsigned turn = 0; busy; ++turn) {
    CR_TRY(cr_world_hear(x->world));
    CR_TRY(explained(x, x->library->progress(x->member, &busy)));
    if (busy) cr_clock_pause(turn);
  }
  return CREMA_OK;
}

/* Until the device has done what `context` has queued. */
static crema_status await_device(const process_exchange *x, crema_context *context) {
  const cr_backend *backend = x->base.device->backend;
  bool done = false, busy = false;
  CR_TRY(backend->event_record(context, x->done));
  for (unsigned turn = 0;; ++turn) {
    CR_TRY(backend->event_query(x->done, &done));
    if (done) return CREMA_OK;
    CR_TRY(cr_world_hear(x->world));
    CR_TRY(explained(x, x->library->progress(x->member, &busy)));
    cr_clock_pause(turn);
  }
}

/* ---- the class ---- */

static crema_status run_span(cr_exchange *end, crema_context *context, int span, bool sum) {
  const process_exchange *x = of(end);
  const cr_span *s = &x->span[span];
  const cr_collective call = {.sum = sum, .memory = s->memory, .count = s->count, .type = s->type};
  CR_TRY(cr_world_hear(x->world));
  if (s->count == 0) return CREMA_OK;
  CR_TRY(explained(x, x->library->start(x->member, context, &call)));
  CR_TRY(await_queued(x));
  return await_device(x, context);
}

static crema_status process_sum(cr_exchange *end, crema_context *context, int span) {
  return run_span(end, context, span, true);
}

static crema_status process_broadcast(cr_exchange *end, crema_context *context, int span) {
  return run_span(end, context, span, false);
}

static crema_status process_prepare(cr_exchange *end, const cr_span *span, int spans) {
  process_exchange *x = of(end);
  CR_TRY(CR_NEW(x->span, spans > 0 ? spans : 1, "the spans of an exchange"));
  if (spans > 0) memcpy(x->span, span, (size_t)spans * sizeof *span);
  return cr_world_same_spans(x->world, span, spans);
}

static void process_fail(cr_exchange *end, crema_status status) {
  const process_exchange *x = of(end);
  if (status == CREMA_OK) return;
  cr_world_fail(x->world, status);
  cr_error *own = cr_error_keep();
  x->library->abort(x->member);
  (void)cr_error_again(status, own);
  free(own);
}

static void process_destroy(cr_exchange *end) {
  process_exchange *x = of(end);
  x->library->leave(x->member);
  if (x->done != NULL) x->base.device->backend->event_destroy(x->done);
  free(x->span);
  free(x);
}

static const cr_exchange_class process_class = {.way = CREMA_EXCHANGE_NCCL,
                                                .prepare = process_prepare,
                                                .broadcast = process_broadcast,
                                                .sum = process_sum,
                                                .fail = process_fail,
                                                .destroy = process_destroy};

/* ---- joining ---- */

/* Which processes have NCCL, and that no two have the same device. */
static crema_status compare_devices(const cr_world *world, const int64_t *device) {
  for (int i = 0; i < world->size; ++i) {
    if (device[i] == 0) {
      return cr_fail(CREMA_E_UNSUPPORTED, "there is no NCCL for the device of rank %d", i);
    }
    for (int k = 0; k < i; ++k) {
      if (device[i] != device[k]) continue;
      return cr_fail(CREMA_E_UNSUPPORTED,
                     "NCCL wants a device for each rank; ranks %d and %d have "
                     "the same one",
                     k, i);
    }
  }
  return CREMA_OK;
}

crema_status cr_world_find_nccl(cr_world *world, crema_device *device) {
  int64_t *all = NULL;
  uint64_t own = 0;
  CR_TRY(CR_NEW(all, world->size, "the devices of processes"));
  const crema_status found = cr_exchange_find_nccl(device);
  cr_error *why = found != CREMA_OK ? cr_error_keep() : NULL;
  crema_status status = CREMA_OK;
  if (found == CREMA_OK) status = device->backend->collectives->identity(device, &own);
  if (found == CREMA_OK) all[world->rank] = (int64_t)(own >> 1) | 1;
  if (status == CREMA_OK) status = cr_world_agree(world, NULL, 0, all, world->size);
  if (status == CREMA_OK && found != CREMA_OK) status = cr_error_again(found, why);
  if (status == CREMA_OK) status = compare_devices(world, all);
  free(why);
  free(all);
  return status;
}

static crema_status join(process_exchange *x) {
  cr_group_id id = {{0}};
  if (x->base.rank == 0) CR_TRY(x->library->make_id(&id));
  CR_TRY(cr_world_broadcast(x->world, &id, sizeof id));
  CR_TRY(x->library->join(&id, &x->base.device, 1, x->base.rank, x->base.ranks, &x->member));
  return await_queued(x);
}

crema_status cr_exchange_create_nccl_processes(cr_world *world, crema_device *device,
                                               cr_exchange **out) {
  crema_status status = CREMA_OK;
  process_exchange *x = NULL;
  CR_TRY(CR_NEW(x, 1, "an exchange"));
  x->base = (cr_exchange){.class = &process_class,
                          .rank = cr_world_rank(world),
                          .ranks = cr_world_size(world),
                          .device = device};
  x->world = world;
  x->library = device->backend->collectives;
  CR_TRY_GOTO(device->backend->event_create(device, &x->done), fail);
  CR_TRY_GOTO(join(x), fail);
  *out = &x->base;
  return CREMA_OK;
fail:
  if (x->member != NULL) process_fail(&x->base, status);
  else cr_world_fail(world, status);
  process_destroy(&x->base);
  return status;
}
