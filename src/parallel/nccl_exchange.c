/* The exchange by the collective operations of the back end's own library: NCCL on CUDA devices.
 *
 * A call is started and then polled until the library has queued it. The library may need to
 * connect all ranks first, and a rank that polls learns of a failure. Queued work waits on the
 * device; when a rank fails, the members of all ranks are aborted, which ends that wait too.
 *
 * A call waits on its device for the other ranks' calls, and a thread that allocates memory may
 * wait for that device. So the ranks meet before each call, and no thread of the process allocates
 * from then until all have queued it (device/memory/memory_lock.h). */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "device/memory/memory_lock.h"
#include "parallel/group.h"

/* All ranks of the process end the group at the same time, so NCCL should be faster than this. */
static const double ENDING_SECONDS = 10;

/* Shared by the ranks. */
typedef struct members {
  const cr_collectives *library;
  int count;
  cr_member *member[CR_MAX_DEVICES];
  atomic_ullong come, queued; /* number of calls that a rank has entered, and has queued */
  atomic_ullong begun;        /* number of calls that all ranks have entered */
} members;

static members *members_of(const cr_group_end *end) {
  return end->group->class_data;
}

/* The failure of the rank that failed first: it is the cause of `status`. */
static crema_status explained(const cr_group_end *end, crema_status status) {
  if (status == CREMA_OK) return CREMA_OK;
  const crema_status cause = cr_group_failure(end->group);
  return cause != CREMA_OK ? cause : status;
}

/* Waits until the started work is queued. */
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

/* Waits until other ranks have raised `count` to `least`. */
static crema_status await(const cr_group_end *end, const atomic_ullong *count,
                          unsigned long long least) {
  for (unsigned turn = 0; atomic_load(count) < least; ++turn) {
    CR_TRY(cr_group_failure(end->group));
    cr_clock_pause(turn);
  }
  return CREMA_OK;
}

static crema_status queue_call(const cr_group_end *end, crema_context *context,
                               const cr_collective *call) {
  members *all = members_of(end);
  CR_TRY(explained(end, all->library->start(all->member[end->base.rank], context, call)));
  CR_TRY(settle(end));
  atomic_fetch_add(&all->queued, 1);
  return CREMA_OK;
}

/* The last rank to enter holds the allocation lock for all ranks and always releases it. */
static crema_status queue_together(const cr_group_end *end, crema_context *context,
                                   const cr_collective *call) {
  members *all = members_of(end);
  const unsigned long long ranks = (unsigned long long)all->count;
  const unsigned long long before = atomic_fetch_add(&all->come, 1), number = before / ranks + 1;
  if (before % ranks != ranks - 1) {
    CR_TRY(await(end, &all->begun, number));
    return queue_call(end, context, call);
  }
  cr_collective_begin();
  atomic_store(&all->begun, number);
  crema_status status = queue_call(end, context, call);
  if (status == CREMA_OK) status = await(end, &all->queued, number * ranks);
  cr_collective_end();
  return status;
}

static crema_status nccl_run(cr_exchange *base, crema_context *context, int span, bool sum) {
  cr_group_end *end = cr_group_end_of(base);
  const cr_exchange_span *s = &end->span[span];
  const cr_collective call = {.sum = sum, .memory = s->memory, .count = s->count, .type = s->type};
  cr_tag tag;
  CR_TRY(cr_group_begin_call(end, span, sum, &tag));
  if (s->count == 0) return CREMA_OK;
  CR_TRY(settle(end)); /* failures since the last call */
  return queue_together(end, context, &call);
}

static crema_status nccl_prepare(cr_exchange *base, const cr_exchange_span *span, int spans) {
  cr_group_end *end = cr_group_end_of(base);
  CR_TRY(cr_group_begin_prepare(end, span, spans));
  return cr_group_end_prepare(end, 0);
}

static crema_status nccl_finish(cr_exchange *end) {
  return settle(cr_group_end_of(end));
}

/* Keeps the thread's error text. */
static void abort_all(const members *all, crema_status status) {
  cr_error *own = cr_error_keep();
  for (int i = 0; i < all->count; ++i) all->library->abort(all->member[i]);
  (void)cr_error_again(status, own);
  free(own);
}

static void nccl_fail(cr_exchange *base, crema_status status) {
  const members *all = members_of(cr_group_end_of(base));
  if (status == CREMA_OK) return;
  cr_group_fail(base, status);
  abort_all(all, status);
}

/* Ends the group: all ranks begin before the function waits for the first one. */
static crema_status finalize_all(const members *all) {
  const double start = cr_clock_seconds();
  for (int i = 0; i < all->count; ++i) CR_TRY(all->library->finalize(all->member[i]));
  for (int i = 0; i < all->count; ++i) {
    bool busy = true;
    for (unsigned turn = 0; busy; ++turn) {
      if (turn > 0) cr_clock_pause(turn - 1);
      CR_TRY(all->library->progress(all->member[i], &busy));
      if (busy && cr_clock_seconds() > start + ENDING_SECONDS) return CREMA_E_DEVICE;
    }
  }
  return CREMA_OK;
}

static void free_members(cr_group *group) {
  members *all = group->class_data;
  if (all == NULL) return;
  cr_error *own = cr_error_keep();
  cr_memory_lock_shared(); /* NCCL frees its memory */
  const crema_status status = finalize_all(all);
  for (int i = 0; i < all->count; ++i) all->library->leave(all->member[i]);
  cr_memory_unlock_shared();
  if (status != CREMA_OK) (void)cr_error_again(status, own);
  free(own);
  free(all);
}

static const cr_exchange_class nccl_class = {.way = CREMA_EXCHANGE_NCCL,
                                             .root_only = false,
                                             .prepare = nccl_prepare,
                                             .run = nccl_run,
                                             .finish = nccl_finish,
                                             .fail = nccl_fail,
                                             .destroy = cr_group_destroy_end};

/* With the allocation lock held. */
static crema_status join_all(members *all, crema_device *const *device, int ranks,
                             const cr_group_id *id) {
  CR_TRY(all->library->join(id, device, ranks, 0, ranks, all->member));
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
    cr_group_id id;
    all->library = device[0]->backend->collectives;
    status = all->library->make_id(&id);
    if (status == CREMA_OK) {
      cr_collective_begin();
      status = join_all(all, device, ranks, &id);
      cr_collective_end();
    }
  }
  if (status == CREMA_OK) return CREMA_OK;
  if (all != NULL) abort_all(all, status);
  cr_group_drop(end, ranks);
  return status;
}
