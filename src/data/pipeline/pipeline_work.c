/* The pipeline's threads. The main thread takes items in order and gives them to workers, batch by
 * batch. Workers load them in any order, each into its slot. The main thread finishes the batches
 * in order. The first item of a batch is loaded first, as it may decide the shape of all; several
 * batches are in flight, so that no worker waits. When an item is skipped, all later items move up:
 * its batch is closed up and refilled, and later batches are recalled and restarted. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/timeline.h"
#include "data/pipeline/pipeline_private.h"

static void note(cr_outcome *outcome, crema_status status) {
  outcome->status = status;
  if (status == CREMA_OK) return;
  free(outcome->text);
  outcome->text = strdup(crema_error_text());
}

/* Repeats the failure in the calling thread. */
static crema_status fail_again(const cr_outcome *outcome) {
  if (outcome->text != NULL) return cr_fail_text(outcome->status, outcome->text);
  return cr_fail(outcome->status, "an item could not be loaded");
}

static void count_time(_Atomic uint64_t *nanoseconds, double seconds) {
  atomic_fetch_add_explicit(nanoseconds, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

/* The work of a thread on a batch, in microseconds. */
static void trace_items(const cr_pipeline *pipeline, const cr_load *sum, double begin) {
  if (begin == 0 || sum->item == 0) return;
  cr_timeline_span(
      0, "data", "decode and transform", begin,
      "\"input\":\"%s\",\"items\":%d,\"read_us\":%d,\"decode_us\":%d,\"transform_us\":%d",
      cr_timeline_text(pipeline->options.name).text, sum->item, (int)(sum->read_seconds * 1e6),
      (int)(sum->decode_seconds * 1e6), (int)(sum->transform_seconds * 1e6));
}

/* Loads items that no other thread has claimed. */
static void load_items(cr_worker *worker, cr_work *work) {
  cr_load sum = {0}; /* `item` counts items */
  const double traced = cr_timeline_now();
  cr_pipeline *pipeline = worker->pipeline;
  const cr_pipeline_options *options = &pipeline->options;
  for (;;) {
    int i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
    if (i >= work->limit) break;
    cr_load load = {.batch = work->batch, .item = i, .worker = worker->number};
    note(&work->outcome[i], options->source->load(options->user, &load));
    if (work->outcome[i].status != CREMA_OK) continue;
    count_time(&pipeline->read_ns, load.read_seconds);
    count_time(&pipeline->decode_ns, load.decode_seconds);
    count_time(&pipeline->transform_ns, load.transform_seconds);
    atomic_fetch_add_explicit(&pipeline->samples, 1, memory_order_relaxed);
    sum.item += 1;
    sum.read_seconds += load.read_seconds;
    sum.decode_seconds += load.decode_seconds;
    sum.transform_seconds += load.transform_seconds;
  }
  trace_items(pipeline, &sum, traced);
}

crema_status cr_pipeline_worker_main(void *arg) {
  cr_worker *worker = arg;
  cr_pipeline *pipeline = worker->pipeline;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(pipeline->task, NULL, &item));
    cr_work *work = item;
    load_items(worker, work);
    /* When the last worker leaves, everything is loaded. */
    if (atomic_fetch_sub_explicit(&work->busy, 1, memory_order_acq_rel) > 1) continue;
    CR_TRY(cr_queue_push(pipeline->done, work));
  }
}

static void swap_bytes(char *a, char *b, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    char byte = a[i];
    a[i] = b[i];
    b[i] = byte;
  }
}

static char *recalled_at(const cr_pipeline *pipeline, size_t i) {
  return pipeline->recalled + i * pipeline->options.item_size;
}

/* Takes the next item of the stream from a recalled batch or from the source. */
static crema_status take_item(cr_pipeline *pipeline, cr_batch *batch, int i) {
  const cr_pipeline_options *options = &pipeline->options;
  if (pipeline->recalled_first == pipeline->recalled_end) {
    return options->source->take == NULL ? CREMA_OK
                                         : options->source->take(options->user, batch, i);
  }
  char *recalled = recalled_at(pipeline, pipeline->recalled_first++);
  swap_bytes(cr_batch_item(batch, i), recalled, options->item_size);
  return CREMA_OK;
}

static cr_work *work_at(const cr_pipeline *pipeline, int index) {
  return &pipeline->work[(pipeline->head + index) % pipeline->window];
}

