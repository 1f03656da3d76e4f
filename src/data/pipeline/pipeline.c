
#include "data/pipeline/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/mem_available.h"
#include "core/system.h"
#include "core/timeline.h"
#include "data/pipeline/pipeline_private.h"
#include "device/device.h"
#include "device/memory/driver.h"
#include "device/memory/host_memory.h"

void *cr_batch_item(const cr_batch *batch, int item) {
  return (char *)batch->item + (size_t)item * batch->item_size;
}

static void free_values(const cr_batch_top *top) {
  if (top->device == NULL) cr_host_free(top->values);
  else cr_pinned_free(top->device, top->values, top->capacity * sizeof(float));
}

crema_status cr_batch_reserve(cr_batch *batch, int top, const crema_shape *shape, float **out) {
  cr_batch_top *t = &batch->top[top];
  CR_TRY(crema_shape_check(shape));
  size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  if (count > t->capacity || t->values == NULL) {
    void *memory = NULL;
    const size_t bytes = count * sizeof(float);
    CR_TRY(t->device == NULL ? cr_host_alloc(bytes, &memory)
                             : cr_pinned_alloc(t->device, bytes, &memory));
    free_values(t);
    t->values = memory;
    t->capacity = count;
  }
  t->shape = *shape;
  if (out != NULL) *out = t->values;
  return CREMA_OK;
}

crema_status cr_load_image(cr_load *load, const int extent[3], const char *advice, float **out) {
  cr_batch_top *top = &load->batch->top[0];
  const crema_shape shape = {.axes = 4,
                             .dim = {load->batch->items, extent[0], extent[1], extent[2]}};
  if (load->item == 0) CR_TRY(cr_batch_reserve(load->batch, 0, &shape, NULL));
  if (!crema_shape_equal(&top->shape, &shape)) {
    return cr_fail(CREMA_E_SHAPE,
                   "%d x %d x %d values in a batch of %d whose first item has %" PRId64
                   " x %" PRId64 " x %" PRId64 " (%s)",
                   extent[0], extent[1], extent[2], load->batch->items, top->shape.dim[1],
                   top->shape.dim[2], top->shape.dim[3], advice);
  }
  *out = top->values + load->item * crema_shape_count(&shape, 1, 4);
  return CREMA_OK;
}

int cr_pipeline_processors(void) {
  return cr_system_processors();
}

crema_status cr_pipeline_threads(uint32_t wanted, int *out) {
  enum { ENOUGH = 3 };
  if (wanted > CR_PIPELINE_MAX_THREADS) {
    return cr_fail(CREMA_E_RANGE, "%u decoding threads (0 to %d can be used)", wanted,
                   CR_PIPELINE_MAX_THREADS);
  }
  *out = (int)wanted;
  if (wanted > 0) return CREMA_OK;
  int processors = cr_pipeline_processors();
  if (processors <= 2) *out = 1;
  else *out = processors > ENOUGH ? ENOUGH : processors - 1;
  return CREMA_OK;
}

int cr_pipeline_depth_for(uint64_t bytes, uint64_t host_free, uint64_t device_free) {
  uint64_t least = host_free < device_free ? host_free : device_free;
  uint64_t fit = bytes == 0 ? CR_PIPELINE_USUAL_DEPTH : least / 4 / bytes;
  if (fit >= CR_PIPELINE_USUAL_DEPTH) return CR_PIPELINE_USUAL_DEPTH;
  return fit > 2 ? (int)fit : 2;
}

static crema_status choose_depth(cr_pipeline_options *options) {
  uint64_t device_free = UINT64_MAX, bytes = 0;
  if (options->depth > 0) return CREMA_OK;
  if (options->device != NULL) {
    size_t free_bytes = 0, total = 0;
    CR_TRY(cr_device_memory_info(options->device, &free_bytes, &total));
    device_free = free_bytes;
  }
  for (int i = 0; i < options->tops; ++i) {
    const crema_shape *shape = &options->shape[i];
    CR_TRY(crema_shape_check(shape));
    bytes += (uint64_t)crema_shape_count(shape, 0, shape->axes) * sizeof(float);
  }
  options->depth = cr_pipeline_depth_for(bytes, cr_mem_available(), device_free);
  if (options->depth == CR_PIPELINE_USUAL_DEPTH) return CREMA_OK;
  cr_log_info("%s: %d batches of %" PRIu64 " MB are made ahead, because memory is short",
              options->name, options->depth, bytes >> 20);
  return CREMA_OK;
}

