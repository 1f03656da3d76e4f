/* A link: the way from one rank's device to another's, in one direction.
 *
 * The bytes go straight to the other device's memory if the sender reaches it, else through
 * page-locked host memory. The threads of the two ranks meet only in the link's queues of free and
 * full slots. Their streams meet by events: a host never waits for a stream. A call that waits
 * fails when the link fails.
 *
 * A sender either sends to the link's memory at the receiver, which the receiver releases after
 * reading; or it puts bytes at a place that the receiver has offered. Both use the slots in the
 * order of the calls, which both ranks share. Pieces are tagged, so that ranks that do different
 * things are noticed. */
#ifndef CR_PARALLEL_LINK_H
#define CR_PARALLEL_LINK_H

#include "core/queue.h"
#include "device/device.h"

/* One piece of one call of the exchange. */
typedef struct cr_tag {
  uint64_t call; /* number of the call, from 1 on */
  bool sum;      /* a sum, not a broadcast */
  int span;
  int64_t piece;
} cr_tag;

typedef struct cr_link_slot {
  cr_native_event *full;  /* the sender's: the bytes have arrived */
  cr_native_event *empty; /* the receiver's: it has read the bytes */
  crema_devptr memory;    /* the receiver's; none in a link without an inbox */
  void *host;             /* page-locked; NULL in a direct link */
  cr_tag tag;
  /* Contexts whose queued work uses the slot; 0: none. */
  uint64_t sender, receiver;
} cr_link_slot;

/* The receiver's address for the bytes. */
typedef struct cr_link_place {
  cr_native_event *ready; /* the receiver's */
  crema_devptr memory;
  cr_tag tag;
} cr_link_place;

typedef struct cr_link {
  int from, to; /* ranks */
  crema_device *source, *target;
  bool inbox;     /* there is memory at the receiver, for cr_link_send */
  cr_queue *bell; /* gets the link for each piece; NULL: none */
  bool direct;
  int slots;
  size_t slot_bytes;
  cr_link_slot *slot;
  crema_devptr memory;
  void *host;
  cr_queue_pair pair;
  cr_link_place place;
  cr_queue *places;
} cr_link;

/* Opens a link whose members up to `bell` are set, with `slots` slots of `slot_bytes` bytes.
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. Even after an error cr_link_close frees it. */
crema_status cr_link_open(cr_link *link, int slots, size_t slot_bytes) CREMA_MUST_USE;
/* Waits for queued work that uses the link. Accepts a link that is not or only partly open. */
void cr_link_close(cr_link *link);

/* Present and later waits fail with `status` and `text`. */
void cr_link_fail(cr_link *link, crema_status status, const char *text);

/* All calls below queue work on `context`, of the caller's device. At most slot_bytes bytes at a
 * time. */

/* The sender: copies from `src` to the receiver's inbox. */
crema_status cr_link_send(cr_link *link, crema_context *context, cr_tag tag, crema_devptr src,
                          size_t bytes) CREMA_MUST_USE;
/* The receiver: later work of `context` finds the bytes in *out, until it releases the slot. */
crema_status cr_link_receive(cr_link *link, crema_context *context, cr_tag tag, size_t bytes,
                             cr_link_slot **out) CREMA_MUST_USE;
crema_status cr_link_release(cr_link *link, crema_context *context,
                             cr_link_slot *slot) CREMA_MUST_USE;

/* The receiver: `dst` may be written after the work that `context` has queued. The receiver must
 * accept something before it offers again. */
crema_status cr_link_offer(cr_link *link, crema_context *context, cr_tag tag,
                           crema_devptr dst) CREMA_MUST_USE;
/* The sender: waits for the receiver's offer. */
crema_status cr_link_take_offer(cr_link *link, crema_context *context, cr_tag tag,
                                crema_devptr *dst) CREMA_MUST_USE;
/* The sender: copies from `src` to `dst`, an address within the offered memory. */
crema_status cr_link_put(cr_link *link, crema_context *context, cr_tag tag, crema_devptr dst,
                         crema_devptr src, size_t bytes) CREMA_MUST_USE;
/* The receiver: later work of `context` finds the bytes at `dst`. */
crema_status cr_link_accept(cr_link *link, crema_context *context, cr_tag tag, crema_devptr dst,
                            size_t bytes) CREMA_MUST_USE;

/* Later work of `context` waits for the work that `before` has queued, on any device. `event` is of
 * the device of `before`. */
crema_status cr_stream_follow(crema_context *context, crema_context *before,
                              cr_native_event *event) CREMA_MUST_USE;

#endif
