/* DetectionEvaluate: which detections are right, for mean average precision.
 *
 * Formula: the detections of each image and class are processed best first. A detection is right if
 * its best overlap with an object of its class is overlap_threshold or more, and no better
 * detection has that object.
 * Shapes: detections (1, 1, boxes, 7) of DetectionOutput, objects (1, 1, rows, 8) of AnnotatedData
 * -> y (1, 1, classes + boxes, 5). Each class except the background has a row: -1, class, number of
 * objects, -1, -1. Each detection has a row: image, class, score, right, wrong.
 * Fields: detection_evaluate_param.
 * Caffe: as in Caffe-SSD. With name_size_file, boxes are compared in inclusive pixels of their
 * images; after the last image of the list comes the first.
 * Example, found 1 1 2 7, label 1 1 3 8:
 *   layer { name: "right" type: "DetectionEvaluate" bottom: "found" bottom: "label" top: "y"
 *     detection_evaluate_param { num_classes: 3 background_label_id: 2 } } */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/detection/average_precision.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/geometry/image_sizes.h"

typedef struct evaluate_state {
  int64_t classes, counted; /* counted: those that are not the background */
  cr_truths truths;
  cr_precision precision;
  cr_buffer order;      /* cr_ranked: the detections by image, class and row, scores aside */
  cr_buffer found;      /* cr_ranked: the detections of one image and class */
  cr_buffer count;      /* int64_t: objects of each class */
  cr_buffer box;        /* cr_box of each detection */
  cr_test_images sizes; /* none: boxes are compared in shares of the net's input */
  size_t image;         /* that item 0 of the next batch is */
} evaluate_state;

static crema_status read_sizes(const cr_layer *layer, const char *name) {
  evaluate_state *s = layer->state;
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, name, &path));
  crema_status status = cr_test_images_read(path, 0, &s->sizes);
  free(path);
  return status;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  evaluate_state *s = layer->state;
  const Caffe__DetectionEvaluateParameter *p = layer->param->detection_evaluate_param;
  (void)bottom, (void)top;
  if (p == NULL || p->num_classes == 0 || p->num_classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "detection_evaluate_param needs num_classes of 1 or more");
  }
  if (!(p->overlap_threshold > 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "overlap_threshold is %g, must be above 0",
                         (double)p->overlap_threshold);
  }
  if (p->name_size_file != NULL && *p->name_size_file != '\0') {
    CR_TRY(cr_layer_in(layer, read_sizes(layer, p->name_size_file)));
  }
  s->classes = p->num_classes;
  s->counted = s->classes - (p->background_label_id < p->num_classes);
  s->precision.threshold = (double)p->overlap_threshold;
  s->precision.omits_difficult = !p->evaluate_difficult_gt;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const evaluate_state *s = layer->state;
  CR_TRY(cr_check_rows(layer, "bottom 0 (detections)", &bottom[0]->shape, 7));
  CR_TRY(cr_check_rows(layer, "bottom 1 (objects)", &bottom[1]->shape, 8));
  const crema_shape to =
      cr_shape(4, (const int64_t[]){1, 1, s->counted + bottom[0]->shape.dim[2], 5});
  return crema_blob_reshape(top[0], &to);
}

/* Rows of the top. */
typedef struct results {
  cr_host_results to;
  int64_t rows;
} results;

static void put_row(results *out, double a, double b, double c, double d, double e) {
  const double row[5] = {a, b, c, d, e};
  for (int i = 0; i < 5; ++i) cr_host_put(&out->to, 5 * out->rows + i, row[i]);
  ++out->rows;
}

static crema_status put_counts(cr_layer *layer, results *out) {
  evaluate_state *s = layer->state;
  const Caffe__DetectionEvaluateParameter *p = layer->param->detection_evaluate_param;
  const size_t bytes = (size_t)s->classes * sizeof(int64_t);
  CR_TRY(cr_buffer_reserve(&s->count, bytes));
  int64_t *count = (int64_t *)(void *)s->count.data;
  memset(count, 0, bytes);
  for (size_t i = 0; i < s->truths.count; ++i) {
    count[s->truths.at[i].label] += p->evaluate_difficult_gt || !s->truths.at[i].difficult;
  }
  for (int64_t c = 0; c < s->classes; ++c) {
    if (c != p->background_label_id) put_row(out, -1, (double)c, (double)count[c], -1, -1);
  }
  return CREMA_OK;
}

/* Sorts the rows of detections by image and class. The images are whole numbers that a float holds.
 */
static crema_status sort_detections(evaluate_state *s, const float *row, int64_t rows,
                                    size_t *count) {
  CR_TRY(cr_buffer_reserve(&s->order, (size_t)(rows + 1) * sizeof(cr_ranked)));
  CR_TRY(cr_buffer_reserve(&s->found, (size_t)(rows + 1) * sizeof(cr_ranked)));
  cr_ranked *order = (cr_ranked *)(void *)s->order.data;
  *count = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (row[7 * i + 1] == -1) continue;
    order[(*count)++] = (cr_ranked){-truncf(row[7 * i]), (int32_t)row[7 * i + 1], (int32_t)i};
  }
  if (*count > 0) cr_rank(order, *count);
  return CREMA_OK;
}

/* Classifies the detections of each image and class, best first. Without objects, they keep the
 * order of their rows. */
