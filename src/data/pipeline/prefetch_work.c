/* How batches are made: the main thread takes records in their order and sends them off, batch by
 * batch; workers decode and transform them, in any order, each into its place; the main thread
 * settles the batches in their order. Several are in the making at a time, so that no worker waits
 * for the end of a batch. A record that has to be passed over shifts all places after it: its
 * batch is then closed up and filled again, and the later ones start anew. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "data/pipeline/prefetch_private.h"

/* ---- one record ---------------------------------------------------------- */

static crema_status check_item(const cr_prefetch *prefetch, const cr_batch *batch,
                               const int shape[3]) {
  if (shape[0] == batch->channels && shape[1] == batch->height && shape[2] == batch->width) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE,
                 "%d x %d x %d values in a batch of %d whose first item has %d x %d x %d (records "
                 "of different sizes need crop_size or batch_size: 1)",
                 shape[0], shape[1], shape[2], prefetch->options.batch_size, batch->channels,
                 batch->height, batch->width);
}

static uint64_t nanoseconds(double seconds) {
  return (uint64_t)(seconds * 1e9);
}

/* Decodes and transforms a record into its place in the batch. */
static crema_status load_item(cr_worker *worker, const cr_work *work, int item) {
  cr_prefetch *prefetch = worker->prefetch;
  const cr_record *record = work->item[item].record;
  cr_batch *batch = work->batch;
  cr_db_bytes value = work->first;
  const cr_prefetch_options *options = &prefetch->options;
  cr_sample *sample = &worker->sample;
  const cr_transformer *transformer = options->transformer;
  int shape[3];
  double start = cr_clock_seconds();
  if (item > 0) CR_TRY(cr_record_value(record, &worker->value, &value));
  CR_TRY(cr_sample_load_for(sample, value.data, value.size, options->color, transformer,
                            record->index));
  double decoded = cr_clock_seconds();
  const cr_pixels *pixels = &sample->pixels;
  CR_TRY(cr_transformer_augment(transformer, record->index, &sample->pixels, &sample->image));
  CR_TRY(cr_transformer_shape(transformer, pixels->channels, pixels->height, pixels->width, shape));
  CR_TRY(check_item(prefetch, batch, shape));
  size_t size = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  CR_TRY(cr_transformer_run(transformer, pixels, record->index, batch->data + (size_t)item * size));
  if (batch->label != NULL) batch->label[item] = (float)sample->label;
  double done = cr_clock_seconds();
  atomic_fetch_add_explicit(&prefetch->decode_ns, nanoseconds(decoded - start),
                            memory_order_relaxed);
  atomic_fetch_add_explicit(&prefetch->transform_ns, nanoseconds(done - decoded),
                            memory_order_relaxed);
  atomic_fetch_add_explicit(&prefetch->samples, 1, memory_order_relaxed);
  return CREMA_OK;
}

static void note_failure(const cr_prefetch *prefetch, cr_work_item *item, crema_status status) {
  item->status = cr_prefetch_fail_record(prefetch, item->record->key, status);
  free(item->text);
  item->text = strdup(crema_error_text());
}

/* Loads what nobody else has claimed yet. */
static void load_items(cr_worker *worker, cr_work *work) {
  for (;;) {
    int i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
    if (i >= work->records) return;
    cr_work_item *item = &work->item[i];
    item->status = load_item(worker, work, i);
    if (item->status != CREMA_OK) note_failure(worker->prefetch, item, item->status);
  }
}

crema_status cr_prefetch_worker(void *arg) {
  cr_worker *worker = arg;
  cr_prefetch *prefetch = worker->prefetch;
  for (;;) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(prefetch->task, NULL, &item));
    cr_work *work = item;
    load_items(worker, work);
    /* Tasks are popped in their order, so when all have come by all items are loaded. */
    if (atomic_fetch_sub_explicit(&work->busy, 1, memory_order_acq_rel) > 1) continue;
    CR_TRY(cr_queue_push(prefetch->done, work));
  }
}

/* ---- one batch ----------------------------------------------------------- */

static cr_work *work_at(const cr_prefetch *prefetch, int place) {
  return &prefetch->work[(prefetch->head + place) % prefetch->window];
}

