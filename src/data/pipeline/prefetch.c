#include "data/pipeline/prefetch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/free_memory.h"
#include "core/log.h"
#include "data/pipeline/feed.h"
#include "data/pipeline/prefetch_private.h"
#include "device/device.h"
#include "device/memory/driver.h"
#include "device/memory/host_memory.h"

/* ---- making -------------------------------------------------------------- */

static crema_status batch_alloc(const cr_batch *batch, size_t values, void **out) {
  size_t bytes = values * sizeof(float);
  return batch->device == NULL ? cr_host_alloc(bytes, out)
                               : cr_pinned_alloc(batch->device, bytes, out);
}

static void batch_free(const cr_batch *batch, float *memory, size_t values) {
  if (memory == NULL) return;
  if (batch->device == NULL) cr_host_free(memory);
  else cr_pinned_free(batch->device, memory, values * sizeof(float));
}

crema_status cr_batch_reserve(cr_batch *batch, int items, const int shape[3]) {
  size_t item = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  if (item > SIZE_MAX / sizeof(float) / (size_t)items) {
    return cr_fail(CREMA_E_SHAPE, "a batch of %d x %d x %d x %d values", items, shape[0], shape[1],
                   shape[2]);
  }
  size_t count = item * (size_t)items;
  if (count > batch->capacity) {
    void *memory = NULL;
    CR_TRY(batch_alloc(batch, count, &memory));
    batch_free(batch, batch->data, batch->capacity);
    batch->data = memory;
    batch->capacity = count;
  }
  batch->items = items;
  batch->channels = shape[0];
  batch->height = shape[1];
  batch->width = shape[2];
  return CREMA_OK;
}

/* All memory is taken and touched before the thread starts, so that nothing is allocated beside
 * the running net. */
static crema_status make_batch(const cr_prefetch *prefetch, cr_batch *batch) {
  int items = prefetch->options.batch_size;
  batch->device = prefetch->options.device;
  CR_TRY(cr_batch_reserve(batch, items, prefetch->shape));
  memset(batch->data, 0, batch->capacity * sizeof(float));
  if (!prefetch->options.labels) return CREMA_OK;
  void *memory = NULL;
  CR_TRY(batch_alloc(batch, (size_t)items, &memory));
  batch->label = memory;
  memset(batch->label, 0, (size_t)items * sizeof(float));
  return CREMA_OK;
}

crema_status cr_prefetch_fail_record(const cr_prefetch *prefetch, cr_db_bytes key,
                                     crema_status status) {
  char text[96];
  return cr_fail_in(status, "%s: record '%s'", cr_reader_source(prefetch->options.reader),
                    cr_db_key_text(key, text, sizeof text));
}

bool cr_prefetch_is_corrupt(crema_status status) {
  return status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED;
}

static crema_status probe(const cr_prefetch *prefetch, cr_db_bytes value, int out[3]) {
  const cr_prefetch_options *options = &prefetch->options;
  int in[3];
  CR_TRY(cr_sample_probe(value.data, value.size, options->color, in));
  CR_TRY(cr_transformer_extent(options->transformer, 0, in));
  return cr_transformer_shape(options->transformer, in[0], in[1], in[2], out);
}

/* Small raw records are done as fast as they can be handed over. */
static bool is_small(cr_db_bytes value) {
  enum { LARGE = 1 << 15 };
  cr_datum datum;
  return cr_datum_parse(value.data, value.size, &datum) == CREMA_OK && !datum.encoded &&
         datum.size + datum.float_count < LARGE;
}

static crema_status choose_threads(cr_prefetch *prefetch, cr_db_bytes value) {
  int wanted = prefetch->options.threads;
  if (wanted == 0 && is_small(value)) wanted = 1;
  return cr_feed_threads((uint32_t)wanted, &prefetch->threads);
}

/* Shape and threads from the consumer's first record; with skip_corrupt from its first that is
 * whole. */
