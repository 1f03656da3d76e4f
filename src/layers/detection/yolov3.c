/* Yolov3: the loss of a map of boxes (Redmon and Farhadi, "YOLOv3: an incremental improvement",
 * 2018).
 *
 * Formula: let s(t) = 1 / (1 + exp(-t)) and B(t, y) = -y log s(t) - (1 - y) log(1 - s(t)). An
 * object belongs to the cell of its centre and to the anchor of the most similar size, if that
 * anchor is in mask. It also belongs to each other anchor in mask that it overlaps by more than
 * iou_thresh. A box with an object adds coord_scale (2 - w h) (B(tx, x) + B(ty, y) + (tw - log(w /
 * bw))^2 / 2 + (th - log(h / bh))^2 / 2). There x and y are the place of the centre in the cell.
 * The box also adds B(to, 1) and class_scale times the sum of B(tc, yc) over all classes. The
 * target yc is 1 - label_smooth_eps / 2 for the classes of the box's objects, otherwise
 * label_smooth_eps / 2. Any other box adds B(to, 0), unless it overlaps an object by more than
 * thresh. The sum is divided by N. With use_logic_gradient, B(t, y) is (s(t) - y)^2 / 2, and B(to,
 * 1) has the factor object_scale.
 * Shapes: map (N, num (5 + num_class), h, w), objects (N, 1, rows, 5) -> loss (scalar). A row of
 * objects is the class from 0 on, x and y of the centre, width and height, as parts of the image.
 * A width of 0 ends the objects of an image. Objects may also be (1, 1, rows, 8) as AnnotatedData
 * gives them.
 * Fields: yolov3_param.
 * Caffe: the gradient is MobileNet-YOLO's, whose top is the sum of the squares of the gradient.
 * That fork confuses the entries of mask with anchors when it looks for other anchors. An object
 * whose centre is outside of the image belongs to no cell. iou_loss other than MSE and
 * use_focal_loss are refused.
 * Example, map 2 14 3 3, label 1 1 4 8:
 *   layer { name: "loss" type: "Yolov3" bottom: "map" bottom: "label" top: "loss"
 *     propagate_down: true propagate_down: false
 *     yolov3_param { num_class: 2 num: 2 mask: 0 mask: 1 anchors_scale: 8
 *       biases: 8 biases: 8 biases: 16 biases: 12 } } */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/geometry/region.h"

/* An object: its class, and its centre and size in parts of the image. */
typedef struct yolo_object {
  int64_t image, class;
  double x, y, width, height;
} yolo_object;

typedef struct yolo_state {
  int64_t classes, anchors;
  cr_truths truths;
  cr_buffer object; /* yolo_object, by image */
  cr_buffer target; /* float of each number of the map; NaN: it does not count */
  cr_buffer weight; /* float of each box: the weight of its location; 0: it has no object */
  cr_buffer loss;   /* double of each image */
} yolo_state;

static const Caffe__Yolov3Parameter *param_of(const cr_layer *layer) {
  return layer->param->yolov3_param;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  yolo_state *s = layer->state;
  const Caffe__Yolov3Parameter *p = param_of(layer);
  (void)bottom, (void)top;
  if (p == NULL || p->num == 0 || p->num_class == 0 || p->num > 10000 || p->num_class > 1000000 ||
      p->n_mask != p->num || p->anchors_scale == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "yolov3_param needs num and num_class of 1 or more, num entries of mask, "
                         "and an anchors_scale");
  }
  if (p->iou_loss != CAFFE__YOLOV3_PARAMETER__IOU__LOSS__MSE || p->use_focal_loss) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "%s of MobileNet-YOLO is not supported; use iou_loss: MSE",
                         p->use_focal_loss ? "use_focal_loss" : "this iou_loss");
  }
  for (size_t i = 0; i < p->n_mask; ++i) {
    const size_t at = 2 * (size_t)p->mask[i];
    if (at + 1 < p->n_biases && p->biases[at] > 0 && p->biases[at + 1] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "mask is %u, which is no anchor above 0 of the %zu in biases", p->mask[i],
                         p->n_biases / 2);
  }
  s->classes = p->num_class;
  s->anchors = p->num;
  return CREMA_OK;
}

static int64_t boxes_of(const yolo_state *s, const crema_shape *map) {
  return map->dim[0] * s->anchors * map->dim[2] * map->dim[3];
}

