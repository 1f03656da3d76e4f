/* AnnotatedData: images with boxes from a database of AnnotatedDatum, as Caffe-SSD reads them (Liu
 * et al., "SSD: single shot multibox detector", 2016).
 *
 * Formula: none: an image is distorted and expanded, a patch is sampled from it (batch_sampler),
 * resized, cropped and mirrored; its boxes go along.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label: (1, 1, boxes
 * of the batch, 8), where a row is item, class, instance, xmin, ymin, xmax, ymax, difficult, and
 * one row of -1 stands for no boxes; or (batch) for records without annotations.
 * Fields: data_param, annotated_data_param, transform_param.
 * Caffe: pixels are those of OpenCV 4.11; `prob` of resize_param and noise_param is heeded; one
 * object has to meet all constraints of a sampler; convert_to_lab, height_scale and width_scale are
 * refused; data_param's skip_corrupt works here, too.
 * Example:
 *   layer { name: "data" type: "AnnotatedData" top: "data" top: "label"
 *     data_param { source: "boxes_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { mean_value: 104 resize_param { height: 32 width: 32 } }
 *     annotated_data_param { batch_sampler { max_sample: 1 max_trials: 1 } } } */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/augment/annotated.h"
#include "data/augment/augment.h"
#include "layers/common/layer_noop.h"
#include "layers/data/layer_feed.h"

/* What one thread works with. */
typedef struct annotated_worker {
  cr_annotated record;
  cr_buffer value; /* memory for that of a record */
  cr_buffer drawn; /* boxes that patches are drawn for */
} annotated_worker;

/* An item of a batch. */
typedef struct annotated_item {
  cr_record *record;
  cr_buffer rows; /* its part of the label; the first column is still empty */
} annotated_item;

typedef struct annotated_data_state {
  const Caffe__DataParameter *param;
  const Caffe__TransformationParameter *transform;  /* may be NULL */
  const Caffe__AnnotatedDataParameter *annotations; /* may be NULL */
  char *source;
  uint64_t key; /* of all draws */
  cr_reader *reader;
  int consumer; /* of the reader */
  cr_transformer *transformer;
  cr_augment *augment; /* NULL: none */
  bool boxes;          /* labels are boxes */
  cr_layer_feed feed;
  uint64_t index; /* records that were consumed, by all solvers */
  cr_buffer last; /* key of the last record that was lent */
  cr_buffer rows; /* of the label that is put together, 8 floats each */
  int threads;
  annotated_worker *worker; /* `threads` of them */
} annotated_data_state;

enum { ROW = 8 };

/* ---- one record ---------------------------------------------------------- */

static const Caffe__EmitConstraint *constraint_of(const annotated_data_state *s) {
  return s->transform == NULL ? NULL : s->transform->emit_constraint;
}

static crema_status cut_patch(const annotated_data_state *s, annotated_worker *w, uint64_t sample) {
  cr_box patch;
  size_t samplers = s->annotations == NULL ? 0 : s->annotations->n_batch_sampler;
  if (samplers == 0) return CREMA_OK;
  size_t count = cr_annotated_count(&w->record);
  cr_buffer_clear(&w->drawn);
  for (size_t i = 0; i < count; ++i) {
    const cr_object *object = cr_annotated_object(&w->record, i);
    CR_TRY(cr_buffer_append(&w->drawn, &object->box, sizeof object->box));
  }
  const Caffe__BatchSampler *const *sampler =
      (const Caffe__BatchSampler *const *)s->annotations->batch_sampler;
  if (cr_sample_patch(sampler, samplers, (const cr_box *)(const void *)w->drawn.data, count, s->key,
                      sample, &patch)) {
    cr_image_crop(&w->record.image, patch);
    cr_annotated_project(&w->record, constraint_of(s), cr_box_clip(patch));
  }
  return CREMA_OK;
}

