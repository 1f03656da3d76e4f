/* DetectNetTransformation: random variation of images, and DetectNet's targets for the objects in
 * them (NVIDIA's fork of Caffe, and DIGITS).
 *
 * Formula: in TRAIN, an image's hue and saturation are changed. It is then mirrored, scaled,
 * rotated and cropped, each with its probability. In TEST it is scaled to image_size. The mean is
 * subtracted. The boxes are transformed with the image. The middle part of a box has scale_cvg of
 * its sides, within the bounds of gridbox_type. A grid cell (stride x stride pixels) that the
 * middle part covers learns that box, or the last of several.
 * Shapes: images (N, 3, h, w), objects (N, 1, rows, 16) -> data (N, 3, image_size_y, image_size_x),
 * label (N, 8 + classes, grid rows, grid columns). The first row of objects has their number and
 * 16. Each further row has left, top, width, height in pixels, an unused number and the class.
 * Channel 0 of label is whether there is an object. Its left, top, right and bottom edges relative
 * to the cell's corner follow, then 1 / width and 1 / height. The next channel is 1, or with
 * obj_norm the cell's part of the object. The last channels are 1 for its class.
 * Fields: detectnet_groundtruth_param, detectnet_augmentation_param, transform_param.
 * Caffe: as in NVIDIA's fork; the draws depend on the seed, the pass and the image's number.
 * Example, data 2 3 20 30, label 2 1 4 16:
 *   layer { name: "vary" type: "DetectNetTransformation" bottom: "data" bottom: "label" top: "x"
 *     top: "y" detectnet_groundtruth_param { image_size_x: 32 image_size_y: 16 stride: 4 }
 *     transform_param { mean_value: 127 } } */
#include "layers/detection/detectnet.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment/mean.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

enum { NUMBERS = 16, CLASS = 5, FIXED = 8, MOST_SIDE = 65500 };

typedef struct object_box {
  double left, top, width, height;
  int64_t class;
} object_box;

typedef struct detectnet_state {
  const Caffe__DetectNetGroundTruthParameter *grid;
  const Caffe__DetectNetAugmentationParameter *vary;
  int64_t classes; /* of the label */
  int height, width, rows, columns;
  cr_mean mean;         /* values NULL: none */
  float value[3];       /* mean of each channel, of 0..1 */
  cr_bgr_planes centre; /* the mean image at the images' size */
  cr_bgr_planes plane[2];
} detectnet_state;

static crema_status read_mean(const cr_layer *layer, detectnet_state *s) {
  const Caffe__TransformationParameter *t = layer->param->transform_param;
  char *path = NULL;
  if (t == NULL) return CREMA_OK;
  if (t->crop_size != 0 || t->mirror || t->scale != 1) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "transform_param: only mean_file and mean_value have a meaning here");
  }
  if (t->n_mean_value != 0 && t->n_mean_value != 1 && t->n_mean_value != 3) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%zu values of mean_value, must be 1 or 3",
                         t->n_mean_value);
  }
  for (size_t c = 0; c < 3 && t->n_mean_value > 0; ++c) {
    s->value[c] = t->mean_value[t->n_mean_value == 3 ? c : 0] / 255;
  }
  if (t->mean_file == NULL || t->mean_file[0] == '\0') return CREMA_OK;
  memset(s->value, 0, sizeof s->value);
  CR_TRY(cr_layer_in(layer, cr_file_resolve_input(layer->source_dir_file, t->mean_file, &path)));
  crema_status status = cr_layer_in(layer, cr_mean_read(path, &s->mean));
  free(path);
  if (status != CREMA_OK || s->mean.channels == 3) return status;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "a mean image of %d channels, must be 3",
                       s->mean.channels);
}

