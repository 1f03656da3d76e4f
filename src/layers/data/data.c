/* Data: batches of images and labels from a database.
 *
 * Formula: none: records are decoded and transformed as transform_param says, in the order of their
 * keys or, with shuffle, in a different order in each epoch.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch).
 * Fields: data_param, transform_param.
 * Caffe: the files determine the kind of database, and a wrong backend causes a warning. A prefetch
 * of 0 or none means a number that fits the memory. The NVIDIA dialect's cache, shuffle, threads
 * and parser_threads work in all nets. A resumed run continues with the next record.
 * Example:
 *   layer { name: "data" type: "Data" top: "data" top: "label"
 *     data_param { source: "train_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { scale: 0.00390625 mirror: true crop_size: 24 } }
 *
 * A reader thread, shared by all solvers that train the net, walks through the records. A pipeline
 * makes batches ahead of the net. The tops share the memory of a batch until the next pass. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "data/pipeline/datum_source.h"
#include "layers/data/adapters/record_input.h"

typedef struct data_state {
  cr_record_input records; /* must be the first member */
  cr_datum_source *source;
} data_state;

static crema_status open_layer(const cr_layer *layer, data_state *state, crema_blob *const *top) {
  const Caffe__DataParameter *param = layer->param->data_param;
  CR_TRY(cr_record_input_open(&state->records, layer, layer->key));
  const cr_datum_source_options from = {
      .records = state->records.from,
      .transformer = state->records.transformer,
      .color = param->force_encoded_color ? CR_IMAGE_COLOR
                                          : cr_transformer_color(state->records.transformer),
      .items = (int)param->batch_size,
      .tops = layer->tops,
      .threads = cr_record_input_threads(layer)};
  CR_TRY(cr_datum_source_create(&from, &state->source));
  const cr_pipeline_options options = cr_datum_source_pipeline(state->source);
  return cr_record_input_start(&state->records, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom;
  CR_TRY(cr_record_input_check(layer));
  return cr_layer_in(layer, open_layer(layer, layer->state, top));
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  data_state *state = layer->state;
  (void)bottom;
  /* After a cursor that could not be restored, the layer begins at the first record. */
  crema_status status = cr_batch_loader_start(&state->records.loader, layer);
  if (status == CREMA_OK) status = cr_record_input_next(&state->records, layer, context, top);
  return cr_layer_in(layer, status);
}

static void destroy(cr_layer *layer) {
  data_state *state = layer->state;
  cr_record_input_close(&state->records, layer);
  cr_datum_source_destroy(state->source);
}

/* "draws <key of the random stream> " and the reader's cursor (record_input.h). */
static crema_status save(cr_layer *layer, cr_buffer *out) {
  const data_state *state = layer->state;
  CR_TRY(cr_buffer_print(out, "draws %" PRIx64 " ", state->records.stream));
  return cr_record_input_print(&state->records, out);
}

/* `text` ends in a NUL. */
static crema_status restore_from(const cr_layer *layer, const cr_buffer *text) {
  data_state *state = layer->state;
  cr_reader_cursor cursor;
  uint64_t stream = 0;
  int used = 0;
  /* Other text leaves `used` at 0 and is then refused as a cursor. */
  (void)sscanf(text->data, "draws %" SCNx64 " %n", &stream, &used);
  CR_TRY(cr_record_input_parse(&state->records, text->data + used, text->size - (size_t)used,
                               &cursor));
  cr_batch_loader_stop(&state->records.loader);
  return cr_record_input_resume(&state->records, layer, stream, &cursor);
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  return cr_record_input_restore(layer, bytes, size, restore_from);
}

static const cr_input_class input = {.save = save,
                                     .restore = restore,
                                     .progress = cr_record_input_progress,
                                     .epoch = cr_record_input_epoch,
                                     .count_epoch = cr_record_input_count,
                                     .short_batches = true,
                                     .stats = cr_record_input_stats};

const cr_layer_class cr_layer_data = {
    CR_LAYER_INPUT("Data", sizeof(data_state), 1, 2),
    .input = &input,
    .setup = setup,
    .forward = forward,
    .destroy = destroy,
};
