/* Prefetching: threads that make batches ahead of the net that consumes them.
 *
 * One thread takes records from a reader and puts batches together; decoding and transforming, into
 * the memory of the batch, is its own work or that of several more threads. A finished batch is
 * passed on through a free/full queue pair. The consumer works on the batch's own memory and gives
 * the batch back when it takes the next one. What is in a batch does not depend on the number
 * of threads. */
#ifndef CR_DATA_PREFETCH_H
#define CR_DATA_PREFETCH_H

#include "core/buffer.h"
#include "crema/device.h"
#include "data/pipeline/reader.h"
#include "data/pipeline/series.h"
#include "data/augment/transformer.h"

typedef struct cr_prefetch cr_prefetch;

enum { CR_PREFETCH_MAX_THREADS = 64, CR_PREFETCH_USUAL_DEPTH = 4 };

/* A place in the stream of records: `index` were consumed, the last of them has `key`. */
typedef struct cr_position {
  uint64_t index; /* 0: nothing was consumed, there is no key */
  cr_buffer key;
} cr_position;

typedef struct cr_batch {
  int items;
  int channels, height, width; /* of each item */
  float *data;                 /* items x channels x height x width */
  float *label;                /* items; NULL without labels */
  size_t capacity;             /* values at data */
  crema_device *device;        /* whose copies are made from it; NULL: none */
  cr_position position;        /* after the batch */
} cr_batch;

typedef struct cr_prefetch_options {
  cr_reader *reader;                 /* outlives the prefetcher; its depth is at least batch_size */
  int consumer;                      /* which of the reader's consumers this is */
  const cr_transformer *transformer; /* outlives it too */
  cr_image_color color;              /* what encoded records are decoded to */
  int batch_size;
  /* Batches; 2 for any overlap, as the consumer holds one. 0: CR_PREFETCH_USUAL_DEPTH, or fewer
   * where memory is short; the reader has to have records for that many. */
  int depth;
  /* That decode and transform, at most CR_PREFETCH_MAX_THREADS. 0: as many as pay: one for
   * small raw records, else as cr_feed_threads says. */
  int threads;
  /* Batches are in memory for copies to this device; NULL: in ordinary memory. */
  crema_device *device;
  bool labels;
  bool skip_corrupt; /* warn of records that cannot be decoded and go on, instead of failing */
} cr_prefetch_options;

/* Finds out the shape from the reader's next record and makes the batches. No thread runs yet, nor
 * may the reader's. Free with cr_prefetch_destroy. Errors name source and key. */
crema_status cr_prefetch_create(const cr_prefetch_options *options,
                                cr_prefetch **out) CREMA_MUST_USE;
/* Stops the threads first. Accepts NULL. */
void cr_prefetch_destroy(cr_prefetch *prefetch);

/* Channels, height and width of the items, from the first record. With batch_size 1 later batches
 * may have others; with more, a record that gives another shape is an error. */
void cr_prefetch_shape(const cr_prefetch *prefetch, int out[3]);

/* How many batches of `bytes` bytes to make where nobody says: as many as usual, but no more than
 * fit into a quarter of the free bytes of the host and of the device (UINT64_MAX: has no memory of
 * its own), and never fewer than two. */
int cr_prefetch_depth_for(uint64_t bytes, uint64_t host_free, uint64_t device_free);

/* Items of a batch, batches, and whether they have labels. */
int cr_prefetch_batch_size(const cr_prefetch *prefetch);
int cr_prefetch_depth(const cr_prefetch *prefetch);
bool cr_prefetch_has_labels(const cr_prefetch *prefetch);

/* Starts the threads; the reader's must run. Stopping takes all batches back, those that the
 * consumer holds too. */
crema_status cr_prefetch_start(cr_prefetch *prefetch) CREMA_MUST_USE;
void cr_prefetch_stop(cr_prefetch *prefetch);

/* The next batch; waits for it. Errors: those of reading, decoding and transforming, with source
 * and key; after one every further call fails the same way. */
crema_status cr_prefetch_take(cr_prefetch *prefetch, cr_batch **out) CREMA_MUST_USE;
crema_status cr_prefetch_give_back(cr_prefetch *prefetch, cr_batch *batch) CREMA_MUST_USE;

/* What was done since the prefetcher was made. Seconds. */
typedef struct cr_prefetch_stats {
  int threads, depth;
  uint64_t samples;                         /* decoded and transformed */
  double decode_seconds, transform_seconds; /* of all threads together */
  uint64_t batches;                         /* taken by the consumer */
  double wait_seconds;                      /* of the consumer, for batches after the first */
  cr_series fill;                           /* batches that were ready at each take */
} cr_prefetch_stats;

/* To be called by the consumer's thread. */
void cr_prefetch_get_stats(const cr_prefetch *prefetch, cr_prefetch_stats *out);

/* A whole pipeline, for reports. */
typedef struct cr_input_stats {
  cr_reader_stats reader;
  cr_prefetch_stats prefetch;
} cr_input_stats;

#endif
