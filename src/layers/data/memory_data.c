/* MemoryData: batches out of samples that the program holds in memory.
 *
 * Formula: none: samples are read in order and repeated.
 * Shapes: no bottom -> data (batch, channels, height, width), label (batch). The tops' memory is
 * the samples' own.
 * Fields: memory_data_param, transform_param.
 * Caffe: samples come through crema/memory_data.h: crema_memory_data_set (Caffe's Reset) and
 * crema_memory_data_set_images (AddMatVector); several solvers get whole batches by turns.
 * Example:
 *   layer { name: "data" type: "MemoryData" top: "data" top: "label"
 *     memory_data_param { batch_size: 2 channels: 1 height: 4 width: 4 } } */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/rng.h"
#include "crema/memory_data.h"
#include "data/augment/transformer.h"
#include "layers/data/adapters/input_base.h"

typedef struct memory_data_state {
  int64_t batch;
  int channels, height, width;
  float *data, *labels; /* of `samples` samples; NULL: none given */
  int64_t samples;
  cr_layer_cursor cursor; /* counts samples; its end wraps around */
  bool shown;             /* some top has, or had, these samples */
  bool restored;          /* the position is from a snapshot, and no samples were given after it */
  cr_transformer *transformer;
  uint64_t drawn; /* images that were transformed so far */
  cr_image augmented;
  float *own_data, *own_labels; /* transformed images */
  cr_buffer retired;            /* of pointers to such memory that tops may still show */
} memory_data_state;

static int64_t sample_size(const memory_data_state *s) {
  return (int64_t)s->channels * s->height * s->width;
}

static crema_status check_samples(const cr_layer *layer, int64_t samples) {
  const memory_data_state *s = layer->state;
  if (samples > 0 && samples % s->batch == 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "%" PRId64 " samples given; must be a multiple of batch_size (%" PRId64 ")",
                       samples, s->batch);
}

static void free_retired(memory_data_state *s) {
  float **memory = (float **)(void *)s->retired.data;
  for (size_t i = 0; i < s->retired.size / sizeof *memory; ++i) free(memory[i]);
  cr_buffer_clear(&s->retired);
}

/* Retires the transformed images of an earlier call: tops may alias them until the next forward
 * pass. Images that no solver took are not aliased. */
static crema_status retire_own(memory_data_state *s) {
  if (s->shown) {
    CR_TRY(cr_buffer_append(&s->retired, &s->own_data, sizeof s->own_data));
    CR_TRY(cr_buffer_append(&s->retired, &s->own_labels, sizeof s->own_labels));
  } else {
    free(s->own_data);
    free(s->own_labels);
  }
  s->own_data = s->own_labels = NULL;
  return CREMA_OK;
}

/* The sample at which all solvers continue together. */
static int64_t position_of(const cr_layer *layer) {
  const memory_data_state *s = layer->state;
  uint64_t end = cr_layer_cursor_end(&s->cursor, layer, (uint64_t)s->batch);
  return s->samples == 0 ? (int64_t)end : (int64_t)(end % (uint64_t)s->samples);
}

static crema_status take(const cr_layer *layer, float *data, float *labels, int64_t samples) {
  memory_data_state *s = layer->state;
  int64_t position = position_of(layer);
  CR_TRY(retire_own(s));
  s->shown = false;
  s->data = data;
  s->labels = labels;
  s->samples = samples;
  bool go_on = s->restored && position < samples && position % s->batch == 0;
  cr_layer_cursor_set(&s->cursor, go_on ? (uint64_t)position : 0);
  s->restored = false;
  return CREMA_OK;
}

static crema_status set_samples(cr_layer *layer, float *data, float *labels, int64_t samples) {
  CR_TRY(check_samples(layer, samples));
  return take(layer, data, labels, samples);
}

