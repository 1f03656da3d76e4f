/* Data: batches of images and labels from a database.
 *
 * Formula: none: records are decoded and transformed as transform_param says, in the order of their
 * keys or, with shuffle, in another order in each epoch.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch).
 * Fields: data_param, transform_param.
 * Caffe: the files decide which kind of database it is, a wrong backend is warned of; prefetch 0
 * and no prefetch mean a number that fits the memory; cache, shuffle, threads and parser_threads of
 * the NVIDIA dialect work in all nets; a resumed run goes on with the very next record.
 * Example:
 *   layer { name: "data" type: "Data" top: "data" top: "label"
 *     data_param { source: "train_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { scale: 0.00390625 mirror: true crop_size: 24 } }
 *
 * A reader thread, shared by all solvers that train the net, walks through the records; other
 * threads make batches of them ahead of the net; the forward pass hands the next batch's memory to
 * the tops. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/pipeline/batch_push.h"
#include "data/pipeline/prefetch.h"
#include "layers/common/layer_noop.h"
#include "layers/data/layer_feed.h"

typedef struct data_state {
  char *source; /* resolved path */
  cr_reader *reader;
  cr_transformer *transformer;
  cr_prefetch *prefetch;
  cr_batch_push *push; /* to the net's device; NULL: the net works in host memory */
  cr_batch *held;      /* lent to the tops */
  cr_pushed_batch *held_pushed;
  cr_position position; /* after the batch that was lent last */
  bool running;
} data_state;

/* ---- setting up ---------------------------------------------------------- */

static crema_status check_param(const cr_layer *layer) {
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

static uint64_t draws_key(const cr_layer *layer) {
  return cr_mix_key(layer->key, cr_hash_text("transform"));
}

/* The key of the epochs' orders when the draws' is `draws`. */
static uint64_t order_key(uint64_t draws) {
  return cr_mix_key(draws, cr_hash_text("shuffle"));
}

static crema_status open_reader(cr_layer *layer, data_state *state) {
  const Caffe__DataParameter *param = layer->param->data_param;
  uint64_t skip = draw_skip(layer);
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, param->source, &state->source));
  /* Records in flight are a few words each, not copies. */
  uint64_t batches = param->prefetch > 0 ? param->prefetch : CR_PREFETCH_USUAL_DEPTH;
  uint64_t depth = (uint64_t)param->batch_size * batches;
  uint64_t most = param->batch_size > 65536 ? param->batch_size : 65536;
  const cr_reader_options options = {.backend = choose_backend(layer, state->source),
                                     .source = state->source,
                                     .depth = depth > most ? (int)most : (int)depth,
                                     .consumers = layer->solver.solvers,
                                     .rank = layer->solver.rank,
                                     .skip = skip,
                                     .cache = param->cache || param->precache,
                                     .shuffle = param->shuffle,
                                     .order_key = order_key(draws_key(layer))};
  if (skip > 0) cr_log_info("Skipping first %" PRIu64 " data points.", skip);
  return cr_reader_join(layer->solver.group, layer->name, &options, &state->reader);
}

/* `threads` is a number for each of `parser_threads`, which has no other meaning here: one thread
 * reads. 0: automatic. */
static int decode_threads(const Caffe__DataParameter *param) {
  uint64_t threads = param->threads;
  if (param->parser_threads > 1) threads *= param->parser_threads;
  return threads > CR_PREFETCH_MAX_THREADS ? CR_PREFETCH_MAX_THREADS : (int)threads;
}

static crema_status push_take(void *user, void **batch) {
  cr_batch *taken = NULL;
  CR_TRY(cr_prefetch_take(user, &taken));
  *batch = taken;
  return CREMA_OK;
}

static crema_status push_give_back(void *user, void *batch) {
  return cr_prefetch_give_back(user, batch);
}

static void push_tops(const void *batch, cr_push_top top[CR_PUSH_TOPS]) {
  const cr_batch *b = batch;
  size_t items = (size_t)b->items;
  size_t item = (size_t)b->channels * (size_t)b->height * (size_t)b->width;
  top[0] = (cr_push_top){b->data, items * item * sizeof(float)};
  if (b->label != NULL) top[1] = (cr_push_top){b->label, items * sizeof(float)};
}

static void push_stats(void *user, cr_input_stats *out) {
  *out = (cr_input_stats){0};
  cr_prefetch_get_stats(user, &out->prefetch);
}

static const cr_push_source prefetch_source = {push_take, push_give_back, push_tops, push_stats};