/* Enough batches in flight for two items per thread; at least two. */
int cr_pipeline_window(const cr_pipeline_options *options) {
  if (options->threads == 1) return 1;
  int64_t window = (2 * (int64_t)options->threads + options->items - 1) / options->items;
  if (window < 2) window = 2;
  /* All batches. */
  int64_t most = (int64_t)options->depth * options->consumers;
  return (int)(window < most ? window : most);
}

/* Touches all memory, so that no page faults delay the running net. */
static crema_status make_batch(const cr_pipeline_options *options, cr_batch *batch) {
  batch->tops = options->tops;
  batch->items = options->items;
  batch->item_size = options->item_size;
  for (int i = 0; i < options->tops; ++i) {
    float *values = NULL;
    batch->top[i].device = options->device;
    CR_TRY(cr_batch_reserve(batch, i, &options->shape[i], &values));
    memset(values, 0, batch->top[i].capacity * sizeof *values);
  }
  if (options->item_size == 0) return CREMA_OK;
  batch->item = calloc((size_t)options->items, options->item_size);
  if (batch->item != NULL) return CREMA_OK;
  return cr_fail_memory((size_t)options->items * options->item_size, "items of a batch");
}

static crema_status make_batches(cr_pipeline *pipeline) {
  const cr_pipeline_options *options = &pipeline->options;
  size_t batches = (size_t)options->depth * (size_t)options->consumers;
  CR_TRY(CR_NEW(pipeline->batch, batches, "batches"));
  pipeline->batches = (int)batches;
  for (size_t i = 0; i < batches; ++i) CR_TRY(make_batch(options, &pipeline->batch[i]));
  return cr_pipeline_device_create(pipeline);
}

static crema_status make_work(cr_pipeline *pipeline) {
  const cr_pipeline_options *options = &pipeline->options;
  size_t items = (size_t)options->items, window = (size_t)pipeline->window;
  size_t threads = (size_t)options->threads, consumers = (size_t)options->consumers;
  CR_TRY(CR_NEW(pipeline->consumer, consumers, "a pipeline"));
  CR_TRY(CR_NEW(pipeline->worker, threads, "a pipeline"));
  CR_TRY(CR_NEW(pipeline->work, window, "a pipeline"));
  CR_TRY(CR_NEW(pipeline->spare, window, "a pipeline"));
  CR_TRY(CR_NEW(pipeline->recalled, window * items * options->item_size + 1, "a pipeline"));
  pipeline->recalled_end = window * items;
  for (size_t i = 0; i < threads; ++i) {
    pipeline->worker[i] = (cr_worker){.pipeline = pipeline, .number = (int)i};
  }
  for (size_t i = 0; i < window; ++i) {
    CR_TRY(CR_NEW(pipeline->work[i].outcome, items, "items of a batch"));
  }
  return CREMA_OK;
}

crema_status cr_pipeline_create(const cr_pipeline_options *options, cr_pipeline **out) {
  *out = NULL;
  if (options->depth < 0 || options->tops < 1 || options->tops > CR_BATCH_TOPS ||
      options->items < 1 || options->threads < 1 || options->threads > CR_PIPELINE_MAX_THREADS ||
      (options->device != NULL && options->consumers > 1)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "a pipeline of %d batches of %d items for %d tops by %d threads", options->depth,
                   options->items, options->tops, options->threads);
  }
  cr_pipeline *pipeline = calloc(1, sizeof *pipeline);
  if (pipeline == NULL) return cr_fail_memory(sizeof *pipeline, "a pipeline");
  crema_status status = CREMA_OK;
  pipeline->options = *options;
  if (options->consumers < 1) pipeline->options.consumers = 1;
  if (options->solvers < 1) pipeline->options.solvers = pipeline->options.consumers;
  CR_TRY_GOTO(choose_depth(&pipeline->options), fail);
  pipeline->window = cr_pipeline_window(&pipeline->options);
  CR_TRY_GOTO(make_work(pipeline), fail);
  CR_TRY_GOTO(make_batches(pipeline), fail);
  pipeline->options.shape = NULL;
  *out = pipeline;
  return CREMA_OK;
fail:
  cr_pipeline_destroy(pipeline);
  return status;
}