static crema_status check_fields(const cr_layer *layer, const detectnet_state *s) {
  const Caffe__DetectNetAugmentationParameter *a = s->vary;
  const Caffe__DetectNetGroundTruthParameter *g = s->grid;
  if (a->resize_param != NULL || a->noise_param != NULL || a->emit_constraint != NULL ||
      a->distort_param != NULL || a->expand_param != NULL) {
    return cr_layer_fail(
        layer, CREMA_E_UNSUPPORTED,
        "detectnet_augmentation_param: resize_param, noise_param, emit_constraint, "
        "distort_param and expand_param are not supported");
  }
  if (g->stride == 0 || g->image_size_x / g->stride == 0 || g->image_size_y / g->stride == 0 ||
      g->image_size_x > MOST_SIDE || g->image_size_y > MOST_SIDE) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "stride is %u and must be at least 1, and image_size at least the stride "
                         "and at most %d, found %u x %u",
                         g->stride, MOST_SIDE, g->image_size_x, g->image_size_y);
  }
  if (!(a->scale_min > 0 && a->scale_max >= a->scale_min && a->scale_max < 100 &&
        fabsf(a->max_rotate_degree) <= 360 && a->shift_x <= MOST_SIDE && a->shift_y <= MOST_SIDE)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "scale_min is %g and scale_max %g, max_rotate_degree %g, shift %u, %u",
                         (double)a->scale_min, (double)a->scale_max, (double)a->max_rotate_degree,
                         a->shift_x, a->shift_y);
  }
  return CREMA_OK;
}

/* The class of the label that objects of a class have; -1: they do not count. Without a list, class
 * 1 is class 0. */
static int64_t class_of(const detectnet_state *s, double given) {
  const Caffe__DetectNetGroundTruthParameter *g = s->grid;
  int64_t found = -1;
  if (!(given >= 0 && given < 4294967296.0)) return -1;
  if (g->n_object_class == 0) return (uint32_t)given == 1 ? 0 : -1;
  for (size_t i = 0; i < g->n_object_class; ++i) {
    if (g->object_class[i]->src == (uint32_t)given) found = g->object_class[i]->dst;
  }
  return found;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__DetectNetGroundTruthParameter grid =
      CAFFE__DETECT_NET_GROUND_TRUTH_PARAMETER__INIT;
  static const Caffe__DetectNetAugmentationParameter vary =
      CAFFE__DETECT_NET_AUGMENTATION_PARAMETER__INIT;
  detectnet_state *s = layer->state;
  const Caffe__LayerParameter *p = layer->param;
  (void)bottom, (void)top;
  s->grid = p->detectnet_groundtruth_param ? p->detectnet_groundtruth_param : &grid;
  s->vary = p->detectnet_augmentation_param ? p->detectnet_augmentation_param : &vary;
  CR_TRY(check_fields(layer, s));
  s->classes = 1;
  for (size_t i = 0; i < s->grid->n_object_class; ++i) {
    const int64_t needed = (int64_t)s->grid->object_class[i]->dst + 1;
    s->classes = needed > s->classes ? needed : s->classes;
  }
  s->width = (int)s->grid->image_size_x;
  s->height = (int)s->grid->image_size_y;
  s->columns = s->width / (int)s->grid->stride;
  s->rows = s->height / (int)s->grid->stride;
  return read_mean(layer, s);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  detectnet_state *s = layer->state;
  const crema_shape *data = &bottom[0]->shape, *label = &bottom[1]->shape;
  char text[2][128];
  if (data->axes != 4 || data->dim[1] != 3 || label->axes != 4 || label->dim[0] != data->dim[0] ||
      label->dim[1] != 1 || label->dim[2] < 1 || label->dim[3] != NUMBERS || data->dim[2] < 1 ||
      data->dim[3] < 1 || data->dim[2] > MOST_SIDE || data->dim[3] > MOST_SIDE) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE,
        "images must be (N, 3, h, w) and objects (N, 1, rows, %d), found %s and %s", NUMBERS,
        crema_shape_text(data, text[0], sizeof text[0]),
        crema_shape_text(label, text[1], sizeof text[1]));
  }
  const crema_shape images = cr_shape_4(data->dim[0], 3, s->height, s->width);
  const crema_shape labels = cr_shape_4(data->dim[0], FIXED + s->classes, s->rows, s->columns);
  CR_TRY(crema_shape_check(&images));
  CR_TRY(crema_shape_check(&labels));
  if (s->mean.values != NULL) {
    cr_bgr_planes *mean = &s->plane[0];
    CR_TRY(cr_bgr_planes_reserve(mean, s->mean.height, s->mean.width));
    memcpy(cr_bgr_planes_values(mean), s->mean.values,
           3 * (size_t)s->mean.height * (size_t)s->mean.width * sizeof(float));
    CR_TRY(cr_bgr_planes_resize(mean, (int)data->dim[2], (int)data->dim[3], &s->centre));
  }
  CR_TRY(crema_blob_reshape(top[0], &images));
  return crema_blob_reshape(top[1], &labels);
}

