/* AnnotatedData: images with boxes from a database of AnnotatedDatum, as Caffe-SSD reads them (Liu
 * et al., "SSD: single shot multibox detector", 2016).
 *
 * Formula: none: an image is distorted and expanded. A patch is sampled from it (batch_sampler),
 * resized, cropped and mirrored. Its boxes are transformed with it.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (1, 1, boxes of
 * the batch, 8). A row of label is item, class, instance, xmin, ymin, xmax, ymax, difficult. One
 * row of -1 means that there are no boxes. For records without annotations, label is (batch).
 * Fields: data_param, annotated_data_param, transform_param.
 * Caffe: pixels are as OpenCV 4.11 computes them. `prob` of resize_param and noise_param is
 * honoured. One object must meet all constraints of a sampler. convert_to_lab, height_scale and
 * width_scale are refused. A patch is used as it is; Caffe-SSD encodes it as a JPEG and decodes it.
 * data_param's skip_corrupt works here too.
 * Example:
 *   layer { name: "data" type: "AnnotatedData" top: "data" top: "label"
 *     data_param { source: "boxes_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { mean_value: 104 resize_param { height: 32 width: 32 } }
 *     annotated_data_param { batch_sampler { max_sample: 1 max_trials: 1 } } } */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/annotated.h"
#include "data/augment/augment.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/adapters/record_input.h"

/* The memory of one thread. */
typedef struct annotated_worker {
  cr_annotated record;
  cr_buffer value; /* for the value of a record */
  cr_buffer drawn; /* boxes that patches are drawn for */
} annotated_worker;

/* An item of a batch. */
typedef struct annotated_item {
  cr_record_item from; /* must be the first member */
  cr_buffer rows;      /* its part of the label; the first column is still empty */
} annotated_item;

typedef struct annotated_data_state {
  cr_record_input records; /* must be the first member */
  const Caffe__DataParameter *param;
  const Caffe__TransformationParameter *transform;  /* may be NULL */
  const Caffe__AnnotatedDataParameter *annotations; /* may be NULL */
  cr_augment *augment;                              /* NULL: none */
  bool boxes;                                       /* labels are boxes */
  int extent[3];                                    /* of the first record */
  cr_buffer rows; /* of the label that is put together, 8 floats each */
  int threads;
  annotated_worker *worker; /* `threads` of them */
} annotated_data_state;

enum { ROW = CR_ANNOTATED_ROW };

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
  if (cr_sample_patch(sampler, samplers, (const cr_box *)(const void *)w->drawn.data, count,
                      s->records.stream, sample, &patch)) {
    cr_image_crop(&w->record.image, patch);
    cr_annotated_project(&w->record, constraint_of(s), cr_box_clip(patch));
  }
  return CREMA_OK;
}

/* Everything before the transformer. */
static crema_status augment(const annotated_data_state *s, annotated_worker *w, uint64_t sample) {
  cr_image *image = &w->record.image;
  float canvas[4] = {0, 0, 1, 1};
  if (s->augment != NULL)
    CR_TRY(cr_augment_canvas(s->augment, s->records.stream, sample, image, canvas));
  if (canvas[0] != 0 || canvas[1] != 0 || canvas[2] != 1 || canvas[3] != 1) {
    const cr_box window = {canvas[0], canvas[1], canvas[2], canvas[3]};
    cr_annotated_project(&w->record, constraint_of(s), window);
  }
  CR_TRY(cut_patch(s, w, sample));
  const int in[2] = {image->height, image->width};
  int before[2];
  if (s->augment == NULL) return CREMA_OK;
  CR_TRY(cr_augment_finish(s->augment, s->records.stream, sample, image));
  if (!cr_augment_resizes(s->augment, s->records.stream, sample, in, before)) return CREMA_OK;
  for (size_t i = 0; i < cr_annotated_count(&w->record); ++i) {
    cr_object *object = cr_annotated_object(&w->record, i);
    object->box = cr_box_resize(s->transform->resize_param, before[0], before[1], object->box);
  }
  return CREMA_OK;
}

