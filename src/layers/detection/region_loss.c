/* RegionLoss: the loss of a map of boxes (Redmon and Farhadi, "YOLO9000", 2016).
 *
 * Formula: each object belongs to the cell of its centre and the anchor of the most similar size.
 * Let s(t) = 1 / (1 + exp(-t)). A box with an object adds coord_scale * smooth L1 of s(tx), s(ty),
 * tw, th against the object's position and size. It also adds object_scale / 2 * (1 - s(to))^4 and
 * class_scale * cross entropy. Any other box adds noobject_scale / 2 * s(to)^2, unless it overlaps
 * an object by more than thresh. The sum is divided by N.
 * Shapes: map (N, num (5 + num_class), side, side), objects (1, 1, rows, 8) as AnnotatedData gives
 * them -> loss (scalar).
 * Fields: region_loss_param.
 * Caffe: the gradient is Intel Caffe's, whose top is the sum of the squares of the gradient. An
 * object whose centre is on the right or lower border belongs to the last cell, one without an area
 * to none; softmax_tree is refused.
 * Example, map 2 14 3 3, label 1 1 4 8:
 *   layer { name: "loss" type: "RegionLoss" bottom: "map" bottom: "label" top: "loss"
 *     propagate_down: true propagate_down: false
 *     region_loss_param { side: 3 num_class: 2 num: 2 biases: 1 biases: 1 biases: 2 biases: 2 } }
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/file.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/geometry/region.h"

typedef struct region_state {
  cr_region_map map;
  int64_t labels;   /* classes of the objects */
  cr_buffer counts; /* int64_t for each: the class of the map that it counts as; empty: itself */
  cr_truths truths;
  cr_region_boxes boxes;
  cr_buffer owner; /* int32_t for each box: the index of its object plus 1; 0: no object */
  /* `learned` of each object, then double: gradients of all its box's numbers, N times too large */
  cr_buffer learned;
} region_state;

/* The target of a box with an object. */
typedef struct learned {
  int64_t box; /* of (N, anchors, cells); -1: it learns another object */
  double loss;
} learned;

static const Caffe__RegionLossParameter *param_of(const cr_layer *layer) {
  return layer->param->region_loss_param;
}

/* A class for each line. */
static crema_status read_classes(const cr_layer *layer, const char *path, cr_buffer *text) {
  region_state *s = layer->state;
  CR_TRY(cr_file_read(path, text));
  CR_TRY(cr_buffer_make_text(text, path));
  const char *at = text->data;
  for (;;) {
    char *end = NULL;
    errno = 0;
    const long class = strtol(at, &end, 10);
    if (end == at) break;
    const int64_t one = class;
    if (errno != 0 || class < 0 || class >= s->map.classes) {
      return cr_fail(CREMA_E_RANGE, "%s: %ld is none of %lld classes", path, class,
                     (long long)s->map.classes);
    }
    CR_TRY(cr_buffer_append(&s->counts, &one, sizeof one));
    at = end;
  }
  while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') ++at;
  s->labels = (int64_t)(s->counts.size / sizeof(int64_t));
  if (*at == '\0' && s->labels > 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s must have a class on each line", path);
}

static crema_status read_class_map(const cr_layer *layer, const char *name) {
  cr_buffer text = {0};
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, name, &path));
  crema_status status = read_classes(layer, path, &text);
  cr_buffer_free(&text);
  free(path);
  return status;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  region_state *s = layer->state;
  const Caffe__RegionLossParameter *p = param_of(layer);
  (void)bottom, (void)top;
  if (p == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "region_loss_param with biases is required");
  }
  if (p->softmax_tree != NULL && *p->softmax_tree != '\0') {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "softmax_tree is not supported");
  }
  if (p->coords != 4) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "coords is %u, must be 4", p->coords);
  }
  s->map = (cr_region_map){p->side, p->num, p->num_class, p->biases};
  s->labels = p->num_class;
  CR_TRY(cr_region_map_check(layer, "region_loss_param", &s->map, p->n_biases));
  if (p->class_map == NULL || *p->class_map == '\0') return CREMA_OK;
  return cr_layer_in(layer, read_class_map(layer, p->class_map));
}