/* Everything before the transformer. */
static crema_status augment(const annotated_data_state *s, annotated_worker *w, uint64_t sample) {
  cr_image *image = &w->record.image;
  float canvas[4] = {0, 0, 1, 1};
  if (s->augment != NULL) CR_TRY(cr_augment_canvas(s->augment, s->key, sample, image, canvas));
  if (canvas[0] != 0 || canvas[1] != 0 || canvas[2] != 1 || canvas[3] != 1) {
    const cr_box window = {canvas[0], canvas[1], canvas[2], canvas[3]};
    cr_annotated_project(&w->record, constraint_of(s), window);
  }
  CR_TRY(cut_patch(s, w, sample));
  const int in[2] = {image->height, image->width};
  int before[2];
  if (s->augment == NULL) return CREMA_OK;
  CR_TRY(cr_augment_finish(s->augment, s->key, sample, image));
  if (!cr_augment_resizes(s->augment, s->key, sample, in, before)) return CREMA_OK;
  for (size_t i = 0; i < cr_annotated_count(&w->record); ++i) {
    cr_object *object = cr_annotated_object(&w->record, i);
    object->box = cr_box_resize(s->transform->resize_param, before[0], before[1], object->box);
  }
  return CREMA_OK;
}

static cr_pixels pixels_of(const cr_image *image) {
  return (cr_pixels){.values = image->pixels,
                     .type = CREMA_U8,
                     .interleaved = true,
                     .channels = image->channels,
                     .height = image->height,
                     .width = image->width};
}

/* Takes the boxes into the crop and writes their rows. */
static crema_status add_rows(const annotated_data_state *s, cr_annotated *record, uint64_t sample,
                             cr_buffer *rows) {
  const cr_image *image = &record->image;
  cr_image_part crop;
  bool mirror = false;
  CR_TRY(cr_transformer_crop(s->transformer, sample, image->height, image->width, &crop, &mirror));
  float width = (float)image->width, height = (float)image->height;
  const cr_box window = {(float)crop.left / width, (float)crop.top / height,
                         (float)(crop.left + crop.width) / width,
                         (float)(crop.top + crop.height) / height};
  cr_annotated_project(record, constraint_of(s), window);
  for (size_t i = 0; i < cr_annotated_count(record); ++i) {
    const cr_object *object = cr_annotated_object(record, i);
    cr_box box = mirror ? cr_box_mirror(object->box) : object->box;
    const float row[ROW] = {
        0,        (float)object->label,    (float)object->instance, box.xmin, box.ymin, box.xmax,
        box.ymax, (float)object->difficult};
    CR_TRY(cr_buffer_append(rows, row, sizeof row));
  }
  return CREMA_OK;
}

static crema_status check_item(const crema_shape *shape, const int item[3]) {
  if (shape->dim[1] == item[0] && shape->dim[2] == item[1] && shape->dim[3] == item[2]) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE,
                 "%d x %d x %d values in a batch whose first image has %" PRId64 " x %" PRId64
                 " x %" PRId64
                 " (images of different sizes need resize_param, crop_size or "
                 "batch_size: 1)",
                 item[0], item[1], item[2], shape->dim[1], shape->dim[2], shape->dim[3]);
}

static cr_image_color color_of(const annotated_data_state *s) {
  return s->param->force_encoded_color ? CR_IMAGE_COLOR : cr_transformer_color(s->transformer);
}

static crema_status fail_in_record(const annotated_data_state *s, cr_db_bytes key,
                                   crema_status status) {
  char text[96];
  return cr_fail_in(status, "%s: record '%s'", s->source, cr_db_key_text(key, text, sizeof text));
}

