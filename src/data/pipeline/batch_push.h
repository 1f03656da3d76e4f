/* The second level of prefetching for devices with memory of their own: a thread copies finished
 * batches to the device, on a stream of its own, while the net works on earlier ones. A batch
 * arrives with its bytes in both places. Who makes the batches does not matter. */
#ifndef CR_DATA_BATCH_PUSH_H
#define CR_DATA_BATCH_PUSH_H

#include "data/pipeline/prefetch.h"
#include "device/device.h"

enum { CR_PUSH_TOPS = 2 };

typedef struct cr_batch_push cr_batch_push;

/* Values of one top on the host, in page-locked memory. */
typedef struct cr_push_top {
  const float *values;
  size_t bytes;
} cr_push_top;

/* Where batches come from. */
typedef struct cr_push_source {
  /* The next batch; waits for it, but not in a thread that was asked to stop. By the pusher's
   * thread. */
  crema_status (*take)(void *user, void **batch);
  /* By the consumer. */
  crema_status (*give_back)(void *user, void *batch);
  /* What there is to copy: as many tops as the options say. */
  void (*tops)(const void *batch, cr_push_top top[CR_PUSH_TOPS]);
  /* By the pusher's thread, or while there is none. */
  void (*stats)(void *user, cr_input_stats *out);
} cr_push_source;

typedef struct cr_push_options {
  const cr_push_source *source; /* outlives the pusher, like `user`, whose only consumer it is */
  void *user;
  crema_device *device; /* with memory of its own; outlives the pusher too */
  int depth;            /* batches that the source has */
  int tops;             /* 1 to CR_PUSH_TOPS */
  /* Of each top: device memory for so much is made before the thread starts; batches that have
   * more get more when they come. */
  size_t bytes[CR_PUSH_TOPS];
} cr_push_options;

/* A batch on the host and, equal to it, on the device. */
typedef struct cr_pushed_batch {
  void *batch; /* the source's */
  crema_devptr memory[CR_PUSH_TOPS];
  size_t capacity[CR_PUSH_TOPS]; /* bytes */
  uint64_t user;                 /* id of the context that took it last */
  cr_native_event *used;         /* the end of the work that was queued on it */
  bool in_use;                   /* there was such work when it was given back */
  bool lent;                     /* the consumer has it */
} cr_pushed_batch;

/* Makes device memory for all batches. No thread runs yet. Free with cr_batch_push_destroy. Errors:
 * CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_batch_push_create(const cr_push_options *options,
                                  cr_batch_push **out) CREMA_MUST_USE;
/* Stops the thread first. Work on the batches may still be queued on the contexts that took
 * them. Accepts NULL. */
void cr_batch_push_destroy(cr_batch_push *push);

/* Starts the thread; the source must run. Stopping takes all batches back, those that the consumer
 * holds too; it comes before stopping the source. Starting again waits, on the device, for work on
 * batches that were taken back this way. */
crema_status cr_batch_push_start(cr_batch_push *push) CREMA_MUST_USE;
void cr_batch_push_stop(cr_batch_push *push);

/* The next batch, for work that will be queued on `context`; waits for it. Its copies are done.
 * Errors: those of the source and of the device; after one every further call fails the same way.
 */
crema_status cr_batch_push_take(cr_batch_push *push, const crema_context *context,
                                cr_pushed_batch **out) CREMA_MUST_USE;

/* Gives a batch back, on whose device memory work may be queued on `context`. */
crema_status cr_batch_push_give_back(cr_batch_push *push, cr_pushed_batch *pushed,
                                     const crema_context *context) CREMA_MUST_USE;

/* What the source said when its last batch was taken, with the times of this consumer. To be called
 * by its thread. */
void cr_batch_push_get_stats(cr_batch_push *push, cr_input_stats *out);

#endif