static crema_status look_at_first(cr_prefetch *prefetch) {
  cr_reader *reader = prefetch->options.reader;
  for (uint64_t tried = 0;;) {
    cr_db_bytes key, value;
    CR_TRY(cr_reader_preview(reader, prefetch->options.consumer, tried, &key, &value));
    crema_status status = probe(prefetch, value, prefetch->shape);
    if (status == CREMA_OK) return choose_threads(prefetch, value);
    status = cr_prefetch_fail_record(prefetch, key, status);
    if (!cr_prefetch_is_corrupt(status) || !prefetch->options.skip_corrupt) return status;
    if (++tried >= cr_reader_count(reader)) return status;
  }
}

int cr_prefetch_depth_for(uint64_t bytes, uint64_t host_free, uint64_t device_free) {
  uint64_t least = host_free < device_free ? host_free : device_free;
  uint64_t fit = bytes == 0 ? CR_PREFETCH_USUAL_DEPTH : least / 4 / bytes;
  if (fit >= CR_PREFETCH_USUAL_DEPTH) return CR_PREFETCH_USUAL_DEPTH;
  return fit > 2 ? (int)fit : 2;
}

static crema_status choose_depth(const cr_prefetch *prefetch, int *out) {
  const cr_prefetch_options *options = &prefetch->options;
  *out = options->depth;
  if (options->depth > 0) return CREMA_OK;
  uint64_t device_free = UINT64_MAX;
  if (options->device != NULL) {
    size_t free_bytes = 0, total = 0;
    CR_TRY(cr_device_memory_info(options->device, &free_bytes, &total));
    device_free = free_bytes;
  }
  uint64_t bytes = (uint64_t)options->batch_size * sizeof(float);
  for (int i = 0; i < 3; ++i) bytes *= (uint64_t)prefetch->shape[i];
  *out = cr_prefetch_depth_for(bytes, cr_free_memory(), device_free);
  if (*out == CR_PREFETCH_USUAL_DEPTH) return CREMA_OK;
  cr_log_info("%s: %d batches of %" PRIu64 " MB are made ahead, because memory is short",
              cr_reader_source(options->reader), *out, bytes >> 20);
  return CREMA_OK;
}

/* Enough batches in the making for two records a thread, and two batches. */
static int choose_window(const cr_prefetch *prefetch) {
  const cr_prefetch_options *options = &prefetch->options;
  if (prefetch->threads == 1) return 1;
  int64_t window = (2 * (int64_t)prefetch->threads + options->batch_size - 1) / options->batch_size;
  if (window < 2) window = 2;
  int most = cr_reader_depth(options->reader) / options->batch_size;
  if (most > options->depth) most = options->depth;
  return window < most ? (int)window : most;
}

static crema_status make_work(cr_prefetch *prefetch) {
  size_t items = (size_t)prefetch->options.batch_size, window = (size_t)prefetch->window;
  prefetch->worker = calloc((size_t)prefetch->threads, sizeof *prefetch->worker);
  prefetch->work = calloc(window, sizeof *prefetch->work);
  prefetch->record = calloc(window * items, sizeof *prefetch->record);
  prefetch->spare = calloc(window, sizeof(cr_batch *));
  if (prefetch->worker == NULL || prefetch->work == NULL || prefetch->record == NULL ||
      prefetch->spare == NULL) {
    return cr_fail_memory(window * items * sizeof *prefetch->record, "records of batches");
  }
  for (int i = 0; i < prefetch->threads; ++i) prefetch->worker[i].prefetch = prefetch;
  for (size_t i = 0; i < window; ++i) {
    prefetch->work[i].item = calloc(items, sizeof(cr_work_item));
    if (prefetch->work[i].item == NULL) {
      return cr_fail_memory(items * sizeof(cr_work_item), "records of a batch");
    }
  }
  return CREMA_OK;
}

