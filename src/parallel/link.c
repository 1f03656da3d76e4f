#include "parallel/link.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/backend/order.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/driver.h"

static crema_status record(crema_context *context, cr_native_event *event) {
  return context->device->backend->event_record(context, event);
}

static crema_status follow(crema_context *context, cr_native_event *event) {
  return context->device->backend->event_wait(context, event);
}

crema_status cr_stream_follow(crema_context *context, crema_context *before,
                              cr_native_event *event) {
  CR_TRY(record(before, event));
  return follow(context, event);
}

/* Waits for the work that the context called `id` has queued, if the context still exists. */
static void await_work(crema_device *device, uint64_t id) {
  const cr_backend *backend = device->backend;
  cr_native_event *event = NULL;
  bool busy = false;
  crema_status status = cr_context_mark(device, id, &event, &busy);
  if (status == CREMA_OK && busy) status = backend->event_finish(event);
  if (event != NULL) backend->event_destroy(event);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    cr_log_warning("while a link between devices was closed: %s", crema_error_text());
  }
}

/* Lets the sender's device write to the receiver's memory; false: it cannot. */
static bool connect(const cr_link *link) {
  crema_device *device = link->source, *peer = link->target;
  const cr_backend *backend = device->backend;
  if (!crema_device_reaches(device, peer)) {
    cr_log_info("%s:%d does not reach %s:%d: exchanged values go via the host", backend->name,
                device->index, backend->name, peer->index);
    return false;
  }
  if (cr_device_enable_peer(device, peer) == CREMA_OK) return true;
  cr_log_warning("no direct access from %s:%d to %s:%d, exchanged values go via the host: %s",
                 backend->name, device->index, backend->name, peer->index, crema_error_text());
  return false;
}

static crema_status open_slot(cr_link *link, int i) {
  cr_link_slot *slot = &link->slot[i];
  const size_t at = (size_t)i * link->slot_bytes;
  if (link->inbox) slot->memory.address = link->memory.address + at;
  if (!link->direct) slot->host = (char *)link->host + at;
  CR_TRY(link->source->backend->event_create(link->source, &slot->full));
  return link->target->backend->event_create(link->target, &slot->empty);
}

static crema_status open_queues(cr_link *link) {
  void **element = NULL;
  CR_TRY(CR_NEW(element, link->slots, "a link"));
  for (int i = 0; i < link->slots; ++i) element[i] = &link->slot[i];
  crema_status status = cr_queue_pair_init(&link->pair, element, (size_t)link->slots);
  free(element);
  if (status == CREMA_OK) status = cr_queue_create(1, &link->places);
  return status;
}

crema_status cr_link_open(cr_link *link, int slots, size_t slot_bytes) {
  const size_t bytes = (size_t)slots * slot_bytes;
  link->direct = connect(link);
  link->slot_bytes = slot_bytes;
  CR_TRY(CR_NEW(link->slot, slots, "a link"));
  link->slots = slots;
  if (link->inbox) CR_TRY(cr_device_alloc(link->target, bytes, &link->memory));
  if (!link->direct) CR_TRY(cr_pinned_alloc(link->source, bytes, &link->host));
  for (int i = 0; i < slots; ++i) CR_TRY(open_slot(link, i));
  CR_TRY(link->target->backend->event_create(link->target, &link->place.ready));
  return open_queues(link);
}

void cr_link_close(cr_link *link) {
  cr_queue_destroy(link->places);
  cr_queue_pair_free(&link->pair, NULL);
  if (link->place.ready != NULL) link->target->backend->event_destroy(link->place.ready);
  for (int i = 0; i < link->slots; ++i) {
    const cr_link_slot *slot = &link->slot[i];
    await_work(link->source, slot->sender);
    await_work(link->target, slot->receiver);
    if (slot->empty != NULL) link->target->backend->event_destroy(slot->empty);
    if (slot->full != NULL) link->source->backend->event_destroy(slot->full);
  }
  if (link->host != NULL) {
    cr_pinned_free(link->source, link->host, (size_t)link->slots * link->slot_bytes);
  }
  cr_device_free(link->target, link->memory);
  free(link->slot);
}

void cr_link_fail(cr_link *link, crema_status status, const char *text) {
  cr_queue *queue[] = {link->pair.free, link->pair.full, link->places, link->bell};
  for (size_t i = 0; i < sizeof queue / sizeof queue[0]; ++i) {
    if (queue[i] != NULL) cr_queue_fail(queue[i], status, text);
  }
}

