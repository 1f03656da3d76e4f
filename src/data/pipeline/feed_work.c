/* How the feed makes batches: the main thread begins them in their order and sends their items off;
 * workers load the items, in any order, each into its place; the main thread finishes the batches
 * in their order. The first item of a batch goes ahead of the others, as it may decide the shape of
 * all; several batches are in the making at a time, so that no worker waits for that, nor for the
 * end of a batch. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "data/pipeline/feed_private.h"

/* ---- items --------------------------------------------------------------- */

static void note(cr_feed_outcome *outcome, crema_status status) {
  outcome->status = status;
  if (status == CREMA_OK) return;
  free(outcome->text);
  outcome->text = strdup(crema_error_text());
}

/* The failure again, as the calling thread's own. */
static crema_status again(const cr_feed_outcome *outcome) {
  if (outcome->text != NULL) return cr_fail_text(outcome->status, outcome->text);
  return cr_fail(outcome->status, "an item could not be loaded");
}

static void count_time(_Atomic uint64_t *nanoseconds, double seconds) {
  atomic_fetch_add_explicit(nanoseconds, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

/* Loads what nobody else has claimed yet. */
static void load_items(cr_feed_worker *worker, cr_feed_work *work) {
  cr_feed *feed = worker->feed;
  const cr_feed_options *options = &feed->options;
  for (;;) {
    int i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
    if (i >= work->limit) return;
    cr_feed_load load = {.batch = work->batch, .item = i, .worker = worker->number};
    note(&work->outcome[i], options->source->load(options->user, &load));
    if (work->outcome[i].status != CREMA_OK) continue;
    count_time(&feed->read_ns, load.read_seconds);
    count_time(&feed->decode_ns, load.decode_seconds);
    count_time(&feed->transform_ns, load.transform_seconds);
    atomic_fetch_add_explicit(&feed->samples, 1, memory_order_relaxed);
  }
}

crema_status cr_feed_worker_main(void *arg) {
  cr_feed_worker *worker = arg;
  cr_feed *feed = worker->feed;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(feed->task, NULL, &item));
    cr_feed_work *work = item;
    load_items(worker, work);
    /* Whoever leaves last knows that all others have left: everything is loaded. */
    if (atomic_fetch_sub_explicit(&work->busy, 1, memory_order_acq_rel) > 1) continue;
    CR_TRY(cr_queue_push(feed->done, work));
  }
}

/* ---- one batch ----------------------------------------------------------- */

static cr_feed_work *work_at(const cr_feed *feed, int place) {
  return &feed->work[(feed->head + place) % feed->window];
}

/* Has items from..limit-1 loaded. */
static crema_status send_off(cr_feed *feed, cr_feed_work *work, int from, int limit) {
  work->limit = limit;
  atomic_store_explicit(&work->next, from, memory_order_relaxed);
  if (feed->task == NULL) return CREMA_OK;
  int threads = feed->options.threads < limit - from ? feed->options.threads : limit - from;
  atomic_store_explicit(&work->busy, threads, memory_order_relaxed);
  for (int i = 0; i < threads; ++i) CR_TRY(cr_queue_push(feed->task, work));
  return CREMA_OK;
}

/* Begins items `begun` and later and sends off those from work->good on. A failure waits for its
 * turn: batches before it are still good. */
static crema_status begin(cr_feed *feed, cr_feed_work *work, int begun) {
  const cr_feed_options *options = &feed->options;
  crema_status status = CREMA_OK;
  if (options->source->begin != NULL) {
    status = options->source->begin(options->user, work->batch, begun);
  }
  if (status == CREMA_E_INTERRUPTED) return status;
  note(&work->begun, status);
  if (status != CREMA_OK) feed->broken = true;
  work->stage = status != CREMA_OK ? CR_FEED_LOADED
                : work->good == 0  ? CR_FEED_LEADING
                                   : CR_FEED_LOADING;
  if (status != CREMA_OK) return CREMA_OK;
  return send_off(feed, work, work->good, work->good == 0 ? 1 : options->items);
}

/* All items of a work that were sent off are loaded: what comes next. */
static crema_status move_on(cr_feed *feed, cr_feed_work *work) {
  int items = feed->options.items;
  bool led = work->stage == CR_FEED_LEADING && work->outcome[0].status == CREMA_OK && items > 1;
  work->stage = led ? CR_FEED_LOADING : CR_FEED_LOADED;
  return led ? send_off(feed, work, 1, items) : CREMA_OK;
}

/* Waits until a batch is loaded, seeing others on; alone, loads it. */
static crema_status wait_for(cr_feed *feed, cr_feed_work *work) {
  while (work->stage != CR_FEED_LOADED) {
    void *item = work;
    if (feed->task != NULL) CR_TRY(cr_queue_pop(feed->done, NULL, &item));
    else load_items(&feed->worker[0], work);
    CR_TRY(move_on(feed, item));
  }
  return CREMA_OK;
}

/* ---- items that are passed over ------------------------------------------ */

static void swap(void *a, void *b, size_t size) {
  char *x = a, *y = b;
  for (size_t i = 0; i < size; ++i) {
    char byte = x[i];
    x[i] = y[i];
    y[i] = byte;
  }
}