static void free_work(cr_prefetch *prefetch) {
  for (int i = 0; prefetch->work != NULL && i < prefetch->window; ++i) {
    cr_work_item *item = prefetch->work[i].item;
    cr_buffer_free(&prefetch->work[i].store);
    for (int k = 0; item != NULL && k < prefetch->options.batch_size; ++k) free(item[k].text);
    free(item);
  }
  for (int i = 0; prefetch->worker != NULL && i < prefetch->threads; ++i) {
    cr_sample_free(&prefetch->worker[i].sample);
    cr_buffer_free(&prefetch->worker[i].value);
  }
  free(prefetch->spare);
  free(prefetch->record);
  free(prefetch->work);
  free(prefetch->worker);
}

static crema_status check_options(const cr_prefetch_options *options) {
  if (options->batch_size < 1 || options->depth < 0) {
    return cr_fail(CREMA_E_ARGUMENT, "%d batches of %d records", options->depth,
                   options->batch_size);
  }
  if (cr_reader_depth(options->reader) < options->batch_size) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: batches of %d from a reader of %d records",
                   cr_reader_source(options->reader), options->batch_size,
                   cr_reader_depth(options->reader));
  }
  if (options->threads < 0 || options->threads > CR_PREFETCH_MAX_THREADS) {
    return cr_fail(CREMA_E_RANGE, "%d decoding threads (0 to %d can be used)", options->threads,
                   CR_PREFETCH_MAX_THREADS);
  }
  return CREMA_OK;
}

crema_status cr_prefetch_create(const cr_prefetch_options *options, cr_prefetch **out) {
  *out = NULL;
  CR_TRY(check_options(options));
  cr_prefetch *prefetch = calloc(1, sizeof *prefetch);
  if (prefetch == NULL) return cr_fail_memory(sizeof *prefetch, "a prefetcher");
  prefetch->options = *options;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(look_at_first(prefetch), fail);
  CR_TRY_GOTO(choose_depth(prefetch, &prefetch->options.depth), fail);
  prefetch->window = choose_window(prefetch);
  CR_TRY_GOTO(make_work(prefetch), fail);
  size_t depth = (size_t)prefetch->options.depth;
  prefetch->batch = calloc(depth, sizeof *prefetch->batch);
  if (prefetch->batch == NULL) {
    status = cr_fail_memory(depth * sizeof *prefetch->batch, "batches");
    goto fail;
  }
  for (size_t i = 0; i < depth; ++i) {
    CR_TRY_GOTO(make_batch(prefetch, &prefetch->batch[i]), fail);
  }
  *out = prefetch;
  return CREMA_OK;
fail:
  cr_prefetch_destroy(prefetch);
  return status;
}

void cr_prefetch_destroy(cr_prefetch *prefetch) {
  if (prefetch == NULL) return;
  cr_prefetch_stop(prefetch);
  for (int i = 0; prefetch->batch != NULL && i < prefetch->options.depth; ++i) {
    cr_batch *batch = &prefetch->batch[i];
    batch_free(batch, batch->data, batch->capacity);
    batch_free(batch, batch->label, (size_t)prefetch->options.batch_size);
    cr_buffer_free(&batch->position.key);
  }
  free(prefetch->batch);
  free_work(prefetch);
  free(prefetch);
}

void cr_prefetch_shape(const cr_prefetch *prefetch, int out[3]) {
  memcpy(out, prefetch->shape, sizeof prefetch->shape);
}

int cr_prefetch_batch_size(const cr_prefetch *prefetch) {
  return prefetch->options.batch_size;
}

int cr_prefetch_depth(const cr_prefetch *prefetch) {
  return prefetch->options.depth;
}

bool cr_prefetch_has_labels(const cr_prefetch *prefetch) {
  return prefetch->options.labels;
}

/* ---- running ------------------------------------------------------------- */

static crema_status prefetch_for_ever(void *arg) {
  cr_prefetch *prefetch = arg;
  crema_status status = cr_prefetch_work(prefetch);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(prefetch->pair.full, status, NULL);
  return status;
}

static crema_status make_pair(cr_prefetch *prefetch) {
  size_t depth = (size_t)prefetch->options.depth;
  void **element = calloc(depth, sizeof *element);
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t i = 0; i < depth; ++i) element[i] = &prefetch->batch[i];
  crema_status status = cr_queue_pair_init(&prefetch->pair, element, depth);
  free(element);
  return status;
}

