/* What feed.c (making, interface) and feed_work.c (threads) share. */
#ifndef CR_DATA_FEED_PRIVATE_H
#define CR_DATA_FEED_PRIVATE_H

#include <stdatomic.h>

#include "core/queue.h"
#include "core/thread.h"
#include "data/pipeline/feed.h"

/* How loading an item ended. */
typedef struct cr_feed_outcome {
  crema_status status;
  char *text; /* of a failure; NULL as well where there was no memory for it */
} cr_feed_outcome;

typedef enum cr_feed_stage {
  CR_FEED_LEADING, /* the first item is being loaded */
  CR_FEED_LOADING, /* the others are */
  CR_FEED_LOADED   /* nobody works on it any more */
} cr_feed_stage;

/* A batch in the making. Threads claim items one by one through `next`. */
typedef struct cr_feed_work {
  cr_feed_batch *batch;
  cr_feed_stage stage;
  cr_feed_outcome *outcome; /* options.items of them */
  cr_feed_outcome begun;    /* of beginning */
  int good;                 /* items before this one are as they should be */
  int limit;                /* items before this one are loaded or being loaded */
  atomic_int next;          /* the item to be claimed */
  atomic_int busy;          /* threads that still have to look at it */
} cr_feed_work;

typedef struct cr_feed_worker {
  cr_feed *feed;
  int number;
  cr_thread *thread;
} cr_feed_worker;

typedef struct cr_feed_consumer {
  cr_queue_pair pair;
  /* The consumer's. */
  uint64_t taken;
  bool awaited; /* since the last take */
  double wait_seconds;
  cr_series fill;
} cr_feed_consumer;

struct cr_feed {
  cr_feed_options options;
  cr_feed_batch *batch; /* options.depth for each consumer */
  int batches;
  cr_feed_consumer *consumer; /* options.consumers of them */
  cr_feed_worker *worker;     /* options.threads of them; one: the main thread works itself */
  cr_thread *thread;
  cr_queue *task; /* cr_feed_work for the workers: once for each that is to look at it */
  cr_queue *done; /* cr_feed_work that the last worker has left */

  /* The main thread's. Batches in the making are a ring, the oldest at `head`. */
  uint64_t first, begun; /* batches that all solvers had before; that were begun since */
  int window, head, in_flight;
  cr_feed_work *work; /* `window` of them */
  bool broken;        /* beginning failed; nothing comes after that batch */
  uint64_t row;       /* items that were passed over since the last good one */

  _Atomic uint64_t samples, read_ns, decode_ns, transform_ns;
};

/* The main thread: makes batches for ever. */
crema_status cr_feed_work_for_ever(cr_feed *feed) CREMA_MUST_USE;
/* A worker's thread; takes a cr_feed_worker. */
crema_status cr_feed_worker_main(void *arg) CREMA_MUST_USE;

#endif