/* A number in [0, 1) for each purpose. */
typedef struct draws {
  uint64_t key, pass, image;
} draws;

typedef enum purpose {
  HUE,
  HOW_HUE,
  SATURATION,
  HOW_SATURATED,
  FLIP,
  SCALE,
  HOW_LARGE,
  ROTATION,
  HOW_TURNED,
  CROP,
  HOW_FAR_RIGHT,
  HOW_FAR_DOWN,
  PURPOSES
} purpose;

static double draw(const draws *d, purpose what) {
  uint32_t word[4];
  cr_philox(d->key, d->pass, d->image * PURPOSES + (uint64_t)what, word);
  return (double)word[0] / 4294967296.0;
}

/* Where the crop begins along an axis: `spare` pixels are left, and the shift may go beyond them.
 */
static int crop_from(double share, int spare, int shift) {
  return (int)round(share * (spare + shift) - shift / 2);
}

static void choose_crop(const detectnet_state *s, const draws *d, cr_detectnet_choice *to) {
  const Caffe__DetectNetAugmentationParameter *a = s->vary;
  int height = to->height, width = to->width;
  if (to->rotation != 0) {
    const cr_detectnet_turn turn = cr_detectnet_turn_of(height, width, to->rotation);
    height = turn.height;
    width = turn.width;
  }
  const bool random = draw(d, CROP) <= (double)a->crop_prob;
  to->left = crop_from(random ? draw(d, HOW_FAR_RIGHT) : 0.5, width - s->width,
                       random ? (int)a->shift_x : 0);
  to->top = crop_from(random ? draw(d, HOW_FAR_DOWN) : 0.5, height - s->height,
                      random ? (int)a->shift_y : 0);
}

static cr_detectnet_choice choose(const cr_layer *layer, int64_t image, int height, int width) {
  const detectnet_state *s = layer->state;
  const Caffe__DetectNetAugmentationParameter *a = s->vary;
  const draws d = {layer->key, layer->pass, (uint64_t)image};
  cr_detectnet_choice to = {.saturation = 1, .height = s->height, .width = s->width};
  if (layer->phase == CAFFE__PHASE__TEST) return to;
  if (draw(&d, HUE) <= (double)a->hue_rotation_prob) {
    to.hue = (2 * draw(&d, HOW_HUE) - 1) * (double)a->hue_rotation;
    to.hue = fmax(fmin(to.hue, 180), -180);
  }
  if (draw(&d, SATURATION) <= (double)a->desaturation_prob) {
    to.saturation = 1 - draw(&d, HOW_SATURATED) * (double)a->desaturation_max;
  }
  to.flip = draw(&d, FLIP) <= (double)a->flip_prob;
  double scale = 1;
  if (draw(&d, SCALE) <= (double)a->scale_prob) {
    scale =
        (double)a->scale_min + ((double)a->scale_max - (double)a->scale_min) * draw(&d, HOW_LARGE);
  }
  to.height = (int)fmax(round(height * scale), 1);
  to.width = (int)fmax(round(width * scale), 1);
  if (draw(&d, ROTATION) <= (double)a->rotation_prob) {
    to.rotation = (2 * draw(&d, HOW_TURNED) - 1) * (double)a->max_rotate_degree;
  }
  choose_crop(s, &d, &to);
  return to;
}

static void subtract_mean(const detectnet_state *s, cr_bgr_planes *image) {
  const size_t size = (size_t)image->height * (size_t)image->width;
  float *value = cr_bgr_planes_values(image);
  const float *mean = s->mean.values == NULL ? NULL : cr_bgr_planes_values(&s->centre);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = c * size; i < (c + 1) * size; ++i) {
      value[i] -= mean == NULL ? s->value[c] : mean[i] / 255;
    }
  }
}

