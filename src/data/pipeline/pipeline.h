/* The pipeline: threads that make batches ahead of the net, out of the items of a source.
 *
 * One thread takes items from the source in their order and puts batches together. It, or several
 * workers beside it, load the items, in any order, each into its slot of the batch. For a net on a
 * device with memory of its own, one more thread copies finished batches there, on a stream of its
 * own, while the net works on earlier ones. Between the pipeline and each consumer is a free/full
 * queue pair of batches; a consumer works on the batch's own memory and gives the batch back when
 * it takes the next one.
 *
 * Consumers are the solvers of one training: batch k of a run goes to consumer k mod N, no matter
 * who asks first. The content of a batch does not depend on the number of threads. */
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
  float *values; /* as many as the shape says */
  size_t capacity;
  crema_device *device; /* that `memory` is on; NULL: none */
  crema_devptr memory;  /* the same values there; address 0: none */
  size_t bytes;         /* at `memory` */
} cr_batch_top;

typedef struct cr_batch {
  uint64_t number; /* batches before this one, of all solvers, since the start of training */
  /* Item i is sample number sample + i * solvers of the stream: of the samples of a step, solver r
   * of N gets r, r + N, ... */
  uint64_t sample;
  int solvers;
  int tops;
  cr_batch_top top[CR_BATCH_TOPS];
  int items;
  size_t item_size;
  void *item;       /* the source's data about each item: items x item_size bytes, 0 at first */
  cr_buffer cursor; /* where the source continues after the batch, set by its `finish` */
  /* For the copies on a device: */
  uint64_t user;                /* id of the context that took the batch last */
  struct cr_native_event *used; /* the end of the work that was queued on it */
  bool in_use;                  /* work was queued when it was given back */
  bool held;                    /* by the consumer */
} cr_batch;

/* The source's data about item `item`. */
void *cr_batch_item(const cr_batch *batch, int item);

/* Gives top `top` of the batch a shape and memory for it; the values are undefined. *out (may be
 * NULL) points to the values. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
crema_status cr_batch_reserve(cr_batch *batch, int top, const crema_shape *shape,
                              float **out) CREMA_MUST_USE;

/* An item that is being loaded into its batch. */
typedef struct cr_load {
  cr_batch *batch;
  int item;   /* 0 to items - 1 */
  int worker; /* 0 to threads - 1: no other thread has the same number at this time */
  /* For the statistics, set by the source: where the time was spent. */
  double read_seconds, decode_seconds, transform_seconds;
} cr_load;

/* Where in top 0 the values of an item with these channels, height and width go. The first item of
 * a batch decides the extents of all. Errors: CREMA_E_SHAPE for an item with other extents, with
 * `advice` on what can be done; those of cr_batch_reserve. */
crema_status cr_load_image(cr_load *load, const int extent[3], const char *advice,
                           float **out) CREMA_MUST_USE;

/* Where items come from. `load` is called by any thread, for several items at once; all other
 * functions are called one at a time. Optional functions may be NULL. */
typedef struct cr_source {
  /* Before the threads start, and after they have ended. May be NULL. */
  crema_status (*start)(void *user);
  void (*stop)(void *user);
  /* Prepares item `item` of a batch. Called in the order of batches and items. May be NULL. */
  crema_status (*take)(void *user, cr_batch *batch, int item);
  /* How many items can be taken without waiting. NULL: any number. */
  size_t (*ready)(void *user);
  /* Fills one item's values. Item 0 is loaded before all others of its batch: it reserves the
   * tops whose shape depends on what is loaded. May be called again for an item. */
  crema_status (*load)(void *user, cr_load *load);
  /* Whether an item that failed with `status` (and the calling thread's error text) is skipped; all
   * later ones, also those of later batches, then move up. `row`: the number of failures in a row,
   * this one included. NULL: never. */
  bool (*pass_over)(void *user, cr_batch *batch, int item, crema_status status, uint64_t row);
  /* Completes a batch whose items are all loaded, in the order of batches. May be NULL. */
  crema_status (*finish)(void *user, cr_batch *batch);
  /* Frees what an item owns. May be NULL. */
  void (*free_item)(void *item);
} cr_source;

