#include "layers/data/adapters/record_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"

crema_status cr_record_input_check(const cr_layer *layer) {
  const Caffe__DataParameter *param = layer->param->data_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "data_param", param->batch_size));
  if (param->prefetch > 1024) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "data_param: prefetch must be 1 to 1024, or 0 for automatic, found %u",
                         param->prefetch);
  }
  return CREMA_OK;
}

/* The key of the epochs' orders. */
static uint64_t order_key(uint64_t stream) {
  return cr_mix_key(stream, cr_hash_text("shuffle"));
}

/* The files decide; a wrong `backend` in the net only causes a warning. */
static const char *choose_backend(const cr_layer *layer, const char *path) {
  const Caffe__DataParameter *param = layer->param->data_param;
  const char *given = param->backend == CAFFE__DATA_PARAMETER__DB__LMDB ? "lmdb" : "leveldb";
  const char *found = cr_db_detect(path);
  if (found == NULL) return given;
  if (param->has_backend && strcasecmp(found, given) != 0) {
    cr_log_warning("layer '%s': %s is of the kind %s, not %s", layer->name, path, found, given);
  }
  return found;
}

crema_status cr_record_input_open(cr_record_input *records, const cr_layer *layer,
                                  uint64_t skip_key) {
  const Caffe__DataParameter *param = layer->param->data_param;
  uint32_t draw[4];
  records->stream = cr_mix_key(layer->key, cr_hash_text("transform"));
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, records->stream,
                               layer->source_dir_file, &records->transformer));
  if (skip_key == 0) skip_key = records->stream;
  /* 0 to rand_skip - 1, the same for the same seed. */
  cr_philox(cr_mix_key(skip_key, cr_hash_text("rand_skip")), 0, 0, draw);
  records->skip = ((uint64_t)draw[0] * param->rand_skip) >> 32;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, param->source, &records->source));
  /* Records in flight are a few words each, not copies. */
  uint64_t batches = param->prefetch > 0 ? param->prefetch : CR_PIPELINE_USUAL_DEPTH;
  uint64_t depth = (uint64_t)param->batch_size * batches;
  uint64_t most = param->batch_size > 65536 ? param->batch_size : 65536;
  const cr_reader_options options = {.backend = choose_backend(layer, records->source),
                                     .source = records->source,
                                     .depth = depth > most ? (int)most : (int)depth,
                                     .consumers = layer->solver.solvers,
                                     .rank = layer->solver.rank,
                                     .skip = records->skip,
                                     .cache = param->cache || param->precache,
                                     .shuffle = param->shuffle,
                                     .order_key = order_key(records->stream)};
  if (records->skip > 0) {
    cr_log_info("Skipping first %" PRIu64 " data points.", records->skip);
  }
  CR_TRY(cr_reader_join(layer->solver.group, layer->name, &options, &records->reader));
  records->from = (cr_record_source){.reader = records->reader,
                                     .consumer = layer->solver.rank,
                                     .skip_corrupt = param->skip_corrupt};
  return CREMA_OK;
}

void cr_record_input_close(cr_record_input *records, const cr_layer *layer) {
  cr_batch_loader_close(&records->loader);
  cr_reader_quit(layer->solver.group, records->reader, layer->solver.rank);
  cr_transformer_destroy(records->transformer);
  cr_buffer_free(&records->key);
  free(records->source);
  *records = (cr_record_input){0};
}

/* `parser_threads` only multiplies `threads`, because one thread reads. */
int cr_record_input_threads(const cr_layer *layer) {
  const Caffe__DataParameter *param = layer->param->data_param;
  uint64_t threads = param->threads;
  if (param->parser_threads > 1) threads *= param->parser_threads;
  return threads > CR_PIPELINE_MAX_THREADS ? CR_PIPELINE_MAX_THREADS : (int)threads;
}

crema_status cr_record_input_start(cr_record_input *records, const cr_layer *layer,
                                   const cr_pipeline_options *options, crema_blob *const *top) {
  const Caffe__DataParameter *param = layer->param->data_param;
  const int64_t *dim = options->shape[0].dim;
  cr_pipeline_options all = *options;
  all.depth = param->has_prefetch ? (int)param->prefetch : 0;
  cr_log_info("output data size: %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, dim[0], dim[1],
              dim[2], dim[3]);
  return cr_batch_loader_open(&records->loader, layer, &all, top);
}

static crema_status note_position(cr_record_input *records, uint64_t index, cr_db_bytes key) {
  records->index = index;
  cr_buffer_clear(&records->key);
  return cr_buffer_append(&records->key, key.data, key.size);
}

crema_status cr_record_input_next(cr_record_input *records, const cr_layer *layer,
                                  crema_context *context, crema_blob *const *top) {
  const cr_batch *batch = NULL;
  cr_db_bytes key;
  CR_TRY(cr_batch_loader_next(&records->loader, layer, context, top, &batch));
  uint64_t index = cr_record_source_cursor(batch, &key);
  return note_position(records, index, key);
}