static void free_items(const cr_pipeline *pipeline, char *item, size_t count) {
  const cr_pipeline_options *options = &pipeline->options;
  for (size_t i = 0; item != NULL && options->source->free_item != NULL && i < count; ++i) {
    options->source->free_item(item + i * options->item_size);
  }
  free(item);
}

void cr_pipeline_destroy(cr_pipeline *pipeline) {
  if (pipeline == NULL) return;
  size_t items = (size_t)pipeline->options.items;
  cr_pipeline_stop(pipeline);
  cr_pipeline_device_destroy(pipeline);
  for (int i = 0; i < pipeline->batches; ++i) {
    cr_batch *batch = &pipeline->batch[i];
    for (int k = 0; k < CR_BATCH_TOPS; ++k) free_values(&batch->top[k]);
    cr_buffer_free(&batch->cursor);
    free_items(pipeline, batch->item, items);
  }
  free(pipeline->batch);
  for (int i = 0; pipeline->work != NULL && i < pipeline->window; ++i) {
    cr_outcome *outcome = pipeline->work[i].outcome;
    for (size_t k = 0; outcome != NULL && k < items; ++k) free(outcome[k].text);
    free(outcome);
    free(pipeline->work[i].taken.text);
  }
  free_items(pipeline, pipeline->recalled, pipeline->recalled_end);
  free(pipeline->spare);
  free(pipeline->work);
  free(pipeline->worker);
  free(pipeline->consumer);
  free(pipeline);
}

static crema_status run(void *arg) {
  cr_pipeline *pipeline = arg;
  crema_status status = cr_pipeline_work(pipeline);
  for (int i = 0; i < pipeline->options.consumers && status != CREMA_E_INTERRUPTED; ++i) {
    cr_queue_fail(pipeline->consumer[i].pair.full, status, NULL);
  }
  return status;
}

static crema_status make_pairs(cr_pipeline *pipeline) {
  size_t depth = (size_t)pipeline->options.depth;
  void **element = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(element, depth, "a queue of batches"));
  for (int c = 0; c < pipeline->options.consumers && status == CREMA_OK; ++c) {
    cr_consumer *consumer = &pipeline->consumer[c];
    for (size_t i = 0; i < depth; ++i) element[i] = &pipeline->batch[(size_t)c * depth + i];
    status = cr_queue_pair_init(&consumer->pair, element, depth);
    consumer->ready = consumer->pair.full;
  }
  free(element);
  return status;
}

/* The queues are large enough that no push waits. */
static crema_status start_workers(cr_pipeline *pipeline) {
  size_t threads = (size_t)pipeline->options.threads, window = (size_t)pipeline->window;
  if (threads == 1) return CREMA_OK;
  CR_TRY(cr_queue_create(window * threads, &pipeline->task));
  CR_TRY(cr_queue_create(window, &pipeline->done));
  for (size_t i = 0; i < threads; ++i) {
    cr_worker *worker = &pipeline->worker[i];
    CR_TRY(cr_thread_start(&worker->thread, "crema-decode", cr_pipeline_worker_main, worker));
  }
  return CREMA_OK;
}

crema_status cr_pipeline_start(cr_pipeline *pipeline, uint64_t first) {
  if (pipeline->thread != NULL) {
    return cr_fail(CREMA_E_STATE, "%s: the pipeline is running already", pipeline->options.name);
  }
  const cr_pipeline_options *options = &pipeline->options;
  crema_status status = CREMA_OK;
  pipeline->first = first;
  pipeline->begun = 0;
  pipeline->head = pipeline->in_flight = pipeline->spares = 0;
  pipeline->recalled_first = pipeline->recalled_end;
  pipeline->broken = false;
  pipeline->row = 0;
  if (options->source->start != NULL) CR_TRY_GOTO(options->source->start(options->user), fail);
  pipeline->started = true;
  CR_TRY_GOTO(make_pairs(pipeline), fail);
  CR_TRY_GOTO(start_workers(pipeline), fail);
  CR_TRY_GOTO(cr_thread_start(&pipeline->thread, "crema-pipeline", run, pipeline), fail);
  CR_TRY_GOTO(cr_pipeline_device_start(pipeline), fail);
  return CREMA_OK;
fail:
  cr_pipeline_stop(pipeline);
  return status;
}

/* The time without a batch to fill. */
static cr_queue_stalls idle_of(const cr_consumer *consumer) {
  cr_queue_stalls idle = consumer->idle;
  if (consumer->pair.free == NULL) return idle;
  const cr_queue_stalls now = cr_queue_pop_stalls(consumer->pair.free);
  return (cr_queue_stalls){idle.count + now.count, idle.seconds + now.seconds};
}