static crema_status load_item(const annotated_data_state *s, annotated_item *item,
                              cr_feed_load *job) {
  annotated_worker *w = &s->worker[job->worker];
  const cr_record *from = item->record;
  cr_feed_top *top = job->batch->top;
  int extent[3];
  cr_db_bytes value;
  double start = cr_clock_seconds();
  CR_TRY(cr_record_value(from, &w->value, &value));
  CR_TRY(cr_annotated_load(&w->record, value.data, value.size, color_of(s)));
  double decoded = cr_clock_seconds();
  job->decode_seconds = decoded - start;
  CR_TRY(augment(s, w, from->index));
  const cr_pixels pixels = pixels_of(&w->record.image);
  CR_TRY(
      cr_transformer_shape(s->transformer, pixels.channels, pixels.height, pixels.width, extent));
  if (job->item == 0) {
    crema_shape shape = cr_shape_4(s->param->batch_size, extent[0], extent[1], extent[2]);
    CR_TRY(cr_feed_reserve(job->batch, 0, &shape, NULL));
  }
  CR_TRY(check_item(&top[0].shape, extent));
  int64_t size = crema_shape_count(&top[0].shape, 1, 4);
  CR_TRY(
      cr_transformer_run(s->transformer, &pixels, from->index, top[0].values + job->item * size));
  job->transform_seconds = cr_clock_seconds() - decoded;
  if (job->batch->tops < 2) return CREMA_OK;
  if (s->boxes) return add_rows(s, &w->record, from->index, &item->rows);
  top[1].values[job->item] = (float)w->record.label;
  return CREMA_OK;
}

static crema_status load(void *user, cr_feed_load *job) {
  const annotated_data_state *s = user;
  annotated_item *item = (annotated_item *)job->batch->item + job->item;
  crema_status status = load_item(s, item, job);
  return status == CREMA_OK ? status : fail_in_record(s, item->record->key, status);
}

/* ---- batches ------------------------------------------------------------- */

static crema_status begin(void *user, cr_feed_batch *batch, int first) {
  annotated_data_state *s = user;
  annotated_item *item = batch->item;
  for (int i = first; i < (int)s->param->batch_size; ++i) {
    cr_buffer_clear(&item[i].rows);
    CR_TRY(cr_reader_take(s->reader, s->consumer, &item[i].record));
  }
  return CREMA_OK;
}

static bool ready(void *user) {
  const annotated_data_state *s = user;
  return cr_reader_ready(s->reader, s->consumer) >= s->param->batch_size;
}

static bool is_corrupt(crema_status status) {
  return status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED;
}

/* False as well when there was nothing but failures while the whole database came by: for sure
 * after twice as many records (see data/pipeline/prefetch_work.c). */
static bool skip(void *user, cr_feed_batch *batch, int item, crema_status status, uint64_t row) {
  annotated_data_state *s = user;
  annotated_item *failed = (annotated_item *)batch->item + item;
  if (!is_corrupt(status) || row / 2 >= cr_reader_count(s->reader)) return false;
  cr_log_warning("%s; skipped", crema_error_text());
  return cr_reader_give_back(s->reader, s->consumer, failed->record) == CREMA_OK;
}

static crema_status put_rows(annotated_data_state *s, cr_feed_batch *batch) {
  static const float none[ROW] = {-1, -1, -1, -1, -1, -1, -1, -1};
  float *values = NULL;
  cr_buffer_clear(&s->rows);
  for (int i = 0; i < (int)s->param->batch_size; ++i) {
    const cr_buffer *rows = &((const annotated_item *)batch->item)[i].rows;
    size_t from = s->rows.size / sizeof(float);
    if (rows->size > 0) CR_TRY(cr_buffer_append(&s->rows, rows->data, rows->size));
    for (float *label = (float *)(void *)s->rows.data; from < s->rows.size / sizeof(float);
         from += ROW) {
      label[from] = (float)i;
    }
  }
  if (s->rows.size == 0) CR_TRY(cr_buffer_append(&s->rows, none, sizeof none));
  crema_shape shape = cr_shape_4(1, 1, (int64_t)(s->rows.size / sizeof none), ROW);
  CR_TRY(cr_feed_reserve(batch, 1, &shape, &values));
  memcpy(values, s->rows.data, s->rows.size);
  return CREMA_OK;
}

/* The note is where to go on: the number and the key of the batch's last record. */
static crema_status finish(void *user, cr_feed_batch *batch) {
  annotated_data_state *s = user;
  const annotated_item *item = batch->item;
  int items = (int)s->param->batch_size;
  const cr_record *last = item[items - 1].record;
  CR_TRY(cr_buffer_append(&batch->note, &last->index, sizeof last->index));
  CR_TRY(cr_buffer_append(&batch->note, last->key.data, last->key.size));
  if (batch->tops > 1 && s->boxes) CR_TRY(put_rows(s, batch));
  for (int i = 0; i < items; ++i) {
    CR_TRY(cr_reader_give_back(s->reader, s->consumer, item[i].record));
  }
  return CREMA_OK;
}

