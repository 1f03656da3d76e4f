#define _GNU_SOURCE /* gethostname */

#include "parallel/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "parallel/world_private.h"

enum { BROADCAST_PIECE = 1 << 20 };

void cr_world_begin(cr_world *world, const cr_world_class *class) {
  world->class = class;
  world->size = world->local_size = 1;
  pthread_mutex_init(&world->lock, NULL);
}

void cr_world_end(cr_world *world) {
  pthread_mutex_destroy(&world->lock);
  free(world->buffer);
  cr_peer_watch_stop(&world->peers);
}

int cr_world_rank(const cr_world *world) {
  return world != NULL ? world->rank : 0;
}

int cr_world_size(const cr_world *world) {
  return world != NULL ? world->size : 1;
}

int cr_world_local_rank(const cr_world *world) {
  return world != NULL ? world->local_rank : 0;
}

int cr_world_local_size(const cr_world *world) {
  return world != NULL ? world->local_size : 1;
}

crema_status cr_world_lock(cr_world *world) {
  pthread_mutex_lock(&world->lock);
  if (world->failed == CREMA_OK) return CREMA_OK;
  const crema_status status = cr_fail(world->failed, "rank %d (%s): %s", (int)world->failure.rank,
                                      world->failure.host, world->failure.reason);
  pthread_mutex_unlock(&world->lock);
  return status;
}

void cr_world_note(cr_world *world, int rank, crema_status status, const char *reason) {
  cr_world_message *message = &world->failure;
  message->status = status;
  message->rank = rank;
  (void)gethostname(message->host, sizeof message->host - 1);
  snprintf(message->reason, sizeof message->reason, "%s", reason);
  world->failed = status;
}

void cr_world_take(cr_world *world, const cr_world_message *message) {
  world->failure = *message;
  world->failure.host[CR_WORLD_HOST - 1] = '\0';
  world->failure.reason[CR_WORLD_REASON - 1] = '\0';
  world->failed = (crema_status)message->status;
}

crema_status cr_world_hear(cr_world *world, double since) {
  return world->class->hear(world, since);
}

void cr_world_fail(cr_world *world, crema_status status) {
  if (world != NULL && status != CREMA_OK) world->class->fail(world, status);
}

void cr_world_announce_leave(cr_world *world) {
  if (world != NULL && world->class->announce_leave != NULL) world->class->announce_leave(world);
}

void cr_world_leave(cr_world *world) {
  if (world != NULL) world->class->leave(world);
}

static crema_status reserve(cr_world *world, size_t bytes) {
  /* After a failure a library may still be using the buffer. */
  CR_TRY(cr_world_lock(world));
  pthread_mutex_unlock(&world->lock);
  if (bytes <= world->buffer_bytes) return CREMA_OK;
  char *buffer = realloc(world->buffer, bytes);
  if (buffer == NULL) return cr_fail_memory(bytes, "a message");
  world->buffer = buffer;
  world->buffer_bytes = bytes;
  return CREMA_OK;
}

crema_status cr_world_agree(cr_world *world, double *sum, int sums, int64_t *max, int maxima) {
  if (world == NULL) return CREMA_OK;
  const size_t sum_bytes = (size_t)sums * sizeof *sum;
  const size_t max_bytes = (size_t)maxima * sizeof *max;
  const size_t bytes = sum_bytes + max_bytes;
  CR_TRY(reserve(world, bytes * ((size_t)world->size + 1)));
  if (sums > 0) memcpy(world->buffer, sum, sum_bytes);
  if (maxima > 0) memcpy(world->buffer + sum_bytes, max, max_bytes);
  CR_TRY(world->class->gather(world, bytes));
  for (int r = 0; r < world->size; ++r) {
    const char *theirs = world->buffer + bytes * ((size_t)r + 1);
    for (int i = 0; i < sums; ++i) {
      double value = 0;
      memcpy(&value, theirs + (size_t)i * sizeof value, sizeof value);
      sum[i] = r == 0 ? value : sum[i] + value;
    }
    for (int i = 0; i < maxima; ++i) {
      int64_t value = 0;
      memcpy(&value, theirs + sum_bytes + (size_t)i * sizeof value, sizeof value);
      if (value > max[i]) max[i] = value;
    }
  }
  return CREMA_OK;
}

crema_status cr_world_broadcast(cr_world *world, void *bytes, size_t size) {
  if (world == NULL) return CREMA_OK;
  CR_TRY(reserve(world, size < BROADCAST_PIECE ? size : BROADCAST_PIECE));
  for (size_t done = 0; done < size;) {
    const size_t piece = size - done < BROADCAST_PIECE ? size - done : BROADCAST_PIECE;
    if (world->rank == 0) memcpy(world->buffer, (const char *)bytes + done, piece);
    CR_TRY(world->class->broadcast(world, piece));
    if (world->rank != 0) memcpy((char *)bytes + done, world->buffer, piece);
    done += piece;
  }
  return CREMA_OK;
}

crema_status cr_world_same_spans(cr_world *world, const cr_exchange_span *span, int spans) {
  uint64_t digest = 14695981039346656037u; /* FNV-1a */
  int64_t total = 0;
  for (int i = 0; i < spans; ++i) {
    total += span[i].count;
    digest = (digest ^ (uint64_t)span[i].count) * 1099511628211u;
    digest = (digest ^ (uint64_t)span[i].type) * 1099511628211u;
  }
  const int64_t mine[] = {spans, total, (int64_t)(digest >> 1)};
  int64_t most[6];
  for (int i = 0; i < 3; ++i) {
    most[2 * i] = mine[i];
    most[2 * i + 1] = -mine[i];
  }
  CR_TRY(cr_world_agree(world, NULL, 0, most, 6));
  for (int i = 0; i < 3; ++i) {
    if (most[2 * i] == -most[2 * i + 1]) continue;
    return cr_fail(CREMA_E_SHAPE,
                   "the processes do not train the same net: %d gradients of %lld values in this "
                   "one, others in another",
                   spans, (long long)total);
  }
  return CREMA_OK;
}