/* Takes the boxes into the crop and writes their rows. */
static crema_status add_rows(const annotated_data_state *s, cr_annotated *record, uint64_t sample,
                             cr_buffer *rows) {
  const cr_image *image = &record->image;
  cr_image_part crop;
  bool mirror = false;
  CR_TRY(cr_transformer_crop(s->records.transformer, sample, image->height, image->width, &crop,
                             &mirror));
  float width = (float)image->width, height = (float)image->height;
  const cr_box window = {(float)crop.left / width, (float)crop.top / height,
                         (float)(crop.left + crop.width) / width,
                         (float)(crop.top + crop.height) / height};
  cr_annotated_project(record, constraint_of(s), window);
  for (size_t i = 0; i < cr_annotated_count(record); ++i) {
    const cr_object *object = cr_annotated_object(record, i);
    cr_box box = mirror ? cr_box_mirror(object->box) : object->box;
    float row[ROW];
    cr_annotated_row(object, box, row);
    CR_TRY(cr_buffer_append(rows, row, sizeof row));
  }
  return CREMA_OK;
}

static cr_image_color color_of(const annotated_data_state *s) {
  return s->param->force_encoded_color ? CR_IMAGE_COLOR
                                       : cr_transformer_color(s->records.transformer);
}

static crema_status load_record(const annotated_data_state *s, annotated_item *item,
                                cr_load *load) {
  static const char advice[] =
      "images of different sizes need resize_param, crop_size or batch_size: 1";
  annotated_worker *w = &s->worker[load->worker];
  const cr_record *from = item->from.record;
  cr_db_bytes value;
  const double start = cr_clock_seconds();
  cr_buffer_clear(&item->rows);
  CR_TRY(cr_record_value(from, &w->value, &value));
  CR_TRY(cr_annotated_load(&w->record, value.data, value.size, color_of(s)));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(augment(s, w, from->index));
  const cr_pixels pixels = cr_image_pixels(&w->record.image);
  CR_TRY(cr_load_pixels(load, s->records.transformer, &pixels, from->index, advice));
  if (load->batch->tops < 2) return CREMA_OK;
  if (s->boxes) return add_rows(s, &w->record, from->index, &item->rows);
  load->batch->top[1].values[load->item] = (float)w->record.label;
  return CREMA_OK;
}

static crema_status load_item(void *user, cr_load *load) {
  const annotated_data_state *s = user;
  annotated_item *item = cr_batch_item(load->batch, load->item);
  crema_status status = load_record(s, item, load);
  return cr_record_source_fail(&s->records.from, item->from.record->key, status);
}

static crema_status put_rows(annotated_data_state *s, cr_batch *batch) {
  static const float none[ROW] = {-1, -1, -1, -1, -1, -1, -1, -1};
  float *values = NULL;
  cr_buffer_clear(&s->rows);
  for (int i = 0; i < batch->items; ++i) {
    const cr_buffer *rows = &((const annotated_item *)cr_batch_item(batch, i))->rows;
    size_t from = s->rows.size / sizeof(float);
    if (rows->size > 0) CR_TRY(cr_buffer_append(&s->rows, rows->data, rows->size));
    for (float *label = (float *)(void *)s->rows.data; from < s->rows.size / sizeof(float);
         from += ROW) {
      label[from] = (float)i;
    }
  }
  if (s->rows.size == 0) CR_TRY(cr_buffer_append(&s->rows, none, sizeof none));
  crema_shape shape = cr_shape_4(1, 1, (int64_t)(s->rows.size / sizeof none), ROW);
  CR_TRY(cr_batch_reserve(batch, 1, &shape, &values));
  memcpy(values, s->rows.data, s->rows.size);
  return CREMA_OK;
}

static crema_status finish(void *user, cr_batch *batch) {
  annotated_data_state *s = user;
  if (batch->tops > 1 && s->boxes) CR_TRY(put_rows(s, batch));
  return cr_record_source_finish(user, batch);
}

static void free_item(void *item) {
  cr_buffer_free(&((annotated_item *)item)->rows);
}

