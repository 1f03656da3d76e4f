#define _GNU_SOURCE /* sched_getaffinity */

#include "data/pipeline/feed.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fail.h"
#include "data/pipeline/feed_private.h"
#include "device/device.h"
#include "device/memory/driver.h"
#include "device/memory/host_memory.h"

/* ---- making -------------------------------------------------------------- */

static crema_status alloc_values(const cr_feed_top *top, size_t bytes, void **out) {
  return top->device == NULL ? cr_host_alloc(bytes, out) : cr_pinned_alloc(top->device, bytes, out);
}

static void free_values(const cr_feed_top *top) {
  if (top->device == NULL) cr_host_free(top->values);
  else cr_pinned_free(top->device, top->values, top->capacity * sizeof(float));
}

crema_status cr_feed_reserve(cr_feed_batch *batch, int top, const crema_shape *shape, float **out) {
  cr_feed_top *t = &batch->top[top];
  CR_TRY(crema_shape_check(shape));
  size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  if (count > t->capacity || t->values == NULL) {
    void *memory = NULL;
    CR_TRY(alloc_values(t, count * sizeof(float), &memory));
    free_values(t);
    t->values = memory;
    t->capacity = count;
  }
  t->shape = *shape;
  if (out != NULL) *out = t->values;
  return CREMA_OK;
}

int cr_feed_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

crema_status cr_feed_threads(uint32_t wanted, int *out) {
  enum { ENOUGH = 3 };
  if (wanted > CR_FEED_MAX_THREADS) {
    return cr_fail(CREMA_E_RANGE, "%u decoding threads (0 to %d can be used)", wanted,
                   CR_FEED_MAX_THREADS);
  }
  *out = (int)wanted;
  if (wanted > 0) return CREMA_OK;
  int processors = cr_feed_processors();
  if (processors <= 2) *out = 1;
  else *out = processors > ENOUGH ? ENOUGH : processors - 1;
  return CREMA_OK;
}

/* Enough batches in the making for two items a thread, and two batches. Where items may be passed
 * over, a batch must be complete before the next one knows what it begins with. */
int cr_feed_window(const cr_feed_options *options) {
  if (options->threads == 1 || options->source->skip != NULL) return 1;
  int64_t window = (2 * (int64_t)options->threads + options->items - 1) / options->items;
  if (window < 2) window = 2;
  int consumers = options->consumers < 1 ? 1 : options->consumers;
  /* There are no more batches than these. */
  int64_t most = (int64_t)options->depth * consumers;
  return (int)(window < most ? window : most);
}

/* All memory is touched, so that no page is made beside the running net. */
static crema_status make_batch(const cr_feed_options *options, cr_feed_batch *batch) {
  batch->tops = options->tops;
  for (int i = 0; i < options->tops; ++i) {
    float *values = NULL;
    batch->top[i].device = options->device;
    CR_TRY(cr_feed_reserve(batch, i, &options->shape[i], &values));
    memset(values, 0, batch->top[i].capacity * sizeof *values);
  }
  if (options->item_size == 0) return CREMA_OK;
  batch->item = calloc((size_t)options->items, options->item_size);
  if (batch->item != NULL) return CREMA_OK;
  return cr_fail_memory((size_t)options->items * options->item_size, "items of a batch");
}

static crema_status make_batches(cr_feed *feed, const cr_feed_options *options) {
  size_t batches = (size_t)options->depth * (size_t)feed->options.consumers;
  feed->batch = calloc(batches, sizeof *feed->batch);
  if (feed->batch == NULL) return cr_fail_memory(batches * sizeof *feed->batch, "batches");
  feed->batches = (int)batches;
  for (size_t i = 0; i < batches; ++i) CR_TRY(make_batch(options, &feed->batch[i]));
  return CREMA_OK;
}

