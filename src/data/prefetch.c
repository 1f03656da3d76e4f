#include "data/prefetch.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/queue.h"
#include "core/thread.h"
#include "data/sample.h"
#include "device/device.h"

struct cr_prefetch {
  cr_prefetch_options options;
  int shape[3];
  cr_sample sample; /* the thread's */
  uint64_t skipped; /* corrupt records in a row */
  cr_batch *batch;  /* options.depth of them */
  cr_queue_pair pair;
  cr_thread *thread;
};

/* ---- making -------------------------------------------------------------- */

/* Makes room for `items` items of the given extents. */
static crema_status reserve(cr_batch *batch, int items, const int shape[3]) {
  size_t item = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  if (item > SIZE_MAX / sizeof(float) / (size_t)items) {
    return cr_fail(CREMA_E_SHAPE, "a batch of %d x %d x %d x %d values", items, shape[0], shape[1],
                   shape[2]);
  }
  size_t count = item * (size_t)items;
  if (count > batch->capacity) {
    void *memory = NULL;
    CR_TRY(cr_host_alloc(count * sizeof(float), &memory));
    cr_host_free(batch->data);
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
  CR_TRY(reserve(batch, items, prefetch->shape));
  memset(batch->data, 0, batch->capacity * sizeof(float));
  if (!prefetch->options.labels) return CREMA_OK;
  void *memory = NULL;
  CR_TRY(cr_host_alloc((size_t)items * sizeof(float), &memory));
  batch->label = memory;
  memset(batch->label, 0, (size_t)items * sizeof(float));
  return CREMA_OK;
}

static crema_status fail_record(crema_status status, const cr_prefetch *prefetch, cr_db_bytes key) {
  char text[96];
  return cr_fail_in(status, "%s: record '%s'", cr_reader_source(prefetch->options.reader),
                    cr_db_key_text(key, text, sizeof text));
}

/* The failure is the record's own. */
static bool is_corrupt(crema_status status) {
  return status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED;
}

static crema_status probe(const cr_prefetch *prefetch, cr_db_bytes value, int out[3]) {
  const cr_prefetch_options *options = &prefetch->options;
  int in[3];
  CR_TRY(cr_sample_probe(value.data, value.size, options->color, in));
  return cr_transformer_shape(options->transformer, in[0], in[1], in[2], out);
}

/* From the first record; with skip_corrupt from the first that is whole. */
static crema_status find_shape(cr_prefetch *prefetch) {
  cr_reader *reader = prefetch->options.reader;
  for (uint64_t tried = 0;;) {
    cr_db_bytes key, value;
    cr_reader_peek(reader, &key, &value);
    crema_status status = probe(prefetch, value, prefetch->shape);
    if (status == CREMA_OK) return CREMA_OK;
    status = fail_record(status, prefetch, key);
    if (!is_corrupt(status) || !prefetch->options.skip_corrupt) return status;
    if (++tried >= cr_reader_count(reader)) return status;
    cr_log_warning("%s; skipped", crema_error_text());
    CR_TRY(cr_reader_skip(reader, 1));
  }
}

crema_status cr_prefetch_create(const cr_prefetch_options *options, cr_prefetch **out) {
  *out = NULL;
  if (options->batch_size < 1 || options->depth < 1) {
    return cr_fail(CREMA_E_ARGUMENT, "%d batches of %d records", options->depth,
                   options->batch_size);
  }
  cr_prefetch *prefetch = calloc(1, sizeof *prefetch);
  if (prefetch == NULL) return cr_fail_memory(sizeof *prefetch, "a prefetcher");
  prefetch->options = *options;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(find_shape(prefetch), fail);
  prefetch->batch = calloc((size_t)options->depth, sizeof *prefetch->batch);
  if (prefetch->batch == NULL) {
    status = cr_fail_memory((size_t)options->depth * sizeof *prefetch->batch, "batches");
    goto fail;
  }
  for (int i = 0; i < options->depth; ++i) {
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
    cr_host_free(prefetch->batch[i].data);
    cr_host_free(prefetch->batch[i].label);
    cr_buffer_free(&prefetch->batch[i].position.key);
  }
  free(prefetch->batch);
  cr_sample_free(&prefetch->sample);
  free(prefetch);
}

void cr_prefetch_shape(const cr_prefetch *prefetch, int out[3]) {
  memcpy(out, prefetch->shape, sizeof prefetch->shape);
}

/* ---- the thread ---------------------------------------------------------- */

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

/* Decodes and transforms one record into place `item` of the batch. */
static crema_status load_item(cr_prefetch *prefetch, const cr_record *record, cr_batch *batch,
                              int item) {
  const cr_prefetch_options *options = &prefetch->options;
  cr_sample *sample = &prefetch->sample;
  int shape[3];
  CR_TRY(cr_sample_load(sample, record->value.data, record->value.size, options->color));
  const cr_pixels *pixels = &sample->pixels;
  CR_TRY(cr_transformer_shape(options->transformer, pixels->channels, pixels->height, pixels->width,
                              shape));
  if (item == 0) CR_TRY(reserve(batch, options->batch_size, shape));
  CR_TRY(check_item(prefetch, batch, shape));
  size_t size = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  CR_TRY(cr_transformer_run(options->transformer, pixels, record->index,
                            batch->data + (size_t)item * size));
  if (batch->label != NULL) batch->label[item] = (float)sample->label;
  return CREMA_OK;
}

/* False as well when there was nothing but failures since the whole database came by. */
static bool may_skip(cr_prefetch *prefetch, crema_status status) {
  if (!prefetch->options.skip_corrupt || !is_corrupt(status)) return false;
  return ++prefetch->skipped < cr_reader_count(prefetch->options.reader);
}

static crema_status set_position(cr_batch *batch, const cr_record *record) {
  batch->position.index = record->index + 1;
  cr_buffer_clear(&batch->position.key);
  return cr_buffer_append(&batch->position.key, record->key.data, record->key.size);
}

/* Takes one record and, unless it is passed over, puts it into the batch. */
static crema_status load_next(cr_prefetch *prefetch, cr_batch *batch, int *item) {
  const cr_prefetch_options *options = &prefetch->options;
  cr_record *record = NULL;
  CR_TRY(cr_reader_take(options->reader, options->consumer, &record));
  crema_status status = load_item(prefetch, record, batch, *item);
  if (status == CREMA_OK) {
    ++*item;
    prefetch->skipped = 0;
  } else {
    status = fail_record(status, prefetch, record->key);
    if (may_skip(prefetch, status)) {
      cr_log_warning("%s; skipped", crema_error_text());
      status = CREMA_OK;
    }
  }
  if (status == CREMA_OK) status = set_position(batch, record);
  if (status != CREMA_OK) return status;
  return cr_reader_give_back(options->reader, options->consumer, record);
}

static crema_status make_batches(cr_prefetch *prefetch) {
  for (;;) {
    void *free_batch = NULL;
    CR_TRY(cr_queue_pop(prefetch->pair.free, NULL, &free_batch));
    cr_batch *batch = free_batch;
    for (int item = 0; item < prefetch->options.batch_size;) {
      CR_TRY(load_next(prefetch, batch, &item));
    }
    CR_TRY(cr_queue_push(prefetch->pair.full, batch));
  }
}

static crema_status prefetch_for_ever(void *arg) {
  cr_prefetch *prefetch = arg;
  crema_status status = make_batches(prefetch);
  if (status != CREMA_E_INTERRUPTED) cr_queue_fail(prefetch->pair.full, status, NULL);
  return status;
}

crema_status cr_prefetch_start(cr_prefetch *prefetch) {
  if (prefetch->thread != NULL) {
    return cr_fail(CREMA_E_STATE, "%s: prefetching runs already",
                   cr_reader_source(prefetch->options.reader));
  }
  size_t depth = (size_t)prefetch->options.depth;
  void **element = calloc(depth, sizeof *element);
  if (element == NULL) return cr_fail_memory(depth * sizeof *element, "a queue of batches");
  for (size_t i = 0; i < depth; ++i) element[i] = &prefetch->batch[i];
  crema_status status = cr_queue_pair_init(&prefetch->pair, element, depth);
  free(element);
  if (status != CREMA_OK) return status;
  prefetch->skipped = 0;
  status = cr_thread_start(&prefetch->thread, "crema-prefetch", prefetch_for_ever, prefetch);
  if (status != CREMA_OK) cr_queue_pair_free(&prefetch->pair, NULL);
  return status;
}

void cr_prefetch_stop(cr_prefetch *prefetch) {
  /* What went wrong in the thread was told to the consumer. */
  crema_status ended = cr_thread_stop(&prefetch->thread);
  (void)ended;
  cr_queue_pair_free(&prefetch->pair, NULL);
}

crema_status cr_prefetch_take(cr_prefetch *prefetch, cr_batch **out) {
  void *item = NULL;
  CR_TRY(cr_queue_pop(prefetch->pair.full, "a batch of data", &item));
  *out = item;
  return CREMA_OK;
}

crema_status cr_prefetch_give_back(cr_prefetch *prefetch, cr_batch *batch) {
  return cr_queue_push(prefetch->pair.free, batch);
}
