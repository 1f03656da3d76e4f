/* RegionLoss: what a map of boxes has still to learn (Redmon and Farhadi, "YOLO9000", 2016).
 *
 * Formula: each object belongs to the cell of its centre and the anchor of the most similar size.
 * With s = 1 / (1 + exp(-t)) of the map's numbers t, the loss is the sum of coord_scale * smooth
 * L1 of s(tx), s(ty), tw, th against the object's position and size, object_scale / 2 * (1 -
 * s(to))^4 and class_scale * cross entropy, for boxes with an object, and of noobject_scale / 2 *
 * s(to)^2 for the others unless they overlap an object by more than thresh; all over N.
 * Shapes: map (N, num (5 + num_class), side, side), objects (1, 1, rows, 8) as AnnotatedData
 * gives them -> loss (scalar).
 * Fields: region_loss_param.
 * Caffe: the gradient is Intel Caffe's; its top is the sum of the squares of that instead. An
 * object whose centre is on the right or lower border belongs to the last cell, one without an
 * area to none; softmax_tree is refused.
 * Example, map 2 14 3 3, label 1 1 4 8:
 *   layer { name: "loss" type: "RegionLoss" bottom: "map" bottom: "label" top: "loss"
 *     propagate_down: true propagate_down: false
 *     region_loss_param { side: 3 num_class: 2 num: 2 biases: 1 biases: 1 biases: 2 biases: 2 } }
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "layers/detection/boxes.h"
#include "layers/detection/region.h"

typedef struct region_state {
  cr_region_map map;
  int64_t labels;   /* classes of the objects */
  cr_buffer counts; /* int64_t for each: the class of the map that it counts as; empty: itself */
  cr_buffer truth;  /* cr_region_truth */
  cr_buffer chance; /* double for each class */
  double *gradient; /* of the whole map, N times too large, and what each number adds to the loss */
  double *loss;
} region_state;

static const Caffe__RegionLossParameter *param_of(const cr_layer *layer) {
  return layer->param->region_loss_param;
}

/* A class for each line. */
static crema_status read_classes(const cr_layer *layer, const char *path, cr_buffer *text) {
  region_state *s = layer->state;
  CR_TRY(cr_file_read(path, text));
  CR_TRY(cr_buffer_check_text(text, path));
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

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  region_state *s = layer->state;
  const crema_shape scalar = cr_shape(0, NULL);
  void *memory = NULL;
  CR_TRY(cr_region_shape_check(layer, &s->map, &bottom[0]->shape));
  CR_TRY(cr_check_rows(layer, "bottom 1 (objects)", &bottom[1]->shape, 8));
  const size_t count = (size_t)crema_blob_count(bottom[0]);
  const size_t bytes = (2 * count + 1) * sizeof(double);
  memory = realloc(s->gradient, bytes);
  if (memory == NULL) return cr_layer_in(layer, cr_fail_memory(bytes, "gradients"));
  s->gradient = memory;
  s->loss = s->gradient + count;
  CR_TRY(
      cr_layer_in(layer, cr_buffer_reserve(&s->chance, (size_t)s->map.classes * sizeof(double))));
  return crema_blob_reshape(top[0], &scalar);
}

/* ---- gradients ----------------------------------------------------------- */

/* Smooth L1 of a distance, and its derivative. */
static double smooth(double x) {
  return fabs(x) < 1 ? x * x / 2 : fabs(x) - 0.5;
}

static double slope(double x) {
  return x > 1 ? 1 : x < -1 ? -1 : x;
}

static void put(const region_state *s, int64_t at, double loss, double gradient) {
  s->loss[at] = loss;
  s->gradient[at] = gradient;
}

/* All boxes, as if there was no object in them. */
static void learn_nothing(const cr_layer *layer, const cr_host_values *from, int64_t image,
                          const cr_region_truth *truth, size_t truths) {
  const region_state *s = layer->state;
  const Caffe__RegionLossParameter *p = param_of(layer);
  for (int64_t i = 0; i < s->map.side * s->map.side * s->map.anchors; ++i) {
    const int64_t cell = i / s->map.anchors, anchor = i % s->map.anchors;
    const cr_region box = cr_region_at(&s->map, from, image, cell, anchor);
    const int64_t at = cr_region_index(&s->map, image, cell, anchor, 4);
    const double object = cr_region_sigmoid(cr_host_get(from, at));
    double overlap = 0;
    for (size_t t = 0; t < truths; ++t) {
      if (truth[t].image == image) overlap = fmax(overlap, cr_region_overlap(box, truth[t].box));
    }
    const double scale = overlap > (double)p->thresh ? 0 : (double)p->noobject_scale;
    put(s, at, scale / 2 * object * object, scale * object * object * (1 - object));
  }
}