static crema_status make_work(cr_feed *feed) {
  size_t items = (size_t)feed->options.items, window = (size_t)feed->window;
  size_t threads = (size_t)feed->options.threads, consumers = (size_t)feed->options.consumers;
  feed->consumer = calloc(consumers, sizeof *feed->consumer);
  feed->worker = calloc(threads, sizeof *feed->worker);
  feed->work = calloc(window, sizeof *feed->work);
  if (feed->consumer == NULL || feed->worker == NULL || feed->work == NULL) {
    return cr_fail_memory(threads * sizeof *feed->worker, "a feed");
  }
  for (size_t i = 0; i < threads; ++i) {
    feed->worker[i] = (cr_feed_worker){.feed = feed, .number = (int)i};
  }
  for (size_t i = 0; i < window; ++i) {
    feed->work[i].outcome = calloc(items, sizeof(cr_feed_outcome));
    if (feed->work[i].outcome == NULL) {
      return cr_fail_memory(items * sizeof(cr_feed_outcome), "items of a batch");
    }
  }
  return CREMA_OK;
}

crema_status cr_feed_create(const cr_feed_options *options, cr_feed **out) {
  *out = NULL;
  if (options->depth < 1 || options->tops < 1 || options->tops > CR_FEED_TOPS ||
      options->items < 1 || options->threads < 1 || options->threads > CR_FEED_MAX_THREADS) {
    return cr_fail(CREMA_E_ARGUMENT, "a feed of %d batches of %d items for %d tops by %d threads",
                   options->depth, options->items, options->tops, options->threads);
  }
  cr_feed *feed = calloc(1, sizeof *feed);
  if (feed == NULL) return cr_fail_memory(sizeof *feed, "a feed");
  crema_status status = CREMA_OK;
  feed->options = *options;
  feed->options.shape = NULL;
  if (options->consumers < 1) feed->options.consumers = 1;
  if (options->solvers < 1) feed->options.solvers = feed->options.consumers;
  feed->window = cr_feed_window(options);
  CR_TRY_GOTO(make_batches(feed, options), fail);
  CR_TRY_GOTO(make_work(feed), fail);
  *out = feed;
  return CREMA_OK;
fail:
  cr_feed_destroy(feed, NULL);
  return status;
}

static void free_batch(const cr_feed *feed, cr_feed_batch *batch, void (*free_item)(void *item)) {
  for (int k = 0; k < CR_FEED_TOPS; ++k) free_values(&batch->top[k]);
  cr_buffer_free(&batch->note);
  for (int k = 0; batch->item != NULL && free_item != NULL && k < feed->options.items; ++k) {
    free_item((char *)batch->item + (size_t)k * feed->options.item_size);
  }
  free(batch->item);
}

void cr_feed_destroy(cr_feed *feed, void (*free_item)(void *item)) {
  if (feed == NULL) return;
  cr_feed_stop(feed);
  for (int i = 0; i < feed->batches; ++i) free_batch(feed, &feed->batch[i], free_item);
  free(feed->batch);
  for (int i = 0; feed->work != NULL && i < feed->window; ++i) {
    cr_feed_outcome *outcome = feed->work[i].outcome;
    for (int k = 0; outcome != NULL && k < feed->options.items; ++k) free(outcome[k].text);
    free(outcome);
    free(feed->work[i].begun.text);
  }
  free(feed->work);
  free(feed->worker);
  free(feed->consumer);
  free(feed);
}

/* ---- running ------------------------------------------------------------- */

static crema_status run(void *arg) {
  cr_feed *feed = arg;
  crema_status status = cr_feed_work_for_ever(feed);
  for (int i = 0; i < feed->options.consumers && status != CREMA_E_INTERRUPTED; ++i) {
    cr_queue_fail(feed->consumer[i].pair.full, status, NULL);
  }
  return status;
}

static crema_status make_pairs(cr_feed *feed) {
  size_t depth = (size_t)feed->options.depth;
  void **element = calloc(depth, sizeof *element);
  crema_status status = CREMA_OK;
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t c = 0; c < (size_t)feed->options.consumers && status == CREMA_OK; ++c) {
    for (size_t i = 0; i < depth; ++i) element[i] = &feed->batch[c * depth + i];
    status = cr_queue_pair_init(&feed->consumer[c].pair, element, depth);
  }
  free(element);
  return status;
}

/* Queues that are large enough for nobody to wait when pushing. */
static crema_status start_workers(cr_feed *feed) {
  size_t threads = (size_t)feed->options.threads, window = (size_t)feed->window;
  if (threads == 1) return CREMA_OK;
  CR_TRY(cr_queue_create(window * threads, &feed->task));
  CR_TRY(cr_queue_create(window, &feed->done));
  for (size_t i = 0; i < threads; ++i) {
    cr_feed_worker *worker = &feed->worker[i];
    CR_TRY(cr_thread_start(&worker->thread, "crema-decode", cr_feed_worker_main, worker));
  }
  return CREMA_OK;
}

