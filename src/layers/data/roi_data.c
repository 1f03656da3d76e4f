/* RoIData: an image with its boxes from a database of AnnotatedDatum, for training and testing
 * detectors that propose regions (Ren et al., "Faster R-CNN", 2015).
 *
 * Formula: none: the image is scaled so that its shorter side gets the length short_side, or less
 * if the longer side would exceed max_side. It is then transformed, and its boxes with it.
 * Shapes: no bottom -> data (1, channels, height, width), info (1, 3): height, width, scale, and,
 * optionally, objects (G, 5) and label (1, 1, G, 8). A row of objects is left, top, right, bottom
 * in inclusive pixels, and class; difficult objects are omitted. A row of label is as AnnotatedData
 * has it, for all objects.
 * Fields: roi_data_param, data_param, transform_param.
 * Caffe: py-faster-rcnn has it in Python, and a program provides its images. A layer of type Python
 * with module roi_data_layer.layer is this layer if no Python program runs the net, and requires
 * data_param. Images are scaled before the mean is subtracted, and are mirrored at random (mirror)
 * instead of being in the data twice. An image and its boxes are scaled to sides of whole pixels.
 * In py-faster-rcnn, the unrounded factor multiplies the boxes, including the index of the last
 * pixel.
 * Example:
 *   layer { name: "data" type: "RoIData" top: "data" top: "info" top: "objects"
 *     data_param { source: "boxes_lmdb" batch_size: 1 backend: LMDB }
 *     roi_data_param { short_side: 48 max_side: 64 } transform_param { mean_value: 104 } } */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/annotated.h"
#include "layers/data/adapters/boxed_input.h"

enum { INFO = 3, OBJECT = 5, ROW = CR_ANNOTATED_ROW, USUAL_SIDE = 600 };

/* The memory of one thread. */
typedef struct roi_worker {
  cr_annotated record;
  cr_image scaled;
  double scale; /* of the last record */
} roi_worker;

typedef struct roi_state {
  cr_boxed_input input; /* must be the first member */
  const Caffe__RoIDataParameter *param;
  bool color; /* whatever the record has */
} roi_state;

/* The new length of a sample's shorter side; 0: unchanged. */
static double short_side(const roi_state *s, uint64_t sample) {
  uint32_t draw[4];
  if (s->param->n_short_side == 0) return USUAL_SIDE;
  cr_philox(cr_mix_key(s->input.records.stream, cr_hash_text("side")), 0, sample, draw);
  const uint64_t index = (uint64_t)draw[0] * s->param->n_short_side >> 32;
  return (double)s->param->short_side[index];
}

/* Reads the record and scales its image. */
static crema_status read_image(const cr_boxed_input *layer, void *worker, cr_db_bytes value,
                               uint64_t sample, const cr_image **out) {
  const roi_state *s = (const roi_state *)layer;
  roi_worker *w = worker;
  const cr_image *image = &w->record.image;
  CR_TRY(
      cr_annotated_load(&w->record, value.data, value.size, cr_boxed_input_color(layer, s->color)));
  const double side = short_side(s, sample), most = (double)s->param->max_side;
  const double height = image->height, width = image->width;
  *out = image;
  w->scale = side > 0 ? side / fmin(height, width) : 1;
  if (most > 0 && rint(w->scale * fmax(height, width)) > most)
    w->scale = most / fmax(height, width);
  if (w->scale == 1) return CREMA_OK;
  const double to[2] = {fmax(rint(height * w->scale), 1), fmax(rint(width * w->scale), 1)};
  *out = &w->scaled;
  return cr_image_resize(image, (int)to[0], (int)to[1], &w->scaled);
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
    const cr_box box = mirror ? cr_box_mirror(object->box) : object->box;
    const float width = (float)image->width, height = (float)image->height;
    *out++ = box.xmin * width;
    *out++ = box.ymin * height;
    *out++ = box.xmax * width - 1;
    *out++ = box.ymax * height - 1;
    *out++ = (float)object->label;
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

static crema_status put_boxes(const cr_boxed_input *layer, void *worker, const cr_image *image,
                              const cr_boxed_move *move, cr_load *load) {
  const roi_worker *w = worker;
  cr_batch *batch = load->batch;
  const float info[INFO] = {(float)image->height, (float)image->width, (float)w->scale};
  (void)layer;
  if (batch->tops > 1) memcpy(batch->top[1].values, info, sizeof info);
  if (batch->tops > 2) CR_TRY(put_objects(batch, &w->record, image, move->mirror));
  return batch->tops > 3 ? put_label(batch, &w->record, move->mirror) : CREMA_OK;
}

static void free_worker(void *worker) {
  roi_worker *w = worker;
  cr_annotated_free(&w->record);
  cr_image_free(&w->scaled);
}

static const cr_boxed_class class = {
    .worker_size = sizeof(roi_worker),
    .advice = "",
    .read = read_image,
    .fill = put_boxes,
    .free_worker = free_worker,
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__RoIDataParameter defaults = CAFFE__RO_IDATA_PARAMETER__INIT;
  roi_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_boxed_input_check(layer, false));
  const Caffe__DataParameter *param = layer->param->data_param;
  if (param->batch_size != 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "data_param: batch_size is %u, must be 1: a batch is a single image",
                         param->batch_size);
  }
  s->param = layer->param->roi_data_param ? layer->param->roi_data_param : &defaults;
  s->color = param->force_encoded_color;
  crema_shape shape[4] = {
      [1] = cr_shape_2(1, INFO), [2] = cr_shape_2(1, OBJECT), [3] = cr_shape_4(1, 1, 1, ROW)};
  return cr_layer_in(layer, cr_boxed_input_open(layer, &class, 1, shape, top));
}

const cr_layer_class cr_layer_roi_data = {
    CR_LAYER_INPUT("RoIData", sizeof(roi_state), 2, 4),
    .input = &cr_record_input_class,
    .setup = setup,
    .forward = cr_record_input_forward,
    .destroy = cr_boxed_input_destroy,
};
