/* Feeding: a thread that fills batches ahead of the net, from whatever the filling function reads.
 *
 * Batches are numbered; what is in a batch must depend on its number only, so the place in the
 * stream is one number. Between the thread and the consumer stands a free/full queue pair; the
 * consumer works on the batch's own memory and gives the batch back when it takes the next one. */
#ifndef CR_DATA_FEED_H
#define CR_DATA_FEED_H

#include "core/buffer.h"
#include "crema/types.h"

enum { CR_FEED_TOPS = 2 };

/* Values of one top. */
typedef struct cr_feed_top {
  crema_shape shape;
  float *values; /* as many as the shape says */
  size_t capacity;
} cr_feed_top;

typedef struct cr_feed_batch {
  uint64_t number; /* batches before this one, since the start of training */
  int tops;
  cr_feed_top top[CR_FEED_TOPS];
  cr_buffer note; /* whatever the filling function wants to say; empty when it is called */
} cr_feed_batch;

/* Gives top `top` of the batch a shape and memory for it; the values are undefined. *out (may be
 * NULL) is where they go. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
crema_status cr_feed_reserve(cr_feed_batch *batch, int top, const crema_shape *shape,
                             float **out) CREMA_MUST_USE;

typedef struct cr_feed_options {
  /* Reserves and fills the tops of batch->number. Runs in the feed's thread. */
  crema_status (*fill)(void *user, cr_feed_batch *batch);
  void *user;               /* outlives the feed */
  int tops;                 /* 1 to CR_FEED_TOPS */
  int depth;                /* batches, at least 1; 2 for any overlap, as the consumer holds one */
  const crema_shape *shape; /* one a top: memory for these is made before the thread starts */
} cr_feed_options;

typedef struct cr_feed cr_feed;

/* Makes the batches. No thread runs yet. Free with cr_feed_destroy. */
crema_status cr_feed_create(const cr_feed_options *options, cr_feed **out) CREMA_MUST_USE;
/* Stops the thread first. Accepts NULL. */
void cr_feed_destroy(cr_feed *feed);

/* Starts the thread with batch number `first`. Stopping takes all batches back, those that the
 * consumer holds too; the user's data is then the caller's alone. */
crema_status cr_feed_start(cr_feed *feed, uint64_t first) CREMA_MUST_USE;
void cr_feed_stop(cr_feed *feed);

/* The next batch; waits for it. Errors: those of filling, with their text; after one every
 * further call fails the same way. */
crema_status cr_feed_take(cr_feed *feed, cr_feed_batch **out) CREMA_MUST_USE;
crema_status cr_feed_give_back(cr_feed *feed, cr_feed_batch *batch) CREMA_MUST_USE;

#endif
