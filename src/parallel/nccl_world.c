/* The world of processes that a program has started itself and given ranks and an id of NCCL's:
 * they exchange data by NCCL, from device to device.
 *
 * Bytes travel as numbers that a sum does not change. NCCL does not report a rank that fails or
 * ends on the same host, and reports one on another host late. So the processes of one host send
 * each other messages (messenger.c) and watch each other (peer_watch.c), and none waits for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "device/copy.h"
#include "device/memory/block.h"
#include "parallel/messenger.h"
#include "parallel/nccl_end.h"

/* Bytes of each rank in one call. */
enum { PIECE = 4096 };

/* A rank that leaves after a call may be noticed before this rank sees the end of the same call. */
static const double GONE_SECONDS = 0.2;

typedef struct nccl_world {
  cr_world base;
  cr_messenger messenger;
  cr_nccl_end nccl;
  crema_context *context;
  cr_block there, here;  /* one float per byte of a piece of each rank; the latter on the host */
  double patience;       /* seconds to wait for other processes */
  bool leaving;          /* this process leaves; guarded by the lock, like the members below */
  cr_world_message gone; /* the rank that has left or whose process has ended */
  double gone_since;     /* 0: none */
} nccl_world;

static nccl_world *of(cr_world *world) {
  return (nccl_world *)world;
}

/* The status in the message of a rank that leaves without a failure. */
static const crema_status leaves = CREMA_E_CLOSED;

static void tell(nccl_world *world, int rank, crema_status status, const char *reason) {
  cr_world_note(&world->base, rank, status, reason);
  cr_messenger_send(&world->messenger, &world->base.failure);
}

/* Records the first rank that has ended. */
static void note_gone(nccl_world *world, const cr_world_message *message) {
  if (world->gone_since != 0) return;
  world->gone = *message;
  world->gone_since = cr_clock_seconds();
}

static void listen(nccl_world *world) {
  cr_world_message message;
  while (world->base.failed == CREMA_OK && cr_messenger_receive(&world->messenger, &message)) {
    /* A process that leaves does not wait for other processes that leave. */
    if (message.status != (int32_t)leaves) cr_world_take(&world->base, &message);
    else if (!world->leaving) note_gone(world, &message);
  }
}

static crema_status nccl_hear(cr_world *base, double since) {
  nccl_world *world = of(base);
  CR_TRY(cr_world_lock(base));
  listen(world);
  if (base->failed == CREMA_OK && world->gone_since == 0) {
    const int ended = cr_peer_watch_ended(&base->peers);
    const cr_world_message message = {.status = CREMA_E_IO, .rank = ended};
    if (ended >= 0) note_gone(world, &message);
  }
  const double now = cr_clock_seconds();
  if (base->failed == CREMA_OK && world->gone_since != 0 &&
      now >= world->gone_since + GONE_SECONDS) {
    tell(world, world->gone.rank, CREMA_E_IO,
         world->gone.status == (int32_t)leaves ? "it has left the training"
                                               : "the process has ended without saying why");
  }
  if (base->failed == CREMA_OK && now >= since + world->patience) {
    char text[128];
    snprintf(text, sizeof text, "waited for %g s for the other ranks", world->patience);
    tell(world, base->rank, CREMA_E_IO, text);
  }
  pthread_mutex_unlock(&base->lock);
  CR_TRY(cr_world_lock(base));
  pthread_mutex_unlock(&base->lock);
  return CREMA_OK;
}

static void nccl_fail(cr_world *base, crema_status status) {
  pthread_mutex_lock(&base->lock);
  if (base->failed == CREMA_OK) tell(of(base), base->rank, status, crema_error_text());
  pthread_mutex_unlock(&base->lock);
}

/* One call with the first `count` floats of `here`. */
static crema_status exchange(nccl_world *world, bool sum, int64_t count) {
  const crema_devptr there = {world->there.address};
  const size_t bytes = (size_t)count * sizeof(float);
  const cr_collective call = {.sum = sum, .memory = there, .count = count, .type = CREMA_F32};
  CR_TRY(cr_copy_from_cpu(world->context, there, (const void *)world->here.address, bytes));
  CR_TRY(cr_nccl_end_run(&world->nccl, world->context, &call));
  CR_TRY(cr_copy_to_cpu(world->context, (void *)world->here.address, there, bytes));
  return crema_context_finish(world->context);
}

/* A device that still waits for other devices would prevent this process from freeing its memory.
 */
static crema_status checked(nccl_world *world, crema_status status) {
  if (status != CREMA_OK) cr_nccl_end_abort(&world->nccl, status);
  return status;
}

/* Bytes `begin` to `begin` + `count` - 1 of each rank: zeros but for this rank's, and summed. */
static crema_status gather_piece(nccl_world *world, size_t bytes, size_t begin, size_t count) {
  cr_world *base = &world->base;
  float *values = (float *)world->here.address;
  const size_t size = (size_t)base->size, own = (size_t)base->rank * count;
  for (size_t i = 0; i < size * count; ++i) values[i] = 0;
  for (size_t i = 0; i < count; ++i) values[own + i] = (unsigned char)base->buffer[begin + i];
  CR_TRY(exchange(world, true, (int64_t)(size * count)));
  for (size_t r = 0; r < size; ++r) {
    char *theirs = base->buffer + bytes * (r + 1) + begin;
    for (size_t i = 0; i < count; ++i) theirs[i] = (char)(unsigned char)values[r * count + i];
  }
  return CREMA_OK;
}