/* Starts loading items `from` to `limit` - 1. */
static crema_status send_off(cr_pipeline *pipeline, cr_work *work, int from, int limit) {
  work->limit = limit;
  atomic_store_explicit(&work->next, from, memory_order_relaxed);
  if (pipeline->task == NULL) return CREMA_OK;
  int wanted = limit - from, threads = pipeline->options.threads;
  if (threads > wanted) threads = wanted;
  atomic_store_explicit(&work->busy, threads, memory_order_relaxed);
  for (int i = 0; i < threads; ++i) CR_TRY(cr_queue_push(pipeline->task, work));
  return CREMA_OK;
}

/* Takes the items that the batch lacks and sends off items from work->good on. A failure waits
 * until its batch is due, because earlier batches are good. */
static crema_status begin(cr_pipeline *pipeline, cr_work *work) {
  int items = pipeline->options.items;
  crema_status status = CREMA_OK;
  while (work->count < items && status == CREMA_OK) {
    status = take_item(pipeline, work->batch, work->count);
    work->count += status == CREMA_OK;
  }
  if (status == CREMA_E_INTERRUPTED) return status;
  note(&work->taken, status);
  pipeline->broken = status != CREMA_OK;
  work->stage = status != CREMA_OK ? CR_WORK_LOADED
                : work->good == 0  ? CR_WORK_LEADING
                                   : CR_WORK_LOADING;
  if (status != CREMA_OK) return CREMA_OK;
  return send_off(pipeline, work, work->good, work->good == 0 ? 1 : items);
}

/* Waits until a batch is loaded and advances other batches while waiting. Without workers it loads
 * the batch. */
static crema_status wait_for(cr_pipeline *pipeline, cr_work *work) {
  const int items = pipeline->options.items;
  while (work->stage != CR_WORK_LOADED) {
    void *item = work;
    if (pipeline->task != NULL) CR_TRY(cr_queue_pop(pipeline->done, NULL, &item));
    else load_items(&pipeline->worker[0], work);
    cr_work *done = item;
    bool led = done->stage == CR_WORK_LEADING && done->outcome[0].status == CREMA_OK && items > 1;
    done->stage = led ? CR_WORK_LOADING : CR_WORK_LOADED;
    if (led) CR_TRY(send_off(pipeline, done, 1, items));
  }
  return CREMA_OK;
}

/* Moves item `from` up to slot `to`: the source's data, and values in tops with a slot per item. */
static void move_item(cr_batch *batch, int from, int to, bool loaded) {
  size_t f = (size_t)from, t = (size_t)to;
  if (from == to) return;
  swap_bytes(cr_batch_item(batch, from), cr_batch_item(batch, to), batch->item_size);
  for (int k = 0; loaded && k < batch->tops; ++k) {
    const cr_batch_top *top = &batch->top[k];
    if (top->shape.axes < 1 || top->shape.dim[0] != batch->items) continue;
    size_t values = (size_t)crema_shape_count(&top->shape, 1, top->shape.axes);
    memcpy(top->values + t * values, top->values + f * values, values * sizeof(float));
  }
}

/* Closes the gaps of skipped items in a batch. Then work->count is the number of items, and
 * work->good the number of loaded items: all, or none after skipping the first, which is loaded
 * before the rest. Fails with the error of the first item that must not be skipped. */
static crema_status close_up(cr_pipeline *pipeline, cr_work *work) {
  const cr_pipeline_options *options = &pipeline->options;
  const cr_source *source = options->source;
  if (work->taken.status != CREMA_OK) return fail_again(&work->taken);
  int kept = work->good;
  for (int i = work->good; i < work->limit; ++i) {
    if (work->outcome[i].status != CREMA_OK) {
      crema_status status = fail_again(&work->outcome[i]);
      if (source->pass_over == NULL ||
          !source->pass_over(options->user, work->batch, i, status, ++pipeline->row)) {
        return status;
      }
      continue;
    }
    pipeline->row = 0;
    move_item(work->batch, i, kept++, true);
  }
  work->good = kept;
  for (int i = work->limit; i < options->items; ++i) move_item(work->batch, i, kept++, false);
  work->count = kept;
  return CREMA_OK;
}