/* `to`: values of the varied image, in -255..255. */
static crema_status put_image(detectnet_state *s, const cr_detectnet_choice *as, const float *from,
                              int height, int width, float *to) {
  cr_bgr_planes *now = &s->plane[0], *next = &s->plane[1];
  CR_TRY(cr_bgr_planes_reserve(now, height, width));
  for (size_t i = 0; i < 3 * (size_t)height * (size_t)width; ++i) {
    cr_bgr_planes_values(now)[i] = from[i] / 255;
  }
  if (as->hue != 0 || as->saturation < 1) cr_bgr_planes_color(now, as->hue, as->saturation);
  subtract_mean(s, now);
  if (as->flip) cr_bgr_planes_flip(now);
  if (as->height != height || as->width != width) {
    CR_TRY(cr_bgr_planes_resize(now, as->height, as->width, next));
    now = next;
    next = &s->plane[0];
  }
  if (as->rotation != 0) {
    CR_TRY(cr_bgr_planes_rotate(now, as->rotation, next));
    now = next;
  }
  cr_bgr_planes_crop(now, as->top, as->left, s->height, s->width, to);
  for (size_t i = 0; i < 3 * (size_t)s->height * (size_t)s->width; ++i) to[i] *= 255;
  return CREMA_OK;
}

static void move_box(const cr_detectnet_choice *as, int height, int width, object_box *box) {
  const double x = (double)as->width / width, y = (double)as->height / height;
  if (as->flip) box->left = width - box->left - box->width - 1;
  *box = (object_box){box->left * x, box->top * y, box->width * x, box->height * y, box->class};
  if (as->rotation != 0) {
    const cr_detectnet_turn turn = cr_detectnet_turn_of(as->height, as->width, as->rotation);
    const double dx = box->left + box->width / 2 - turn.middle[0];
    const double dy = box->top + box->height / 2 - turn.middle[1];
    box->left = turn.cosine * dx - turn.sine * dy + turn.shift[0] - box->width / 2;
    box->top = turn.sine * dx + turn.cosine * dy + turn.shift[1] - box->height / 2;
  }
  box->left -= as->left;
  box->top -= as->top;
}

/* The common part of two intervals. */
static double shared(double from, double to, double low, double high) {
  return fmax(fmin(to, high) - fmax(from, low), 0);
}

/* The length of a side that cells learn from. */
static double covered(const detectnet_state *s, double side) {
  const double share = side * (double)s->grid->scale_cvg;
  if (s->grid->gridbox_type ==
      CAFFE__DETECT_NET_GROUND_TRUTH_PARAMETER__GRIDBOX_TYPE__GRIDBOX_MIN) {
    return fmin(side, fmax(s->grid->min_cvg_len, share));
  }
  return fmin(s->grid->max_cvg_len, share);
}

/* Cells along an axis that `from` to `to` touches. */
static void cells_of(const detectnet_state *s, double from, double to, int most, int *first,
                     int *end) {
  const double stride = s->grid->stride;
  *first = (int)fmin(fmax(floor(from / stride), 0), most);
  *end = (int)fmin(fmax(ceil(to / stride), 0), most);
}

static void put_cell(const detectnet_state *s, const object_box *box, double part, int y, int x,
                     float *label) {
  const int64_t cells = (int64_t)s->rows * s->columns;
  const double left = box->left - (double)x * s->grid->stride;
  const double top = box->top - (double)y * s->grid->stride;
  const double number[FIXED] = {1,
                                left,
                                top,
                                left + box->width,
                                top + box->height,
                                1 / box->width,
                                1 / box->height,
                                s->grid->obj_norm ? part : fmax(part, 1)};
  float *at = label + (int64_t)y * s->columns + x;
  for (int64_t k = 0; k < FIXED; ++k) at[k * cells] = (float)number[k];
  for (int64_t k = 0; k < s->classes; ++k) at[(FIXED + k) * cells] = k == box->class;
}