static int64_t boxes_of(const region_state *s, const crema_shape *map) {
  return map->dim[0] * s->map.anchors * s->map.side * s->map.side;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  region_state *s = layer->state;
  const crema_shape scalar = cr_shape(0, NULL);
  CR_TRY(cr_region_shape_check(layer, &s->map, &bottom[0]->shape));
  CR_TRY(cr_check_rows(layer, "bottom 1 (objects)", &bottom[1]->shape, 8));
  const size_t boxes = (size_t)boxes_of(s, &bottom[0]->shape);
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->owner, boxes * sizeof(int32_t))));
  const int64_t rows = bottom[1]->shape.dim[2];
  CR_TRY(cr_region_boxes_make(layer, &s->map, &bottom[0]->shape, rows > 0 ? rows : 1, false,
                              &s->boxes));
  return crema_blob_reshape(top[0], &scalar);
}

/* The centre and the extents of an object. */
typedef struct region_object {
  double x, y, width, height;
} region_object;

static region_object region_of(const cr_host_values *rows, const cr_truth *truth) {
  double v[4];
  for (int k = 0; k < 4; ++k) v[k] = cr_host_get(rows, 8 * (int64_t)truth->row + 3 + k);
  return (region_object){(v[0] + v[2]) / 2, (v[1] + v[3]) / 2, v[2] - v[0], v[3] - v[1]};
}

static int64_t cell_of(const cr_region_map *map, region_object box) {
  const int64_t last = map->side - 1;
  const double x = box.x * (double)map->side, y = box.y * (double)map->side;
  const int64_t column = x > 0 ? (x < (double)last ? (int64_t)x : last) : 0;
  const int64_t row = y > 0 ? (y < (double)last ? (int64_t)y : last) : 0;
  return row * map->side + column;
}

static int64_t box_index(const region_state *s, int64_t image, int64_t cell, int64_t anchor) {
  return (image * s->map.anchors + anchor) * s->map.side * s->map.side + cell;
}

/* The anchor whose size overlaps the object most. */
static int64_t anchor_of(const cr_layer *layer, const cr_host_values *boxes, int64_t cell,
                         int64_t image, region_object object) {
  const region_state *s = layer->state;
  const double side = (double)s->map.side;
  int64_t best = 0;
  float most = 0;
  for (int64_t n = 0; n < s->map.anchors; ++n) {
    double width = (double)s->map.biases[2 * n] / side;
    double height = (double)s->map.biases[2 * n + 1] / side;
    if (param_of(layer)->bias_match == 0) {
      const cr_box box = cr_region_box(&s->map, boxes, box_index(s, image, cell, n));
      width = (double)(box.xmax - box.xmin);
      height = (double)(box.ymax - box.ymin);
    }
    const float overlap = cr_box_overlap(cr_box_around(0, 0, width, height),
                                         cr_box_around(0, 0, object.width, object.height));
    if (overlap > most) best = n, most = overlap;
  }
  return best;
}