static crema_status transform(memory_data_state *s, const crema_labeled_image *image, float *out) {
  int shape[3];
  cr_pixels pixels = {.values = image->pixels,
                      .type = CREMA_U8,
                      .interleaved = true,
                      .channels = image->channels,
                      .height = image->height,
                      .width = image->width};
  if (image->pixels == NULL || image->height < 1 || image->width < 1 || image->channels < 1) {
    return cr_fail(CREMA_E_ARGUMENT, "no pixels");
  }
  CR_TRY(cr_transformer_augment(s->transformer, s->drawn, &pixels, &s->augmented));
  CR_TRY(cr_transformer_shape(s->transformer, pixels.channels, pixels.height, pixels.width, shape));
  if (shape[0] != s->channels || shape[1] != s->height || shape[2] != s->width) {
    return cr_fail(CREMA_E_SHAPE, "%d x %d x %d values, the layer's samples have %d x %d x %d",
                   shape[0], shape[1], shape[2], s->channels, s->height, s->width);
  }
  return cr_transformer_run(s->transformer, &pixels, s->drawn, out);
}

static crema_status set_images(cr_layer *layer, const crema_labeled_image *images, int64_t count) {
  memory_data_state *s = layer->state;
  CR_TRY(check_samples(layer, count));
  const crema_shape shape = cr_shape_4(count, s->channels, s->height, s->width);
  CR_TRY(cr_layer_in(layer, crema_shape_check(&shape)));
  size_t bytes = (size_t)(count * sample_size(s)) * sizeof(float);
  float *data = malloc(bytes), *labels = malloc((size_t)count * sizeof(float));
  crema_status status = CREMA_OK;
  if (data == NULL || labels == NULL) {
    status = cr_fail_memory(bytes, "samples");
    goto fail;
  }
  for (int64_t i = 0; i < count; ++i) {
    labels[i] = images[i].label;
    status = transform(s, &images[i], data + i * sample_size(s));
    if (status != CREMA_OK) {
      status = cr_layer_in(layer, cr_fail_in(status, "image %" PRId64, i));
      goto fail;
    }
    ++s->drawn;
  }
  CR_TRY_GOTO(take(layer, data, labels, count), fail);
  s->own_data = data;
  s->own_labels = labels;
  return CREMA_OK;
fail:
  free(labels);
  free(data);
  return status;
}

static crema_status set_batch_size(cr_layer *layer, int64_t batch_size) {
  memory_data_state *s = layer->state;
  if (batch_size < 1 || batch_size > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "a batch size of %" PRId64, batch_size);
  }
  int64_t position = position_of(layer);
  if (s->data != NULL && (position != 0 || s->samples % batch_size != 0)) {
    return cr_layer_fail(layer, CREMA_E_STATE,
                         "the batch size cannot become %" PRId64 ": %" PRId64 " of %" PRId64
                         " samples were run through",
                         batch_size, position, s->samples);
  }
  cr_layer_cursor_set(&s->cursor, (uint64_t)position);
  s->batch = batch_size;
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  memory_data_state *s = layer->state;
  const Caffe__MemoryDataParameter *param = layer->param->memory_data_param;
  (void)bottom;
  if (param == NULL || param->batch_size < 1 || param->channels < 1 || param->height < 1 ||
      param->width < 1 || param->batch_size > INT32_MAX || param->channels > INT32_MAX ||
      param->height > INT32_MAX || param->width > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "memory_data_param: batch_size, channels, height and width must be 1 "
                         "to %d each",
                         INT32_MAX);
  }
  s->batch = param->batch_size;
  s->channels = (int)param->channels;
  s->height = (int)param->height;
  s->width = (int)param->width;
  const crema_shape data = cr_shape_4(s->batch, s->channels, s->height, s->width);
  const crema_shape label = cr_shape_1(s->batch);
  CR_TRY(cr_layer_in(layer, crema_shape_check(&data)));
  CR_TRY(cr_layer_in(layer, cr_layer_cursor_open(&s->cursor, layer)));
  CR_TRY(crema_blob_reshape(top[0], &data));
  CR_TRY(crema_blob_reshape(top[1], &label));
  return cr_layer_in(layer, cr_transformer_create(layer->param->transform_param, layer->phase,
                                                  cr_mix_key(layer->key, cr_hash_text("transform")),
                                                  layer->source_dir_file, &s->transformer));
}