static crema_status open_push(data_state *state, crema_device *device) {
  int shape[3];
  cr_prefetch_shape(state->prefetch, shape);
  size_t items = (size_t)cr_prefetch_batch_size(state->prefetch);
  size_t item = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  const cr_push_options options = {.source = &prefetch_source,
                                   .user = state->prefetch,
                                   .device = device,
                                   .depth = cr_prefetch_depth(state->prefetch),
                                   .tops = cr_prefetch_has_labels(state->prefetch) ? 2 : 1,
                                   .bytes = {items * item * sizeof(float), items * sizeof(float)}};
  return cr_batch_push_create(&options, &state->push);
}

static crema_status open_prefetch(cr_layer *layer, data_state *state) {
  const Caffe__DataParameter *param = layer->param->data_param;
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, draws_key(layer),
                               layer->source_dir_file, &state->transformer));
  crema_device *device = crema_context_device(layer->context);
  if (device->backend->host_memory) device = NULL;
  cr_image_color color = cr_transformer_color(state->transformer);
  if (param->force_encoded_color) color = CR_IMAGE_COLOR;
  const cr_prefetch_options options = {.reader = state->reader,
                                       .consumer = layer->solver.rank,
                                       .transformer = state->transformer,
                                       .color = color,
                                       .batch_size = (int)param->batch_size,
                                       .depth = param->has_prefetch ? (int)param->prefetch : 0,
                                       .device = device,
                                       .threads = decode_threads(param),
                                       .labels = layer->tops > 1,
                                       .skip_corrupt = param->skip_corrupt};
  CR_TRY(cr_prefetch_create(&options, &state->prefetch));
  return device == NULL ? CREMA_OK : open_push(state, device);
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

static crema_status start(const cr_layer *layer) {
  data_state *state = layer->state;
  if (state->running) return CREMA_OK;
  CR_TRY(cr_reader_enter(state->reader, layer->solver.rank));
  crema_status status = cr_prefetch_start(state->prefetch);
  if (status == CREMA_OK && state->push != NULL) status = cr_batch_push_start(state->push);
  if (status != CREMA_OK) {
    cr_prefetch_stop(state->prefetch);
    cr_reader_leave(state->reader, layer->solver.rank);
    return status;
  }
  state->running = true;
  return CREMA_OK;
}

/* The consumer goes before the producer. */
static void stop(const cr_layer *layer) {
  data_state *state = layer->state;
  state->held = NULL;
  state->held_pushed = NULL;
  if (state->push != NULL) cr_batch_push_stop(state->push);
  if (state->prefetch != NULL) cr_prefetch_stop(state->prefetch);
  if (state->reader != NULL) cr_reader_leave(state->reader, layer->solver.rank);
  state->running = false;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  data_state *state = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  CR_TRY(cr_layer_in(layer, open_reader(layer, state)));
  CR_TRY(cr_layer_in(layer, open_prefetch(layer, state)));
  CR_TRY(cr_layer_in(layer, shape_tops(layer, top)));
  return cr_layer_in(layer, start(layer));
}

/* ---- running ------------------------------------------------------------- */

/* `pushed` NULL: the batch is on the host alone. */
static crema_status lend(crema_device *device, cr_batch *batch, const cr_pushed_batch *pushed,
                         crema_blob *const *top) {
  static const cr_pushed_batch nowhere = {0};
  if (pushed == NULL) pushed = &nowhere;
  const crema_shape *now = crema_blob_shape(top[0]);
  crema_shape shape = cr_shape_4(batch->items, batch->channels, batch->height, batch->width);
  if (!crema_shape_equal(now, &shape)) CR_TRY(crema_blob_reshape(top[0], &shape));
  CR_TRY(cr_layer_alias(top[0], device, pushed->memory[0], batch->data));
  if (batch->label == NULL) return CREMA_OK;
  return cr_layer_alias(top[1], device, pushed->memory[1], batch->label);
}

static crema_status note_position(data_state *state, const cr_batch *batch) {
  state->position.index = batch->position.index;
  cr_buffer_clear(&state->position.key);
  return cr_buffer_append(&state->position.key, batch->position.key.data, batch->position.key.size);
}

/* Work on the last batch may still be queued on the device; nobody changes it before that is done.
 */
static crema_status give_back(data_state *state, const crema_context *context) {
  cr_batch *held = state->held;
  cr_pushed_batch *pushed = state->held_pushed;
  state->held = NULL;
  state->held_pushed = NULL;
  if (pushed != NULL) return cr_batch_push_give_back(state->push, pushed, context);
  return held == NULL ? CREMA_OK : cr_prefetch_give_back(state->prefetch, held);
}

static crema_status take(data_state *state, const crema_context *context) {
  if (state->push == NULL) return cr_prefetch_take(state->prefetch, &state->held);
  CR_TRY(cr_batch_push_take(state->push, context, &state->held_pushed));
  state->held = state->held_pushed->batch;
  return CREMA_OK;
}