/* Moves item `from` to place `to` before it: what the source keeps, and its values in tops that
 * have a place for each item. */
static void move_item(const cr_feed *feed, cr_feed_batch *batch, int from, int to, bool loaded) {
  size_t size = feed->options.item_size, f = (size_t)from, t = (size_t)to;
  if (from == to) return;
  if (size > 0) swap((char *)batch->item + f * size, (char *)batch->item + t * size, size);
  for (int k = 0; loaded && k < batch->tops; ++k) {
    const cr_feed_top *top = &batch->top[k];
    if (top->shape.axes < 1 || top->shape.dim[0] != feed->options.items) continue;
    size_t values = (size_t)crema_shape_count(&top->shape, 1, top->shape.axes);
    memcpy(top->values + t * values, top->values + f * values, values * sizeof(float));
  }
}

/* Closes the batch up over items that are passed over. *begun gets the number of items that are
 * begun, work->good that of those which are as they should be: all, or none when the first one
 * goes, as no other was loaded then. Fails as the first item that may not be passed over. */
static crema_status close_up(cr_feed *feed, cr_feed_work *work, int *begun) {
  const cr_feed_options *options = &feed->options;
  if (work->begun.status != CREMA_OK) return again(&work->begun);
  int kept = work->good;
  for (int i = work->good; i < work->limit; ++i) {
    if (work->outcome[i].status != CREMA_OK) {
      crema_status status = again(&work->outcome[i]);
      if (options->source->skip == NULL ||
          !options->source->skip(options->user, work->batch, i, status, ++feed->row)) {
        return status;
      }
      continue;
    }
    feed->row = 0;
    move_item(feed, work->batch, i, kept++, true);
  }
  work->good = kept;
  for (int i = work->limit; i < options->items; ++i) {
    move_item(feed, work->batch, i, kept++, false);
  }
  *begun = kept;
  return CREMA_OK;
}

/* ---- the thread ---------------------------------------------------------- */

/* Waits only when nothing else is in the making. */
static crema_status find_batch(cr_feed *feed, cr_feed_batch **out) {
  uint64_t consumer = feed->begun % (uint64_t)feed->options.consumers;
  cr_queue *queue = feed->consumer[consumer].pair.free;
  void *item = NULL;
  if (feed->in_flight == 0) CR_TRY(cr_queue_pop(queue, NULL, &item));
  else (void)cr_queue_try_pop(queue, &item);
  *out = item;
  return CREMA_OK;
}

static bool may_begin(const cr_feed *feed) {
  const cr_feed_options *options = &feed->options;
  if (feed->in_flight == 0) return true;
  if (feed->broken) return false;
  /* A slow source must not keep a batch back that is ready. */
  return feed->in_flight < feed->window &&
         (options->source->ready == NULL || options->source->ready(options->user));
}

/* Of the solvers' step t, the batch of solver r: numbers and samples. */
static void number_batch(const cr_feed *feed, cr_feed_batch *batch) {
  const cr_feed_options *options = &feed->options;
  uint64_t solvers = (uint64_t)options->solvers, consumers = (uint64_t)options->consumers;
  uint64_t step = feed->begun / consumers;
  uint64_t rank = consumers > 1 ? feed->begun % consumers : (uint64_t)options->rank;
  batch->number = feed->first + step * solvers + rank;
  batch->sample = (feed->first + step * solvers) * (uint64_t)options->items + rank;
  batch->solvers = options->solvers;
}

static crema_status fill_window(cr_feed *feed) {
  while (may_begin(feed)) {
    cr_feed_work *work = work_at(feed, feed->in_flight);
    CR_TRY(find_batch(feed, &work->batch));
    if (work->batch == NULL) return CREMA_OK;
    number_batch(feed, work->batch);
    work->good = 0;
    cr_buffer_clear(&work->batch->note);
    CR_TRY(begin(feed, work, 0));
    ++feed->begun;
    ++feed->in_flight;
  }
  return CREMA_OK;
}

static crema_status pass_on(cr_feed *feed, cr_feed_work *work) {
  const cr_feed_options *options = &feed->options;
  uint64_t consumer = (feed->begun - (uint64_t)feed->in_flight) % (uint64_t)options->consumers;
  if (options->source->finish != NULL) {
    CR_TRY(options->source->finish(options->user, work->batch));
  }
  feed->head = (feed->head + 1) % feed->window;
  --feed->in_flight;
  return cr_queue_push(feed->consumer[consumer].pair.full, work->batch);
}

static crema_status settle_oldest(cr_feed *feed) {
  cr_feed_work *work = work_at(feed, 0);
  for (;;) {
    int begun = 0;
    CR_TRY(wait_for(feed, work));
    CR_TRY(close_up(feed, work, &begun));
    if (work->good == feed->options.items) return pass_on(feed, work);
    CR_TRY(begin(feed, work, begun));
  }
}

crema_status cr_feed_work_for_ever(cr_feed *feed) {
  for (;;) {
    CR_TRY(fill_window(feed));
    CR_TRY(settle_oldest(feed));
  }
}
