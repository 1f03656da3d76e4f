/* Shared by pipeline.c (interface), pipeline_work.c (threads) and pipeline_device.c (copies to a
 * device). */
#ifndef CR_DATA_PIPELINE_PRIVATE_H
#define CR_DATA_PIPELINE_PRIVATE_H

#include <stdatomic.h>

#include "core/queue.h"
#include "core/thread.h"
#include "data/pipeline/pipeline.h"

/* The result of loading an item. */
typedef struct cr_outcome {
  crema_status status;
  char *text; /* of a failure; NULL: also without memory for it */
} cr_outcome;

typedef enum cr_work_stage {
  CR_WORK_LEADING, /* the first item is being loaded */
  CR_WORK_LOADING, /* the rest is being loaded */
  CR_WORK_LOADED   /* no thread works on it */
} cr_work_stage;

/* A batch in the making. Threads claim items through `next`. */
typedef struct cr_work {
  cr_batch *batch;
  cr_work_stage stage;
  cr_outcome *outcome; /* of loading, options.items of them */
  cr_outcome taken;    /* of taking items from the source */
  int count;           /* items taken */
  int good;            /* earlier items are loaded and good */
  int limit;           /* earlier items are loaded or being loaded */
  atomic_int next;     /* the item to claim */
  atomic_int busy;     /* threads that are yet to finish with it */
} cr_work;

typedef struct cr_worker {
  cr_pipeline *pipeline;
  int number;
  cr_thread *thread;
} cr_worker;

typedef struct cr_consumer {
  cr_queue_pair pair;
  cr_queue *ready;      /* its source of batches */
  cr_queue_stalls idle; /* of the pipeline in earlier runs */
  /* The consumer's own. */
  uint64_t taken;
  bool awaited; /* after the last take */
  double wait_seconds;
  cr_series fill;
} cr_consumer;

struct cr_pipeline {
  cr_pipeline_options options;
  cr_batch *batch; /* options.depth for each consumer */
  int batches;
  cr_consumer *consumer; /* options.consumers of them */
  cr_worker *worker;     /* options.threads of them; one: the main thread loads items */
  cr_thread *thread;
  cr_queue *task; /* cr_work for the workers: one entry per worker */
  cr_queue *done; /* cr_work that all workers have left */
  bool started;   /* the source */

  /* The copies to a device. */
  cr_thread *copier;
  cr_queue *copied;

  /* Used by the main thread only. Batches in the making form a ring, the oldest at `head`. */
  uint64_t first, begun; /* batches of all solvers before this run; begun in this run */
  int window, head, in_flight;
  cr_work *work;    /* `window` of them */
  cr_batch **spare; /* recalled batches, oldest last */
  int spares;
  char *recalled;                      /* at its end the items of recalled batches, oldest first */
  size_t recalled_first, recalled_end; /* in items */
  bool broken;                         /* taking an item failed; that batch is the last */
  uint64_t row;                        /* items skipped in a row */

  _Atomic uint64_t samples, read_ns, decode_ns, transform_ns;
};

/* The most batches in flight. */
int cr_pipeline_window(const cr_pipeline_options *options);

/* The main thread: makes batches for ever. */
crema_status cr_pipeline_work(cr_pipeline *pipeline) CREMA_MUST_USE;
/* A worker's thread; takes a cr_worker. */
crema_status cr_pipeline_worker_main(void *arg) CREMA_MUST_USE;

/* Copies to a device; without one these are no-ops: */

/* Allocates and frees device memory for all batches. */
crema_status cr_pipeline_device_create(cr_pipeline *pipeline) CREMA_MUST_USE;
void cr_pipeline_device_destroy(cr_pipeline *pipeline);
/* Starts the thread, from whose queue the consumer then takes batches. Stop it before freeing the
 * main thread's queues. */
crema_status cr_pipeline_device_start(cr_pipeline *pipeline) CREMA_MUST_USE;
void cr_pipeline_device_stop(cr_pipeline *pipeline);
/* Notes in the batch that a consumer takes it or gives it back. */
void cr_pipeline_device_take(const cr_pipeline *pipeline, const crema_context *context,
                             cr_batch *batch);
crema_status cr_pipeline_device_give_back(const cr_pipeline *pipeline, const crema_context *context,
                                          cr_batch *batch) CREMA_MUST_USE;

#endif