static crema_status check_tag(const cr_link *link, cr_tag sent, cr_tag wanted) {
  if (sent.call == wanted.call && sent.sum == wanted.sum && sent.span == wanted.span &&
      sent.piece == wanted.piece) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_STATE,
                 "ranks exchange different things: rank %d %s span %d in its call %" PRIu64
                 ", rank %d %s span %d in its call %" PRIu64,
                 link->from, sent.sum ? "sums" : "broadcasts", sent.span, sent.call, link->to,
                 wanted.sum ? "sums" : "broadcasts", wanted.span, wanted.call);
}

/* The next slot for the sender to fill, by later work of `context`. */
static crema_status take_empty(cr_link *link, crema_context *context, cr_link_slot **out) {
  void *slot = NULL;
  CR_TRY(cr_queue_pop(link->pair.free, "an exchange waits for the rank that it sends to", &slot));
  *out = slot;
  (*out)->sender = context->id;
  return follow(context, (*out)->empty);
}

static crema_status hand_over(cr_link *link, crema_context *context, cr_tag tag,
                              cr_link_slot *slot) {
  CR_TRY(record(context, slot->full));
  slot->tag = tag;
  CR_TRY(cr_queue_push(link->pair.full, slot));
  return link->bell == NULL ? CREMA_OK : cr_queue_push(link->bell, link);
}

static crema_status take_full(cr_link *link, crema_context *context, cr_tag tag,
                              cr_link_slot **out) {
  void *slot = NULL;
  CR_TRY(cr_queue_pop(link->pair.full, "an exchange waits for the rank that sends to it", &slot));
  *out = slot;
  (*out)->receiver = context->id;
  CR_TRY(check_tag(link, (*out)->tag, tag));
  return follow(context, (*out)->full);
}

crema_status cr_link_release(cr_link *link, crema_context *context, cr_link_slot *slot) {
  CR_TRY(record(context, slot->empty));
  return cr_queue_push(link->pair.free, slot);
}

/* Copies towards `dst` at the receiver: to `dst` itself, or to the slot's host memory. */
static crema_status copy_out(const cr_link *link, crema_context *context, const cr_link_slot *slot,
                             crema_devptr dst, crema_devptr src, size_t bytes) {
  if (!link->direct) return cr_copy_to_cpu(context, slot->host, src, bytes);
  return cr_copy_peer(context, dst, src, bytes);
}

/* Copies the rest of the way, on the receiver's side. */
static crema_status copy_in(const cr_link *link, crema_context *context, const cr_link_slot *slot,
                            crema_devptr dst, size_t bytes) {
  return link->direct ? CREMA_OK : cr_copy_from_cpu(context, dst, slot->host, bytes);
}

crema_status cr_link_send(cr_link *link, crema_context *context, cr_tag tag, crema_devptr src,
                          size_t bytes) {
  cr_link_slot *slot = NULL;
  CR_TRY(take_empty(link, context, &slot));
  CR_TRY(copy_out(link, context, slot, slot->memory, src, bytes));
  return hand_over(link, context, tag, slot);
}

crema_status cr_link_receive(cr_link *link, crema_context *context, cr_tag tag, size_t bytes,
                             cr_link_slot **out) {
  CR_TRY(take_full(link, context, tag, out));
  return copy_in(link, context, *out, (*out)->memory, bytes);
}

crema_status cr_link_put(cr_link *link, crema_context *context, cr_tag tag, crema_devptr dst,
                         crema_devptr src, size_t bytes) {
  cr_link_slot *slot = NULL;
  CR_TRY(take_empty(link, context, &slot));
  CR_TRY(copy_out(link, context, slot, dst, src, bytes));
  return hand_over(link, context, tag, slot);
}

crema_status cr_link_accept(cr_link *link, crema_context *context, cr_tag tag, crema_devptr dst,
                            size_t bytes) {
  cr_link_slot *slot = NULL;
  CR_TRY(take_full(link, context, tag, &slot));
  CR_TRY(copy_in(link, context, slot, dst, bytes));
  return cr_link_release(link, context, slot);
}

crema_status cr_link_offer(cr_link *link, crema_context *context, cr_tag tag, crema_devptr dst) {
  CR_TRY(record(context, link->place.ready));
  link->place.memory = dst;
  link->place.tag = tag;
  return cr_queue_push(link->places, &link->place);
}

crema_status cr_link_take_offer(cr_link *link, crema_context *context, cr_tag tag,
                                crema_devptr *dst) {
  void *place = NULL;
  CR_TRY(cr_queue_pop(link->places, "an exchange waits for the rank that it sends to", &place));
  *dst = link->place.memory;
  CR_TRY(check_tag(link, tag, link->place.tag));
  return follow(context, link->place.ready);
}
