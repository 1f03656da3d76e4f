/* BoxData: images with boxes from a database of Datum, for YOLO v2 (Redmon and Farhadi,
 * "YOLO9000", 2016).
 *
 * Formula: none: a record is an encoded image whose float_data has for each object class, whether
 * it is difficult, centre (x, y), width and height in shares of the image. In TRAIN, a random
 * part of 71 to 100 % of each side that has the centre of an object is resized to the whole;
 * boxes whose centre it has go along, and into the crop, too.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch, 150):
 * class, centre, width and height of up to 30 objects, 0 behind the last.
 * Fields: data_param, transform_param.
 * Caffe: as in Intel Caffe, where boxes neither follow a crop nor are mirrored, and more than 30
 * objects overrun the label; here the first 30 count. data_param's side has no effect.
 * Example:
 *   layer { name: "data" type: "BoxData" top: "data" top: "label"
 *     data_param { source: "yolo_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { crop_size: 24 mean_value: 104 } } */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/boxed.h"
#include "data/augment/transformer.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/record_layer.h"

enum { NUMBERS = 5, ROW = CR_BOXED_MOST * NUMBERS, TRIALS = 50 };

/* The memory of one thread. */
typedef struct box_worker {
  cr_buffer value; /* for the value of a record */
  cr_boxed record;
  cr_image part;
} box_worker;

typedef struct box_state {
  cr_record_layer records; /* has to be the first member */
  const Caffe__DataParameter *param;
  cr_transformer *transformer;
  bool draws;    /* parts of images, at random */
  int extent[3]; /* of the first record */
  int threads;
  box_worker *worker; /* `threads` of them */
} box_state;

/* ---- one record ---------------------------------------------------------- */

static cr_image_color color_of(const box_state *s) {
  return s->param->force_encoded_color ? CR_IMAGE_COLOR : cr_transformer_color(s->transformer);
}

static crema_status read_record(const box_state *s, box_worker *w, cr_db_bytes value) {
  return cr_boxed_load(&w->record, value.data, value.size, color_of(s));
}

static int draw_below(uint32_t word, int count) {
  return (int)(((uint64_t)word * (uint64_t)count) >> 32);
}

/* A part of at least 70 % of each side that has an object; false: none was found. */
static bool draw_part(const box_state *s, const box_worker *w, uint64_t sample, cr_image_part *out,
                      cr_boxed_object *objects, int *count) {
  const uint64_t key = cr_mix_key(s->records.stream, cr_hash_text("part"));
  for (uint32_t trial = 0; trial < TRIALS; ++trial) {
    uint32_t draw[4];
    cr_philox(key, trial, sample, draw);
    const int share = 100 - draw_below(draw[0], 30);
    out->height = (int)((int64_t)w->record.image.height * share / 100) - 1;
    out->width = (int)((int64_t)w->record.image.width * share / 100) - 1;
    if (out->height < 1 || out->width < 1) return false;
    out->left = draw_below(draw[1], w->record.image.width - out->width);
    out->top = draw_below(draw[2], w->record.image.height - out->height);
    *count = cr_boxed_in_part(&w->record, out, objects);
    if (*count > 0) return true;
  }
  return false;
}

/* Makes a random part the image, at the size that the whole had. */
static crema_status cut_part(const box_state *s, box_worker *w, uint64_t sample) {
  cr_boxed_object objects[CR_BOXED_MOST];
  cr_image_part part;
  int count = 0;
  if (!s->draws || !draw_part(s, w, sample, &part, objects, &count)) return CREMA_OK;
  const int height = w->record.image.height, width = w->record.image.width,
            channels = w->record.image.channels;
  CR_TRY(cr_image_reserve(&w->part, part.height, part.width, channels));
  const size_t row = (size_t)part.width * (size_t)channels;
  for (int y = 0; y < part.height; ++y) {
    const size_t from = ((size_t)(part.top + y) * (size_t)width + (size_t)part.left);
    memcpy(w->part.pixels + (size_t)y * row, w->record.image.pixels + from * (size_t)channels, row);
  }
  memcpy(w->record.object, objects, sizeof objects);
  w->record.objects = count;
  return cr_image_resize(&w->part, height, width, &w->record.image);
}

static void put_label(const box_worker *w, const cr_image_part *crop, bool mirror, float *out) {
  cr_boxed_object objects[CR_BOXED_MOST];
  const int count = cr_boxed_in_part(&w->record, crop, objects);
  memset(out, 0, ROW * sizeof *out);
  for (int i = 0; i < count; ++i, out += NUMBERS) {
    const cr_boxed_object *o = &objects[i];
    const float row[NUMBERS] = {o->label, mirror ? 1 - o->x : o->x, o->y, o->width, o->height};
    memcpy(out, row, sizeof row);
  }
}

