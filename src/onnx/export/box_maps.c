/* Boxes that maps predict: DecodeBBox, BoxOutput of MS-CNN, Yolov3DetectionOutput. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "onnx/export/boxes.h"

/* A constant (rows, columns). */
static const char *table(cr_onnx_graph *g, const char *what, int64_t rows, int64_t columns,
                         const float *values) {
  const crema_shape shape = {.axes = 2, .dim = {rows, columns}};
  return cr_onnx_floats(g, what, &shape, values);
}

/* Applies bbox_reg_param to offsets whose four numbers are along axis -2 (`turned`) or -1. */
static const char *denormalize(cr_onnx_layer *l, const char *offset, bool turned) {
  const Caffe__BBoxRegParameter *p = l->param->bbox_reg_param;
  const int64_t rows = turned ? 4 : 1, columns = turned ? 1 : 4;
  if (p == NULL || p->n_bbox_mean == 0 || p->n_bbox_std == 0) return offset;
  const char *deviation = table(l->g, "deviation", rows, columns, p->bbox_std);
  const char *mean = table(l->g, "mean", rows, columns, p->bbox_mean);
  return CR_ONNX_VALUE(l->g, "Add", CR_ONNX_VALUE(l->g, "Mul", offset, deviation), mean);
}

void cr_onnx_export_decode_bbox(cr_onnx_layer *l) {
  static const int64_t eight[] = {-1, 8}, five[] = {-1, 5}, to[] = {-1, 5, 1, 1};
  cr_onnx_graph *g = l->g;
  const char *d = cr_onnx_sliced(g, cr_onnx_reshaped(g, l->in[0], eight, 2), 1, 4, 8);
  const char *region = cr_onnx_reshaped(g, l->in[1], five, 2);
  const char *low = cr_onnx_sliced(g, region, 1, 1, 3), *high = cr_onnx_sliced(g, region, 1, 3, 5);
  d = denormalize(l, d, false);
  const char *extent = cr_onnx_with(g, "Add", CR_ONNX_VALUE(g, "Sub", high, low), 1);
  const char *growth = CR_ONNX_VALUE(g, "Exp", cr_onnx_sliced(g, d, 1, 2, 4));
  const char *more = cr_onnx_with(g, "Sub", CR_ONNX_VALUE(g, "Mul", extent, growth), 1);
  const char *moved = CR_ONNX_VALUE(g, "Mul", cr_onnx_sliced(g, d, 1, 0, 2), extent);
  const char *middle = cr_onnx_with(g, "Mul", CR_ONNX_VALUE(g, "Add", low, high), 0.5f);
  const char *centre = CR_ONNX_VALUE(g, "Add", moved, middle);
  low = CR_ONNX_VALUE(g, "Sub", centre, cr_onnx_with(g, "Mul", more, 0.5f));
  const char *all = CR_ONNX_VALUE(g, "Concat", cr_onnx_sliced(g, region, 1, 0, 1), low,
                                  CR_ONNX_VALUE(g, "Add", low, more));
  cr_onnx_int(g, "axis", 1);
  cr_onnx_reshape(g, l->out[0], all, to, 4);
}

/* ---- BoxOutput --------------------------------------------------------------------- */

/* Two numbers for each cell (2, cells): its column and row plus `offset`, times a factor each. */
static const char *cell_places(cr_onnx_graph *g, int64_t rows, int64_t columns, float offset,
                               const float factor[2]) {
  const crema_shape shape = {.axes = 2, .dim = {2, rows * columns}};
  float *value;
  const char *name = cr_onnx_new_floats(g, "cells", &shape, &value);
  for (int64_t i = 0; value != NULL && i < rows * columns; ++i) {
    value[i] = ((float)(i % columns) + offset) * factor[0];
    value[rows * columns + i] = ((float)(i / columns) + offset) * factor[1];
  }
  return name;
}

static const char *clip(cr_onnx_graph *g, const char *in, float low, float high) {
  const char *out = cr_onnx_name(g, "Clip");
  cr_onnx_clip(g, out, in, low, high);
  return out;
}