/* Queues that are large enough for nobody to wait when pushing. */
static crema_status start_workers(cr_prefetch *prefetch) {
  if (prefetch->threads == 1) return CREMA_OK;
  size_t window = (size_t)prefetch->window;
  CR_TRY(cr_queue_create(window * (size_t)prefetch->threads, &prefetch->task));
  CR_TRY(cr_queue_create(window, &prefetch->done));
  for (int i = 0; i < prefetch->threads; ++i) {
    cr_worker *worker = &prefetch->worker[i];
    CR_TRY(cr_thread_start(&worker->thread, "crema-decode", cr_prefetch_worker, worker));
  }
  return CREMA_OK;
}

crema_status cr_prefetch_start(cr_prefetch *prefetch) {
  if (prefetch->thread != NULL) {
    return cr_fail(CREMA_E_STATE, "%s: prefetching runs already",
                   cr_reader_source(prefetch->options.reader));
  }
  crema_status status = CREMA_OK;
  prefetch->skipped = 0;
  prefetch->head = 0;
  prefetch->in_flight = 0;
  prefetch->records = 0;
  prefetch->spares = 0;
  CR_TRY_GOTO(make_pair(prefetch), fail);
  CR_TRY_GOTO(start_workers(prefetch), fail);
  CR_TRY_GOTO(cr_thread_start(&prefetch->thread, "crema-prefetch", prefetch_for_ever, prefetch),
              fail);
  return CREMA_OK;
fail:
  cr_prefetch_stop(prefetch);
  return status;
}

void cr_prefetch_stop(cr_prefetch *prefetch) {
  /* All are asked first, so that they stop side by side. What went wrong in the main thread was
   * told to the consumer; workers only end by being stopped. */
  int threads = prefetch->worker == NULL ? 0 : prefetch->threads;
  cr_thread_request_stop(prefetch->thread);
  for (int i = 0; i < threads; ++i) cr_thread_request_stop(prefetch->worker[i].thread);
  crema_status ended = cr_thread_stop(&prefetch->thread);
  for (int i = 0; i < threads; ++i) ended = cr_thread_stop(&prefetch->worker[i].thread);
  (void)ended;
  cr_queue_destroy(prefetch->done);
  cr_queue_destroy(prefetch->task);
  prefetch->done = NULL;
  prefetch->task = NULL;
  cr_queue_pair_free(&prefetch->pair, NULL);
}

crema_status cr_prefetch_take(cr_prefetch *prefetch, cr_batch **out) {
  void *item = NULL;
  size_t ready = cr_queue_size(prefetch->pair.full);
  double start = cr_clock_seconds();
  CR_TRY(cr_queue_pop(prefetch->pair.full, "a batch of data", &item));
  *out = item;
  /* Everybody waits for the first batch. */
  if (prefetch->taken++ == 0) return CREMA_OK;
  if (ready == 0) prefetch->wait_seconds += cr_clock_seconds() - start;
  cr_series_add(&prefetch->fill, (double)ready);
  return CREMA_OK;
}

crema_status cr_prefetch_give_back(cr_prefetch *prefetch, cr_batch *batch) {
  return cr_queue_push(prefetch->pair.free, batch);
}

void cr_prefetch_get_stats(const cr_prefetch *prefetch, cr_prefetch_stats *out) {
  *out = (cr_prefetch_stats){
      .threads = prefetch->threads,
      .depth = prefetch->options.depth,
      .samples = atomic_load_explicit(&prefetch->samples, memory_order_relaxed),
      .decode_seconds =
          1e-9 * (double)atomic_load_explicit(&prefetch->decode_ns, memory_order_relaxed),
      .transform_seconds =
          1e-9 * (double)atomic_load_explicit(&prefetch->transform_ns, memory_order_relaxed),
      .batches = prefetch->taken,
      .wait_seconds = prefetch->wait_seconds,
      .fill = prefetch->fill};
}
