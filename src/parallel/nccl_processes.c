/* The exchange between processes by NCCL, one device per process. The world passes on NCCL's id and
 * failures; the values go from device to device. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "parallel/nccl_end.h"
#include "parallel/world_private.h"

typedef struct process_exchange {
  cr_exchange base;
  cr_nccl_end nccl;
  cr_exchange_span *span;
} process_exchange;

static process_exchange *of(cr_exchange *end) {
  return (process_exchange *)end;
}

static crema_status process_run(cr_exchange *end, crema_context *context, int span, bool sum) {
  const process_exchange *x = of(end);
  const cr_exchange_span *s = &x->span[span];
  const cr_collective call = {.sum = sum, .memory = s->memory, .count = s->count, .type = s->type};
  return cr_nccl_end_run(&x->nccl, context, &call);
}

static crema_status process_prepare(cr_exchange *end, const cr_exchange_span *span, int spans) {
  process_exchange *x = of(end);
  CR_TRY(CR_NEW(x->span, spans > 0 ? spans : 1, "the spans of an exchange"));
  if (spans > 0) memcpy(x->span, span, (size_t)spans * sizeof *span);
  return cr_world_same_spans(x->nccl.world, span, spans);
}

static void process_fail(cr_exchange *end, crema_status status) {
  const process_exchange *x = of(end);
  if (status == CREMA_OK) return;
  cr_world_fail(x->nccl.world, status);
  cr_nccl_end_abort(&x->nccl, status);
}

static void process_destroy(cr_exchange *end) {
  process_exchange *x = of(end);
  cr_nccl_end_close(&x->nccl);
  free(x->span);
  free(x);
}

static const cr_exchange_class process_class = {.way = CREMA_EXCHANGE_NCCL,
                                                .prepare = process_prepare,
                                                .run = process_run,
                                                .fail = process_fail,
                                                .destroy = process_destroy};

/* Every process must have NCCL and its own device. */
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

crema_status cr_exchange_create_nccl_processes(cr_world *world, crema_device *device,
                                               cr_exchange **out) {
  process_exchange *x = NULL;
  cr_group_id id = {{0}};
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(x, 1, "an exchange"));
  x->base = (cr_exchange){.class = &process_class,
                          .rank = cr_world_rank(world),
                          .ranks = cr_world_size(world),
                          .device = device};
  if (x->base.rank == 0) CR_TRY_GOTO(device->backend->collectives->make_id(&id), fail);
  CR_TRY_GOTO(cr_world_broadcast(world, &id, sizeof id), fail);
  CR_TRY_GOTO(cr_nccl_end_join(&x->nccl, world, device, &id), fail);
  *out = &x->base;
  return CREMA_OK;
fail:
  cr_world_fail(world, status);
  cr_nccl_end_abort(&x->nccl, status);
  process_destroy(&x->base);
  return status;
}