static int64_t cell_of(const cr_region_map *map, cr_region box) {
  const int64_t last = map->side - 1;
  const double x = box.x * (double)map->side, y = box.y * (double)map->side;
  const int64_t column = x > 0 ? (x < (double)last ? (int64_t)x : last) : 0;
  const int64_t row = y > 0 ? (y < (double)last ? (int64_t)y : last) : 0;
  return row * map->side + column;
}

/* The anchor whose size overlaps the object most. */
static int64_t anchor_of(const cr_layer *layer, const cr_host_values *from, int64_t cell,
                         const cr_region_truth *truth) {
  const region_state *s = layer->state;
  const double side = (double)s->map.side;
  int64_t best = 0;
  double most = 0;
  for (int64_t n = 0; n < s->map.anchors; ++n) {
    cr_region size = {0, 0, (double)s->map.biases[2 * n] / side,
                      (double)s->map.biases[2 * n + 1] / side};
    if (param_of(layer)->bias_match == 0) {
      const cr_region box = cr_region_at(&s->map, from, truth->image, cell, n);
      size.width = box.width;
      size.height = box.height;
    }
    const double overlap =
        cr_region_overlap(size, (cr_region){0, 0, truth->box.width, truth->box.height});
    if (overlap > most) best = n, most = overlap;
  }
  return best;
}

static void learn_object(const cr_layer *layer, const cr_host_values *from,
                         const cr_region_truth *truth) {
  const region_state *s = layer->state;
  const Caffe__RegionLossParameter *p = param_of(layer);
  const cr_region_map *map = &s->map;
  const double side = (double)map->side, scale = (double)p->coord_scale;
  const int64_t cell = cell_of(map, truth->box), n = anchor_of(layer, from, cell, truth);
  const double wanted[4] = {truth->box.x * side - (double)(cell % map->side),
                            truth->box.y * side - (double)(cell / map->side),
                            log(truth->box.width * side / (double)map->biases[2 * n]),
                            log(truth->box.height * side / (double)map->biases[2 * n + 1])};
  for (int k = 0; k < 4; ++k) {
    const int64_t at = cr_region_index(map, truth->image, cell, n, k);
    const double t = cr_host_get(from, at), sigmoid = cr_region_sigmoid(t);
    const double distance = (k < 2 ? sigmoid : t) - wanted[k];
    put(s, at, scale * smooth(distance),
        scale * slope(distance) * (k < 2 ? sigmoid * (1 - sigmoid) : 1));
  }
  const int64_t object = cr_region_index(map, truth->image, cell, n, 4);
  const double o = cr_region_sigmoid(cr_host_get(from, object));
  put(s, object, (double)p->object_scale / 2 * pow(1 - o, 4),
      -2 * (double)p->object_scale * pow(1 - o, 4) * o);
  double *chance = (double *)(void *)s->chance.data;
  const int64_t *counts = (const int64_t *)(const void *)s->counts.data;
  const int64_t label = counts != NULL ? counts[truth->label] : truth->label;
  cr_region_classes(map, from, truth->image, cell, n, chance);
  for (int64_t c = 0; c < map->classes; ++c) {
    put(s, cr_region_index(map, truth->image, cell, n, 5 + c),
        c == label ? -(double)p->class_scale * log(fmax(chance[c], DBL_MIN)) : 0,
        (double)p->class_scale * (chance[c] - (c == label)));
  }
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  region_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0], count = crema_blob_count(bottom[0]);
  cr_host_values map, rows;
  cr_host_results to;
  double sum = 0;
  (void)context;
  CR_TRY(cr_host_read(bottom[0]->data, &map));
  CR_TRY(cr_host_read(bottom[1]->data, &rows));
  CR_TRY(cr_region_read_truth(layer, &rows, bottom[1]->shape.dim[2], images, s->labels, &s->truth));
  const cr_region_truth *truth = (const cr_region_truth *)(const void *)s->truth.data;
  const size_t truths = s->truth.size / sizeof *truth;
  for (int64_t i = 0; i < count; ++i) put(s, i, 0, 0);
  for (int64_t i = 0; i < images; ++i) learn_nothing(layer, &map, i, truth, truths);
  for (size_t t = 0; t < truths; ++t) learn_object(layer, &map, &truth[t]);
  for (int64_t i = 0; i < count; ++i) sum += s->loss[i];
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, images > 0 ? sum / (double)images : 0);
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  const region_state *s = layer->state;
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
  for (int64_t i = 0; i < crema_blob_count(bottom[0]); ++i) {
    cr_host_put(&to, i, weight * s->gradient[i]);
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  region_state *s = layer->state;
  free(s->gradient);
  cr_buffer_free(&s->chance);
  cr_buffer_free(&s->truth);
  cr_buffer_free(&s->counts);
}

const cr_layer_class cr_layer_region_loss = {
    .type = "RegionLoss",
    .state_size = sizeof(region_state),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