static crema_status share_memory(const cr_layer *layer, crema_blob *const *top) {
  memory_data_state *s = layer->state;
  uint64_t first = cr_layer_cursor_end(&s->cursor, layer, (uint64_t)s->batch);
  first += (uint64_t)layer->solver.rank * (uint64_t)s->batch;
  int64_t position = (int64_t)(first % (uint64_t)s->samples);
  const crema_shape data = cr_shape_4(s->batch, s->channels, s->height, s->width);
  const crema_shape label = cr_shape_1(s->batch);
  if (!crema_shape_equal(crema_blob_shape(top[0]), &data)) {
    /* Or the samples that were shown would be kept. */
    cr_tensor_set_zero(top[0]->data);
    cr_tensor_set_zero(top[1]->data);
    CR_TRY(crema_blob_reshape(top[0], &data));
    CR_TRY(crema_blob_reshape(top[1], &label));
  }
  CR_TRY(cr_tensor_adopt_host(top[0]->data, s->data + position * sample_size(s)));
  CR_TRY(cr_tensor_adopt_host(top[1]->data, s->labels + position));
  s->shown = true;
  cr_layer_cursor_advance(&s->cursor, layer);
  /* After all solvers have moved on, no top shows the retired samples. */
  bool moved = true;
  for (int i = 0; i < s->cursor.sharers; ++i) moved = moved && s->cursor.step[i] > 0;
  if (moved) free_retired(s);
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  memory_data_state *s = layer->state;
  (void)context, (void)bottom;
  if (s->data == NULL) {
    return cr_layer_fail(layer, CREMA_E_STATE,
                         "no samples; give some with crema_memory_data_set, or set_input_arrays in "
                         "Python, before the first "
                         "forward pass");
  }
  return cr_layer_in(layer, share_memory(layer, top));
}

static void destroy(cr_layer *layer) {
  memory_data_state *s = layer->state;
  free_retired(s);
  cr_buffer_free(&s->retired);
  free(s->own_labels);
  free(s->own_data);
  cr_layer_cursor_close(&s->cursor);
  cr_image_free(&s->augmented);
  cr_transformer_destroy(s->transformer);
}

static crema_status save(cr_layer *layer, cr_buffer *out) {
  const memory_data_state *s = layer->state;
  return cr_buffer_print(out, "draws %" PRIx64 " drawn %" PRIu64 " sample %" PRId64 ".",
                         cr_transformer_key(s->transformer), s->drawn, position_of(layer));
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  memory_data_state *s = layer->state;
  char text[128] = "";
  uint64_t key = 0, drawn = 0;
  int64_t next = 0;
  int used = 0;
  bool done = false;
  CR_TRY(cr_layer_share_restore(layer, bytes, size, &done));
  if (done) return CREMA_OK;
  if (size < sizeof text) snprintf(text, sizeof text, "%.*s", (int)size, bytes);
  int found = sscanf(text, "draws %" SCNx64 " drawn %" SCNu64 " sample %" SCNd64 ".%n", &key,
                     &drawn, &next, &used);
  if (found != 3 || used == 0 || (size_t)used != size || next < 0) {
    return cr_layer_fail(layer, CREMA_E_CORRUPT, "the saved position in the data cannot be read");
  }
  cr_transformer_set_key(s->transformer, key);
  s->drawn = drawn;
  s->restored = s->data == NULL;
  bool fits = s->data == NULL || (next < s->samples && next % s->batch == 0);
  cr_layer_cursor_set(&s->cursor, fits ? (uint64_t)next : 0);
  return CREMA_OK;
}

static uint64_t epoch(const cr_layer *layer) {
  const memory_data_state *s = layer->state;
  return (uint64_t)s->samples;
}

static const cr_input_class input = {.save = save,
                                     .restore = restore,
                                     .epoch = epoch,
                                     .set_samples = set_samples,
                                     .set_images = set_images,
                                     .set_batch_size = set_batch_size};

const cr_layer_class cr_layer_memory_data = {
    CR_LAYER_INPUT("MemoryData", sizeof(memory_data_state), 2, 2),
    .input = &input,
    .graph.shareable = true,
    .setup = setup,
    .forward = forward,
    .memory.persistent = cr_layer_always,
    .destroy = destroy,
};