typedef struct cr_pipeline_options {
  const char *name;        /* of what is read, for messages */
  const cr_source *source; /* outlives the pipeline, like `user` and `name` */
  void *user;
  int tops;  /* 1 to CR_BATCH_TOPS */
  int items; /* in a batch, at least 1 */
  /* Batches for each consumer; as it holds one, overlap needs at least 2. 0:
   * CR_PIPELINE_USUAL_DEPTH, or fewer when memory is short. */
  int depth;
  int threads;   /* that load items; cr_pipeline_threads gives the number */
  int consumers; /* 0 counts as 1 */
  /* For one of several solvers that each have a pipeline: which one, of how many. Else 0. */
  int rank, solvers;
  /* Batches are copied to this device, which has memory of its own and outlives the pipeline;
   * only for a single consumer. NULL: they stay in host memory. */
  crema_device *device;
  size_t item_size;         /* may be 0 */
  const crema_shape *shape; /* one per top: memory for these is made before the threads start */
} cr_pipeline_options;

typedef struct cr_pipeline cr_pipeline;

/* Processors that this process may run on: more threads than these decode no faster. */
int cr_pipeline_processors(void);

/* How many threads load items: `wanted`; for 0, three, but at most one less than the processors
 * that the process may use, and at least one. Errors: CREMA_E_RANGE above
 * CR_PIPELINE_MAX_THREADS. */
crema_status cr_pipeline_threads(uint32_t wanted, int *out) CREMA_MUST_USE;

/* How many batches of `bytes` bytes to make when the number is not given: as many as usual, but no
 * more than fit into a quarter of the free bytes of the host and of the device (UINT64_MAX: it has
 * no memory of its own), and never fewer than two. */
int cr_pipeline_depth_for(uint64_t bytes, uint64_t host_free, uint64_t device_free);

/* Makes the batches, all memory on the host and the device included. No thread runs yet. Free with
 * cr_pipeline_destroy. Errors: CREMA_E_ARGUMENT, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_pipeline_create(const cr_pipeline_options *options,
                                cr_pipeline **out) CREMA_MUST_USE;
/* Stops the threads first. Work on the batches may still be queued on the contexts that took
 * them. Accepts NULL. */
void cr_pipeline_destroy(cr_pipeline *pipeline);

/* Starts the source and the threads after the first `first` batches of all solvers together.
 * Stopping takes all batches back, also those that the consumers hold; only the caller then uses
 * the source's data. Starting again waits, on the device, for work on batches that were taken back
 * this way. Errors: CREMA_E_STATE when it is running already; those of the source. */
crema_status cr_pipeline_start(cr_pipeline *pipeline, uint64_t first) CREMA_MUST_USE;
void cr_pipeline_stop(cr_pipeline *pipeline);

/* ---- while it runs; one thread for each consumer ---- */

/* The consumer's next batch, for work that will be queued on `context` (NULL without a device);
 * waits for it. Its copies on the device are done. Errors: those of the source (of several failed
 * items, the first in order counts) and of the device; after an error every further call fails the
 * same way. */
crema_status cr_pipeline_take(cr_pipeline *pipeline, int consumer, const crema_context *context,
                              cr_batch **out) CREMA_MUST_USE;
/* Gives a batch back; work on its device memory may still be queued on `context`. */
crema_status cr_pipeline_give_back(cr_pipeline *pipeline, int consumer,
                                   const crema_context *context, cr_batch *batch) CREMA_MUST_USE;

/* Waits until cr_pipeline_take would not wait. Errors: as cr_pipeline_take. */
crema_status cr_pipeline_await(cr_pipeline *pipeline, int consumer) CREMA_MUST_USE;

/* What was done since the pipeline was made. Seconds. */
typedef struct cr_pipeline_stats {
  int threads, depth;
  uint64_t samples;                         /* loaded */
  double decode_seconds, transform_seconds; /* of all threads together */
  uint64_t batches;                         /* taken by the consumer */
  double wait_seconds;                      /* of the consumer, for batches after the first */
  cr_queue_stalls idle;                     /* of the pipeline, with all batches full or in use */
  cr_series fill;                           /* batches that were ready at each take */
} cr_pipeline_stats;

/* All of a layer's input, for reports. */
typedef struct cr_input_stats {
  cr_reader_stats reader;
  cr_pipeline_stats pipeline;
} cr_input_stats;

/* To be called by the consumer's thread. The reader's part is the reading time that loading
 * reported, summed over the threads. */
void cr_pipeline_get_stats(const cr_pipeline *pipeline, int consumer, cr_input_stats *out);

#endif
