#include "parallel/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { ALIGNMENT = 256, PIECES = 8 };

/* Below this a piece costs more than it hides. */
static const size_t LEAST_PIECE = (size_t)1 << 20;

static crema_status check_devices(crema_device *const *device, int ranks) {
  if (ranks < 1) return cr_fail(CREMA_E_ARGUMENT, "an exchange between %d devices", ranks);
  for (int i = 0; i < ranks; ++i) {
    if (device[i]->backend != device[0]->backend) {
      return cr_fail(CREMA_E_ARGUMENT, "an exchange between devices of %s and of %s",
                     device[0]->backend->name, device[i]->backend->name);
    }
    for (int k = 0; k < i; ++k) {
      if (device[k] != device[i]) continue;
      return cr_fail(CREMA_E_ARGUMENT, "device %s:%d is named twice", device[i]->backend->name,
                     device[i]->index);
    }
  }
  return CREMA_OK;
}

static void free_group(cr_group *group) {
  for (int i = 0; i < group->links; ++i) cr_link_close(&group->link[i]);
  if (group->free_class != NULL) group->free_class(group);
  pthread_mutex_destroy(&group->lock);
  free(group->error);
  free(group->span);
  free(group->link);
  free(group);
}

static crema_status make_group(int ranks, int links, cr_group **out) {
  cr_group *group = NULL;
  CR_TRY(CR_NEW(group, 1, "an exchange"));
  group->link = calloc((size_t)links + 1, sizeof *group->link);
  if (group->link == NULL) {
    free(group);
    return cr_fail_memory((size_t)links * sizeof *group->link, "an exchange");
  }
  pthread_mutex_init(&group->lock, NULL);
  group->links = links;
  group->ranks = ranks;
  group->spans = -1;
  group->failed_rank = -1;
  *out = group;
  return CREMA_OK;
}

static crema_status make_end(cr_group *group, crema_device *device, const cr_exchange_class *class,
                             cr_exchange **out) {
  cr_group_end *end = NULL;
  CR_TRY(CR_NEW(end, 1, "an exchange"));
  end->base =
      (cr_exchange){.class = class, .rank = group->ends, .ranks = group->ranks, .device = device};
  end->group = group;
  end->adder.device = device;
  ++group->ends;
  *out = &end->base;
  return CREMA_OK;
}

crema_status cr_group_create(crema_device *const *device, int ranks, const cr_exchange_class *class,
                             int links, cr_exchange **end, cr_group **out) {
  cr_group *group = NULL;
  CR_TRY(check_devices(device, ranks));
  CR_TRY(make_group(ranks, links, &group));
  crema_status status = CREMA_OK;
  for (int i = 0; i < ranks; ++i) end[i] = NULL;
  for (int i = 0; i < ranks && status == CREMA_OK; ++i) {
    status = make_end(group, device[i], class, &end[i]);
  }
  if (status == CREMA_OK) {
    *out = group;
  } else if (end[0] == NULL) {
    free_group(group);
  } else {
    cr_group_drop(end, ranks);
  }
  return status;
}

void cr_group_drop(cr_exchange **end, int ranks) {
  for (int i = 0; i < ranks; ++i) {
    cr_exchange_destroy(end[i]);
    end[i] = NULL;
  }
}

void cr_group_destroy_end(cr_exchange *base) {
  cr_group_end *end = cr_group_end_of(base);
  cr_group *group = end->group;
  crema_context_destroy(end->carrier);
  if (end->sent != NULL) base->device->backend->event_destroy(end->sent);
  if (end->turn != NULL) base->device->backend->event_destroy(end->turn);
  cr_span_adder_free(&end->adder);
  free(end->span);
  free(end);
  pthread_mutex_lock(&group->lock);
  const bool last = --group->ends == 0;
  pthread_mutex_unlock(&group->lock);
  if (last) free_group(group);
}

/* With the lock held. */
static crema_status failure_of(const cr_group *group) {
  if (group->failed_rank < 0) return CREMA_OK;
  crema_status status = cr_error_again(group->status, group->error);
  return cr_fail_in(status, "rank %d", group->failed_rank);
}

crema_status cr_group_failure(cr_group *group) {
  pthread_mutex_lock(&group->lock);
  const crema_status status = failure_of(group);
  pthread_mutex_unlock(&group->lock);
  return status;
}

void cr_group_fail(cr_exchange *base, crema_status status) {
  cr_group_end *end = cr_group_end_of(base);
  cr_group *group = end->group;
  if (status == CREMA_OK) return;
  cr_error *own = cr_error_keep();
  pthread_mutex_lock(&group->lock);
  if (group->failed_rank < 0) {
    group->failed_rank = base->rank;
    group->status = status;
    group->error = cr_error_keep();
    (void)failure_of(group);
    for (int i = 0; i < group->links; ++i) cr_link_fail(&group->link[i], status, NULL);
  }
  pthread_mutex_unlock(&group->lock);
  (void)cr_error_again(status, own);
  free(own);
}

/* A copy of the spans. */
static crema_status copy_spans(const cr_exchange_span *span, int spans, cr_exchange_span **out) {
  *out = calloc((size_t)spans + 1, sizeof *span);
  if (*out == NULL) return cr_fail_memory((size_t)spans * sizeof *span, "an exchange");
  if (spans > 0) memcpy(*out, span, (size_t)spans * sizeof *span);
  return CREMA_OK;
}

