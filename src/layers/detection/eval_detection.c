/* EvalDetection: which boxes of a map are right (Redmon and Farhadi, "YOLO9000", 2016).
 *
 * Formula: each box has the class of the highest probability and the score that score_type selects.
 * A box is dropped if its score is below 0.005 or if it overlaps a better box of any class by nms
 * or more. The boxes of each class are processed best first. A box is right if its best overlap
 * with an object of the class is threshold or more, and no better box has that object.
 * Shapes: map (N, num_object (5 + num_class), side, side), objects (1, 1, rows, 8) of
 * AnnotatedData, optionally images, which are not read -> (N, num_class + 4 side side num_object).
 * The result has the number of objects of each class. Then it has class, score, right, wrong for
 * each box, sorted by class, and zeros after the last box.
 * Fields: eval_detection_param.
 * Caffe: as in Intel Caffe, where a cell has 5 anchors for any num_object, and without nms no box
 * is left. There, a box is neither right nor wrong if the image has objects of its class but none
 * is near it. Here it is wrong.
 * Example, map 2 14 3 3, label 1 1 4 8:
 *   layer { name: "right" type: "EvalDetection" bottom: "map" bottom: "label" top: "right"
 *     eval_detection_param { side: 3 num_class: 2 num_object: 2 nms: 0.45
 *       biases: 1 biases: 1 biases: 2 biases: 2 } } */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "layers/detection/average_precision.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/geometry/region.h"

static const float least_score = 0.005f;

typedef struct eval_state {
  cr_region_map map;
  cr_truths truths;
  cr_precision precision;
  cr_region_boxes boxes;
  cr_buffer box;   /* cr_box of each box of an image */
  cr_buffer rank;  /* cr_ranked */
  cr_buffer order; /* cr_ranked: the boxes that are kept, by class */
  cr_buffer next;  /* size_t for each class: the position of its next box in this order */
  cr_buffer kept;  /* memory for boxes that are kept */
} eval_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  eval_state *s = layer->state;
  const Caffe__EvalDetectionParameter *p = layer->param->eval_detection_param;
  (void)bottom, (void)top;
  if (p == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "eval_detection_param with biases is required");
  }
  s->map = (cr_region_map){p->side, p->num_object, p->num_class, p->biases};
  s->precision.threshold = (double)p->threshold;
  return cr_region_map_check(layer, "eval_detection_param", &s->map, p->n_biases);
}

static int64_t boxes_of(const cr_region_map *map) {
  return map->side * map->side * map->anchors;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  eval_state *s = layer->state;
  const crema_shape to = cr_shape_2(bottom[0]->shape.axes > 0 ? bottom[0]->shape.dim[0] : 0,
                                    s->map.classes + 4 * boxes_of(&s->map));
  const size_t boxes = (size_t)boxes_of(&s->map);
  CR_TRY(cr_region_shape_check(layer, &s->map, &bottom[0]->shape));
  CR_TRY(cr_check_rows(layer, "bottom 1 (objects)", &bottom[1]->shape, 8));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->box, boxes * sizeof(cr_box))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->rank, boxes * sizeof(cr_ranked))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->order, boxes * sizeof(cr_ranked))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->next, (size_t)s->map.classes * sizeof(size_t))));
  CR_TRY(cr_region_boxes_make(layer, &s->map, &bottom[0]->shape, 0, true, &s->boxes));
  return crema_blob_reshape(top[0], &to);
}

typedef struct values {
  cr_host_values box, classes;
} values;

/* Computes an image's boxes and ranks the boxes with a sufficient score. Returns their number. */
static size_t find_boxes(const cr_layer *layer, const values *from, int64_t image) {
  const eval_state *s = layer->state;
  const int type = (int)layer->param->eval_detection_param->score_type;
  const int64_t cells = s->map.side * s->map.side, count = boxes_of(&s->map);
  cr_box *box = (cr_box *)(void *)s->box.data;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  size_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t anchor = i % s->map.anchors, cell = i / s->map.anchors;
    const int64_t plane = image * s->map.anchors + anchor;
    const double object = cr_host_get(&from->box, (5 * plane + 4) * cells + cell);
    const double best = cr_host_get(&from->classes, 2 * plane * cells + cell);
    const double chance = cr_host_get(&from->classes, (2 * plane + 1) * cells + cell);
    const double score = type == CAFFE__EVAL_DETECTION_PARAMETER__SCORE_TYPE__OBJ ? object
                         : type == CAFFE__EVAL_DETECTION_PARAMETER__SCORE_TYPE__PROB
                             ? chance
                             : object * chance;
    box[i] = cr_region_box(&s->map, &from->box, plane * cells + cell);
    rank[found] = (cr_ranked){(float)score, (int32_t)best, (int32_t)i};
    found += rank[found].score >= least_score;
  }
  return found;
}