static crema_status load_record(const box_state *s, const cr_record *from, cr_load *load) {
  static const char advice[] = "images of different sizes need crop_size or batch_size: 1";
  box_worker *w = &s->worker[load->worker];
  bool mirror = false;
  cr_image_part crop;
  cr_db_bytes value;
  const double start = cr_clock_seconds();
  CR_TRY(cr_record_value(from, &w->value, &value));
  CR_TRY(read_record(s, w, value));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(cut_part(s, w, from->index));
  const cr_pixels pixels = cr_image_pixels(&w->record.image);
  CR_TRY(cr_load_pixels(load, s->transformer, &pixels, from->index, advice));
  if (load->batch->tops < 2) return CREMA_OK;
  CR_TRY(cr_transformer_crop(s->transformer, from->index, pixels.height, pixels.width, &crop,
                             &mirror));
  put_label(w, &crop, mirror, load->batch->top[1].values + (int64_t)load->item * ROW);
  return CREMA_OK;
}

static crema_status load_item(void *user, cr_load *load) {
  const box_state *s = user;
  const cr_record_item *item = cr_batch_item(load->batch, load->item);
  crema_status status = load_record(s, item->record, load);
  return cr_record_source_fail(&s->records.from, item->record->key, status);
}

static const cr_source box_source = {CR_RECORD_SOURCE(load_item),
                                     .finish = cr_record_source_finish};

/* ---- setting up ---------------------------------------------------------- */

static void use_stream(void *state) {
  box_state *s = state;
  cr_transformer_set_key(s->transformer, s->records.stream);
}

/* Looks at the first record without taking it. */
static crema_status look(void *user, cr_db_bytes value) {
  box_state *s = user;
  const cr_image *image = &s->worker[0].record.image;
  CR_TRY(read_record(s, &s->worker[0], value));
  return cr_transformer_shape(s->transformer, image->channels, image->height, image->width,
                              s->extent);
}

static crema_status open_layer(const cr_layer *layer, box_state *s, crema_blob *const *top) {
  const uint64_t stream = cr_record_layer_stream(layer);
  const int64_t items = s->param->batch_size;
  CR_TRY(cr_record_layer_open(&s->records, layer, stream));
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, 0,
                               layer->source_dir_file, &s->transformer));
  s->records.stream = stream;
  s->records.stream_chosen = use_stream;
  use_stream(s);
  s->draws = layer->phase == CAFFE__PHASE__TRAIN;
  CR_TRY(cr_pipeline_threads((uint32_t)cr_record_layer_threads(layer), &s->threads));
  CR_TRY(CR_NEW(s->worker, s->threads, "decoding threads"));
  CR_TRY(cr_record_source_look(&s->records.from, look, s));
  const crema_shape shape[2] = {cr_shape_4(items, s->extent[0], s->extent[1], s->extent[2]),
                                cr_shape_2(items, ROW)};
  const cr_pipeline_options options = {.name = s->records.source,
                                       .source = &box_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)items,
                                       .threads = s->threads,
                                       .item_size = sizeof(cr_record_item),
                                       .shape = shape};
  return cr_record_layer_start(&s->records, layer, &options, top);
}

/* Fields that move pixels in ways that boxes do not follow. */
static crema_status check_fields(const cr_layer *layer) {
  const Caffe__TransformationParameter *t = layer->param->transform_param;
  if (t == NULL || (t->resize_param == NULL && t->noise_param == NULL && t->distort_param == NULL &&
                    t->expand_param == NULL && t->random_resize_param == NULL &&
                    t->img_rand_resize_upper == 0)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                       "transform_param: resize_param, noise_param, distort_param, expand_param, "
                       "random_resize_param and img_rand_resize_lower are not supported; "
                       "AnnotatedData has them");
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  box_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_record_layer_check(layer));
  CR_TRY(check_fields(layer));
  s->param = layer->param->data_param;
  return cr_layer_in(layer, open_layer(layer, s, top));
}

static void destroy(cr_layer *layer) {
  box_state *s = layer->state;
  cr_record_layer_close(&s->records, layer);
  cr_transformer_destroy(s->transformer);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) {
    cr_image_free(&s->worker[i].part);
    cr_boxed_free(&s->worker[i].record);
    cr_buffer_free(&s->worker[i].value);
  }
  free(s->worker);
}

const cr_layer_class cr_layer_box_data = {
    CR_LAYER_INPUT("BoxData", sizeof(box_state), 1, 2),
    .input = &cr_record_layer_input,
    .setup = setup,
    .forward = cr_record_layer_forward,
    .destroy = destroy,
};
