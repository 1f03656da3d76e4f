/* Feeding: threads that fill batches ahead of the net, from whatever a source's functions read.
 *
 * Batches are numbered; what is in a batch must depend on its number only, so the place in the
 * stream is one number. The feed's thread begins and finishes batches in their order; their items
 * are loaded by it or by several threads beside it, in any order, each into its place. Between the
 * feed and each consumer stands a free/full queue pair; the consumer works on the batch's own
 * memory and gives the batch back when it takes the next one. Consumers are the solvers of one
 * training: batch k of a run goes to consumer k mod N, whoever asks first. What is in a batch does
 * not depend on the number of threads. */
#ifndef CR_DATA_FEED_H
#define CR_DATA_FEED_H

#include <stdbool.h>

#include "core/buffer.h"
#include "crema/types.h"
#include "data/pipeline/prefetch.h"

enum { CR_FEED_TOPS = 2, CR_FEED_MAX_THREADS = 64 };

/* Values of one top. */
typedef struct cr_feed_top {
  crema_shape shape;
  float *values; /* as many as the shape says */
  size_t capacity;
  crema_device *device; /* whose copies are made from the values; NULL: none */
} cr_feed_top;

typedef struct cr_feed_batch {
  uint64_t number; /* batches before this one, of all solvers, since the start of training */
  /* Item i is sample number sample + i * solvers of the stream: solver r of N has samples r,
   * r + N, ... of what they all get in a step. */
  uint64_t sample;
  int solvers;
  int tops;
  cr_feed_top top[CR_FEED_TOPS];
  void *item;     /* what the source keeps for each item: items x item_size bytes, 0 at first */
  cr_buffer note; /* whatever the source wants to say; empty when the batch is begun */
} cr_feed_batch;

/* Gives top `top` of the batch a shape and memory for it; the values are undefined. *out (may be
 * NULL) is where they go. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
crema_status cr_feed_reserve(cr_feed_batch *batch, int top, const crema_shape *shape,
                             float **out) CREMA_MUST_USE;

/* One item on its way into its batch. */
typedef struct cr_feed_load {
  cr_feed_batch *batch;
  int item;   /* its place, 0 to items - 1 */
  int worker; /* 0 to threads - 1: no other thread has the same number at this time */
  /* For the statistics, set by the source: where the time went. */
  double read_seconds, decode_seconds, transform_seconds;
} cr_feed_load;

/* Where batches come from. begin, skip and finish are called in the order of the batches, one
 * call at a time; load by any thread, for several items at once. */
typedef struct cr_feed_source {
  /* Prepares items `first` and later of a batch. May be NULL. */
  crema_status (*begin)(void *user, cr_feed_batch *batch, int first);
  /* Fills one item's values. Item 0 is loaded before all others of its batch: it reserves the
   * tops whose shape depends on what is loaded. */
  crema_status (*load)(void *user, cr_feed_load *load);
  /* Whether an item that failed with `status` (and the calling thread's error text) is passed
   * over; all later ones then move up, and `begin` is asked for more. `row`: failures without a
   * good item between them, this one counted. NULL: never. */
  bool (*skip)(void *user, cr_feed_batch *batch, int item, crema_status status, uint64_t row);
  /* Completes a batch whose items are all loaded. May be NULL. */
  crema_status (*finish)(void *user, cr_feed_batch *batch);
  /* Whether `begin` would not wait now. NULL: it never waits. */
  bool (*ready)(void *user);
} cr_feed_source;

typedef struct cr_feed_options {
  const cr_feed_source *source; /* outlives the feed, like `user` */
  void *user;
  int tops;      /* 1 to CR_FEED_TOPS */
  int items;     /* in a batch, at least 1 */
  int depth;     /* batches for each consumer, at least 1; 2 for any overlap, as it holds one */
  int threads;   /* that load items; cr_feed_threads gives the number */
  int consumers; /* 0 counts as 1 */
  /* For one of several solvers that has a feed of its own: which one, of how many. Else 0. */
  int rank, solvers;
  /* Batches are in memory for copies to this device; NULL: in ordinary memory. */
  crema_device *device;
  size_t item_size;         /* may be 0 */
  const crema_shape *shape; /* one per top: memory for these is made before the threads start */
} cr_feed_options;

typedef struct cr_feed cr_feed;

/* Processors that this process may run on: more threads than these decode no faster. */
int cr_feed_processors(void);

/* How many threads are to load items: `wanted`, or for 0 three, but one less than the processors
 * that the process may use, and at least one. Errors: CREMA_E_RANGE above CR_FEED_MAX_THREADS. */
crema_status cr_feed_threads(uint32_t wanted, int *out) CREMA_MUST_USE;

/* How many batches may be in the making at a time. */
int cr_feed_window(const cr_feed_options *options);

/* Makes the batches. No thread runs yet. Free with cr_feed_destroy. */
crema_status cr_feed_create(const cr_feed_options *options, cr_feed **out) CREMA_MUST_USE;
/* Stops the threads first. `free_item` (may be NULL) is called for what the source keeps of each
 * item. Accepts NULL. */
void cr_feed_destroy(cr_feed *feed, void (*free_item)(void *item));

/* Starts the threads where all solvers have had `first` batches together. Stopping takes all
 * batches back, those that the consumers hold too; the user's data is then the caller's alone. */
crema_status cr_feed_start(cr_feed *feed, uint64_t first) CREMA_MUST_USE;
void cr_feed_stop(cr_feed *feed);

/* ---- while it runs; one thread for each consumer ---- */

/* The consumer's next batch; waits for it. Errors: those of the source, of the first item in
 * order that failed, with its text; after one every further call fails the same way. */
crema_status cr_feed_take(cr_feed *feed, int consumer, cr_feed_batch **out) CREMA_MUST_USE;
crema_status cr_feed_give_back(cr_feed *feed, int consumer, cr_feed_batch *batch) CREMA_MUST_USE;

/* Waits until cr_feed_take would not wait. Errors: as cr_feed_take. */
crema_status cr_feed_await(cr_feed *feed, int consumer) CREMA_MUST_USE;

/* What was done since the feed was made; the reader's part is what loading said of reading, for
 * the threads together. To be called by the consumer's thread. */
void cr_feed_get_stats(const cr_feed *feed, int consumer, cr_input_stats *out);

#endif
