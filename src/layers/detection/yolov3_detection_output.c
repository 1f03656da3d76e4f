/* Yolov3DetectionOutput: the boxes that a YOLO v3 has found (Redmon and Farhadi, "YOLOv3: an
 * incremental improvement", 2018).
 *
 * Formula: with s(t) = 1 / (1 + exp(-t)), take cell (i, j) of a map of w x h cells and anchor (bw,
 * bh). The centre of the box is ((i + s(tx)) / w, (j + s(ty)) / h). Its size is (exp(tw) bw / (w
 * scale), exp(th) bh / (h scale)). The score of class c is s(to) s(tc). Boxes and classes with a
 * score above confidence_threshold are found. Of an image's boxes of all classes, a box is dropped
 * if it overlaps a better one by nms_threshold or more.
 * Shapes: maps (N, num_box (5 + num_classes), h, w) -> y (1, 1, boxes, 7). A row of y is image,
 * class + 1, score, xmin, ymin, xmax, ymax. Without any box there is one row for each image, with
 * -1 after its number.
 * Fields: yolov3_detection_output_param.
 * Caffe: as in MobileNet-YOLO, which takes all boxes of a batch for boxes of image 0; gaussian_box
 * is refused.
 * Example, map 1 14 3 3:
 *   layer { name: "found" type: "Yolov3DetectionOutput" bottom: "map" top: "y"
 *     yolov3_detection_output_param { num_classes: 2 num_box: 2 mask_group_num: 1 mask: 0 mask: 1
 *       anchors_scale: 8 biases: 8 biases: 8 biases: 16 biases: 12 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/geometry/region.h"

typedef struct yolo_found_state {
  int64_t images;
  cr_buffer box, rank, kept; /* cr_box and cr_ranked of an image, and scratch */
  cr_buffer row;             /* 7 floats of each box of the batch */
} yolo_found_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__Yolov3DetectionOutputParameter *p = layer->param->yolov3_detection_output_param;
  const size_t maps = (size_t)layer->bottoms;
  (void)bottom, (void)top;
  if (p == NULL || p->num_box == 0 || p->num_classes == 0 || p->num_box > 10000 ||
      p->num_classes > 1000000 || p->n_mask != maps * p->num_box || p->n_anchors_scale != maps) {
    return cr_layer_fail(
        layer, CREMA_E_ARGUMENT,
        "yolov3_detection_output_param needs num_box and num_classes, and for each "
        "of %zu bottoms an anchors_scale and num_box entries of mask",
        maps);
  }
  if (p->gaussian_box) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "gaussian_box of MobileNet-YOLO is not supported");
  }
  for (size_t i = 0; i < p->n_mask; ++i) {
    if ((size_t)p->mask[i] * 2 + 1 < p->n_biases) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "mask is %u, but there are %zu anchors in biases",
                         p->mask[i], p->n_biases / 2);
  }
  if (p->nms_threshold > 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE, "nms_threshold is %g, must be above 0",
                       (double)p->nms_threshold);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  yolo_found_state *s = layer->state;
  const Caffe__Yolov3DetectionOutputParameter *p = layer->param->yolov3_detection_output_param;
  const int64_t channels = (int64_t)p->num_box * (5 + (int64_t)p->num_classes);
  for (int i = 0; i < layer->bottoms; ++i) {
    const crema_shape *map = &bottom[i]->shape;
    if (map->axes == 4 && map->dim[1] == channels && map->dim[0] == bottom[0]->shape.dim[0] &&
        map->dim[2] * map->dim[3] * p->num_box < INT32_MAX / 8) {
      continue;
    }
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom %d must have shape N %lld h w", i,
                         (long long)channels);
  }
  s->images = bottom[0]->shape.dim[0];
  return crema_blob_reshape(top[0], &(crema_shape){.axes = 4, .dim = {1, 1, 1, 7}});
}

/* Anchor `n` of a map. */
typedef struct anchor_map {
  cr_host_values values;
  int64_t first, columns, rows; /* first: its first number in the blob */
  double width, height;         /* of the anchor, in parts of the image */
} anchor_map;

