/* Data: batches of images and labels from a database. A reader thread walks through the records, a
 * prefetching thread makes batches of them; the forward pass lends the next batch's memory to the
 * tops. Tops: data (batch, channels, height, width) and, if there are two, label (batch). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/prefetch.h"
#include "data/reader.h"
#include "layers/layer.h"

typedef struct data_state {
  char *source; /* resolved path */
  cr_reader *reader;
  cr_transformer *transformer;
  cr_prefetch *prefetch;
  cr_batch *held;       /* lent to the tops */
  cr_position position; /* after the batch that was lent last */
  bool running;
} data_state;

/* ---- setting up ---------------------------------------------------------- */

static crema_status check_param(const cr_layer *layer) {
  const Caffe__DataParameter *param = layer->param->data_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "data_param with a source is required");
  }
  if (param->batch_size < 1 || param->batch_size > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "data_param: batch_size must be at least 1");
  }
  if (param->prefetch < 1 || param->prefetch > 1024) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "data_param: prefetch must be 1 to 1024, found %u",
                         param->prefetch);
  }
  if (param->shuffle) {
    cr_log_warning("layer '%s': shuffle is not supported; records come in the order of their keys",
                   layer->name);
  }
  return CREMA_OK;
}

/* What the files are decides; a wrong `backend` in the net is worth a warning only. */
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

/* Number of records to pass over at the start: 0 to rand_skip - 1, the same for the same seed. */
static uint64_t draw_skip(const cr_layer *layer) {
  uint32_t limit = layer->param->data_param->rand_skip;
  uint32_t draw[4];
  if (limit == 0) return 0;
  cr_philox(cr_mix_key(layer->key, cr_hash_text("rand_skip")), 0, 0, draw);
  return ((uint64_t)draw[0] * limit) >> 32;
}

static crema_status open_reader(cr_layer *layer, data_state *state) {
  const Caffe__DataParameter *param = layer->param->data_param;
  CR_TRY(cr_file_resolve(layer->source_dir_file, param->source, &state->source));
  /* Records in flight are a few words each, not copies. */
  uint64_t depth = (uint64_t)param->batch_size * param->prefetch;
  uint64_t most = param->batch_size > 65536 ? param->batch_size : 65536;
  const cr_reader_options options = {.backend = choose_backend(layer, state->source),
                                     .source = state->source,
                                     .consumers = 1,
                                     .depth = depth > most ? (int)most : (int)depth};
  CR_TRY(cr_reader_open(&options, &state->reader));
  uint64_t skip = draw_skip(layer);
  if (skip == 0) return CREMA_OK;
  cr_log_info("Skipping first %" PRIu64 " data points.", skip);
  return cr_reader_skip(state->reader, skip);
}

/* `threads` is a number for each of `parser_threads`, which has no other meaning here: one thread
 * reads. 0: automatic. */
static int decode_threads(const Caffe__DataParameter *param) {
  uint64_t threads = param->threads;
  if (param->parser_threads > 1) threads *= param->parser_threads;
  return threads > CR_PREFETCH_MAX_THREADS ? CR_PREFETCH_MAX_THREADS : (int)threads;
}

static crema_status open_prefetch(cr_layer *layer, data_state *state) {
  const Caffe__DataParameter *param = layer->param->data_param;
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase,
                               cr_mix_key(layer->key, cr_hash_text("transform")),
                               layer->source_dir_file, &state->transformer));
  cr_image_color color = cr_transformer_color(state->transformer);
  if (param->force_encoded_color) color = CR_IMAGE_COLOR;
  const cr_prefetch_options options = {.reader = state->reader,
                                       .transformer = state->transformer,
                                       .color = color,
                                       .batch_size = (int)param->batch_size,
                                       .depth = (int)param->prefetch,
                                       .threads = decode_threads(param),
                                       .labels = layer->tops > 1,
                                       .skip_corrupt = param->skip_corrupt};
  return cr_prefetch_create(&options, &state->prefetch);
}

static crema_status shape_tops(const cr_layer *layer, crema_blob *const *top) {
  data_state *state = layer->state;
  int item[3];
  cr_prefetch_shape(state->prefetch, item);
  int64_t items = layer->param->data_param->batch_size;
  crema_shape data = cr_shape_4(items, item[0], item[1], item[2]);
  crema_shape label = cr_shape_1(items);
  cr_log_info("output data size: %" PRId64 ",%d,%d,%d", items, item[0], item[1], item[2]);
  CR_TRY(crema_blob_reshape(top[0], &data));
  return layer->tops > 1 ? crema_blob_reshape(top[1], &label) : CREMA_OK;
}

static crema_status start(data_state *state) {
  if (state->running) return CREMA_OK;
  CR_TRY(cr_reader_start(state->reader));
  crema_status status = cr_prefetch_start(state->prefetch);
  if (status != CREMA_OK) {
    cr_reader_stop(state->reader);
    return status;
  }
  state->running = true;
  return CREMA_OK;
}

