/* EvalDetection: which boxes of a map are right (Redmon and Farhadi, "YOLO9000", 2016).
 *
 * Formula: each box has the class of the highest probability and the score that score_type says.
 * Boxes that overlap a better one, of whatever class, by nms or more are dropped, and those of a
 * score below 0.005. Of a class, best first, a box is right if its best overlap with an object of
 * the class is threshold or more and no better box has that object.
 * Shapes: map (N, num_object (5 + num_class), side, side), objects (1, 1, rows, 8) as
 * AnnotatedData gives them, perhaps pictures (any), which are not looked at -> (N, num_class + 4
 * side side num_object): how many objects of each class, then for each box that is left, by class,
 * class, score, right, wrong; 0 behind the last.
 * Fields: eval_detection_param.
 * Caffe: as in Intel Caffe, where a cell has 5 anchors, whatever num_object is, without nms no box
 * is left, and a box is neither right nor wrong if objects of its class are in the image but none
 * is near it; here it is wrong.
 * Example, map 2 14 3 3, label 1 1 4 8:
 *   layer { name: "right" type: "EvalDetection" bottom: "map" bottom: "label" top: "right"
 *     eval_detection_param { side: 3 num_class: 2 num_object: 2 nms: 0.45
 *       biases: 1 biases: 1 biases: 2 biases: 2 } } */
#include "core/fail.h"
#include "layers/detection/boxes.h"
#include "layers/detection/judge.h"
#include "layers/detection/region.h"

static const float least_score = 0.005f;

typedef struct eval_state {
  cr_region_map map;
  cr_buffer truth; /* cr_region_truth */
  cr_judge judge;
  cr_buffer box;    /* cr_region of each box of an image */
  cr_buffer rank;   /* cr_ranked */
  cr_buffer chance; /* double for each class */
} eval_state;

/* A box that is judged. */
typedef struct detection {
  const cr_region_truth *truth;
  int64_t image;
  int32_t label;
  cr_region box;
} detection;

static double overlap_of(const void *of, size_t object) {
  const detection *d = of;
  const cr_region_truth *truth = &d->truth[object];
  if (truth->image != d->image || truth->label != d->label) return -1;
  return cr_region_overlap(d->box, truth->box);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  eval_state *s = layer->state;
  const Caffe__EvalDetectionParameter *p = layer->param->eval_detection_param;
  (void)bottom, (void)top;
  if (p == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "eval_detection_param with biases is required");
  }
  s->map = (cr_region_map){p->side, p->num_object, p->num_class, p->biases};
  s->judge.threshold = (double)p->threshold;
  s->judge.overlap = overlap_of;
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
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->box, boxes * sizeof(cr_region))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->rank, boxes * sizeof(cr_ranked))));
  CR_TRY(
      cr_layer_in(layer, cr_buffer_reserve(&s->chance, (size_t)s->map.classes * sizeof(double))));
  return crema_blob_reshape(top[0], &to);
}

/* Boxes, classes and scores of an image. */
static void find_boxes(const cr_layer *layer, const cr_host_values *from, int64_t image) {
  const eval_state *s = layer->state;
  const int type = (int)layer->param->eval_detection_param->score_type;
  cr_region *box = (cr_region *)(void *)s->box.data;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  double *chance = (double *)(void *)s->chance.data;
  for (int64_t i = 0; i < boxes_of(&s->map); ++i) {
    const int64_t cell = i / s->map.anchors, anchor = i % s->map.anchors;
    const int64_t at = cr_region_index(&s->map, image, cell, anchor, 4);
    const double object = cr_region_sigmoid(cr_host_get(from, at));
    int32_t best = 0;
    box[i] = cr_region_at(&s->map, from, image, cell, anchor);
    cr_region_classes(&s->map, from, image, cell, anchor, chance);
    for (int32_t c = 1; c < (int32_t)s->map.classes; ++c)
      best = chance[c] > chance[best] ? c : best;
    const double score = type == CAFFE__EVAL_DETECTION_PARAMETER__SCORE_TYPE__OBJ ? object
                         : type == CAFFE__EVAL_DETECTION_PARAMETER__SCORE_TYPE__PROB
                             ? chance[best]
                             : object * chance[best];
    rank[i] = (cr_ranked){(float)score, best, (int32_t)i};
  }
}

/* Best first, without those that overlap a better one; returns how many are left. */
static size_t suppress(const cr_layer *layer) {
  const eval_state *s = layer->state;
  const double limit = (double)layer->param->eval_detection_param->nms;
  const cr_region *box = (const cr_region *)(const void *)s->box.data;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  const size_t count = (size_t)boxes_of(&s->map);
  size_t kept = 0;
  cr_rank(rank, count);
  for (size_t i = 0; i < count && rank[i].score >= least_score; ++i) {
    bool keep = true;
    for (size_t k = 0; k < kept && keep && limit >= 0; ++k) {
      keep = cr_region_overlap(box[rank[i].index], box[rank[k].index]) < limit;
    }
    if (keep) rank[kept++] = rank[i];
  }
  return kept;
}

static void judge(const cr_layer *layer, int64_t image, size_t kept, const cr_host_results *to) {
  eval_state *s = layer->state;
  const cr_region *box = (const cr_region *)(const void *)s->box.data;
  const cr_region_truth *truth = (const cr_region_truth *)(const void *)s->truth.data;
  const cr_ranked *rank = (const cr_ranked *)(const void *)s->rank.data;
  int64_t at = image * (s->map.classes + 4 * boxes_of(&s->map)) + s->map.classes;
  for (int64_t c = 0; c < s->map.classes; ++c) {
    for (size_t i = 0; i < kept; ++i) {
      if (rank[i].label != c) continue;
      const detection one = {truth, image, rank[i].label, box[rank[i].index]};
      const bool right = cr_judge_one(&s->judge, &one) == CR_RIGHT;
      const double row[4] = {(double)c, (double)rank[i].score, right, !right};
      for (int k = 0; k < 4; ++k) cr_host_put(to, at++, row[k]);
    }
  }
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  eval_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0], width = top[0]->shape.dim[1];
  cr_host_values map, rows;
  cr_host_results to;
  (void)context;
  CR_TRY(cr_host_read(bottom[0]->data, &map));
  CR_TRY(cr_host_read(bottom[1]->data, &rows));
  CR_TRY(cr_region_read_truth(layer, &rows, bottom[1]->shape.dim[2], images, s->map.classes,
                              &s->truth));
  const cr_region_truth *truth = (const cr_region_truth *)(const void *)s->truth.data;
  const size_t truths = s->truth.size / sizeof *truth;
  CR_TRY(cr_judge_begin(&s->judge, truths));
  CR_TRY(cr_host_write(top[0]->data, &to));
  for (int64_t i = 0; i < crema_blob_count(top[0]); ++i) cr_host_put(&to, i, 0);
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t c = 0; c < s->map.classes; ++c) {
      double count = 0;
      for (size_t t = 0; t < truths; ++t) count += truth[t].image == i && truth[t].label == c;
      cr_host_put(&to, i * width + c, count);
    }
    find_boxes(layer, &map, i);
    judge(layer, i, suppress(layer), &to);
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  eval_state *s = layer->state;
  cr_buffer_free(&s->chance);
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->box);
  cr_judge_free(&s->judge);
  cr_buffer_free(&s->truth);
}

const cr_layer_class cr_layer_eval_detection = {
    CR_LAYER_HOST("EvalDetection", sizeof(eval_state), setup, reshape, forward, destroy),
    .bottoms = {2, 3},
    .tops = {1, 1},
};
