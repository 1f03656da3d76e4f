/* RoIData: a picture with its boxes from a database of AnnotatedDatum, for training and testing
 * detectors that propose regions (Ren et al., "Faster R-CNN", 2015).
 *
 * Formula: none: the picture is scaled so that its shorter side gets the length short_side, or less
 * where the longer side would exceed max_side, and then transformed; its boxes go along.
 * Shapes: no bottom -> data (1, channels, height, width), info (1, 3): height, width, scale, and,
 * optionally, objects (G, 5): left, top, right, bottom in pixels, the last one included, and class,
 * without those marked as difficult; and label (1, 1, G, 8), all of them as AnnotatedData has them.
 * Fields: roi_data_param, data_param, transform_param.
 * Caffe: py-faster-rcnn has it in Python and is given its pictures by a program. A layer of type
 * Python with module roi_data_layer.layer is this one where no Python program runs the net, and
 * needs data_param. Pictures are scaled before the mean is subtracted, and are mirrored at random
 * (mirror) instead of being in the data twice.
 * Example:
 *   layer { name: "data" type: "RoIData" top: "data" top: "info" top: "objects"
 *     data_param { source: "boxes_lmdb" batch_size: 1 backend: LMDB }
 *     roi_data_param { short_side: 48 max_side: 64 } transform_param { mean_value: 104 } } */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/annotated.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/record_layer.h"

enum { INFO = 3, OBJECT = 5, ROW = CR_ANNOTATED_ROW, USUAL_SIDE = 600 };

/* The memory of one thread. */
typedef struct roi_worker {
  cr_annotated record;
  cr_image scaled;
  cr_buffer value; /* for the value of a record */
} roi_worker;

typedef struct roi_state {
  cr_record_layer records; /* has to be the first member */
  const Caffe__RoIDataParameter *param;
  cr_transformer *transformer;
  bool color;    /* whatever the record has */
  int extent[3]; /* of the first record */
  int threads;
  roi_worker *worker; /* `threads` of them */
} roi_state;

/* ---- one record ---------------------------------------------------------- */

/* What the shorter side of a sample becomes; 0: it is kept. */
static double short_side(const roi_state *s, uint64_t sample) {
  uint32_t draw[4];
  if (s->param->n_short_side == 0) return USUAL_SIDE;
  cr_philox(cr_mix_key(s->records.stream, cr_hash_text("side")), 0, sample, draw);
  const uint64_t index = (uint64_t)draw[0] * s->param->n_short_side >> 32;
  return (double)s->param->short_side[index];
}

/* Reads the record and scales its picture, which *out points to. */
static crema_status read_picture(const roi_state *s, roi_worker *w, cr_db_bytes value,
                                 uint64_t sample, const cr_image **out, double *scale) {
  const cr_image *image = &w->record.image;
  CR_TRY(cr_annotated_load(&w->record, value.data, value.size,
                           s->color ? CR_IMAGE_COLOR : cr_transformer_color(s->transformer)));
  const double side = short_side(s, sample), most = (double)s->param->max_side;
  const double height = image->height, width = image->width;
  *out = image;
  *scale = side > 0 ? side / fmin(height, width) : 1;
  if (most > 0 && rint(*scale * fmax(height, width)) > most) *scale = most / fmax(height, width);
  if (*scale == 1) return CREMA_OK;
  const double to[2] = {fmax(rint(height * *scale), 1), fmax(rint(width * *scale), 1)};
  CR_TRY(cr_image_resize(image, (int)to[0], (int)to[1], &w->scaled));
  *out = &w->scaled;
  return CREMA_OK;
}

static void put_object(const cr_object *object, const cr_image *image, bool mirror, float *out) {
  const cr_box box = mirror ? cr_box_mirror(object->box) : object->box;
  const float width = (float)image->width, height = (float)image->height;
  const float row[OBJECT] = {box.xmin * width, box.ymin * height, box.xmax * width - 1,
                             box.ymax * height - 1, (float)object->label};
  memcpy(out, row, sizeof row);
}

static crema_status put_objects(cr_batch *batch, const cr_annotated *record, const cr_image *image,
                                bool mirror) {
  const size_t count = cr_annotated_count(record);
  int64_t easy = 0;
  float *out = NULL;
  for (size_t i = 0; i < count; ++i) easy += !cr_annotated_object(record, i)->difficult;
  CR_TRY(cr_batch_reserve(batch, 2, &(crema_shape){.axes = 2, .dim = {easy, OBJECT}}, &out));
  for (size_t i = 0; i < count; ++i) {
    const cr_object *object = cr_annotated_object(record, i);
    if (object->difficult) continue;
    put_object(object, image, mirror, out);
    out += OBJECT;
  }
  return CREMA_OK;
}

static crema_status put_label(cr_batch *batch, const cr_annotated *record, bool mirror) {
  const size_t count = cr_annotated_count(record);
  const crema_shape shape = cr_shape_4(1, 1, count == 0 ? 1 : (int64_t)count, ROW);
  float *out = NULL;
  CR_TRY(cr_batch_reserve(batch, 3, &shape, &out));
  for (int k = 0; k < ROW; ++k) out[k] = -1;
  for (size_t i = 0; i < count; ++i) {
    const cr_object *object = cr_annotated_object(record, i);
    cr_annotated_row(object, mirror ? cr_box_mirror(object->box) : object->box, out + i * ROW);
  }
  return CREMA_OK;
}