/* Adds the classes that a cell has found. */
static crema_status find_cell(yolo_found_state *s, const anchor_map *of, int64_t cell,
                              int64_t classes, float threshold) {
  const int64_t cells = of->columns * of->rows, at = of->first + cell;
  const double object = cr_region_sigmoid(cr_host_get(&of->values, at + 4 * cells));
  if (!(object > (double)threshold)) return CREMA_OK;
  double t[4];
  for (int k = 0; k < 4; ++k) t[k] = cr_host_get(&of->values, at + k * cells);
  const cr_box box =
      cr_box_around(((double)(cell % of->columns) + cr_region_sigmoid(t[0])) / (double)of->columns,
                    ((double)(cell / of->columns) + cr_region_sigmoid(t[1])) / (double)of->rows,
                    exp(t[2]) * of->width, exp(t[3]) * of->height);
  const int32_t index = (int32_t)(s->box.size / sizeof box);
  CR_TRY(cr_buffer_append(&s->box, &box, sizeof box));
  for (int64_t c = 0; c < classes; ++c) {
    const double chance = cr_region_sigmoid(cr_host_get(&of->values, at + (5 + c) * cells));
    const cr_ranked one = {(float)(object * chance), (int32_t)c, index};
    if (one.score > threshold) CR_TRY(cr_buffer_append(&s->rank, &one, sizeof one));
  }
  return CREMA_OK;
}

static crema_status find_boxes(cr_layer *layer, crema_blob *const *bottom, int64_t image) {
  yolo_found_state *s = layer->state;
  const Caffe__Yolov3DetectionOutputParameter *p = layer->param->yolov3_detection_output_param;
  for (int i = 0; i < layer->bottoms; ++i) {
    const crema_shape *map = &bottom[i]->shape;
    const int64_t cells = map->dim[2] * map->dim[3], size = 5 + (int64_t)p->num_classes;
    const double scale = (double)p->anchors_scale[i];
    anchor_map of = {.columns = map->dim[3], .rows = map->dim[2]};
    CR_TRY(cr_host_read(bottom[i]->data, &of.values));
    for (int64_t n = 0; n < (int64_t)p->num_box; ++n) {
      const float *bias = p->biases + 2 * (size_t)p->mask[i * (int64_t)p->num_box + n];
      of.first = (image * (int64_t)p->num_box + n) * size * cells;
      of.width = (double)bias[0] / ((double)of.columns * scale);
      of.height = (double)bias[1] / ((double)of.rows * scale);
      for (int64_t cell = 0; cell < cells; ++cell) {
        CR_TRY(find_cell(s, &of, cell, p->num_classes, p->confidence_threshold));
      }
    }
  }
  return CREMA_OK;
}

static crema_status keep_best(cr_layer *layer, int64_t image) {
  yolo_found_state *s = layer->state;
  const float limit = layer->param->yolov3_detection_output_param->nms_threshold;
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  size_t count = s->rank.size / sizeof *rank;
  if (count == 0) return CREMA_OK;
  cr_rank(rank, count);
  CR_TRY(cr_suppress(box, rank, &count, nextafterf(limit, 0), 1, -1, &s->kept));
  for (size_t i = 0; i < count; ++i) {
    const cr_box b = box[rank[i].index];
    const float row[7] = {
        (float)image, (float)rank[i].label + 1, rank[i].score, b.xmin, b.ymin, b.xmax, b.ymax};
    CR_TRY(cr_buffer_append(&s->row, row, sizeof row));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  yolo_found_state *s = layer->state;
  (void)context;
  cr_buffer_clear(&s->row);
  for (int64_t i = 0; i < s->images; ++i) {
    cr_buffer_clear(&s->box);
    cr_buffer_clear(&s->rank);
    CR_TRY(find_boxes(layer, bottom, i));
    CR_TRY(keep_best(layer, i));
  }
  return cr_write_detections(&s->row, s->images, top[0]);
}

static void destroy(cr_layer *layer) {
  yolo_found_state *s = layer->state;
  cr_buffer_free(&s->row);
  cr_buffer_free(&s->kept);
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->box);
}

const cr_layer_class cr_layer_yolov3_detection_output = {
    CR_LAYER_HOST("Yolov3DetectionOutput", sizeof(yolo_found_state), setup, reshape, forward,
                  destroy),
    .bottoms = {1, CR_ANY},
    .tops = {1, 1},
};