static bool has_rows_of_eight(const crema_shape *shape) {
  return shape->axes == 4 && shape->dim[0] == 1 && shape->dim[1] == 1 && shape->dim[3] == 8;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  yolo_state *s = layer->state;
  const crema_shape *map = &bottom[0]->shape, *rows = &bottom[1]->shape;
  const crema_shape scalar = cr_shape(0, NULL);
  char text[2][128];
  if (map->axes != 4 || map->dim[1] != s->anchors * (5 + s->classes) ||
      (!has_rows_of_eight(rows) &&
       (rows->axes < 2 || rows->dim[0] != map->dim[0] || rows->dim[rows->axes - 1] != 5))) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the map must have shape N %lld h w and objects N 1 rows 5 or 1 1 rows 8, "
                         "found %s and %s",
                         (long long)(s->anchors * (5 + s->classes)),
                         crema_shape_text(map, text[0], sizeof text[0]),
                         crema_shape_text(rows, text[1], sizeof text[1]));
  }
  const size_t count = (size_t)crema_blob_count(bottom[0]);
  const size_t boxes = (size_t)boxes_of(s, map);
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->target, count * sizeof(float))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->weight, boxes * sizeof(float))));
  CR_TRY(cr_layer_in(layer, cr_buffer_reserve(&s->loss, (size_t)map->dim[0] * sizeof(double))));
  return crema_blob_reshape(top[0], &scalar);
}

/* ---- objects ------------------------------------------------------------- */

static crema_status add_object(const cr_layer *layer, const yolo_object *one) {
  yolo_state *s = layer->state;
  if (one->class >= 0 && one->class < s->classes) {
    return cr_buffer_append(&s->object, one, sizeof *one);
  }
  return cr_layer_fail(layer, CREMA_E_RANGE, "an object of image %lld has class %lld, of %lld",
                       (long long)one->image, (long long)one->class, (long long)s->classes);
}

/* Rows of AnnotatedData, whose class 0 is the background. */
static crema_status read_annotated(const cr_layer *layer, const cr_host_values *rows, int64_t count,
                                   int64_t images) {
  yolo_state *s = layer->state;
  const cr_truth_rule rule = {.items = images, .classes = s->classes + 1, .omits_empty = true};
  CR_TRY(cr_truths_read(layer, rows, count, &rule, &s->truths));
  for (size_t i = 0; i < s->truths.count; ++i) {
    const cr_truth *truth = &s->truths.at[i];
    const cr_box b = truth->box;
    CR_TRY(add_object(
        layer, &(yolo_object){truth->item, truth->label - 1, ((double)b.xmin + (double)b.xmax) / 2,
                              ((double)b.ymin + (double)b.ymax) / 2,
                              (double)b.xmax - (double)b.xmin, (double)b.ymax - (double)b.ymin}));
  }
  return CREMA_OK;
}

static crema_status read_objects(const cr_layer *layer, crema_blob *label, int64_t images) {
  yolo_state *s = layer->state;
  cr_host_values rows;
  CR_TRY(cr_host_read(label->data, &rows));
  cr_buffer_clear(&s->object);
  if (has_rows_of_eight(&label->shape)) {
    return read_annotated(layer, &rows, label->shape.dim[2], images);
  }
  const int64_t count = images > 0 ? crema_blob_count(label) / images / 5 : 0;
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t row = i * count; row < (i + 1) * count; ++row) {
      double v[5];
      for (int k = 0; k < 5; ++k) v[k] = cr_host_get(&rows, 5 * row + k);
      if (!(v[3] > 0 && v[4] > 0)) break;
      CR_TRY(add_object(layer, &(yolo_object){i, (int64_t)v[0], v[1], v[2], v[3], v[4]}));
    }
  }
  return CREMA_OK;
}

/* ---- targets ------------------------------------------------------------- */

/* One image of the pass. Numbers of anchor n and cell c begin at first + n * size * cells + c. */
typedef struct yolo_image {
  const cr_layer *layer;
  cr_host_values map;
  int64_t index, columns, rows, cells, size, first;
  const yolo_object *object; /* of this image */
  size_t objects;
} yolo_image;

static yolo_image image_of(const cr_layer *layer, const crema_shape *map, int64_t index) {
  const yolo_state *s = layer->state;
  const yolo_object *all = (const yolo_object *)(const void *)s->object.data;
  const size_t count = s->object.size / sizeof *all;
  const int64_t cells = map->dim[2] * map->dim[3], size = 5 + s->classes;
  yolo_image of = {.layer = layer,
                   .index = index,
                   .columns = map->dim[3],
                   .rows = map->dim[2],
                   .cells = cells,
                   .size = size,
                   .first = index * s->anchors * size * cells};
  size_t at = 0;
  while (at < count && all[at].image < index) ++at;
  of.object = all + at;
  while (at < count && all[at].image == index) ++at;
  of.objects = (size_t)(all + at - of.object);
  return of;
}

/* The size of anchor `n` of all anchors, in parts of the image. */
static void anchor_size(const yolo_image *of, size_t n, double *width, double *height) {
  const Caffe__Yolov3Parameter *p = param_of(of->layer);
  *width = (double)p->biases[2 * n] / ((double)of->columns * p->anchors_scale);
  *height = (double)p->biases[2 * n + 1] / ((double)of->rows * p->anchors_scale);
}