static crema_status next_record(cr_prefetch *prefetch, cr_record **out) {
  const cr_prefetch_options *options = &prefetch->options;
  if (prefetch->records == 0) return cr_reader_take(options->reader, options->consumer, out);
  *out = prefetch->record[0];
  --prefetch->records;
  memmove(prefetch->record, prefetch->record + 1,
          (size_t)prefetch->records * sizeof *prefetch->record);
  return CREMA_OK;
}

/* The first record decides what all items of a batch look like. */
static crema_status shape_batch(const cr_prefetch *prefetch, cr_work *work) {
  const cr_prefetch_options *options = &prefetch->options;
  const cr_record *record = work->item[0].record;
  int in[3], out[3];
  CR_TRY(cr_record_value(record, &work->store, &work->first));
  CR_TRY(cr_sample_probe(work->first.data, work->first.size, options->color, in));
  CR_TRY(cr_transformer_extent(options->transformer, record->index, in));
  CR_TRY(cr_transformer_shape(options->transformer, in[0], in[1], in[2], out));
  return cr_batch_reserve(work->batch, options->batch_size, out);
}

/* Gets the records that the batch lacks and has items `first` and later loaded. */
static crema_status send_off(cr_prefetch *prefetch, cr_work *work, int first) {
  for (; work->records < prefetch->options.batch_size; ++work->records) {
    CR_TRY(next_record(prefetch, &work->item[work->records].record));
  }
  work->loaded = false;
  if (first == 0) {
    crema_status status = shape_batch(prefetch, work);
    if (status != CREMA_OK) {
      note_failure(prefetch, &work->item[0], status);
      work->loaded = true;
      return CREMA_OK;
    }
  }
  atomic_store_explicit(&work->next, first, memory_order_relaxed);
  if (prefetch->task == NULL) return CREMA_OK;
  atomic_store_explicit(&work->busy, prefetch->threads, memory_order_relaxed);
  for (int i = 0; i < prefetch->threads; ++i) CR_TRY(cr_queue_push(prefetch->task, work));
  return CREMA_OK;
}

/* Waits until all items of a batch are loaded; alone, loads them. */
static crema_status wait_for(cr_prefetch *prefetch, cr_work *work) {
  while (!work->loaded && prefetch->task != NULL) {
    void *item = NULL;
    CR_TRY(cr_queue_pop(prefetch->done, NULL, &item));
    ((cr_work *)item)->loaded = true;
  }
  if (!work->loaded) load_items(&prefetch->worker[0], work);
  work->loaded = true;
  return CREMA_OK;
}

static bool may_send_off(const cr_prefetch *prefetch) {
  const cr_prefetch_options *options = &prefetch->options;
  if (prefetch->in_flight == 0) return true;
  /* A slow source must not keep a batch back that is ready. */
  size_t ready = (size_t)prefetch->records + cr_reader_ready(options->reader, options->consumer);
  return prefetch->in_flight < prefetch->window && ready >= (size_t)options->batch_size;
}

/* Waits only when nothing else is in the making. */
static crema_status find_batch(cr_prefetch *prefetch, cr_batch **out) {
  void *item = NULL;
  if (prefetch->spares > 0) item = prefetch->spare[--prefetch->spares];
  else if (prefetch->in_flight == 0) CR_TRY(cr_queue_pop(prefetch->pair.free, NULL, &item));
  else (void)cr_queue_try_pop(prefetch->pair.free, &item);
  *out = item;
  return CREMA_OK;
}

static crema_status fill_window(cr_prefetch *prefetch) {
  while (may_send_off(prefetch)) {
    cr_work *work = work_at(prefetch, prefetch->in_flight);
    CR_TRY(find_batch(prefetch, &work->batch));
    if (work->batch == NULL) return CREMA_OK;
    work->records = 0;
    CR_TRY(send_off(prefetch, work, 0));
    ++prefetch->in_flight;
  }
  return CREMA_OK;
}

/* ---- records that are passed over ---------------------------------------- */

/* False as well when there was nothing but failures while the whole database came by. That is so
 * for sure after twice as many records: a good one may be the first of an epoch and the last of the
 * next one, which has another order. */
static bool may_skip(cr_prefetch *prefetch, crema_status status) {
  if (!prefetch->options.skip_corrupt || !cr_prefetch_is_corrupt(status)) return false;
  return ++prefetch->skipped / 2 < cr_reader_count(prefetch->options.reader);
}