static void classify(evaluate_state *s, const float *row, size_t count, results *out) {
  const cr_ranked *order = (const cr_ranked *)(const void *)s->order.data;
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  cr_ranked *found = (cr_ranked *)(void *)s->found.data;
  size_t first = 0, end = 0;
  for (size_t begin = 0; begin < count; begin = end) {
    const int32_t item = (int32_t)-order[begin].score, label = order[begin].label;
    for (end = begin;
         end < count && order[end].score == order[begin].score && order[end].label == label;
         ++end) {
      const int32_t index = order[end].index;
      found[end - begin] = (cr_ranked){row[7 * index + 2], label, index};
    }
    const size_t truths = cr_truths_of(&s->truths, item, &first);
    for (size_t i = first; i < first + truths; ++i) {
      if (s->truths.at[i].label != label) continue;
      cr_rank(found, end - begin);
      break;
    }
    for (size_t i = 0; i < end - begin; ++i) {
      const cr_positive is = cr_precision_classify(&s->precision, &s->truths, first, truths, label,
                                                   box[found[i].index]);
      put_row(out, (double)item, (double)label, (double)found[i].score, is == CR_TRUE_POSITIVE,
              is == CR_FALSE_POSITIVE);
    }
  }
}

/* Detections have an image and a class, or -1 for none. */
static crema_status check_detections(const cr_layer *layer, const float *row, int64_t rows) {
  const evaluate_state *s = layer->state;
  for (int64_t i = 0; i < rows; ++i) {
    const float item = row[7 * i], label = row[7 * i + 1];
    if (label == -1 || (item >= 0 && item < 1e9f && label >= 0 && label < (float)s->classes)) {
      continue;
    }
    return cr_layer_fail(layer, CREMA_E_RANGE, "detection %lld is of image %g and class %g",
                         (long long)i, (double)item, (double)label);
  }
  return CREMA_OK;
}

static cr_box in_pixels(const cr_layer *layer, cr_box box, size_t item) {
  const evaluate_state *s = layer->state;
  const cr_test_image *at = &s->sizes.at[(s->image + item) % s->sizes.count];
  const Caffe__ResizeParameter *resize = layer->param->detection_evaluate_param->resize_param;
  box = cr_box_in_pixels(resize, at->height, at->width, box);
  return (cr_box){box.xmin, box.ymin, box.xmax + 1, box.ymax + 1};
}

/* Scales the boxes to pixels of their images. The image of the last object or detection ends the
 * batch; the next batch begins after it. */
static void scale_boxes(const cr_layer *layer, const float *row, int64_t rows) {
  evaluate_state *s = layer->state;
  cr_truth *truth = s->truths.at;
  cr_box *box = (cr_box *)(void *)s->box.data;
  size_t items = 0;
  if (s->sizes.count == 0) return;
  for (size_t i = 0; i < s->truths.count; ++i) {
    truth[i].box = in_pixels(layer, truth[i].box, (size_t)truth[i].item);
    items = (size_t)truth[i].item + 1 > items ? (size_t)truth[i].item + 1 : items;
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (row[7 * i] < 0) continue;
    const size_t item = (size_t)row[7 * i];
    box[i] = in_pixels(layer, box[i], item);
    items = item + 1 > items ? item + 1 : items;
  }
  s->image = (s->image + items) % s->sizes.count;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  evaluate_state *s = layer->state;
  const int64_t rows = bottom[0]->shape.dim[2], objects = bottom[1]->shape.dim[2];
  const cr_truth_rule rule = {
      .items = 1000000000,
      .classes = s->classes,
      .background = layer->param->detection_evaluate_param->background_label_id};
  const float *row = NULL;
  cr_host_values label;
  results out = {.rows = 0};
  size_t valid = 0;
  (void)context;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &row));
  CR_TRY(cr_host_read(bottom[1]->data, &label));
  CR_TRY(check_detections(layer, row, rows));
  CR_TRY(cr_truths_read(layer, &label, objects, &rule, &s->truths));
  cr_buffer_clear(&s->box);
  for (int64_t i = 0; i < rows; ++i) {
    CR_TRY(cr_buffer_append(&s->box, &row[7 * i + 3], sizeof(cr_box)));
  }
  CR_TRY(cr_precision_begin(&s->precision, s->truths.count));
  scale_boxes(layer, row, rows);
  CR_TRY(sort_detections(s, row, rows, &valid));
  CR_TRY(crema_blob_reshape(
      top[0], &(crema_shape){.axes = 4, .dim = {1, 1, s->counted + (int64_t)valid, 5}}));
  CR_TRY(cr_host_write(top[0]->data, &out.to));
  CR_TRY(put_counts(layer, &out));
  classify(s, row, valid, &out);
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  evaluate_state *s = layer->state;
  cr_buffer_free(&s->truths.memory);
  cr_buffer_free(&s->precision.taken);
  cr_buffer_free(&s->order);
  cr_buffer_free(&s->found);
  cr_buffer_free(&s->count);
  cr_buffer_free(&s->box);
  cr_test_images_free(&s->sizes);
}

const cr_layer_class cr_layer_detection_evaluate = {
    CR_LAYER_HOST("DetectionEvaluate", sizeof(evaluate_state), setup, reshape, forward, destroy),
    .bottoms = {2, 2},
    .tops = {1, 1},
};