/* The loss of one box with an object, and the gradients of its numbers. */
static double learn_box(const cr_layer *layer, const cr_host_values *from, const cr_truth *truth,
                        region_object object, int64_t cell, int64_t n, double *gradient) {
  const region_state *s = layer->state;
  const Caffe__RegionLossParameter *p = param_of(layer);
  const cr_region_map *map = &s->map;
  const double side = (double)map->side, scale = (double)p->coord_scale;
  const double wanted[4] = {object.x * side - (double)(cell % map->side),
                            object.y * side - (double)(cell / map->side),
                            log(object.width * side / (double)map->biases[2 * n]),
                            log(object.height * side / (double)map->biases[2 * n + 1])};
  double loss = 0;
  for (int k = 0; k < 4; ++k) {
    const double t = cr_host_get(from, cr_region_index(map, truth->item, cell, n, k));
    const double value = k < 2 ? cr_region_sigmoid(t) : t;
    const double distance = value - wanted[k];
    /* Smooth L1 and its derivative. */
    const bool near = fabs(distance) < 1;
    loss += scale * (near ? distance * distance / 2 : fabs(distance) - 0.5);
    const double slope = near ? distance : copysign(1, distance);
    gradient[k] = scale * slope * (k < 2 ? value * (1 - value) : 1);
  }
  const double o =
      cr_region_sigmoid(cr_host_get(from, cr_region_index(map, truth->item, cell, n, 4)));
  const double square = (1 - o) * (1 - o), missed = square * square;
  loss += (double)p->object_scale / 2 * missed;
  gradient[4] = -2 * (double)p->object_scale * missed * o;
  double *chance = gradient + 5;
  const int64_t *counts = (const int64_t *)(const void *)s->counts.data;
  const int64_t label = counts != NULL ? counts[truth->label - 1] : truth->label - 1;
  cr_region_classes(map, from, truth->item, cell, n, chance);
  loss -= (double)p->class_scale * log(fmax(chance[label], DBL_MIN));
  for (int64_t c = 0; c < map->classes; ++c) {
    gradient[5 + c] = (double)p->class_scale * (chance[c] - (c == label));
  }
  return loss;
}

static size_t learned_bytes(const region_state *s) {
  return sizeof(learned) + (size_t)cr_region_size(&s->map) * sizeof(double);
}

static learned *learned_at(const region_state *s, size_t index) {
  return (learned *)(void *)(s->learned.data + index * learned_bytes(s));
}

/* The data of threads that look at objects, some at a time. */
typedef struct lesson {
  const cr_layer *layer;
  cr_host_values map, boxes, rows;
} lesson;

enum {
  TOGETHER = 16, /* objects */
  /* Approximate numbers of multiply-adds that take the time of an object's box, and of each of its
   * classes. */
  OF_BOX = 600,
  OF_CLASS = 150
};

static crema_status learn_some(void *state, int worker, int64_t index) {
  const lesson *of = state;
  const region_state *s = of->layer->state;
  const size_t begin = (size_t)index * TOGETHER;
  (void)worker;
  for (size_t t = begin; t < s->truths.count && t < begin + TOGETHER; ++t) {
    const cr_truth *truth = &s->truths.at[t];
    const region_object object = region_of(&of->rows, truth);
    const int64_t cell = cell_of(&s->map, object);
    const int64_t n = anchor_of(of->layer, &of->boxes, cell, truth->item, object);
    learned *one = learned_at(s, t);
    one->box = box_index(s, truth->item, cell, n);
    one->loss = learn_box(of->layer, &of->map, truth, object, cell, n, (double *)(void *)(one + 1));
  }
  return CREMA_OK;
}

/* If a box has several objects, it learns the last. */
static crema_status learn_objects(lesson *of, crema_context *context, int32_t *owner) {
  const region_state *s = of->layer->state;
  const double work = (double)s->truths.count * (OF_BOX + OF_CLASS * (double)s->map.classes);
  const int64_t pieces = (int64_t)((s->truths.count + TOGETHER - 1) / TOGETHER);
  CR_TRY(cr_host_spread(cr_host_workers(context, work), pieces, learn_some, of));
  for (size_t t = 0; t < s->truths.count; ++t) {
    int32_t *own = &owner[learned_at(s, t)->box];
    if (*own > 0) learned_at(s, (size_t)*own - 1)->box = -1;
    *own = (int32_t)t + 1;
  }
  return CREMA_OK;
}

/* Boxes below the IoU threshold are trained as background. */
typedef struct background {
  double scale, thresh;
  int64_t cells;
} background;

