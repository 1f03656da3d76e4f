#include "layers/data/adapters/boxed_input.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "data/pipeline/load_pixels.h"

cr_image_color cr_boxed_input_color(const cr_boxed_input *layer, bool force_color) {
  return force_color ? CR_IMAGE_COLOR : cr_transformer_color(layer->records.transformer);
}

static void *worker_of(const cr_boxed_input *s, int thread) {
  return (char *)s->worker + (size_t)thread * s->class->worker_size;
}

/* Fills top 0, and finds how annotations move. */
static crema_status place_image(const cr_boxed_input *s, void *worker, const cr_record *from,
                                const cr_image *image, cr_load *load, cr_boxed_move *move) {
  const cr_pixels pixels = cr_image_pixels(image);
  if (s->class->place != NULL) {
    int extent[3];
    float *out = NULL;
    s->class->extent(s, image, extent);
    CR_TRY(cr_load_image(load, extent, s->class->advice, &out));
    s->class->place(s, worker, image, out);
    return CREMA_OK;
  }
  CR_TRY(cr_load_pixels(load, s->records.transformer, &pixels, from->index, s->class->advice));
  return cr_transformer_crop(s->records.transformer, from->index, pixels.height, pixels.width,
                             &move->crop, &move->mirror);
}

static crema_status load_record(const cr_boxed_input *s, const cr_record *from, cr_load *load) {
  void *worker = worker_of(s, load->worker);
  const cr_image *image = NULL;
  cr_boxed_move move = {.mirror = false};
  cr_db_bytes value;
  const double start = cr_clock_seconds();
  CR_TRY(cr_record_value(from, &s->value[load->worker], &value));
  CR_TRY(s->class->read(s, worker, value, from->index, &image));
  load->decode_seconds = cr_clock_seconds() - start;
  CR_TRY(place_image(s, worker, from, image, load, &move));
  return s->class->fill(s, worker, image, &move, load);
}

static crema_status load_item(void *user, cr_load *load) {
  const cr_boxed_input *s = user;
  const cr_record_item *item = cr_batch_item(load->batch, load->item);
  crema_status status = load_record(s, item->record, load);
  return cr_record_source_fail(&s->records.from, item->record->key, status);
}

static const cr_source source = {CR_RECORD_SOURCE(load_item), .finish = cr_record_source_finish};

crema_status cr_boxed_input_check(const cr_layer *layer, bool crops) {
  const Caffe__TransformationParameter *t = layer->param->transform_param;
  CR_TRY(cr_record_input_check(layer));
  if (t == NULL || ((crops || (t->crop_size == 0 && t->crop_h == 0 && t->crop_w == 0)) &&
                    t->resize_param == NULL && t->noise_param == NULL && t->distort_param == NULL &&
                    t->expand_param == NULL && t->random_resize_param == NULL &&
                    t->img_rand_resize_upper == 0)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                       "transform_param: %sresize_param, noise_param, distort_param, "
                       "expand_param, random_resize_param and img_rand_resize_lower are not "
                       "supported; AnnotatedData has them",
                       crops ? "" : "crops, ");
}

/* Looks at the first record without taking it. */
static crema_status look(void *user, cr_db_bytes value) {
  cr_boxed_input *s = user;
  const cr_image *image = NULL;
  const uint64_t sample = (uint64_t)s->records.from.consumer;
  CR_TRY(s->class->read(s, s->worker, value, sample, &image));
  if (s->class->extent != NULL) {
    s->class->extent(s, image, s->extent);
    return CREMA_OK;
  }
  return cr_transformer_shape(s->records.transformer, image->channels, image->height, image->width,
                              s->extent);
}

crema_status cr_boxed_input_open(cr_layer *layer, const cr_boxed_class *class, int items,
                                 crema_shape *shape, crema_blob *const *top) {
  cr_boxed_input *s = layer->state;
  s->class = class;
  CR_TRY(cr_record_input_open(&s->records, layer, 0));
  CR_TRY(cr_pipeline_threads((uint32_t)cr_record_input_threads(layer), &s->threads));
  CR_TRY(CR_NEW(s->value, s->threads, "decoding threads"));
  s->worker = calloc((size_t)s->threads, class->worker_size);
  if (s->worker == NULL) {
    return cr_fail_memory((size_t)s->threads * class->worker_size, "decoding threads");
  }
  CR_TRY(cr_record_source_look(&s->records.from, look, s));
  shape[0] = cr_shape_4(items, s->extent[0], s->extent[1], s->extent[2]);
  if (class->shape != NULL) class->shape(s, s->extent, items, shape);
  const cr_pipeline_options options = {.name = s->records.source,
                                       .source = &source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = items,
                                       .threads = s->threads,
                                       .item_size = sizeof(cr_record_item),
                                       .shape = shape};
  return cr_record_input_start(&s->records, layer, &options, top);
}

void cr_boxed_input_destroy(cr_layer *layer) {
  cr_boxed_input *s = layer->state;
  cr_record_input_close(&s->records, layer);
  for (int i = 0; s->worker != NULL && i < s->threads; ++i) s->class->free_worker(worker_of(s, i));
  for (int i = 0; s->value != NULL && i < s->threads; ++i) cr_buffer_free(&s->value[i]);
  free(s->worker);
  free(s->value);
}