static void free_item(void *item) {
  cr_buffer_free(&((annotated_item *)item)->rows);
}

static const cr_feed_source annotated_source = {
    .begin = begin, .load = load, .finish = finish, .ready = ready};
static const cr_feed_source skipping_source = {
    .begin = begin, .load = load, .skip = skip, .finish = finish, .ready = ready};

/* ---- setting up ---------------------------------------------------------- */

static crema_status check_param(const cr_layer *layer) {
  const Caffe__DataParameter *param = layer->param->data_param;
  const Caffe__AnnotatedDataParameter *annotations = layer->param->annotated_data_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "data_param", param->batch_size));
  if (param->prefetch > 1024) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "data_param: prefetch must be 1 to 1024, or 0 for automatic, found %u",
                         param->prefetch);
  }
  for (size_t i = 0; annotations != NULL && i < annotations->n_batch_sampler; ++i) {
    CR_TRY(cr_layer_in(layer, cr_batch_sampler_check(annotations->batch_sampler[i])));
  }
  return CREMA_OK;
}

static void set_key(annotated_data_state *s, uint64_t key) {
  s->key = key;
  cr_transformer_set_key(s->transformer, key);
}

/* Number of records to pass over at the start, the same for the same seed. */
static uint64_t draw_skip(const cr_layer *layer) {
  uint32_t draw[4];
  uint64_t key = cr_mix_key(layer->key, cr_hash_text("transform"));
  cr_philox(cr_mix_key(key, cr_hash_text("rand_skip")), 0, 0, draw);
  return ((uint64_t)draw[0] * layer->param->data_param->rand_skip) >> 32;
}

/* Batches that are made ahead. */
static int depth_of(const annotated_data_state *s) {
  return s->param->prefetch > 0 ? (int)s->param->prefetch : CR_PREFETCH_USUAL_DEPTH;
}

/* The key of the epochs' orders when the draws' is `draws`. */
static uint64_t order_key(uint64_t draws) {
  return cr_mix_key(draws, cr_hash_text("shuffle"));
}

static crema_status open_reader(const cr_layer *layer, annotated_data_state *s) {
  const Caffe__DataParameter *param = s->param;
  const char *given = param->backend == CAFFE__DATA_PARAMETER__DB__LMDB ? "lmdb" : "leveldb";
  const char *found = cr_db_detect(s->source);
  /* Records in flight are a few words each, not copies. */
  uint64_t depth = (uint64_t)param->batch_size * (uint64_t)depth_of(s);
  uint64_t most = param->batch_size > 65536 ? param->batch_size : 65536;
  const cr_reader_options options = {.backend = found == NULL ? given : found,
                                     .source = s->source,
                                     .depth = depth > most ? (int)most : (int)depth,
                                     .consumers = layer->solver.solvers,
                                     .rank = layer->solver.rank,
                                     .skip = draw_skip(layer),
                                     .cache = param->cache || param->precache,
                                     .shuffle = param->shuffle,
                                     .order_key = order_key(s->key)};
  s->consumer = layer->solver.rank;
  return cr_reader_join(layer->solver.group, layer->name, &options, &s->reader);
}

static crema_status open_source(const cr_layer *layer, annotated_data_state *s) {
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, s->param->source, &s->source));
  CR_TRY(cr_transformer_create(s->transform, layer->phase, 0, layer->source_dir_file,
                               &s->transformer));
  CR_TRY(cr_augment_create(s->transform, &s->augment));
  set_key(s, cr_mix_key(layer->key, cr_hash_text("transform")));
  return open_reader(layer, s);
}