static crema_status load_record(const roi_state *s, const cr_record *from, cr_load *load) {
  roi_worker *w = &s->worker[load->worker];
  const cr_image *image = NULL;
  double scale = 1;
  bool mirror = false;
  cr_image_part whole;
  cr_db_bytes value;
  const double start = cr_clock_seconds();
  CR_TRY(cr_record_value(from, &w->value, &value));
  CR_TRY(read_picture(s, w, value, from->index, &image, &scale));
  load->decode_seconds = cr_clock_seconds() - start;
  const cr_pixels pixels = cr_image_pixels(image);
  CR_TRY(cr_load_pixels(load, s->transformer, &pixels, from->index, ""));
  CR_TRY(cr_transformer_crop(s->transformer, from->index, image->height, image->width, &whole,
                             &mirror));
  const float info[INFO] = {(float)image->height, (float)image->width, (float)scale};
  if (load->batch->tops > 1) memcpy(load->batch->top[1].values, info, sizeof info);
  if (load->batch->tops > 2) CR_TRY(put_objects(load->batch, &w->record, image, mirror));
  return load->batch->tops > 3 ? put_label(load->batch, &w->record, mirror) : CREMA_OK;
}

static crema_status load_item(void *user, cr_load *load) {
  const roi_state *s = user;
  const cr_record_item *item = cr_batch_item(load->batch, load->item);
  crema_status status = load_record(s, item->record, load);
  return cr_record_source_fail(&s->records.from, item->record->key, status);
}

static const cr_source roi_source = {CR_RECORD_SOURCE(load_item),
                                     .finish = cr_record_source_finish};

/* ---- setting up ---------------------------------------------------------- */

static void use_stream(void *state) {
  roi_state *s = state;
  cr_transformer_set_key(s->transformer, s->records.stream);
}

/* Looks at the first record without taking it. */
static crema_status look(void *user, cr_db_bytes value) {
  roi_state *s = user;
  const cr_image *image = NULL;
  double scale = 1;
  CR_TRY(read_picture(s, &s->worker[0], value, (uint64_t)s->records.from.consumer, &image, &scale));
  return cr_transformer_shape(s->transformer, image->channels, image->height, image->width,
                              s->extent);
}

static crema_status open_layer(const cr_layer *layer, roi_state *s, crema_blob *const *top) {
  s->records.stream = cr_record_layer_stream(layer);
  s->records.stream_chosen = use_stream;
  CR_TRY(cr_record_layer_open(&s->records, layer, s->records.stream));
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, 0,
                               layer->source_dir_file, &s->transformer));
  use_stream(s);
  CR_TRY(cr_pipeline_threads((uint32_t)cr_record_layer_threads(layer), &s->threads));
  CR_TRY(CR_NEW(s->worker, s->threads, "decoding threads"));
  CR_TRY(cr_record_source_look(&s->records.from, look, s));
  const crema_shape shape[4] = {cr_shape_4(1, s->extent[0], s->extent[1], s->extent[2]),
                                cr_shape_2(1, INFO), cr_shape_2(1, OBJECT),
                                cr_shape_4(1, 1, 1, ROW)};
  const cr_pipeline_options options = {.name = s->records.source,
                                       .source = &roi_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = 1,
                                       .threads = s->threads,
                                       .item_size = sizeof(cr_record_item),
                                       .shape = shape};
  return cr_record_layer_start(&s->records, layer, &options, top);
}

/* Fields that move pixels in ways that boxes do not follow. */
static crema_status check_fields(const cr_layer *layer) {
  const Caffe__TransformationParameter *t = layer->param->transform_param;
  if (layer->param->data_param->batch_size != 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "data_param: batch_size is %u, must be 1: a batch is a single picture",
                         layer->param->data_param->batch_size);
  }
  if (t == NULL ||
      (t->crop_size == 0 && t->crop_h == 0 && t->crop_w == 0 && t->resize_param == NULL &&
       t->noise_param == NULL && t->distort_param == NULL && t->expand_param == NULL &&
       t->random_resize_param == NULL && t->img_rand_resize_upper == 0)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                       "transform_param: crops, resize_param, noise_param, distort_param, "
                       "expand_param, random_resize_param and img_rand_resize_lower are not "
                       "supported; AnnotatedData has them");
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__RoIDataParameter defaults = CAFFE__RO_IDATA_PARAMETER__INIT;
  roi_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_record_layer_check(layer));
  CR_TRY(check_fields(layer));
  s->param = layer->param->roi_data_param ? layer->param->roi_data_param : &defaults;
  s->color = layer->param->data_param->force_encoded_color;
  return cr_layer_in(layer, open_layer(layer, s, top));
}

static void destroy(cr_layer *layer) {
  roi_state *s = layer->state;
  cr_record_layer_close(&s->records, layer);
  cr_transformer_destroy(s->transformer);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_annotated_free(&s->worker[i].record);
    cr_image_free(&s->worker[i].scaled);
    cr_buffer_free(&s->worker[i].value);
  }
  free(s->worker);
}

const cr_layer_class cr_layer_roi_data = {
    CR_LAYER_INPUT("RoIData", sizeof(roi_state), 2, 4),
    .input = &cr_record_layer_input,
    .setup = setup,
    .forward = cr_record_layer_forward,
    .destroy = destroy,
};
