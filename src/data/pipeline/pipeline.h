/* The pipeline: threads that make batches ahead of the net from the items of a source.
 *
 * The main thread takes items from the source in order and assembles batches. It, or several
 * workers, load the items in any order, each into its slot of the batch. For a net on a device with
 * its own memory another thread copies finished batches there, on its own stream, while the net
 * works on earlier batches. A free/full queue pair of batches connects the pipeline and each
 * consumer; a consumer works in the batch's memory and gives the batch back when it takes the next.
 *
 * Consumers are the solvers of one training: batch k of a run goes to consumer k mod N. The content
 * of a batch does not depend on the number of threads. */
#ifndef CR_DATA_PIPELINE_H
#define CR_DATA_PIPELINE_H

#include <stdbool.h>

#include "core/buffer.h"
#include "core/queue.h"
#include "crema/device.h"
#include "crema/types.h"
#include "data/pipeline/reader.h"
#include "data/pipeline/series.h"

struct cr_native_event;

enum { CR_BATCH_TOPS = 4, CR_PIPELINE_MAX_THREADS = 64, CR_PIPELINE_USUAL_DEPTH = 4 };

/* Values of one top. */
typedef struct cr_batch_top {
  crema_shape shape;
  float *values; /* the count of the shape */
  size_t capacity;
  crema_device *device; /* that `memory` is on; NULL: none */
  crema_devptr memory;  /* the same values there; address 0: none */
  size_t bytes;         /* at `memory` */
} cr_batch_top;

typedef struct cr_batch {
  uint64_t number; /* earlier batches of all solvers in this training */
  /* Item i is sample number sample + i * solvers of the stream: of a step's samples solver r of N
   * gets r, r + N, ... */
  uint64_t sample;
  int solvers;
  int tops;
  cr_batch_top top[CR_BATCH_TOPS];
  int items;
  size_t item_size;
  void *item;       /* the source's data on each item: items x item_size bytes, 0 at first */
  cr_buffer
      cursor; /* the position at which the source continues after the batch, set by its `finish` */
  /* For the copies on a device: */
  uint64_t user;                /* id of the last context that took the batch */
  struct cr_native_event *used; /* the end of the work queued on it */
  bool in_use;                  /* work was queued when it was given back */
  bool held;                    /* by the consumer */
} cr_batch;

/* The source's data on item `item`. */
void *cr_batch_item(const cr_batch *batch, int item);

/* Gives top `top` a shape and memory with undefined values, to which *out (may be NULL) points.
 * Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
crema_status cr_batch_reserve(cr_batch *batch, int top, const crema_shape *shape,
                              float **out) CREMA_MUST_USE;

/* An item that is being loaded into its batch. */
typedef struct cr_load {
  cr_batch *batch;
  int item;   /* 0 to items - 1 */
  int worker; /* 0 to threads - 1: the number of the thread */
  /* Set by the source, for the statistics. */
  double read_seconds, decode_seconds, transform_seconds;
} cr_load;

/* The place in top 0 for an item with these channels, height and width. The first item of a batch
 * decides the extents. Errors: CREMA_E_SHAPE with `advice` for an item with other extents; errors
 * of cr_batch_reserve. */
crema_status cr_load_image(cr_load *load, const int extent[3], const char *advice,
                           float **out) CREMA_MUST_USE;

/* A source of items. Any thread calls `load`, for several items at once; all other functions are
 * called one at a time. */
typedef struct cr_source {
  /* Before the threads start, and after their end. May be NULL. */
  crema_status (*start)(void *user);
  void (*stop)(void *user);
  /* Prepares item `item` of a batch. Called in the order of batches and items. May be NULL. */
  crema_status (*take)(void *user, cr_batch *batch, int item);
  /* The number of items that can be taken without waiting. NULL: any number. */
  size_t (*ready)(void *user);
  /* Fills an item's values. Item 0 of a batch is loaded first: it reserves the tops whose shape
   * depends on the values. May be called repeatedly for an item. */
  crema_status (*load)(void *user, cr_load *load);
  /* Whether an item that failed with `status` (and the calling thread's error text) is skipped; all
   * later items, also of later batches, then move up. `row`: the number of failures in a row, with
   * this one. NULL: never. */
  bool (*pass_over)(void *user, cr_batch *batch, int item, crema_status status, uint64_t row);
  /* Completes a batch whose items are all loaded, in the order of batches. May be NULL. */
  crema_status (*finish)(void *user, cr_batch *batch);
  /* Frees an item's memory. May be NULL. */
  void (*free_item)(void *item);
} cr_source;