void cr_pipeline_stop(cr_pipeline *pipeline) {
  /* Requests first, so that all threads stop at the same time. Consumers know of a failure in the
   * main thread; workers end only on request. */
  const cr_pipeline_options *options = &pipeline->options;
  int threads = pipeline->worker == NULL ? 0 : options->threads;
  int consumers = pipeline->consumer == NULL ? 0 : options->consumers;
  cr_thread_request_stop(pipeline->copier);
  cr_thread_request_stop(pipeline->thread);
  for (int i = 0; i < threads; ++i) cr_thread_request_stop(pipeline->worker[i].thread);
  cr_pipeline_device_stop(pipeline);
  (void)!cr_thread_stop(&pipeline->thread);
  for (int i = 0; i < threads; ++i) (void)!cr_thread_stop(&pipeline->worker[i].thread);
  cr_queue_destroy(pipeline->done);
  cr_queue_destroy(pipeline->task);
  pipeline->done = NULL;
  pipeline->task = NULL;
  for (int i = 0; i < consumers; ++i) {
    pipeline->consumer[i].idle = idle_of(&pipeline->consumer[i]);
    cr_queue_pair_free(&pipeline->consumer[i].pair, NULL);
  }
  if (pipeline->started && options->source->stop != NULL) options->source->stop(options->user);
  pipeline->started = false;
}

crema_status cr_pipeline_await(cr_pipeline *pipeline, int consumer) {
  cr_consumer *c = &pipeline->consumer[consumer];
  void *item = NULL;
  size_t ready = cr_queue_size(c->ready);
  cr_timeline_count("batches ready", (int64_t)ready);
  if (!cr_queue_try_peek(c->ready, &item)) {
    double start = cr_clock_seconds();
    CR_TRY(cr_queue_peek(c->ready, &item));
    /* The wait for the first batch is unavoidable and does not count. */
    if (c->taken > 0) c->wait_seconds += cr_clock_seconds() - start;
    cr_timeline_span(0, "wait", "wait for data", start, "\"input\":\"%s\"",
                     cr_timeline_text(pipeline->options.name).text);
  }
  if (c->taken > 0 && !c->awaited) cr_series_add(&c->fill, (double)ready);
  c->awaited = true;
  return CREMA_OK;
}

crema_status cr_pipeline_take(cr_pipeline *pipeline, int consumer, const crema_context *context,
                              cr_batch **out) {
  cr_consumer *c = &pipeline->consumer[consumer];
  void *item = NULL;
  CR_TRY(cr_pipeline_await(pipeline, consumer));
  CR_TRY(cr_queue_pop(c->ready, "a batch of data", &item));
  *out = item;
  c->awaited = false;
  ++c->taken;
  cr_pipeline_device_take(pipeline, context, *out);
  return CREMA_OK;
}

crema_status cr_pipeline_give_back(cr_pipeline *pipeline, int consumer,
                                   const crema_context *context, cr_batch *batch) {
  CR_TRY(cr_pipeline_device_give_back(pipeline, context, batch));
  /* The queue has room for all batches and is never closed. */
  (void)cr_queue_try_push(pipeline->consumer[consumer].pair.free, batch);
  return CREMA_OK;
}

static double seconds(const _Atomic uint64_t *nanoseconds) {
  return 1e-9 * (double)atomic_load_explicit(nanoseconds, memory_order_relaxed);
}

void cr_pipeline_get_stats(const cr_pipeline *pipeline, int consumer, cr_input_stats *out) {
  const cr_consumer *c = &pipeline->consumer[consumer];
  const cr_pipeline_options *options = &pipeline->options;
  uint64_t samples = atomic_load_explicit(&pipeline->samples, memory_order_relaxed);
  out->reader = (cr_reader_stats){.records = samples,
                                  .busy_seconds = seconds(&pipeline->read_ns) / options->threads};
  out->pipeline = (cr_pipeline_stats){.threads = options->threads,
                                      .depth = options->depth,
                                      .samples = samples,
                                      .decode_seconds = seconds(&pipeline->decode_ns),
                                      .transform_seconds = seconds(&pipeline->transform_ns),
                                      .batches = c->taken,
                                      .wait_seconds = c->wait_seconds,
                                      .idle = idle_of(c),
                                      .fill = c->fill};
}