/* The overlap of an object with an anchor around the same centre. */
static double similarity(const yolo_image *of, const yolo_object *o, size_t n) {
  double width, height;
  anchor_size(of, n, &width, &height);
  const double both = fmin(width, o->width) * fmin(height, o->height);
  return both / (width * height + o->width * o->height - both);
}

static float *targets_of(const yolo_state *s) {
  return (float *)(void *)s->target.data;
}

/* The targets of a box without objects: the background, or none near an object. */
static void put_background(const yolo_image *of, int64_t anchor, int64_t cell) {
  const yolo_state *s = of->layer->state;
  const Caffe__Yolov3Parameter *p = param_of(of->layer);
  const int64_t at = of->first + anchor * of->size * of->cells + cell;
  double t[4], width, height;
  float best = 0;
  anchor_size(of, p->mask[anchor], &width, &height);
  for (int k = 0; k < 4 && of->objects > 0; ++k) t[k] = cr_host_get(&of->map, at + k * of->cells);
  for (size_t i = 0; i < of->objects; ++i) {
    const yolo_object *o = &of->object[i];
    const cr_box box = cr_box_around(
        ((double)(cell % of->columns) + cr_region_sigmoid(t[0])) / (double)of->columns,
        ((double)(cell / of->columns) + cr_region_sigmoid(t[1])) / (double)of->rows,
        exp(t[2]) * width, exp(t[3]) * height);
    best = fmaxf(best, cr_box_overlap(box, cr_box_around(o->x, o->y, o->width, o->height)));
  }
  for (int64_t k = 0; k < of->size; ++k) targets_of(s)[at + k * of->cells] = NAN;
  targets_of(s)[at + 4 * of->cells] = best > p->thresh ? NAN : 0;
  ((float *)(void *)s->weight.data)[at / (of->size * of->cells) * of->cells + cell] = 0;
}

/* The box learns the object; the classes of earlier objects stay. */
static void put_object(const yolo_image *of, const yolo_object *o, int64_t anchor, int64_t cell) {
  const yolo_state *s = of->layer->state;
  const Caffe__Yolov3Parameter *p = param_of(of->layer);
  const int64_t at = of->first + anchor * of->size * of->cells + cell;
  float *target = targets_of(s) + at;
  double width, height;
  anchor_size(of, p->mask[anchor], &width, &height);
  const double place[4] = {o->x * (double)of->columns - (double)(cell % of->columns),
                           o->y * (double)of->rows - (double)(cell / of->columns),
                           log(o->width / width), log(o->height / height)};
  for (int k = 0; k < 4; ++k) target[k * of->cells] = (float)place[k];
  target[4 * of->cells] = 1;
  const bool first = isnan(target[(5 + o->class) * of->cells]);
  for (int64_t c = 0; c < s->classes && first; ++c) {
    target[(5 + c) * of->cells] = p->label_smooth_eps / 2;
  }
  target[(5 + o->class) * of->cells] = 1 - p->label_smooth_eps / 2;
  ((float *)(void *)s->weight.data)[at / (of->size * of->cells) * of->cells + cell] =
      p->coord_scale * (float)(2 - o->width * o->height);
}

static void match_object(const yolo_image *of, const yolo_object *o) {
  const Caffe__Yolov3Parameter *p = param_of(of->layer);
  const int64_t column = (int64_t)floor(o->x * (double)of->columns);
  const int64_t row = (int64_t)floor(o->y * (double)of->rows);
  size_t best = 0;
  if (column < 0 || column >= of->columns || row < 0 || row >= of->rows) return;
  for (size_t n = 1; n < p->n_biases / 2; ++n) {
    if (similarity(of, o, n) > similarity(of, o, best)) best = n;
  }
  for (size_t i = 0; i < p->n_mask; ++i) {
    const bool near = p->iou_thresh < 1 && similarity(of, o, p->mask[i]) > (double)p->iou_thresh;
    if (p->mask[i] == best || near) put_object(of, o, (int64_t)i, row * of->columns + column);
  }
}

/* ---- loss and gradient --------------------------------------------------- */

/* Calls are for number k of a box; `weight`: of the box's location. Returns the loss of the value t
 * with its target y, and its slope. */