/* Borders (N, 2, cells) of the boxes of a map; the second ones are outside. */
static void map_boxes(cr_onnx_layer *l, int index, const char *offsets, const char *border[2]) {
  const Caffe__BoxOutputParameter *p = l->param->box_output_param;
  const int64_t *map = cr_onnx_bottom_shape(l, index)->dim;
  const float rate = p->downsample_rate[index], rates[2] = {rate, rate};
  const float field[2] = {(float)p->field_w[index], (float)p->field_h[index]};
  const float end[2] = {(float)map[3] * rate, (float)map[2] * rate};
  const float shift = 1 / p->field_xyr, growth = logf(p->field_whr);
  cr_onnx_graph *g = l->g;
  const char *fields = table(g, "field", 2, 1, field);
  const char *size =
      CR_ONNX_VALUE(g, "Exp", clip(g, cr_onnx_sliced(g, offsets, 1, 2, 4), -growth, growth));
  size = CR_ONNX_VALUE(g, "Mul", size, fields);
  const char *moved = clip(g, cr_onnx_sliced(g, offsets, 1, 0, 2), -shift, shift);
  const char *centre = CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Mul", moved, fields),
                                     cell_places(g, map[2], map[3], 0.5f, rates));
  const char *low = CR_ONNX_VALUE(g, "Sub", centre, cr_onnx_with(g, "Mul", size, 0.5f));
  border[0] = cr_onnx_with(g, "Max", low, 0);
  border[1] =
      CR_ONNX_VALUE(g, "Min", CR_ONNX_VALUE(g, "Add", border[0], size), table(g, "end", 2, 1, end));
}

/* The boxes (N, 4, cells) of a map, and their scores (N, 1, cells). */
static void read_map(cr_onnx_layer *l, int index, const char **boxes, const char **scores) {
  const Caffe__BoxOutputParameter *p = l->param->box_output_param;
  const int64_t channels = cr_onnx_bottom_shape(l, index)->dim[1], classes = channels - 4;
  cr_onnx_graph *g = l->g;
  const char *border[2], *best = cr_onnx_name(g, "best"), *least = cr_onnx_name(g, "least");
  const char *all = cr_onnx_reshaped(g, l->in[index], (const int64_t[]){0, channels, -1}, 3);
  map_boxes(l, index, denormalize(l, cr_onnx_sliced(g, all, 1, classes, channels), true), border);
  cr_onnx_reduce(g, "ReduceMax", best, cr_onnx_sliced(g, all, 1, 1, classes), (const int64_t[]){1},
                 1, true);
  const char *score = CR_ONNX_VALUE(g, "Sub", best, cr_onnx_sliced(g, all, 1, 0, 1));
  cr_onnx_reduce(g, "ReduceMin", least, CR_ONNX_VALUE(g, "Sub", border[1], border[0]),
                 (const int64_t[]){1}, 1, true);
  const char *low = cr_onnx_with(g, "Less", score, p->fg_thr);
  const char *small = cr_onnx_with(g, "Less", least, (float)p->min_size);
  *scores = cr_onnx_hide(g, CR_ONNX_VALUE(g, "Or", low, small), score);
  *boxes = cr_onnx_joined(g, border[0], border[1], 1);
}

/* The rows (M, 6) of an image: image, box, score. */
static const char *image_rows(cr_onnx_layer *l, const char *boxes, const char *scores,
                              int64_t count, int64_t image) {
  const Caffe__BoxOutputParameter *p = l->param->box_output_param;
  const int64_t flat[] = {count, 4}, column[] = {-1, 1};
  cr_onnx_graph *g = l->g;
  const char *own = cr_onnx_sliced(g, boxes, 0, image, image + 1);
  const char *score = cr_onnx_sliced(g, scores, 0, image, image + 1);
  const cr_onnx_suppression of = {
      .boxes = own,
      .scores = score,
      .boxes_count = count,
      .top_k = p->max_nms_num > 0 ? (int64_t)p->max_nms_num : -1,
      .most = p->max_post_nms_num > 0 ? (int64_t)p->max_post_nms_num : -1,
      .overlap = p->iou_thr,
      .threshold = -FLT_MAX};
  const char *kept = cr_onnx_suppress(g, &of);
  const char *values = cr_onnx_reshaped(g, CR_ONNX_VALUE(g, "GatherND", score, kept), column, 2);
  const char *places =
      cr_onnx_gathered(g, cr_onnx_reshaped(g, own, flat, 2), cr_onnx_column(g, kept, 2), 0);
  const char *out =
      CR_ONNX_VALUE(g, "Concat", cr_onnx_constant_column(g, values, (float)image), places, values);
  cr_onnx_int(g, "axis", 1);
  return out;
}