uint64_t cr_record_input_epoch(const cr_layer *layer) {
  const cr_record_input *records = layer->state;
  const uint64_t count = cr_reader_count(records->reader);
  return count == UINT64_MAX ? 0 : count;
}

crema_status cr_record_input_count(const cr_layer *layer, uint64_t *out) {
  cr_record_input *records = layer->state;
  if (records->count == 0) CR_TRY(cr_reader_count_all(records->reader, &records->count));
  *out = records->count;
  return CREMA_OK;
}

void cr_record_input_stats(const cr_layer *layer, cr_input_stats *out) {
  const cr_record_input *records = layer->state;
  cr_batch_loader_stats(&records->loader, layer, out);
  out->reader = cr_reader_get_stats(records->reader);
}

crema_status cr_record_input_print(const cr_record_input *records, cr_buffer *out) {
  cr_reader_cursor cursor = {.index = records->index};
  cr_reader_note_cursor(records->reader, &cursor);
  CR_TRY(cr_buffer_print(
      out, "index %" PRIu64 " solvers %d skip %" PRIu64 " sorted %d key %zu:", cursor.index,
      cursor.consumers, cursor.skip, cursor.in_key_order, records->key.size));
  return cr_buffer_append(out, records->key.data, records->key.size);
}

crema_status cr_record_input_parse(const cr_record_input *records, const char *text, size_t size,
                                   cr_reader_cursor *out) {
  size_t key_size = 0;
  int used = 0, sorted = 0;
  *out = (cr_reader_cursor){.consumers = 1, .skip = records->skip};
  int found = sscanf(text, "index %" SCNu64 " solvers %d skip %" SCNu64 " sorted %d key %zu:%n",
                     &out->index, &out->consumers, &out->skip, &sorted, &key_size, &used);
  if (found == 1) found = 4 + sscanf(text, "index %*u key %zu:%n", &key_size, &used);
  if (found != 5 || used == 0 || (size_t)used > size || key_size != size - (size_t)used ||
      out->consumers < 1) {
    return cr_fail(CREMA_E_CORRUPT, "the saved position in the data cannot be read");
  }
  out->in_key_order = sorted != 0;
  out->key = (cr_db_bytes){(const uint8_t *)text + used, key_size};
  return CREMA_OK;
}

uint64_t cr_record_input_progress(const char *bytes, size_t size) {
  char text[128];
  uint64_t index = 0;
  snprintf(text, sizeof text, "%.*s", size < sizeof text ? (int)size : (int)sizeof text, bytes);
  const char *cursor = strstr(text, "index ");
  return cursor != NULL && sscanf(cursor, "index %" SCNu64, &index) == 1 ? index : 0;
}

crema_status cr_record_input_restore(const cr_layer *layer, const char *bytes, size_t size,
                                     crema_status (*from)(const cr_layer *layer,
                                                          const cr_buffer *text)) {
  cr_buffer text = {0};
  CR_TRY(cr_buffer_append(&text, bytes, size));
  crema_status status = from(layer, &text);
  cr_buffer_free(&text);
  return cr_layer_in(layer, status);
}

crema_status cr_record_input_resume(cr_record_input *records, const cr_layer *layer,
                                    uint64_t stream, cr_reader_cursor *cursor) {
  records->stream = stream;
  cr_transformer_set_key(records->transformer, stream);
  cursor->order_key = order_key(stream);
  CR_TRY(cr_reader_resume(records->reader, layer->solver.rank, cursor));
  CR_TRY(note_position(records, cursor->index, cursor->key));
  return cr_batch_loader_start(&records->loader, layer);
}

crema_status cr_record_input_forward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom;
  return cr_layer_in(layer, cr_record_input_next(layer->state, layer, context, top));
}

static crema_status save(cr_layer *layer, cr_buffer *out) {
  const cr_record_input *records = layer->state;
  CR_TRY(cr_batch_loader_save(&records->loader, layer, records->stream, out));
  return cr_record_input_print(records, out);
}

/* `text` ends in a NUL. */
static crema_status restore_from(const cr_layer *layer, const cr_buffer *text) {
  cr_record_input *records = layer->state;
  cr_reader_cursor cursor;
  uint64_t stream = 0;
  const char *stop = strchr(text->data, '.');
  const size_t head = stop == NULL ? 0 : (size_t)(stop + 1 - text->data);
  CR_TRY(cr_record_input_parse(records, text->data + head, text->size - head, &cursor));
  CR_TRY(cr_batch_loader_restore(&records->loader, text->data, head, &stream));
  return cr_record_input_resume(records, layer, stream, &cursor);
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  return cr_record_input_restore(layer, bytes, size, restore_from);
}

const cr_input_class cr_record_input_class = {.save = save,
                                              .restore = restore,
                                              .progress = cr_record_input_progress,
                                              .epoch = cr_record_input_epoch,
                                              .count_epoch = cr_record_input_count,
                                              .short_batches = true,
                                              .stats = cr_record_input_stats};