/* The consumer goes before the producer. */
static void stop(data_state *state) {
  state->held = NULL;
  if (state->prefetch != NULL) cr_prefetch_stop(state->prefetch);
  if (state->reader != NULL) cr_reader_stop(state->reader);
  state->running = false;
}

static crema_status in_layer(const cr_layer *layer, crema_status status) {
  return cr_fail_in(status, "layer '%s' (%s)", layer->name, layer->class->type);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  data_state *state = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  CR_TRY(in_layer(layer, open_reader(layer, state)));
  CR_TRY(in_layer(layer, open_prefetch(layer, state)));
  CR_TRY(in_layer(layer, shape_tops(layer, top)));
  return in_layer(layer, start(state));
}

/* Shapes come from the records. */
static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)layer;
  (void)bottom;
  (void)top;
  return CREMA_OK;
}

/* ---- running ------------------------------------------------------------- */

static crema_status lend(cr_batch *batch, crema_blob *const *top) {
  const crema_shape *now = crema_blob_shape(top[0]);
  crema_shape shape = cr_shape_4(batch->items, batch->channels, batch->height, batch->width);
  if (!crema_shape_equal(now, &shape)) CR_TRY(crema_blob_reshape(top[0], &shape));
  CR_TRY(cr_tensor_adopt_host(top[0]->data, batch->data));
  if (batch->label == NULL) return CREMA_OK;
  return cr_tensor_adopt_host(top[1]->data, batch->label);
}

static crema_status note_position(data_state *state, const cr_batch *batch) {
  state->position.index = batch->position.index;
  cr_buffer_clear(&state->position.key);
  return cr_buffer_append(&state->position.key, batch->position.key.data, batch->position.key.size);
}

static crema_status next_batch(data_state *state, crema_blob *const *top) {
  CR_TRY(start(state));
  if (state->held != NULL) {
    cr_batch *held = state->held;
    state->held = NULL;
    CR_TRY(cr_prefetch_give_back(state->prefetch, held));
  }
  CR_TRY(cr_prefetch_take(state->prefetch, &state->held));
  CR_TRY(note_position(state, state->held));
  return lend(state->held, top);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)context;
  (void)bottom;
  return in_layer(layer, next_batch(layer->state, top));
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  (void)layer;
  (void)context;
  (void)top;
  (void)propagate_down;
  (void)bottom;
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  data_state *state = layer->state;
  stop(state);
  cr_prefetch_destroy(state->prefetch);
  cr_reader_close(state->reader);
  cr_transformer_destroy(state->transformer);
  cr_buffer_free(&state->position.key);
  free(state->source);
}

/* ---- resuming ------------------------------------------------------------ */

/* "draws <key of the draws> index <records consumed> key <bytes>:<key of the last one>". */
static crema_status save(cr_layer *layer, cr_buffer *out) {
  const data_state *state = layer->state;
  const cr_position *position = &state->position;
  CR_TRY(cr_buffer_print(
      out, "draws %" PRIx64 " index %" PRIu64 " key %zu:", cr_transformer_key(state->transformer),
      position->index, position->key.size));
  return cr_buffer_append(out, position->key.data, position->key.size);
}

/* Before the first record that the layer reads. */
static crema_status rewind_reader(const cr_layer *layer) {
  data_state *state = layer->state;
  CR_TRY(cr_reader_rewind(state->reader));
  return cr_reader_skip(state->reader, draw_skip(layer));
}

static crema_status restore_from(cr_layer *layer, const char *text, size_t size) {
  data_state *state = layer->state;
  uint64_t draws = 0, index = 0;
  size_t key_size = 0;
  int used = 0;
  cr_buffer copy = {0}; /* ends in a NUL */
  CR_TRY(cr_buffer_append(&copy, text, size));
  crema_status status = CREMA_OK;
  int found = sscanf(copy.data, "draws %" SCNx64 " index %" SCNu64 " key %zu:%n", &draws, &index,
                     &key_size, &used);
  if (found != 3 || used == 0 || key_size != copy.size - (size_t)used) {
    status = cr_fail(CREMA_E_CORRUPT, "the saved reader position cannot be read");
    goto out;
  }
  stop(state);
  cr_transformer_set_key(state->transformer, draws);
  cr_db_bytes key = {(const uint8_t *)copy.data + used, key_size};
  CR_TRY_GOTO(index == 0 ? rewind_reader(layer) : cr_reader_seek(state->reader, key, index), out);
  state->position.index = index;
  cr_buffer_clear(&state->position.key);
  CR_TRY_GOTO(cr_buffer_append(&state->position.key, key.data, key.size), out);
  status = start(state);
out:
  cr_buffer_free(&copy);
  return status;
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  return in_layer(layer, restore_from(layer, bytes, size));
}

static void input_stats(const cr_layer *layer, cr_input_stats *out) {
  const data_state *state = layer->state;
  out->reader = cr_reader_get_stats(state->reader);
  cr_prefetch_get_stats(state->prefetch, &out->prefetch);
}

const cr_layer_class cr_layer_data = {
    .type = "Data",
    .state_size = sizeof(data_state),
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = 2,
    .data_source = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
    .save = save,
    .restore = restore,
    .input_stats = input_stats,
};