void cr_onnx_export_box_output(cr_onnx_layer *l) {
  static const float none[] = {0, 1, 1, 10, 10, 0}, zeros[6] = {0};
  static const int64_t order[] = {0, 2, 1};
  const int64_t images = cr_onnx_bottom_shape(l, 0)->dim[0];
  cr_onnx_graph *g = l->g;
  int64_t count = 0;
  if (strcmp(l->param->box_output_param->nms_type, "IOU") != 0) {
    cr_onnx_reject(l, "nms_type: \"IOU\"", "NonMaxSuppression compares by intersection over union");
    return;
  }
  if (cr_onnx_rejects_any_batch(l)) return;
  const char **part =
      cr_onnx_memory(g, (3 * (size_t)l->bottoms + (size_t)images + 3) * sizeof *part);
  if (part == NULL) return;
  const char **scores = part + l->bottoms + 1, **rows = scores + l->bottoms + 1;
  for (int i = 0; i < l->bottoms; ++i) {
    const int64_t *map = cr_onnx_bottom_shape(l, i)->dim;
    read_map(l, i, &part[i], &scores[i]);
    count += map[2] * map[3];
  }
  const char *boxes = cr_onnx_value(g, "Concat", part);
  cr_onnx_int(g, "axis", 2);
  const char *all_scores = cr_onnx_value(g, "Concat", scores);
  cr_onnx_int(g, "axis", 2);
  boxes = cr_onnx_transposed(g, boxes, order, 3);
  for (int64_t i = 0; i < images; ++i) rows[i] = image_rows(l, boxes, all_scores, count, i);
  for (int t = 0; t < l->tops; ++t) {
    const int64_t width = 5 + t, to[] = {-1, width, 1, 1};
    const char *all = cr_onnx_rows_or(g, rows, table(g, "none", 1, 6, t == 0 ? none : zeros), 1);
    if (t == 0) all = cr_onnx_sliced(g, all, 1, 0, width);
    cr_onnx_reshape(g, l->out[t], all, to, 4);
  }
  l->open_axis = 1;
}

/* ---- Yolov3DetectionOutput --------------------------------------------------------- */

/* The boxes (N, anchors cells, 4) of a map, and their scores (N, classes, anchors cells). */
static void read_anchors(cr_onnx_layer *l, int index, const char **boxes, const char **scores) {
  const Caffe__Yolov3DetectionOutputParameter *p = l->param->yolov3_detection_output_param;
  const int64_t *map = cr_onnx_bottom_shape(l, index)->dim, cells = map[2] * map[3];
  const int64_t anchors = p->num_box, size = 5 + (int64_t)p->num_classes;
  const float scale = (float)p->anchors_scale[index];
  const float share[2] = {1 / (float)map[3], 1 / (float)map[2]};
  const crema_shape shape = {.axes = 3, .dim = {anchors, 2, 1}};
  static const int64_t by_box[] = {0, 1, 3, 2}, by_class[] = {0, 2, 1, 3};
  cr_onnx_graph *g = l->g;
  float *extent;
  const char *extents = cr_onnx_new_floats(g, "anchors", &shape, &extent);
  for (int64_t n = 0; extent != NULL && n < anchors; ++n) {
    const float *bias = p->biases + 2 * (size_t)p->mask[index * anchors + n];
    for (int a = 0; a < 2; ++a) extent[2 * n + a] = bias[a] / scale * share[a];
  }
  const char *all =
      cr_onnx_reshaped(g, l->in[index], (const int64_t[]){0, anchors, size, cells}, 4);
  const char *chance[3];
  const int64_t from[] = {0, 4, 5}, to[] = {2, 5, size};
  for (int i = 0; i < 3; ++i) {
    chance[i] = CR_ONNX_VALUE(g, "Sigmoid", cr_onnx_sliced(g, all, 2, from[i], to[i]));
  }
  const char *centre =
      CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Mul", chance[0], table(g, "share", 2, 1, share)),
                    cell_places(g, map[2], map[3], 0, share));
  const char *half = CR_ONNX_VALUE(g, "Exp", cr_onnx_sliced(g, all, 2, 2, 4));
  half = cr_onnx_with(g, "Mul", CR_ONNX_VALUE(g, "Mul", half, extents), 0.5f);
  const char *both = cr_onnx_joined(g, CR_ONNX_VALUE(g, "Sub", centre, half),
                                    CR_ONNX_VALUE(g, "Add", centre, half), 2);
  *boxes =
      cr_onnx_reshaped(g, cr_onnx_transposed(g, both, by_box, 4), (const int64_t[]){0, -1, 4}, 3);
  const char *found = CR_ONNX_VALUE(g, "Mul", chance[1], chance[2]);
  *scores = cr_onnx_reshaped(g, cr_onnx_transposed(g, found, by_class, 4),
                             (const int64_t[]){0, (int64_t)p->num_classes, -1}, 3);
}

