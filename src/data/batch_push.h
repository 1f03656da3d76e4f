/* The second level of prefetching for devices with memory of their own: a thread copies finished
 * batches to the device, on a stream of its own, while the net works on earlier ones. A batch
 * arrives with its bytes in both places. */
#ifndef CR_DATA_BATCH_PUSH_H
#define CR_DATA_BATCH_PUSH_H

#include "data/prefetch.h"
#include "device/device.h"

typedef struct cr_batch_push cr_batch_push;

/* A batch on the host and, equal to it, on the device. */
typedef struct cr_pushed_batch {
  cr_batch *batch;
  crema_devptr data, label; /* label: no memory without labels */
  size_t capacity;          /* bytes at data */
  cr_native_event *used;    /* the end of the work that was queued on it */
  bool in_use;              /* there was such work when it was given back */
} cr_pushed_batch;

/* Makes device memory for as many batches as `prefetch`, which it is the only consumer of, has. No
 * thread runs yet. Both arguments outlive it. Free with cr_batch_push_destroy. Errors:
 * CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_batch_push_create(cr_prefetch *prefetch, crema_device *device,
                                  cr_batch_push **out) CREMA_MUST_USE;
/* Stops the thread first. Work on the batches may still be queued on the context that gave them
 * back last. Accepts NULL. */
void cr_batch_push_destroy(cr_batch_push *push);

/* Starts the thread; the prefetcher's must run. Stopping takes all batches back, those that the
 * consumer holds too; it comes before stopping the prefetcher. */
crema_status cr_batch_push_start(cr_batch_push *push) CREMA_MUST_USE;
void cr_batch_push_stop(cr_batch_push *push);

/* The next batch; waits for it. Its copies are done. Errors: those of cr_prefetch_take and of the
 * device; after one every further call fails the same way. */
crema_status cr_batch_push_take(cr_batch_push *push, cr_pushed_batch **out) CREMA_MUST_USE;

/* Gives a batch back, on whose device memory work may be queued on `context`. */
crema_status cr_batch_push_give_back(cr_batch_push *push, cr_pushed_batch *pushed,
                                     const crema_context *context) CREMA_MUST_USE;

/* As cr_prefetch_get_stats, with the times of this consumer. To be called by its thread. */
void cr_batch_push_get_stats(cr_batch_push *push, cr_prefetch_stats *out);

#endif