typedef struct cr_pipeline_options {
  const char *name;        /* of the input, for messages */
  const cr_source *source; /* outlives the pipeline, like `user` and `name` */
  void *user;
  int tops;  /* 1 to CR_BATCH_TOPS */
  int items; /* in a batch, at least 1 */
  /* Batches for each consumer; as it holds one, overlap needs at least 2. 0:
   * CR_PIPELINE_USUAL_DEPTH, or fewer if memory is short. */
  int depth;
  int threads;   /* that load items, see cr_pipeline_threads */
  int consumers; /* 0 counts as 1 */
  /* If each of several solvers has a pipeline: this solver, and their number. Else 0. */
  int rank, solvers;
  /* Batches are copied to this device, which has its own memory and outlives the pipeline; only
   * with one consumer. NULL: batches stay in host memory. */
  crema_device *device;
  size_t item_size;         /* may be 0 */
  const crema_shape *shape; /* one per top, for memory that is allocated before the threads start */
} cr_pipeline_options;

typedef struct cr_pipeline cr_pipeline;

/* The number of processors that this process may run on. */
int cr_pipeline_processors(void);

/* The number of threads that load items: `wanted`; for 0 three, but fewer than the process's
 * processors and at least one. Errors: CREMA_E_RANGE above CR_PIPELINE_MAX_THREADS. */
crema_status cr_pipeline_threads(uint32_t wanted, int *out) CREMA_MUST_USE;

/* The default number of batches of `bytes` bytes: at most the usual depth, and at least two. They
 * take at most a quarter of the free bytes of the host and of the device (UINT64_MAX: it has no
 * memory). */
int cr_pipeline_depth_for(uint64_t bytes, uint64_t host_free, uint64_t device_free);

/* Allocates the batches, on the host and the device. Starts no thread. Free with
 * cr_pipeline_destroy. Errors: CREMA_E_ARGUMENT, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_pipeline_create(const cr_pipeline_options *options,
                                cr_pipeline **out) CREMA_MUST_USE;
/* Stops the threads. Work on the batches may still be queued on the consumers' contexts. Accepts
 * NULL. */
void cr_pipeline_destroy(cr_pipeline *pipeline);

/* Starts the source and the threads after the first `first` batches of all solvers together.
 * Stopping takes all batches back, also from consumers; only the caller then uses the source's
 * data. A restart waits, on the device, for work on batches that were taken back. Errors:
 * CREMA_E_STATE if it is running; errors of the source. */
crema_status cr_pipeline_start(cr_pipeline *pipeline, uint64_t first) CREMA_MUST_USE;
void cr_pipeline_stop(cr_pipeline *pipeline);

/* While it runs; one thread for each consumer: */

/* Waits for the consumer's next batch, complete on the device, for work on `context` (NULL without
 * a device). Errors: of the source (for the first failed item in order) and of the device; after an
 * error each further call fails likewise. */
crema_status cr_pipeline_take(cr_pipeline *pipeline, int consumer, const crema_context *context,
                              cr_batch **out) CREMA_MUST_USE;
/* Gives a batch back; work on its device memory may still be queued on `context`. */
crema_status cr_pipeline_give_back(cr_pipeline *pipeline, int consumer,
                                   const crema_context *context, cr_batch *batch) CREMA_MUST_USE;

/* Waits until cr_pipeline_take would not wait. Errors: as cr_pipeline_take. */
crema_status cr_pipeline_await(cr_pipeline *pipeline, int consumer) CREMA_MUST_USE;

/* Totals over all runs of the pipeline, in seconds. */
typedef struct cr_pipeline_stats {
  int threads, depth;
  uint64_t samples;                         /* loaded */
  double decode_seconds, transform_seconds; /* of all threads together */
  uint64_t batches;                         /* taken by the consumer */
  double wait_seconds;                      /* of the consumer, for batches after the first */
  cr_queue_stalls idle;                     /* of the pipeline, with all batches full or in use */
  cr_series fill;                           /* batches that were ready at each take */
} cr_pipeline_stats;

/* A layer's input, for reports. */
typedef struct cr_input_stats {
  cr_reader_stats reader;
  cr_pipeline_stats pipeline;
} cr_input_stats;

/* For the consumer's thread. The reader's part is the reading time that loading reports, over all
 * threads. */
void cr_pipeline_get_stats(const cr_pipeline *pipeline, int consumer, cr_input_stats *out);

#endif