static double loss_of(const Caffe__Yolov3Parameter *p, int64_t k, double weight, double t, double y,
                      double *slope) {
  const double scale = k < 4                                          ? weight
                       : k > 4                                        ? (double)p->class_scale
                       : p->use_logic_gradient && weight > 0 && y > 0 ? (double)p->object_scale
                                                                      : 1;
  if (k == 2 || k == 3) {
    *slope = scale * (t - y);
    return scale * (t - y) * (t - y) / 2;
  }
  const double chance = cr_region_sigmoid(t);
  if (p->use_logic_gradient) {
    *slope = scale * (chance - y) * chance * (1 - chance);
    return scale * (chance - y) * (chance - y) / 2;
  }
  *slope = scale * (chance - y);
  /* log(1 + exp(t)) - y t */
  return scale * (fmax(t, 0) + log1p(exp(-fabs(t))) - y * t);
}

/* The loss of an image; with `to`, its gradient times `factor` as well. */
static double run_image(const yolo_image *of, double factor, const cr_host_results *to) {
  const yolo_state *s = of->layer->state;
  const Caffe__Yolov3Parameter *p = param_of(of->layer);
  const float *weight = (const float *)(const void *)s->weight.data;
  double sum = 0;
  for (int64_t plane = 0; plane < s->anchors * of->size; ++plane) {
    const int64_t first = of->first + plane * of->cells, k = plane % of->size;
    const float *own = weight + (of->index * s->anchors + plane / of->size) * of->cells;
    for (int64_t cell = 0; cell < of->cells; ++cell) {
      const double y = (double)targets_of(s)[first + cell];
      double slope = 0;
      if (!isnan(y)) {
        sum += loss_of(p, k, (double)own[cell], cr_host_get(&of->map, first + cell), y, &slope);
      }
      if (to != NULL) cr_host_put(to, first + cell, factor * slope);
    }
  }
  return sum;
}

/* The state of a pass. */
typedef struct yolo_pass {
  const cr_layer *layer;
  const crema_shape *shape;
  cr_host_values map;
  cr_host_results to;
  double factor;
} yolo_pass;

static crema_status forward_image(void *state, int worker, int64_t index) {
  const yolo_pass *pass = state;
  const yolo_state *s = pass->layer->state;
  yolo_image of = image_of(pass->layer, pass->shape, index);
  (void)worker;
  of.map = pass->map;
  for (int64_t n = 0; n < s->anchors; ++n) {
    for (int64_t cell = 0; cell < of.cells; ++cell) put_background(&of, n, cell);
  }
  for (size_t i = 0; i < of.objects; ++i) match_object(&of, &of.object[i]);
  ((double *)(void *)s->loss.data)[index] = run_image(&of, 0, NULL);
  return CREMA_OK;
}

static crema_status backward_image(void *state, int worker, int64_t index) {
  const yolo_pass *pass = state;
  yolo_image of = image_of(pass->layer, pass->shape, index);
  (void)worker;
  of.map = pass->map;
  run_image(&of, pass->factor, &pass->to);
  return CREMA_OK;
}

enum { OPERATIONS = 30 /* approximate number of multiply-adds for each number of the map */ };

static crema_status spread(yolo_pass *pass, crema_context *context, crema_blob *map,
                           cr_host_work *work) {
  pass->shape = &map->shape;
  CR_TRY(cr_host_read(map->data, &pass->map));
  const int workers = cr_host_workers(context, (double)crema_blob_count(map) * OPERATIONS);
  return cr_host_spread(workers, map->shape.dim[0], work, pass);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  yolo_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0];
  yolo_pass pass = {.layer = layer};
  cr_host_results to;
  double sum = 0;
  CR_TRY(read_objects(layer, bottom[1], images));
  if (crema_blob_count(bottom[0]) > 0) {
    CR_TRY(spread(&pass, context, bottom[0], forward_image));
    for (int64_t i = 0; i < images; ++i) sum += ((const double *)(const void *)s->loss.data)[i];
  }
  CR_TRY(cr_host_write(top[0]->data, &to));
  cr_host_put(&to, 0, images > 0 ? sum / (double)images : 0);
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  yolo_pass pass = {.layer = layer};
  double weight = 0;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "objects (bottom 1) have no gradient");
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_tensor_host_value(top[0]->diff, &weight));
  CR_TRY(cr_host_write(bottom[0]->diff, &pass.to));
  if (crema_blob_count(bottom[0]) == 0) return CREMA_OK;
  pass.factor = weight / (double)bottom[0]->shape.dim[0];
  return spread(&pass, context, bottom[0], backward_image);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 0;
}

static void destroy(cr_layer *layer) {
  yolo_state *s = layer->state;
  cr_buffer_free(&s->loss);
  cr_buffer_free(&s->weight);
  cr_buffer_free(&s->target);
  cr_buffer_free(&s->object);
  cr_buffer_free(&s->truths.memory);
}

const cr_layer_class cr_layer_yolov3 = {
    CR_LAYER_OF_OPS("Yolov3", sizeof(yolo_state), setup, reshape, forward, backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .graph.auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .uses_bottom = uses_bottom,
    .destroy = destroy,
};