static crema_status nccl_gather(cr_world *base, size_t bytes) {
  for (size_t begin = 0; begin < bytes; begin += PIECE) {
    const size_t count = bytes - begin < PIECE ? bytes - begin : PIECE;
    CR_TRY(checked(of(base), gather_piece(of(base), bytes, begin, count)));
  }
  return CREMA_OK;
}

static crema_status nccl_broadcast(cr_world *base, size_t bytes) {
  nccl_world *world = of(base);
  const size_t most = world->here.bytes;
  for (size_t begin = 0; begin < bytes; begin += most) {
    const size_t count = bytes - begin < most ? bytes - begin : most;
    const size_t floats = (count + sizeof(float) - 1) / sizeof(float);
    memcpy((void *)world->here.address, base->buffer + begin, count);
    CR_TRY(checked(world, exchange(world, false, (int64_t)floats)));
    memcpy(base->buffer + begin, (const void *)world->here.address, count);
  }
  return CREMA_OK;
}

static void free_world(nccl_world *world) {
  cr_nccl_end_close(&world->nccl);
  crema_context_destroy(world->context);
  (void)cr_block_free(&world->there);
  (void)cr_block_free(&world->here);
  cr_messenger_close(&world->messenger);
  cr_world_end(&world->base);
  free(world);
}

static void nccl_announce_leave(cr_world *base) {
  nccl_world *world = of(base);
  const cr_world_message message = {.status = (int32_t)leaves, .rank = base->rank};
  pthread_mutex_lock(&base->lock);
  if (!world->leaving && base->failed == CREMA_OK) cr_messenger_send(&world->messenger, &message);
  world->leaving = true;
  if (world->gone.status == (int32_t)leaves) world->gone_since = 0;
  pthread_mutex_unlock(&base->lock);
}

/* Waits after the announcement: NCCL needs all ranks when one frees memory. */
static void nccl_leave(cr_world *base) {
  nccl_world *world = of(base);
  int64_t nothing = 0;
  nccl_announce_leave(base);
  pthread_mutex_lock(&base->lock);
  const bool failed_before = base->failed != CREMA_OK;
  pthread_mutex_unlock(&base->lock);
  const crema_status status = cr_world_agree(base, NULL, 0, &nothing, 1);
  if (status != CREMA_OK && !failed_before) cr_log_info("%s", crema_error_text());
  if (status != CREMA_OK) cr_nccl_end_abort(&world->nccl, status);
  free_world(world);
}

static const cr_world_class nccl_class = {.name = "nccl",
                                          .gather = nccl_gather,
                                          .broadcast = nccl_broadcast,
                                          .hear = nccl_hear,
                                          .fail = nccl_fail,
                                          .announce_leave = nccl_announce_leave,
                                          .leave = nccl_leave};

/* Finds the processes of this host. */
static crema_status meet_peers(nccl_world *world) {
  enum { HOST, PROCESS, PROCESSES, NUMBERS };
  cr_world *base = &world->base;
  const cr_peer self = cr_peer_self(base->rank);
  const int64_t host = (int64_t)(cr_peer_host() >> 1) | 1;
  int64_t *all = NULL;
  cr_peer *here = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(all, NUMBERS * base->size, "the processes of this host"), out);
  CR_TRY_GOTO(CR_NEW(here, base->size, "the processes of this host"), out);
  int64_t *own = all + (ptrdiff_t)NUMBERS * base->rank;
  own[HOST] = host;
  own[PROCESS] = self.process;
  own[PROCESSES] = (int64_t)self.processes;
  CR_TRY_GOTO(cr_world_agree(base, NULL, 0, all, NUMBERS * base->size), out);
  base->local_size = 0;
  for (int i = 0; i < base->size; ++i) {
    const int64_t *one = all + (ptrdiff_t)NUMBERS * i;
    if (one[HOST] != host) continue;
    if (i == base->rank) base->local_rank = base->local_size;
    here[base->local_size++] =
        (cr_peer){.rank = i, .process = one[PROCESS], .processes = (uint64_t)one[PROCESSES]};
  }
  status = cr_peer_watch_start(here, base->local_size, base->rank, &base->peers);
out:
  free(here);
  free(all);
  return status;
}

crema_status cr_world_join_nccl(const cr_nccl_world_options *options, cr_world **out) {
  crema_status status = CREMA_OK;
  nccl_world *world = NULL;
  CR_TRY(cr_exchange_find_nccl(options->device));
  CR_TRY(CR_NEW(world, 1, "the world of processes"));
  cr_world_begin(&world->base, &nccl_class);
  world->messenger.socket = -1;
  world->base.rank = options->rank;
  world->base.size = options->size;
  world->patience = options->patience;
  CR_TRY_GOTO(cr_messenger_open(options->id, options->rank, options->size, &world->messenger),
              fail);
  const size_t bytes = (size_t)options->size * PIECE * sizeof(float);
  const cr_block_options pinned = {.keep_content = true, .pinned = true};
  CR_TRY_GOTO(crema_context_create(options->device, 0, &world->context), fail);
  CR_TRY_GOTO(cr_block_new(options->device, bytes, NULL, &world->there), fail);
  CR_TRY_GOTO(cr_block_new(options->device, bytes, &pinned, &world->here), fail);
  CR_TRY_GOTO(cr_nccl_end_join(&world->nccl, &world->base, options->device, options->id), fail);
  CR_TRY_GOTO(meet_peers(world), fail);
  *out = &world->base;
  return CREMA_OK;
fail:
  nccl_fail(&world->base, status);
  cr_nccl_end_abort(&world->nccl, status);
  free_world(world);
  return status;
}