static background background_of(const cr_layer *layer) {
  const region_state *s = layer->state;
  const Caffe__RegionLossParameter *p = param_of(layer);
  return (background){(double)p->noobject_scale, (double)p->thresh, s->map.side * s->map.side};
}

static crema_status read_boxes(region_state *s, cr_host_values *box, cr_host_values *overlap) {
  CR_TRY(cr_host_read(s->boxes.box, box));
  return cr_host_read(s->boxes.overlap, overlap);
}

/* Probabilities of objects and overlaps of an anchor's boxes, of either type. */
typedef struct anchor {
  cr_host_values object, overlap;
} anchor;

static cr_host_values behind(const cr_host_values *values, int64_t at) {
  return (cr_host_values){values->wide ? values->wide + at : NULL,
                          values->narrow ? values->narrow + at : NULL};
}

static anchor anchor_at(const background *b, const cr_host_values *box,
                        const cr_host_values *overlap, int64_t index) {
  return (anchor){behind(box, (5 * index + 4) * b->cells), behind(overlap, index * b->cells)};
}

CR_INLINE double loss_at(const background *b, const cr_host_values *object,
                         const cr_host_values *overlap, const int32_t *owner, int64_t i) {
  const double chance = cr_host_get(object, i);
  const bool counts = (cr_host_get(overlap, i) <= b->thresh) & (owner[i] == 0);
  return counts ? chance * chance : 0;
}

/* In sums side by side, whose number does not depend on the processor's vectors. */
CR_INLINE double add_losses(const background *b, cr_host_values object, cr_host_values overlap,
                            const int32_t *owner) {
  double part[8] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 8 <= b->cells; i += 8) {
#pragma omp simd
    for (int k = 0; k < 8; ++k) part[k] += loss_at(b, &object, &overlap, owner, i + k);
  }
  for (; i < b->cells; ++i) sum += loss_at(b, &object, &overlap, owner, i);
  for (int k = 0; k < 8; ++k) sum += part[k];
  return sum * b->scale / 2;
}

/* Each call is compiled for its type. */
CR_CLONES static double background_loss(const background *b, const anchor *of,
                                        const int32_t *owner) {
  if (of->object.wide != NULL) {
    return add_losses(b, (cr_host_values){of->object.wide, NULL},
                      (cr_host_values){of->overlap.wide, NULL}, owner);
  }
  return add_losses(b, (cr_host_values){NULL, of->object.narrow},
                    (cr_host_values){NULL, of->overlap.narrow}, owner);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  region_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0], boxes = boxes_of(s, &bottom[0]->shape);
  const background b = background_of(layer);
  int32_t *owner = (int32_t *)(void *)s->owner.data;
  const cr_truth_rule rule = {.items = images, .classes = s->labels + 1, .omits_empty = true};
  cr_host_values overlap = {0};
  lesson of = {.layer = layer};
  cr_host_results to;
  double sum = 0;
  CR_TRY(cr_host_read(bottom[0]->data, &of.map));
  CR_TRY(cr_host_read(bottom[1]->data, &of.rows));
  CR_TRY(cr_truths_read(layer, &of.rows, bottom[1]->shape.dim[2], &rule, &s->truths));
  CR_TRY(cr_buffer_reserve(&s->learned, (s->truths.count + 1) * learned_bytes(s)));
  s->learned.size = boxes > 0 ? s->truths.count * learned_bytes(s) : 0;
  if (boxes > 0) {
    CR_TRY(cr_region_boxes_find(&s->boxes, context, bottom[0], &s->truths));
    CR_TRY(read_boxes(s, &of.boxes, &overlap));
    memset(owner, 0, (size_t)boxes * sizeof *owner);
    CR_TRY(learn_objects(&of, context, owner));
  }
  for (int64_t i = 0; i < boxes / b.cells; ++i) {
    const anchor one = anchor_at(&b, &of.boxes, &overlap, i);
    sum += background_loss(&b, &one, owner + i * b.cells);
  }
  for (size_t i = 0; i < s->learned.size / learned_bytes(s); ++i) {
    const learned *one = learned_at(s, i);
    if (one->box >= 0) sum += one->loss;
  }
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, images > 0 ? sum / (double)images : 0);
  return CREMA_OK;
}