static crema_status next_batch(const cr_layer *layer, crema_context *context,
                               crema_blob *const *top) {
  data_state *state = layer->state;
  CR_TRY(start(layer));
  CR_TRY(give_back(state, context));
  CR_TRY(take(state, context));
  CR_TRY(note_position(state, state->held));
  return lend(crema_context_device(layer->context), state->held, state->held_pushed, top);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)bottom;
  return cr_layer_in(layer, next_batch(layer, context, top));
}

static void destroy(cr_layer *layer) {
  data_state *state = layer->state;
  stop(layer);
  cr_batch_push_destroy(state->push);
  cr_prefetch_destroy(state->prefetch);
  cr_reader_quit(layer->solver.group, state->reader, layer->solver.rank);
  cr_transformer_destroy(state->transformer);
  cr_buffer_free(&state->position.key);
  free(state->source);
}

/* ---- resuming ------------------------------------------------------------ */

/* "draws <key of the draws> index <records consumed> solvers <number of them> skip <records passed
 * over at the start> sorted <1: caching was given up> key <bytes>:<key of the last record>". Each
 * solver has a place of its own. Without solvers, skip and sorted: of one solver, before there were
 * more. */
static crema_status save(cr_layer *layer, cr_buffer *out) {
  const data_state *state = layer->state;
  const cr_position *position = &state->position;
  cr_reader_cursor place = {.index = position->index};
  cr_reader_note_cursor(state->reader, &place);
  CR_TRY(cr_buffer_print(
      out, "draws %" PRIx64 " index %" PRIu64 " solvers %d skip %" PRIu64 " sorted %d key %zu:",
      cr_transformer_key(state->transformer), place.index, place.consumers, place.skip,
      place.in_key_order, position->key.size));
  return cr_buffer_append(out, position->key.data, position->key.size);
}

/* Takes a place apart; its key stays in `text`, which ends in a NUL. */
static crema_status parse_place(const cr_layer *layer, const cr_buffer *text, uint64_t *draws,
                                cr_reader_cursor *out) {
  size_t key_size = 0;
  int used = 0, sorted = 0;
  *out = (cr_reader_cursor){.consumers = 1, .skip = draw_skip(layer)};
  int found =
      sscanf(text->data,
             "draws %" SCNx64 " index %" SCNu64 " solvers %d skip %" SCNu64 " sorted %d key %zu:%n",
             draws, &out->index, &out->consumers, &out->skip, &sorted, &key_size, &used);
  bool whole = found == 6;
  if (found == 2) {
    whole = sscanf(text->data, "draws %*x index %*u key %zu:%n", &key_size, &used) == 1;
  }
  if (!whole || used == 0 || key_size != text->size - (size_t)used || out->consumers < 1) {
    return cr_fail(CREMA_E_CORRUPT, "the saved reader position cannot be read");
  }
  out->in_key_order = sorted != 0;
  out->order_key = order_key(*draws);
  out->key = (cr_db_bytes){(const uint8_t *)text->data + used, key_size};
  return CREMA_OK;
}

static crema_status go_to(cr_layer *layer, uint64_t draws, const cr_reader_cursor *place) {
  data_state *state = layer->state;
  stop(layer);
  cr_transformer_set_key(state->transformer, draws);
  CR_TRY(cr_reader_resume(state->reader, layer->solver.rank, place));
  state->position.index = place->index;
  cr_buffer_clear(&state->position.key);
  CR_TRY(cr_buffer_append(&state->position.key, place->key.data, place->key.size));
  return start(layer);
}

static crema_status restore_from(cr_layer *layer, const char *bytes, size_t size) {
  cr_buffer text = {0};
  cr_reader_cursor place;
  uint64_t draws = 0;
  CR_TRY(cr_buffer_append(&text, bytes, size));
  crema_status status = parse_place(layer, &text, &draws, &place);
  if (status == CREMA_OK) status = go_to(layer, draws, &place);
  cr_buffer_free(&text);
  return status;
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  return cr_layer_in(layer, restore_from(layer, bytes, size));
}

static void input_stats(const cr_layer *layer, cr_input_stats *out) {
  const data_state *state = layer->state;
  if (state->push != NULL) cr_batch_push_get_stats(state->push, out);
  else cr_prefetch_get_stats(state->prefetch, &out->prefetch);
  out->reader = cr_reader_get_stats(state->reader);
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
    .reshape = cr_layer_noop, /* shapes come from the records */
    .forward = forward,
    .backward = cr_layer_noop_backward,
    .destroy = destroy,
    .save = save,
    .restore = restore,
    .input_stats = input_stats,
};