/* Drops the rows of items from `take` on; without rows, one row of -1 stays. */
static crema_status cut_rows(int64_t take, crema_blob *label) {
  const float *row = NULL;
  float *none = NULL;
  const int64_t rows = crema_blob_shape(label)->dim[2];
  int64_t kept = 0;
  CR_TRY(crema_blob_cpu_data(label, &row));
  while (kept < rows && row[kept * ROW] < (float)take) ++kept;
  if (kept == rows) return CREMA_OK;
  const crema_shape shape = cr_shape_4(1, 1, kept > 0 ? kept : 1, ROW);
  CR_TRY(crema_blob_reshape(label, &shape));
  if (kept > 0) return CREMA_OK;
  CR_TRY(crema_blob_mutable_cpu_data(label, &none));
  for (int i = 0; i < ROW; ++i) none[i] = -1;
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const annotated_data_state *s = layer->state;
  CR_TRY(cr_record_input_forward(layer, context, bottom, top));
  const bool cut = layer->take > 0 && layer->tops > 1 && s->boxes;
  return cut ? cr_layer_in(layer, cut_rows(layer->take, top[1])) : CREMA_OK;
}

static const cr_source annotated_source = {CR_RECORD_SOURCE(load_item), .finish = finish,
                                           .free_item = free_item};

static crema_status check_param(const cr_layer *layer) {
  const Caffe__AnnotatedDataParameter *annotations = layer->param->annotated_data_param;
  CR_TRY(cr_record_input_check(layer));
  for (size_t i = 0; annotations != NULL && i < annotations->n_batch_sampler; ++i) {
    CR_TRY(cr_layer_in(layer, cr_batch_sampler_check(annotations->batch_sampler[i])));
  }
  return CREMA_OK;
}

/* Looks at the first record without taking it. */
static crema_status look(void *user, cr_db_bytes value) {
  annotated_data_state *s = user;
  annotated_worker *w = &s->worker[0];
  const cr_image *image = &w->record.image;
  CR_TRY(cr_annotated_load(&w->record, value.data, value.size, color_of(s)));
  CR_TRY(augment(s, w, (uint64_t)s->records.from.consumer));
  return cr_transformer_shape(s->records.transformer, image->channels, image->height, image->width,
                              s->extent);
}

static crema_status open_layer(const cr_layer *layer, annotated_data_state *s,
                               crema_blob *const *top) {
  const int *extent = s->extent;
  int64_t items = s->param->batch_size;
  CR_TRY(cr_record_input_open(&s->records, layer, 0));
  CR_TRY(cr_augment_create(s->transform, &s->augment));
  CR_TRY(cr_pipeline_threads((uint32_t)cr_record_input_threads(layer), &s->threads));
  CR_TRY(CR_NEW(s->worker, s->threads, "decoding threads"));
  CR_TRY(cr_record_source_look(&s->records.from, look, s));
  s->boxes =
      s->worker[0].record.has_boxes || (s->annotations != NULL && s->annotations->has_anno_type);
  crema_shape shape[2] = {cr_shape_4(items, extent[0], extent[1], extent[2]),
                          s->boxes ? cr_shape_4(1, 1, 1, ROW) : cr_shape_1(items)};
  const cr_pipeline_options options = {.name = s->records.source,
                                       .source = &annotated_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)items,
                                       .threads = s->threads,
                                       .item_size = sizeof(annotated_item),
                                       .shape = shape};
  return cr_record_input_start(&s->records, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  annotated_data_state *s = layer->state;
  (void)bottom;
  CR_TRY(check_param(layer));
  s->param = layer->param->data_param;
  s->transform = layer->param->transform_param;
  s->annotations = layer->param->annotated_data_param;
  return cr_layer_in(layer, open_layer(layer, s, top));
}

static void destroy(cr_layer *layer) {
  annotated_data_state *s = layer->state;
  cr_record_input_close(&s->records, layer);
  cr_augment_destroy(s->augment);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_annotated_free(&s->worker[i].record);
    cr_buffer_free(&s->worker[i].value);
    cr_buffer_free(&s->worker[i].drawn);
  }
  free(s->worker);
  cr_buffer_free(&s->rows);
}

const cr_layer_class cr_layer_annotated_data = {
    CR_LAYER_INPUT("AnnotatedData", sizeof(annotated_data_state), 1, 2),
    .input = &cr_record_input_class,
    .setup = setup,
    .forward = forward,
    .destroy = destroy,
};