/* Moves the loaded item `from` to place `to` before it. */
static void move_item(cr_work *work, int from, int to) {
  cr_batch *batch = work->batch;
  size_t size = (size_t)batch->channels * (size_t)batch->height * (size_t)batch->width;
  memcpy(batch->data + (size_t)to * size, batch->data + (size_t)from * size, size * sizeof(float));
  if (batch->label != NULL) batch->label[to] = batch->label[from];
}

/* Closes the batch up over records that are passed over. *good gets the number of items that are
 * as they should be: the batch's shape is that of its first record, so when that one goes, all
 * others are to be loaded again. Fails as the first record that may not be passed over. */
static crema_status close_up(cr_prefetch *prefetch, cr_work *work, int first, int *good) {
  const cr_prefetch_options *options = &prefetch->options;
  int kept = 0;
  bool shaped = true;
  for (int i = 0; i < work->records; ++i) {
    cr_work_item *item = &work->item[i];
    if (i >= first && shaped && item->status != CREMA_OK) {
      crema_status status = item->text != NULL
                                ? cr_fail_text(item->status, item->text)
                                : cr_fail(item->status, "a record could not be loaded");
      if (!may_skip(prefetch, status)) return status;
      cr_log_warning("%s; skipped", crema_error_text());
      CR_TRY(cr_reader_give_back(options->reader, options->consumer, item->record));
      shaped = kept > 0;
      continue;
    }
    if (shaped) {
      prefetch->skipped = 0;
      if (kept < i) move_item(work, i, kept);
    }
    work->item[kept++].record = item->record;
  }
  work->records = kept;
  *good = shaped ? kept : 0;
  return CREMA_OK;
}

/* Takes the batches after the oldest one apart: their records will be sent off again. */
static crema_status recall(cr_prefetch *prefetch) {
  size_t batch_size = (size_t)prefetch->options.batch_size;
  for (; prefetch->in_flight > 1; --prefetch->in_flight) {
    cr_work *work = work_at(prefetch, prefetch->in_flight - 1);
    CR_TRY(wait_for(prefetch, work));
    memmove(prefetch->record + batch_size, prefetch->record,
            (size_t)prefetch->records * sizeof *prefetch->record);
    for (size_t i = 0; i < batch_size; ++i) prefetch->record[i] = work->item[i].record;
    prefetch->records += (int)batch_size;
    prefetch->spare[prefetch->spares++] = work->batch;
  }
  return CREMA_OK;
}

/* ---- the thread ---------------------------------------------------------- */

/* Many at a time: a reader that waits for each would be woken, and sleep again, for each. */
static crema_status give_back_records(const cr_prefetch *prefetch, const cr_work *work) {
  enum { TOGETHER = 64 };
  const cr_prefetch_options *options = &prefetch->options;
  void *record[TOGETHER];
  size_t count = 0;
  for (int i = 0; i < work->records; ++i) {
    record[count++] = work->item[i].record;
    if (count < TOGETHER && i + 1 < work->records) continue;
    CR_TRY(cr_reader_give_back_all(options->reader, options->consumer, record, count));
    count = 0;
  }
  return CREMA_OK;
}

static crema_status pass_on(cr_prefetch *prefetch, cr_work *work) {
  cr_position *position = &work->batch->position;
  const cr_record *last = work->item[work->records - 1].record;
  position->index = last->index + 1;
  cr_buffer_clear(&position->key);
  CR_TRY(cr_buffer_append(&position->key, last->key.data, last->key.size));
  CR_TRY(give_back_records(prefetch, work));
  prefetch->head = (prefetch->head + 1) % prefetch->window;
  --prefetch->in_flight;
  return cr_queue_push(prefetch->pair.full, work->batch);
}

static crema_status settle_oldest(cr_prefetch *prefetch) {
  cr_work *work = work_at(prefetch, 0);
  for (int first = 0;;) {
    int good = 0;
    CR_TRY(wait_for(prefetch, work));
    CR_TRY(close_up(prefetch, work, first, &good));
    if (good == prefetch->options.batch_size) return pass_on(prefetch, work);
    CR_TRY(recall(prefetch));
    CR_TRY(send_off(prefetch, work, good));
    first = good;
  }
}

crema_status cr_prefetch_work(cr_prefetch *prefetch) {
  for (;;) {
    CR_TRY(fill_window(prefetch));
    CR_TRY(settle_oldest(prefetch));
  }
}