/* Recalls all batches but the oldest, newest first, so that their items are taken again. There is
 * room for the items: earlier recalled items are taken first, so all are in these batches or none
 * is left. */
static crema_status recall(cr_pipeline *pipeline) {
  size_t size = pipeline->options.item_size;
  for (; pipeline->in_flight > 1; --pipeline->in_flight, --pipeline->begun) {
    cr_work *work = work_at(pipeline, pipeline->in_flight - 1);
    CR_TRY(wait_for(pipeline, work));
    for (int i = work->count; i-- > 0;) {
      char *recalled = recalled_at(pipeline, --pipeline->recalled_first);
      swap_bytes(cr_batch_item(work->batch, i), recalled, size);
    }
    pipeline->spare[pipeline->spares++] = work->batch;
  }
  return CREMA_OK;
}

/* Waits only if no batch is in flight. */
static crema_status find_batch(cr_pipeline *pipeline, cr_batch **out) {
  uint64_t consumer = pipeline->begun % (uint64_t)pipeline->options.consumers;
  cr_queue *queue = pipeline->consumer[consumer].pair.free;
  void *item = NULL;
  if (pipeline->spares > 0) item = pipeline->spare[--pipeline->spares];
  else if (pipeline->in_flight == 0) CR_TRY(cr_queue_pop(queue, NULL, &item));
  else (void)cr_queue_try_pop(queue, &item);
  *out = item;
  return CREMA_OK;
}

static bool may_begin(const cr_pipeline *pipeline) {
  const cr_pipeline_options *options = &pipeline->options;
  if (pipeline->in_flight == 0) return true;
  if (pipeline->broken || pipeline->in_flight == pipeline->window) return false;
  /* A slow source must not delay a batch that is ready. */
  size_t ready = pipeline->recalled_end - pipeline->recalled_first;
  return options->source->ready == NULL ||
         ready + options->source->ready(options->user) >= (size_t)options->items;
}

/* Numbers a batch, of solver r in the solvers' step t, and its samples. */
static void number_batch(const cr_pipeline *pipeline, cr_batch *batch) {
  const cr_pipeline_options *options = &pipeline->options;
  uint64_t solvers = (uint64_t)options->solvers, consumers = (uint64_t)options->consumers;
  uint64_t step = pipeline->begun / consumers;
  uint64_t rank = consumers > 1 ? pipeline->begun % consumers : (uint64_t)options->rank;
  batch->number = pipeline->first + step * solvers + rank;
  batch->sample = (pipeline->first + step * solvers) * (uint64_t)options->items + rank;
  batch->solvers = options->solvers;
}

static crema_status fill_window(cr_pipeline *pipeline) {
  while (may_begin(pipeline)) {
    cr_work *work = work_at(pipeline, pipeline->in_flight);
    CR_TRY(find_batch(pipeline, &work->batch));
    if (work->batch == NULL) return CREMA_OK;
    number_batch(pipeline, work->batch);
    work->count = work->good = 0;
    CR_TRY(begin(pipeline, work));
    ++pipeline->begun;
    ++pipeline->in_flight;
  }
  return CREMA_OK;
}

static crema_status pass_on(cr_pipeline *pipeline, cr_work *work) {
  const cr_pipeline_options *options = &pipeline->options;
  uint64_t consumer =
      (pipeline->begun - (uint64_t)pipeline->in_flight) % (uint64_t)options->consumers;
  cr_buffer_clear(&work->batch->cursor);
  if (options->source->finish != NULL) {
    CR_TRY(options->source->finish(options->user, work->batch));
  }
  pipeline->head = (pipeline->head + 1) % pipeline->window;
  --pipeline->in_flight;
  return cr_queue_push(pipeline->consumer[consumer].pair.full, work->batch);
}

static crema_status settle_oldest(cr_pipeline *pipeline) {
  cr_work *work = work_at(pipeline, 0);
  for (;;) {
    CR_TRY(wait_for(pipeline, work));
    CR_TRY(close_up(pipeline, work));
    if (work->good == pipeline->options.items) return pass_on(pipeline, work);
    CR_TRY(recall(pipeline));
    CR_TRY(begin(pipeline, work));
  }
}

crema_status cr_pipeline_work(cr_pipeline *pipeline) {
  for (;;) {
    CR_TRY(fill_window(pipeline));
    CR_TRY(settle_oldest(pipeline));
  }
}
