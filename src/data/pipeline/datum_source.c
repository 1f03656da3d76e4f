#include "data/pipeline/datum_source.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "data/pipeline/load_pixels.h"

/* The memory of one thread. */
typedef struct datum_worker {
  cr_sample sample;
  cr_buffer value; /* for the value of a record */
} datum_worker;

struct cr_datum_source {
  cr_datum_source_options options; /* first: it begins with the cr_record_source */
  int threads;
  datum_worker *worker; /* `threads` of them */
  crema_shape shape[2];
};

static crema_status load_record(const cr_datum_source *source, const cr_record *record,
                                cr_load *load) {
  static const char advice[] = "records of different sizes need crop_size or batch_size: 1";
  const cr_transformer *transformer = source->options.transformer;
  datum_worker *worker = &source->worker[load->worker];
  cr_sample *sample = &worker->sample;
  const cr_pixels *pixels = &sample->pixels;
  cr_db_bytes value;
  cr_image_part part;
  const double start = cr_clock_seconds();
  CR_TRY(cr_record_value(record, &worker->value, &value));
  CR_TRY(cr_sample_open(sample, value.data, value.size, source->options.color));
  bool some = cr_transformer_part(transformer, record->index, pixels->height, pixels->width, &part);
  CR_TRY(cr_sample_decode(sample, some ? &part : NULL));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(cr_transformer_augment(transformer, record->index, &sample->pixels, &sample->image));
  CR_TRY(cr_load_pixels(load, transformer, pixels, record->index, advice));
  if (load->batch->tops > 1) load->batch->top[1].values[load->item] = (float)sample->label;
  return CREMA_OK;
}

static crema_status load_item(void *user, cr_load *load) {
  const cr_datum_source *source = user;
  const cr_record_item *item = cr_batch_item(load->batch, load->item);
  crema_status status = load_record(source, item->record, load);
  return cr_record_source_fail(&source->options.records, item->record->key, status);
}

static const cr_source datum_source = {CR_RECORD_SOURCE(load_item),
                                       .finish = cr_record_source_finish};

/* Derives shape and threads from the first record without decoding it. Loading a small raw record
 * is as fast as handing it to another thread. */
static crema_status look_at(cr_datum_source *source, cr_sample *sample, cr_db_bytes value) {
  enum { LARGE = 1 << 15 };
  const cr_datum_source_options *options = &source->options;
  int out[3];
  CR_TRY(cr_sample_open(sample, value.data, value.size, options->color));
  int in[3] = {sample->pixels.channels, sample->pixels.height, sample->pixels.width};
  bool small = !sample->encoded && (int64_t)in[0] * in[1] * in[2] < LARGE;
  CR_TRY(cr_transformer_extent(options->transformer, 0, in));
  CR_TRY(cr_transformer_shape(options->transformer, in[0], in[1], in[2], out));
  source->shape[0] = (crema_shape){.axes = 4, .dim = {options->items, out[0], out[1], out[2]}};
  source->shape[1] = (crema_shape){.axes = 1, .dim = {options->items}};
  source->threads = options->threads == 0 && small ? 1 : options->threads;
  return CREMA_OK;
}

static crema_status look(void *user, cr_db_bytes value) {
  cr_sample sample = {0};
  crema_status status = look_at(user, &sample, value);
  cr_sample_free(&sample);
  return status;
}

static crema_status check_options(const cr_datum_source_options *options) {
  const cr_reader *reader = options->records.reader;
  if (options->items < 1 || options->threads < 0) {
    return cr_fail(CREMA_E_ARGUMENT, "batches of %d records by %d threads", options->items,
                   options->threads);
  }
  if (cr_reader_depth(reader) >= options->items) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "%s: batches of %d from a reader of %d records",
                 cr_reader_source(reader), options->items, cr_reader_depth(reader));
}

crema_status cr_datum_source_create(const cr_datum_source_options *options, cr_datum_source **out) {
  *out = NULL;
  CR_TRY(check_options(options));
  cr_datum_source *source = calloc(1, sizeof *source);
  if (source == NULL) return cr_fail_memory(sizeof *source, "a source of records");
  source->options = *options;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_record_source_look(&source->options.records, look, source), fail);
  CR_TRY_GOTO(cr_pipeline_threads((uint32_t)source->threads, &source->threads), fail);
  CR_TRY_GOTO(CR_NEW(source->worker, source->threads, "decoding threads"), fail);
  *out = source;
  return CREMA_OK;
fail:
  cr_datum_source_destroy(source);
  return status;
}

void cr_datum_source_destroy(cr_datum_source *source) {
  if (source == NULL) return;
  for (int i = 0; source->worker != NULL && i < source->threads; ++i) {
    cr_sample_free(&source->worker[i].sample);
    cr_buffer_free(&source->worker[i].value);
  }
  free(source->worker);
  free(source);
}

cr_pipeline_options cr_datum_source_pipeline(cr_datum_source *source) {
  return (cr_pipeline_options){.name = cr_reader_source(source->options.records.reader),
                               .source = &datum_source,
                               .user = source,
                               .tops = source->options.tops,
                               .items = source->options.items,
                               .threads = source->threads,
                               .item_size = sizeof(cr_record_item),
                               .shape = source->shape};
}