crema_status cr_feed_start(cr_feed *feed, uint64_t first) {
  if (feed->thread != NULL) return cr_fail(CREMA_E_STATE, "the feed runs already");
  crema_status status = CREMA_OK;
  feed->first = first;
  feed->begun = 0;
  feed->head = 0;
  feed->in_flight = 0;
  feed->broken = false;
  feed->row = 0;
  CR_TRY_GOTO(make_pairs(feed), fail);
  CR_TRY_GOTO(start_workers(feed), fail);
  CR_TRY_GOTO(cr_thread_start(&feed->thread, "crema-feed", run, feed), fail);
  return CREMA_OK;
fail:
  cr_feed_stop(feed);
  return status;
}

void cr_feed_stop(cr_feed *feed) {
  /* All are asked first, so that they stop side by side. What went wrong in the main thread was
   * told to the consumers; workers only end by being stopped. */
  int threads = feed->worker == NULL ? 0 : feed->options.threads;
  int consumers = feed->consumer == NULL ? 0 : feed->options.consumers;
  cr_thread_request_stop(feed->thread);
  for (int i = 0; i < threads; ++i) cr_thread_request_stop(feed->worker[i].thread);
  crema_status ended = cr_thread_stop(&feed->thread);
  for (int i = 0; i < threads; ++i) ended = cr_thread_stop(&feed->worker[i].thread);
  (void)ended;
  cr_queue_destroy(feed->done);
  cr_queue_destroy(feed->task);
  feed->done = NULL;
  feed->task = NULL;
  for (int i = 0; i < consumers; ++i) cr_queue_pair_free(&feed->consumer[i].pair, NULL);
}

/* ---- consuming ----------------------------------------------------------- */

crema_status cr_feed_await(cr_feed *feed, int consumer) {
  cr_feed_consumer *c = &feed->consumer[consumer];
  void *item = NULL;
  size_t ready = cr_queue_size(c->pair.full);
  if (!cr_queue_try_peek(c->pair.full, &item)) {
    double start = cr_clock_seconds();
    CR_TRY(cr_queue_peek(c->pair.full, &item));
    /* Everybody waits for the first batch. */
    if (c->taken > 0) c->wait_seconds += cr_clock_seconds() - start;
  }
  if (c->taken > 0 && !c->awaited) cr_series_add(&c->fill, (double)ready);
  c->awaited = true;
  return CREMA_OK;
}

crema_status cr_feed_take(cr_feed *feed, int consumer, cr_feed_batch **out) {
  cr_feed_consumer *c = &feed->consumer[consumer];
  void *item = NULL;
  CR_TRY(cr_feed_await(feed, consumer));
  CR_TRY(cr_queue_pop(c->pair.full, "a batch of data", &item));
  *out = item;
  c->awaited = false;
  ++c->taken;
  return CREMA_OK;
}

crema_status cr_feed_give_back(cr_feed *feed, int consumer, cr_feed_batch *batch) {
  return cr_queue_push(feed->consumer[consumer].pair.free, batch);
}

static double seconds(const _Atomic uint64_t *nanoseconds) {
  return 1e-9 * (double)atomic_load_explicit(nanoseconds, memory_order_relaxed);
}

void cr_feed_get_stats(const cr_feed *feed, int consumer, cr_input_stats *out) {
  const cr_feed_consumer *c = &feed->consumer[consumer];
  uint64_t samples = atomic_load_explicit(&feed->samples, memory_order_relaxed);
  out->reader = (cr_reader_stats){.records = samples,
                                  .busy_seconds = seconds(&feed->read_ns) / feed->options.threads};
  out->prefetch = (cr_prefetch_stats){.threads = feed->options.threads,
                                      .depth = feed->options.depth,
                                      .samples = samples,
                                      .decode_seconds = seconds(&feed->decode_ns),
                                      .transform_seconds = seconds(&feed->transform_ns),
                                      .batches = c->taken,
                                      .wait_seconds = c->wait_seconds,
                                      .fill = c->fill};
}