/* The rows (M, 7) of an image. Pairs of class and box, in this order, are the boxes of a single
 * class for the suppression. */
static const char *image_detections(cr_onnx_layer *l, const char *boxes, const char *scores,
                                    int64_t count, int64_t image) {
  const Caffe__Yolov3DetectionOutputParameter *p = l->param->yolov3_detection_output_param;
  const int64_t classes = p->num_classes, all = classes * count;
  const int64_t pairs[] = {1, all, 4}, line[] = {1, 1, all}, column[] = {-1, 1}, flat[] = {all, 4};
  cr_onnx_graph *g = l->g;
  const char *own = cr_onnx_sliced(g, boxes, 0, image, image + 1);
  own = CR_ONNX_VALUE(g, "Expand", own,
                      cr_onnx_integers(g, "pairs", (const int64_t[]){classes, count, 4}, 3));
  own = cr_onnx_reshaped(g, own, pairs, 3);
  const char *score = cr_onnx_reshaped(g, cr_onnx_sliced(g, scores, 0, image, image + 1), line, 3);
  const cr_onnx_suppression of = {.boxes = own,
                                  .scores = score,
                                  .boxes_count = all,
                                  .top_k = -1,
                                  .most = -1,
                                  .overlap = nextafterf(p->nms_threshold, 0),
                                  .threshold = p->confidence_threshold};
  const char *kept = cr_onnx_suppress(g, &of), *pair = cr_onnx_column(g, kept, 2);
  const char *label = CR_ONNX_VALUE(g, "Div", pair, cr_onnx_integer(g, count));
  label = cr_onnx_reshaped(g, cr_onnx_with(g, "Add", cr_onnx_cast(g, label, CR_ONNX_FLOAT), 1),
                           column, 2);
  const char *out =
      CR_ONNX_VALUE(g, "Concat", cr_onnx_constant_column(g, label, (float)image), label,
                    cr_onnx_reshaped(g, CR_ONNX_VALUE(g, "GatherND", score, kept), column, 2),
                    cr_onnx_gathered(g, cr_onnx_reshaped(g, own, flat, 2), pair, 0));
  cr_onnx_int(g, "axis", 1);
  return out;
}

void cr_onnx_export_yolov3_detection_output(cr_onnx_layer *l) {
  const Caffe__Yolov3DetectionOutputParameter *p = l->param->yolov3_detection_output_param;
  const int64_t images = cr_onnx_bottom_shape(l, 0)->dim[0];
  cr_onnx_graph *g = l->g;
  int64_t count = 0;
  if (cr_onnx_rejects_any_batch(l)) return;
  const char **part =
      cr_onnx_memory(g, (2 * (size_t)l->bottoms + (size_t)images + 3) * sizeof *part);
  if (part == NULL) return;
  const char **scores = part + l->bottoms + 1, **rows = scores + l->bottoms + 1;
  for (int i = 0; i < l->bottoms; ++i) {
    const int64_t *map = cr_onnx_bottom_shape(l, i)->dim;
    read_anchors(l, i, &part[i], &scores[i]);
    count += (int64_t)p->num_box * map[2] * map[3];
  }
  const char *boxes = cr_onnx_value(g, "Concat", part);
  cr_onnx_int(g, "axis", 1);
  const char *all = cr_onnx_value(g, "Concat", scores);
  cr_onnx_int(g, "axis", 2);
  for (int64_t i = 0; i < images; ++i) rows[i] = image_detections(l, boxes, all, count, i);
  cr_onnx_write_detections(l, rows, images);
}