/* `threads` is a number for each of `parser_threads`, as in Data. */
static crema_status make_workers(annotated_data_state *s) {
  uint64_t threads = s->param->threads;
  if (s->param->parser_threads > 1) threads *= s->param->parser_threads;
  if (threads > CR_FEED_MAX_THREADS) threads = CR_FEED_MAX_THREADS;
  CR_TRY(cr_feed_threads((uint32_t)threads, &s->threads));
  s->worker = calloc((size_t)s->threads, sizeof *s->worker);
  if (s->worker != NULL) return CREMA_OK;
  return cr_fail_memory((size_t)s->threads * sizeof *s->worker, "decoding threads");
}

/* Of a record that is not taken. */
static crema_status probe(annotated_data_state *s, cr_db_bytes key, cr_db_bytes value, int out[3]) {
  cr_annotated *record = &s->worker[0].record;
  const cr_image *image = &record->image;
  crema_status status = cr_annotated_load(record, value.data, value.size, color_of(s));
  if (status == CREMA_OK) status = augment(s, &s->worker[0], (uint64_t)s->consumer);
  if (status == CREMA_OK) {
    status =
        cr_transformer_shape(s->transformer, image->channels, image->height, image->width, out);
  }
  return status == CREMA_OK ? status : fail_in_record(s, key, status);
}

/* Of the first record; with skip_corrupt of the first that is whole. */
static crema_status find_shape(annotated_data_state *s, int out[3]) {
  for (uint64_t tried = 0;;) {
    cr_db_bytes key, value;
    CR_TRY(cr_reader_preview(s->reader, s->consumer, tried, &key, &value));
    crema_status status = probe(s, key, value, out);
    if (!s->param->skip_corrupt || !is_corrupt(status) || ++tried >= cr_reader_count(s->reader)) {
      return status;
    }
  }
}

static crema_status open_feed(const cr_layer *layer, annotated_data_state *s,
                              crema_blob *const *top) {
  int item[3];
  CR_TRY(make_workers(s));
  CR_TRY(find_shape(s, item));
  s->boxes =
      s->worker[0].record.has_boxes || (s->annotations != NULL && s->annotations->has_anno_type);
  int64_t items = s->param->batch_size;
  crema_shape shape[2] = {cr_shape_4(items, item[0], item[1], item[2]),
                          s->boxes ? cr_shape_4(1, 1, 1, ROW) : cr_shape_1(items)};
  cr_log_info("output data size: %" PRId64 ",%d,%d,%d", items, item[0], item[1], item[2]);
  const cr_feed_options options = {
      .source = s->param->skip_corrupt ? &skipping_source : &annotated_source,
      .user = s,
      .tops = layer->tops,
      .items = (int)items,
      .depth = depth_of(s),
      .threads = s->threads,
      .item_size = sizeof(annotated_item),
      .shape = shape};
  CR_TRY(cr_reader_enter(s->reader, s->consumer));
  return cr_layer_feed_open(&s->feed, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  annotated_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  s->param = layer->param->data_param;
  s->transform = layer->param->transform_param;
  s->annotations = layer->param->annotated_data_param;
  CR_TRY(cr_layer_in(layer, open_source(layer, s)));
  return cr_layer_in(layer, open_feed(layer, s, top));
}

static crema_status next_batch(const cr_layer *layer, crema_context *context,
                               crema_blob *const *top) {
  annotated_data_state *s = layer->state;
  CR_TRY(cr_layer_feed_next(&s->feed, layer, context, top));
  const cr_buffer *note = &s->feed.held[0]->note;
  memcpy(&s->index, note->data, sizeof s->index);
  s->index += 1;
  cr_buffer_clear(&s->last);
  return cr_buffer_append(&s->last, note->data + sizeof s->index, note->size - sizeof s->index);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)bottom;
  return cr_layer_in(layer, next_batch(layer, context, top));
}

/* The consumer goes before the producer. */
static void destroy(cr_layer *layer) {
  annotated_data_state *s = layer->state;
  cr_layer_feed_close(&s->feed, free_item);
  if (s->reader != NULL) cr_reader_leave(s->reader, s->consumer);
  cr_reader_quit(layer->solver.group, s->reader, s->consumer);
  cr_augment_destroy(s->augment);
  cr_transformer_destroy(s->transformer);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_annotated_free(&s->worker[i].record);
    cr_buffer_free(&s->worker[i].value);
    cr_buffer_free(&s->worker[i].drawn);
  }
  free(s->worker);
  cr_buffer_free(&s->rows);
  cr_buffer_free(&s->last);
  free(s->source);
}

