/* What prefetch.c (making, interface) and prefetch_work.c (threads) share. */
#ifndef CR_DATA_PREFETCH_PRIVATE_H
#define CR_DATA_PREFETCH_PRIVATE_H

#include <stdatomic.h>

#include "core/queue.h"
#include "core/thread.h"
#include "data/augment/sample.h"
#include "data/pipeline/prefetch.h"

/* One record on its way into its place in a batch. */
typedef struct cr_work_item {
  cr_record *record;
  crema_status status;
  char *text; /* of a failure; NULL as well where there was no memory for it */
} cr_work_item;

/* A batch in the making. Threads claim items one by one through `next`. */
typedef struct cr_work {
  cr_batch *batch;
  cr_work_item *item; /* options.batch_size of them */
  int records;        /* of which so many hold a record */
  cr_db_bytes first;  /* the value of the first one, which decides the shape */
  cr_buffer store;    /* memory for it */
  bool loaded;        /* nobody works on it any more */
  atomic_int next;    /* the item to be claimed */
  atomic_int busy;    /* threads that still have to look at it */
} cr_work;

/* One of the decoding threads; the first entry also serves the main thread when it is alone. */
typedef struct cr_worker {
  cr_prefetch *prefetch;
  cr_sample sample;
  cr_buffer value; /* memory for that of a record */
  cr_thread *thread;
} cr_worker;

struct cr_prefetch {
  cr_prefetch_options options;
  int shape[3];
  int threads;       /* 1: the main thread works itself, else so many beside it */
  uint64_t skipped;  /* corrupt records in a row */
  cr_batch *batch;   /* options.depth of them */
  cr_worker *worker; /* `threads` of them */
  cr_queue_pair pair;
  cr_thread *thread;
  cr_queue *task; /* cr_work for the workers: once for each worker */
  cr_queue *done; /* cr_work that the last worker has left */

  /* The main thread's. Batches in the making are a ring, the oldest at `head`. */
  int window, head, in_flight;
  cr_work *work;      /* `window` of them */
  cr_record **record; /* taken from the reader but not in any batch, oldest first */
  int records;
  cr_batch **spare; /* taken from the queue but not in the making */
  int spares;

  _Atomic uint64_t samples, decode_ns, transform_ns;
  uint64_t taken; /* the consumer's, as what follows */
  double wait_seconds;
  cr_series fill;
};

/* Makes room for `items` items of the given extents. */
crema_status cr_batch_reserve(cr_batch *batch, int items, const int shape[3]) CREMA_MUST_USE;

/* Prefixes the error text with source and key. */
crema_status cr_prefetch_fail_record(const cr_prefetch *prefetch, cr_db_bytes key,
                                     crema_status status);
/* The failure is the record's own. */
bool cr_prefetch_is_corrupt(crema_status status);

/* The main thread: makes batches for ever. */
crema_status cr_prefetch_work(cr_prefetch *prefetch) CREMA_MUST_USE;
/* A worker's thread; takes a cr_worker. */
crema_status cr_prefetch_worker(void *arg) CREMA_MUST_USE;

#endif