static void put_box(const detectnet_state *s, const object_box *box, float *label) {
  const double stride = s->grid->stride, x = box->left + box->width / 2;
  const double y = box->top + box->height / 2;
  const double width = covered(s, box->width), height = covered(s, box->height);
  const double part = stride * stride / (width * height);
  int left, right, top, bottom;
  cells_of(s, x - width / 2, x + width / 2, s->columns, &left, &right);
  cells_of(s, y - height / 2, y + height / 2, s->rows, &top, &bottom);
  for (int row = top; row < bottom; ++row) {
    for (int column = left; column < right; ++column) {
      const double area =
          shared(x - width / 2, x + width / 2, column * stride, (column + 1) * stride) *
          shared(y - height / 2, y + height / 2, row * stride, (row + 1) * stride);
      if (area / (stride * stride) > (double)FLT_EPSILON)
        put_cell(s, box, part, row, column, label);
    }
  }
}

/* The part of a box in the image. */
static void cut_box(const detectnet_state *s, object_box *box) {
  const double right = fmin(box->left + box->width, s->width);
  const double bottom = fmin(box->top + box->height, s->height);
  box->left = fmax(box->left, 0);
  box->top = fmax(box->top, 0);
  box->width = fmax(right - box->left, 0);
  box->height = fmax(bottom - box->top, 0);
}

static crema_status put_label(const cr_layer *layer, const cr_detectnet_choice *as,
                              const crema_blob *const *bottom, int64_t image, const float *from,
                              float *label) {
  const detectnet_state *s = layer->state;
  const int64_t rows = bottom[1]->shape.dim[2];
  const int height = (int)bottom[0]->shape.dim[2], width = (int)bottom[0]->shape.dim[3];
  memset(label, 0,
         (size_t)(FIXED + s->classes) * (size_t)s->rows * (size_t)s->columns * sizeof *label);
  if (!(from[0] >= 0 && from[0] < (float)rows) || (from[0] > 0 && from[1] != NUMBERS)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "image %lld says that it has %g objects of %g numbers; there is room for "
                         "%lld of %d",
                         (long long)image, (double)from[0], (double)from[1], (long long)rows - 1,
                         NUMBERS);
  }
  for (int64_t i = 1; i <= (int64_t)from[0]; ++i) {
    const float *row = from + i * NUMBERS;
    object_box box = {(double)row[0], (double)row[1], (double)row[2], (double)row[3],
                      class_of(s, (double)row[CLASS])};
    move_box(as, height, width, &box);
    if (s->grid->crop_bboxes) cut_box(s, &box);
    if (box.class >= 0 && box.width * box.height >= (double)FLT_EPSILON && box.width > 0) {
      put_box(s, &box, label);
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  detectnet_state *s = layer->state;
  const int64_t count = bottom[0]->shape.dim[0], rows = bottom[1]->shape.dim[2];
  const int height = (int)bottom[0]->shape.dim[2], width = (int)bottom[0]->shape.dim[3];
  const int64_t in = 3 * (int64_t)height * width, out = 3 * (int64_t)s->height * s->width;
  const int64_t cells = (FIXED + s->classes) * (int64_t)s->rows * s->columns;
  const float *data = NULL, *objects = NULL;
  float *images = NULL, *labels = NULL;
  (void)context;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &data));
  CR_TRY(cr_tensor_host_read_floats(bottom[1]->data, &objects));
  CR_TRY(cr_tensor_host_write_floats(top[0]->data, &images));
  CR_TRY(cr_tensor_host_write_floats(top[1]->data, &labels));
  for (int64_t i = 0; i < count; ++i) {
    const cr_detectnet_choice as = choose(layer, i, height, width);
    CR_TRY(put_image(s, &as, data + i * in, height, width, images + i * out));
    CR_TRY(put_label(layer, &as, (const crema_blob *const *)bottom, i, objects + i * rows * NUMBERS,
                     labels + i * cells));
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  detectnet_state *s = layer->state;
  cr_mean_free(&s->mean);
  cr_buffer_free(&s->centre.memory);
  cr_buffer_free(&s->plane[0].memory);
  cr_buffer_free(&s->plane[1].memory);
}

const cr_layer_class cr_layer_detectnet_transformation = {
    CR_LAYER_HOST("DetectNetTransformation", sizeof(detectnet_state), setup, reshape, forward,
                  destroy),
    .bottoms = {2, 2},
    .tops = {2, 2},
    .graph.ends_gradient = true,
};
