/* BoxData: images with boxes from a database of Datum, for YOLO v2 (Redmon and Farhadi, "YOLO9000",
 * 2016).
 *
 * Formula: none: a record is an encoded image whose float_data has for each object class, whether
 * it is difficult, centre (x, y), width and height in shares of the image. In TRAIN, a random part
 * with 71 to 100 % of each side and with the centre of an object is resized to the full size. Boxes
 * with their centre in the part are transformed with it and with the crop. A full image keeps all
 * boxes.
 * Shapes: no bottom -> data (batch, channels, height, width) and, optionally, label (batch, 150):
 * class, centre, width and height of up to 30 objects, 0 behind the last.
 * Fields: data_param, transform_param.
 * Caffe: as in Intel Caffe, where crops and mirroring do not move boxes, and more than 30 objects
 * overrun the label; here the first 30 count. In TRAIN, boxes are not cut to whole pixels.
 * data_param's side has no effect.
 * Example:
 *   layer { name: "data" type: "BoxData" top: "data" top: "label"
 *     data_param { source: "yolo_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { crop_size: 24 mean_value: 104 } } */
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/boxed.h"
#include "layers/data/adapters/boxed_input.h"

enum { NUMBERS = 5, ROW = CR_BOXED_MOST * NUMBERS, TRIALS = 50 };

/* The memory of one thread. */
typedef struct box_worker {
  cr_boxed record;
  cr_image part;
} box_worker;

typedef struct box_state {
  cr_boxed_input input; /* must be the first member */
  bool draws;           /* parts of images, at random */
  bool color;           /* whatever the record has */
} box_state;

static int draw_below(uint32_t word, int count) {
  return (int)(((uint64_t)word * (uint64_t)count) >> 32);
}

/* A part of at least 70 % of each side that has an object; false: none was found. */
static bool draw_part(const box_state *s, const box_worker *w, uint64_t sample, cr_image_part *out,
                      cr_boxed_object *objects, int *count) {
  const uint64_t key = cr_mix_key(s->input.records.stream, cr_hash_text("part"));
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

/* Replaces the image by a random part of it, resized to the full size. */
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

static crema_status read_image(const cr_boxed_input *layer, void *worker, cr_db_bytes value,
                               uint64_t sample, const cr_image **out) {
  const box_state *s = (const box_state *)layer;
  box_worker *w = worker;
  *out = &w->record.image;
  CR_TRY(cr_boxed_load(&w->record, value.data, value.size, cr_boxed_input_color(layer, s->color)));
  return cut_part(s, w, sample);
}

static crema_status put_label(const cr_boxed_input *layer, void *worker, const cr_image *image,
                              const cr_boxed_move *move, cr_load *load) {
  const box_worker *w = worker;
  cr_boxed_object objects[CR_BOXED_MOST];
  (void)layer, (void)image;
  if (load->batch->tops < 2) return CREMA_OK;
  float *out = load->batch->top[1].values + (int64_t)load->item * ROW;
  const int count = cr_boxed_in_part(&w->record, &move->crop, objects);
  memset(out, 0, ROW * sizeof *out);
  for (int i = 0; i < count; ++i, out += NUMBERS) {
    const cr_boxed_object *o = &objects[i];
    const float row[NUMBERS] = {o->label, move->mirror ? 1 - o->x : o->x, o->y, o->width,
                                o->height};
    memcpy(out, row, sizeof row);
  }
  return CREMA_OK;
}

static void free_worker(void *worker) {
  box_worker *w = worker;
  cr_image_free(&w->part);
  cr_boxed_free(&w->record);
}

static const cr_boxed_class class = {
    .worker_size = sizeof(box_worker),
    .advice = "images of different sizes need crop_size or batch_size: 1",
    .read = read_image,
    .fill = put_label,
    .free_worker = free_worker,
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  box_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_boxed_input_check(layer, true));
  const Caffe__DataParameter *param = layer->param->data_param;
  crema_shape shape[2] = {[1] = cr_shape_2(param->batch_size, ROW)};
  s->color = param->force_encoded_color;
  s->draws = layer->phase == CAFFE__PHASE__TRAIN;
  return cr_layer_in(layer, cr_boxed_input_open(layer, &class, (int)param->batch_size, shape, top));
}

const cr_layer_class cr_layer_box_data = {
    CR_LAYER_INPUT("BoxData", sizeof(box_state), 1, 2),
    .input = &cr_record_input_class,
    .setup = setup,
    .forward = cr_record_input_forward,
    .destroy = cr_boxed_input_destroy,
};