/* ---- resuming ------------------------------------------------------------ */

/* The feed's text, which ends in a full stop, then "index <records consumed> solvers <number of
 * them> skip <records passed over at the start> sorted <1: caching was given up> key <bytes>:<key
 * of the last record>". Each solver has a place of its own. */
static crema_status save(cr_layer *layer, cr_buffer *out) {
  const annotated_data_state *s = layer->state;
  cr_reader_cursor place = {.index = s->index};
  cr_reader_note_cursor(s->reader, &place);
  CR_TRY(cr_layer_feed_save(&s->feed, layer, s->key, out));
  CR_TRY(cr_buffer_print(
      out, "index %" PRIu64 " solvers %d skip %" PRIu64 " sorted %d key %zu:", place.index,
      place.consumers, place.skip, place.in_key_order, s->last.size));
  return cr_buffer_append(out, s->last.data, s->last.size);
}

/* Takes the text behind the full stop apart; the key stays in it. */
static crema_status parse_place(const char *text, size_t size, cr_reader_cursor *out) {
  size_t key_size = 0;
  int used = 0, sorted = 0;
  *out = (cr_reader_cursor){0};
  int found = sscanf(text, "index %" SCNu64 " solvers %d skip %" SCNu64 " sorted %d key %zu:%n",
                     &out->index, &out->consumers, &out->skip, &sorted, &key_size, &used);
  if (found != 5 || used == 0 || (size_t)used > size || key_size != size - (size_t)used ||
      out->consumers < 1) {
    return cr_fail(CREMA_E_CORRUPT, "the saved place in the data cannot be read");
  }
  out->in_key_order = sorted != 0;
  out->key = (cr_db_bytes){(const uint8_t *)text + used, key_size};
  return CREMA_OK;
}

/* The consumer stops before the producer, and starts after it. */
static crema_status restore_from(const cr_layer *layer, const char *text, size_t size) {
  annotated_data_state *s = layer->state;
  cr_reader_cursor place;
  uint64_t key = 0;
  const char *stop = strchr(text, '.');
  if (stop == NULL) return cr_fail(CREMA_E_CORRUPT, "the saved place in the data cannot be read");
  size_t head = (size_t)(stop + 1 - text);
  CR_TRY(parse_place(stop + 1, size - head, &place));
  CR_TRY(cr_layer_feed_restore(&s->feed, text, head, &key));
  set_key(s, key);
  place.order_key = order_key(key);
  cr_reader_leave(s->reader, s->consumer);
  CR_TRY(cr_reader_resume(s->reader, s->consumer, &place));
  s->index = place.index;
  cr_buffer_clear(&s->last);
  CR_TRY(cr_buffer_append(&s->last, place.key.data, place.key.size));
  CR_TRY(cr_reader_enter(s->reader, s->consumer));
  return cr_layer_feed_start(&s->feed);
}

static crema_status restore(cr_layer *layer, const char *bytes, size_t size) {
  cr_buffer text = {0}; /* ends in a NUL */
  CR_TRY(cr_buffer_append(&text, bytes, size));
  crema_status status = restore_from(layer, text.data, text.size);
  cr_buffer_free(&text);
  return cr_layer_in(layer, status);
}

static void input_stats(const cr_layer *layer, cr_input_stats *out) {
  const annotated_data_state *s = layer->state;
  cr_layer_feed_stats(&s->feed, layer, out);
  out->reader = cr_reader_get_stats(s->reader);
}

const cr_layer_class cr_layer_annotated_data = {
    .type = "AnnotatedData",
    .state_size = sizeof(annotated_data_state),
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = 2,
    .data_source = true,
    .setup = setup,
    .reshape = cr_layer_noop,
    .forward = forward,
    .backward = cr_layer_noop_backward,
    .destroy = destroy,
    .save = save,
    .restore = restore,
    .input_stats = input_stats,
};