static crema_status compare_spans(const cr_group *group, int rank, const cr_exchange_span *span,
                                  int spans) {
  if (spans != group->spans) {
    return cr_fail(CREMA_E_SHAPE, "rank %d exchanges %d spans, another rank %d", rank, spans,
                   group->spans);
  }
  for (int i = 0; i < spans; ++i) {
    const cr_exchange_span *other = &group->span[i];
    if (span[i].count == other->count && span[i].type == other->type) continue;
    return cr_fail(CREMA_E_SHAPE,
                   "span %d has %" PRId64 " values of type %s on rank %d, %" PRId64
                   " of type %s on another rank",
                   i, span[i].count, crema_dtype_name(span[i].type), rank, other->count,
                   crema_dtype_name(other->type));
  }
  return CREMA_OK;
}

static crema_status agree_on_spans(cr_group_end *end, const cr_exchange_span *span, int spans) {
  cr_group *group = end->group;
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&group->lock);
  if (group->spans >= 0) {
    status = compare_spans(group, end->base.rank, span, spans);
  } else {
    status = copy_spans(span, spans, &group->span);
    if (status == CREMA_OK) group->spans = spans;
  }
  pthread_mutex_unlock(&group->lock);
  return status;
}

crema_status cr_group_begin_prepare(cr_group_end *end, const cr_exchange_span *span, int spans) {
  crema_device *device = end->base.device;
  CR_TRY(agree_on_spans(end, span, spans));
  CR_TRY(copy_spans(span, spans, &end->span));
  CR_TRY(crema_context_create(device, CREMA_SEED_ANY, &end->carrier));
  CR_TRY(device->backend->event_create(device, &end->turn));
  return device->backend->event_create(device, &end->sent);
}

static crema_status open_links(cr_group_end *end, int slots) {
  cr_group *group = end->group;
  for (int i = 0; i < group->links; ++i) {
    cr_link link = group->link[i];
    if (link.to != end->base.rank) continue;
    crema_status status = cr_link_open(&link, slots, end->pieces.bytes);
    /* A rank that fails in the meantime closes the queues of all links. */
    pthread_mutex_lock(&group->lock);
    group->link[i] = link;
    pthread_mutex_unlock(&group->lock);
    if (status != CREMA_OK) {
      return cr_fail_in(status, "the exchange between ranks %d and %d", link.from, link.to);
    }
  }
  return CREMA_OK;
}

crema_status cr_group_end_prepare(cr_group_end *end, int slots) {
  cr_group *group = end->group;
  CR_TRY(open_links(end, slots));
  pthread_mutex_lock(&group->lock);
  ++group->prepared;
  pthread_mutex_unlock(&group->lock);
  return CREMA_OK;
}

crema_status cr_group_finish(cr_exchange *end) {
  return crema_context_finish(cr_group_end_of(end)->carrier);
}

crema_status cr_group_begin_call(cr_group_end *end, int span, bool sum, cr_tag *tag) {
  cr_group *group = end->group;
  bool done = false;
  pthread_mutex_lock(&group->lock);
  crema_status status = failure_of(group);
  const int prepared = group->prepared;
  pthread_mutex_unlock(&group->lock);
  CR_TRY(status);
  if (prepared != group->ranks) {
    return cr_fail(CREMA_E_STATE, "an exchange is used when %d of its %d ranks are prepared",
                   prepared, group->ranks);
  }
  /* Failures of the copies of earlier calls. */
  if (end->base.device->backend->event_query(end->sent, &done) != CREMA_OK) {
    CR_TRY(crema_context_finish(end->carrier));
  }
  *tag = (cr_tag){.call = ++end->calls, .sum = sum, .span = span};
  return CREMA_OK;
}

static size_t round_up(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

cr_piece_cut cr_piece_cut_for(size_t most_bytes) {
  cr_piece_cut pieces = {.most = 1, .bytes = round_up(most_bytes > 0 ? most_bytes : 1)};
  if (most_bytes <= LEAST_PIECE) return pieces;
  pieces.bytes = round_up((most_bytes + PIECES - 1) / PIECES);
  if (pieces.bytes < LEAST_PIECE) pieces.bytes = LEAST_PIECE;
  pieces.most = (int)((most_bytes + pieces.bytes - 1) / pieces.bytes);
  return pieces;
}

cr_run cr_run_piece(cr_run run, const cr_piece_cut *pieces, crema_dtype type, int64_t index) {
  const int64_t step = (int64_t)(pieces->bytes / crema_dtype_size(type));
  const int64_t left = run.count - index * step;
  if (left <= 0) return (cr_run){run.begin + run.count, 0};
  return (cr_run){run.begin + index * step, left < step ? left : step};
}

crema_status cr_group_need_additions(cr_group_end *end, crema_dtype type, cr_run run) {
  for (int64_t i = 0;; ++i) {
    const cr_run piece = cr_run_piece(run, &end->pieces, type, i);
    if (piece.count == 0) return CREMA_OK;
    CR_TRY(cr_span_adder_reserve(&end->adder, type, piece.count));
  }
}

crema_status cr_group_add(cr_group_end *end, crema_context *context, cr_link *link,
                          cr_link_slot *slot, const cr_exchange_span *span, cr_run piece) {
  CR_TRY(cr_span_adder_run(&end->adder, context, span->type, piece.count, slot->memory,
                           cr_exchange_span_at(span, piece.begin)));
  return cr_link_release(link, context, slot);
}

crema_status cr_group_to_carrier(cr_group_end *end, crema_context *context) {
  return cr_stream_follow(end->carrier, context, end->turn);
}

crema_status cr_group_from_carrier(cr_group_end *end, crema_context *context) {
  return cr_stream_follow(context, end->carrier, end->sent);
}
