/* The exchange by the collective operations of the back end's own library: NCCL on CUDA devices.
 *
 * A call is started and then asked for until the library has queued it, because the library may
 * have to connect the ranks first, which takes all of them: a rank that waits hears of one that
 * fails. Work that is queued waits on the device; when a rank fails, the members of all ranks are
 * aborted, which ends that too. */
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "parallel/group.h"

/* What the ranks have in common. */
typedef struct members {
  const cr_collectives *library;
  int count;
  cr_member *member[CR_MAX_DEVICES];
} members;

static members *members_of(const cr_group_end *end) {
  return end->group->class_data;
}

/* When a rank has failed, this rank's own failure is a consequence. */
static crema_status explained(const cr_group_end *end, crema_status status) {
  if (status == CREMA_OK) return CREMA_OK;
  const crema_status cause = cr_group_failure(end->group);
  return cause != CREMA_OK ? cause : status;
}

/* Until what was started is queued. */
static crema_status settle(const cr_group_end *end) {
  const members *all = members_of(end);
  bool busy = true;
  for (unsigned turn = 0; busy; ++turn) {
    CR_TRY(cr_group_failure(end->group));
    if (turn > 0) cr_clock_pause(turn - 1);
    CR_TRY(explained(end, all->library->progress(all->member[end->base.rank], &busy)));
  }
  return CREMA_OK;
}

static crema_status run_span(cr_exchange *base, crema_context *context, int span, bool sum) {
  cr_group_end *end = cr_group_end_of(base);
  const members *all = members_of(end);
  const cr_span *s = &end->span[span];
  const cr_collective call = {.sum = sum, .memory = s->memory, .count = s->count, .type = s->type};
  cr_tag tag;
  CR_TRY(cr_group_begin_call(end, span, sum, &tag));
  if (s->count == 0) return CREMA_OK;
  CR_TRY(settle(end)); /* what has failed since the last call */
  CR_TRY(explained(end, all->library->start(all->member[base->rank], context, &call)));
  return settle(end);
}

static crema_status nccl_sum(cr_exchange *end, crema_context *context, int span) {
  return run_span(end, context, span, true);
}

static crema_status nccl_broadcast(cr_exchange *end, crema_context *context, int span) {
  return run_span(end, context, span, false);
}

static crema_status nccl_prepare(cr_exchange *base, const cr_span *span, int spans) {
  cr_group_end *end = cr_group_end_of(base);
  CR_TRY(cr_group_begin_prepare(end, span, spans));
  return cr_group_end_prepare(end, 0);
}

static crema_status nccl_finish(cr_exchange *end) {
  return settle(cr_group_end_of(end));
}

/* Keeps the thread's error text. */
static void give_up(const members *all, crema_status status) {
  cr_error *own = cr_error_keep();
  for (int i = 0; i < all->count; ++i) all->library->abort(all->member[i]);
  (void)cr_error_again(status, own);
  free(own);
}

static void nccl_fail(cr_exchange *base, crema_status status) {
  const members *all = members_of(cr_group_end_of(base));
  if (status == CREMA_OK) return;
  cr_group_fail(base, status);
  give_up(all, status);
}

static void free_members(cr_group *group) {
  members *all = group->class_data;
  if (all == NULL) return;
  for (int i = 0; i < all->count; ++i) all->library->leave(all->member[i]);
  free(all);
}

static const cr_exchange_class nccl_class = {.way = CREMA_EXCHANGE_NCCL,
                                             .root_only = false,
                                             .prepare = nccl_prepare,
                                             .broadcast = nccl_broadcast,
                                             .sum = nccl_sum,
                                             .finish = nccl_finish,
                                             .fail = nccl_fail,
                                             .destroy = cr_group_destroy_end};

/* ---- joining ---- */

static crema_status join(members *all, crema_device *const *device, int ranks) {
  cr_group_id id;
  CR_TRY(all->library->make_id(&id));
  CR_TRY(all->library->join(&id, device, ranks, 0, ranks, all->member));
  all->count = ranks;
  for (int i = 0; i < ranks; ++i) {
    bool busy = true;
    for (unsigned turn = 0; busy; ++turn) {
      if (turn > 0) cr_clock_pause(turn - 1);
      CR_TRY(all->library->progress(all->member[i], &busy));
    }
  }
  return CREMA_OK;
}

crema_status cr_exchange_find_nccl(const crema_device *device) {
  const cr_collectives *library = device->backend->collectives;
  if (library != NULL) return library->find();
  return cr_fail(CREMA_E_UNSUPPORTED, "NCCL exchanges between CUDA devices, and %s:%d is none",
                 device->backend->name, device->index);
}

crema_status cr_exchange_create_nccl(crema_device *const *device, int ranks, cr_exchange **end) {
  cr_group *group = NULL;
  members *all = NULL;
  if (ranks > 0) CR_TRY(cr_exchange_find_nccl(device[0]));
  CR_TRY(cr_group_create(device, ranks, &nccl_class, 0, end, &group));
  crema_status status = CR_NEW(all, 1, "an exchange");
  group->class_data = all;
  group->free_class = free_members;
  if (status == CREMA_OK) {
    all->library = device[0]->backend->collectives;
    status = join(all, device, ranks);
  }
  if (status == CREMA_OK) return CREMA_OK;
  if (all != NULL) give_up(all, status);
  cr_group_give_up(end, ranks);
  return status;
}