CR_INLINE void put_slopes(const background *b, cr_host_values object, cr_host_values overlap,
                          double weight, cr_host_results to) {
  const double scale = weight * b->scale;
#pragma omp simd
  for (int64_t i = 0; i < b->cells; ++i) {
    const double chance = cr_host_get(&object, i);
    const bool counts = cr_host_get(&overlap, i) <= b->thresh;
    cr_host_put(&to, i, counts ? scale * (chance * chance * (1 - chance)) : 0);
  }
}

/* The gradients of an anchor's probabilities, as if no box had an object. */
CR_CLONES static void background_gradient(const background *b, const anchor *of, double weight,
                                          const cr_host_results *to) {
  if (of->object.wide != NULL && to->wide != NULL) {
    put_slopes(b, (cr_host_values){of->object.wide, NULL}, (cr_host_values){of->overlap.wide, NULL},
               weight, (cr_host_results){to->wide, NULL});
  } else if (of->object.narrow != NULL && to->narrow != NULL) {
    put_slopes(b, (cr_host_values){NULL, of->object.narrow},
               (cr_host_values){NULL, of->overlap.narrow}, weight,
               (cr_host_results){NULL, to->narrow});
  } else {
    put_slopes(b, of->object, of->overlap, weight, *to);
  }
}

static void put_gradients(const cr_layer *layer, const cr_host_values *box,
                          const cr_host_values *overlap, int64_t boxes, double weight,
                          const cr_host_results *to) {
  const region_state *s = layer->state;
  const background b = background_of(layer);
  const int64_t size = cr_region_size(&s->map);
  for (int64_t i = 0; i < boxes / b.cells; ++i) {
    const anchor one = anchor_at(&b, box, overlap, i);
    const int64_t first = (i * size + 4) * b.cells;
    background_gradient(&b, &one, weight,
                        &(cr_host_results){to->wide ? to->wide + first : NULL,
                                           to->narrow ? to->narrow + first : NULL});
  }
  for (size_t i = 0; i < s->learned.size / learned_bytes(s); ++i) {
    const learned *one = learned_at(s, i);
    if (one->box < 0) continue;
    const double *gradient = (const double *)(const void *)(one + 1);
    const int64_t first = one->box / b.cells * size * b.cells + one->box % b.cells;
    for (int64_t k = 0; k < size; ++k) cr_host_put(to, first + k * b.cells, weight * gradient[k]);
  }
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  region_state *s = layer->state;
  cr_host_values box, overlap;
  cr_host_results to;
  double weight = 0;
  (void)context;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "objects (bottom 1) have no gradient");
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_tensor_host_value(top[0]->diff, &weight));
  weight /= (double)bottom[0]->shape.dim[0];
  CR_TRY(cr_host_write(bottom[0]->diff, &to));
  const size_t count = (size_t)crema_blob_count(bottom[0]);
  if (count == 0) return CREMA_OK;
  if (to.wide) memset(to.wide, 0, count * sizeof *to.wide);
  else memset(to.narrow, 0, count * sizeof *to.narrow);
  CR_TRY(read_boxes(s, &box, &overlap));
  put_gradients(layer, &box, &overlap, boxes_of(s, &bottom[0]->shape), weight, &to);
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  region_state *s = layer->state;
  cr_buffer_free(&s->learned);
  cr_buffer_free(&s->owner);
  cr_buffer_free(&s->truths.memory);
  cr_buffer_free(&s->counts);
}

const cr_layer_class cr_layer_region_loss = {
    CR_LAYER_OF_OPS("RegionLoss", sizeof(region_state), setup, reshape, forward, backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .graph.auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .destroy = destroy,
};