/* Sorts the boxes, best first, and drops boxes that overlap a better one. */
static crema_status suppress(const cr_layer *layer, size_t *count) {
  eval_state *s = layer->state;
  const float limit = layer->param->eval_detection_param->nms;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  if (*count == 0) return CREMA_OK;
  cr_rank(rank, *count);
  if (!(limit >= 0)) return CREMA_OK;
  if (limit == 0) *count = 1; /* an overlap of 0 is enough */
  return cr_suppress((const cr_box *)(const void *)s->box.data, rank, count, nextafterf(limit, 0),
                     1, -1, &s->kept);
}

/* The boxes that are kept, by class, then best first. */
static const cr_ranked *sort_by_class(const eval_state *s, size_t kept) {
  const cr_ranked *rank = (const cr_ranked *)(const void *)s->rank.data;
  cr_ranked *order = (cr_ranked *)(void *)s->order.data;
  size_t *next = (size_t *)(void *)s->next.data, sum = 0;
  memset(next, 0, (size_t)s->map.classes * sizeof *next);
  for (size_t i = 0; i < kept; ++i) ++next[rank[i].label];
  for (int64_t c = 0; c < s->map.classes; ++c) {
    const size_t own = next[c];
    next[c] = sum;
    sum += own;
  }
  for (size_t i = 0; i < kept; ++i) order[next[rank[i].label]++] = rank[i];
  return order;
}

static crema_status evaluate(cr_layer *layer, const values *from, int64_t images, int64_t width,
                             const cr_host_results *to) {
  eval_state *s = layer->state;
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  size_t first = 0;
  for (int64_t i = 0; i < images; ++i) {
    const size_t truths = cr_truths_of(&s->truths, i, &first);
    int64_t at = i * width + s->map.classes;
    for (size_t t = first; t < first + truths; ++t) {
      const int64_t label = i * width + s->truths.at[t].label - 1;
      const cr_host_values counted = {to->wide, to->narrow};
      cr_host_put(to, label, cr_host_get(&counted, label) + 1);
    }
    size_t kept = find_boxes(layer, from, i);
    CR_TRY(suppress(layer, &kept));
    const cr_ranked *one = sort_by_class(s, kept);
    for (const cr_ranked *end = one + kept; one < end; ++one) {
      const bool right = cr_precision_classify(&s->precision, &s->truths, first, truths,
                                               one->label + 1, box[one->index]) == CR_TRUE_POSITIVE;
      const double row[4] = {(double)one->label, (double)one->score, right, !right};
      for (int k = 0; k < 4; ++k) cr_host_put(to, at++, row[k]);
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  eval_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0], width = top[0]->shape.dim[1];
  const cr_truth_rule rule = {.items = images, .classes = s->map.classes + 1, .omits_empty = true};
  cr_host_values rows;
  values from;
  cr_host_results to;
  CR_TRY(cr_host_read(bottom[1]->data, &rows));
  CR_TRY(cr_truths_read(layer, &rows, bottom[1]->shape.dim[2], &rule, &s->truths));
  CR_TRY(cr_precision_begin(&s->precision, s->truths.count));
  CR_TRY(cr_host_write(top[0]->data, &to));
  for (int64_t i = 0; i < crema_blob_count(top[0]); ++i) cr_host_put(&to, i, 0);
  if (images == 0) return CREMA_OK;
  CR_TRY(cr_region_boxes_find(&s->boxes, context, bottom[0], NULL));
  CR_TRY(cr_host_read(s->boxes.box, &from.box));
  CR_TRY(cr_host_read(s->boxes.classes, &from.classes));
  return evaluate(layer, &from, images, width, &to);
}

static void destroy(cr_layer *layer) {
  eval_state *s = layer->state;
  cr_buffer_free(&s->kept);
  cr_buffer_free(&s->next);
  cr_buffer_free(&s->order);
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->box);
  cr_buffer_free(&s->precision.taken);
  cr_buffer_free(&s->truths.memory);
}

const cr_layer_class cr_layer_eval_detection = {
    CR_LAYER_HOST("EvalDetection", sizeof(eval_state), setup, reshape, forward, destroy),
    .bottoms = {2, 3},
    .tops = {1, 1},
};
