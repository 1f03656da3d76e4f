#include "layers/detection/geometry/region.h"

#include <math.h>

#include "core/fail.h"

crema_status cr_region_map_check(const cr_layer *layer, const char *message,
                                 const cr_region_map *map, size_t biases) {
  if (map->side < 1 || map->side > 65535 || map->anchors < 1 || map->anchors > 65535 ||
      map->classes < 1 || map->classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "%s: %lld cells, %lld anchors and %lld classes",
                         message, (long long)map->side, (long long)map->anchors,
                         (long long)map->classes);
  }
  if (biases != 2 * (size_t)map->anchors) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%s: %lld anchors need %lld biases, a width and a height each, found %zu",
                         message, (long long)map->anchors, 2 * (long long)map->anchors, biases);
  }
  for (size_t i = 0; i < biases; ++i) {
    if (map->biases[i] > 0 && isfinite(map->biases[i])) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "%s: biases has %g, must be above 0", message,
                         (double)map->biases[i]);
  }
  return CREMA_OK;
}

crema_status cr_region_shape_check(const cr_layer *layer, const cr_region_map *map,
                                   const crema_shape *shape) {
  char text[128];
  if (shape->axes == 4 && shape->dim[1] == map->anchors * cr_region_size(map) &&
      shape->dim[2] == map->side && shape->dim[3] == map->side) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have shape N %lld %lld %lld, found %s",
                       (long long)(map->anchors * cr_region_size(map)), (long long)map->side,
                       (long long)map->side, crema_shape_text(shape, text, sizeof text));
}

int64_t cr_region_size(const cr_region_map *map) {
  return 5 + map->classes;
}

int64_t cr_region_index(const cr_region_map *map, int64_t image, int64_t cell, int64_t anchor,
                        int64_t k) {
  const int64_t size = cr_region_size(map);
  return ((image * map->anchors + anchor) * size + k) * map->side * map->side + cell;
}

double cr_region_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

void cr_region_classes(const cr_region_map *map, const cr_host_values *from, int64_t image,
                       int64_t cell, int64_t anchor, double *out) {
  double most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < map->classes; ++c) {
    out[c] = cr_host_get(from, cr_region_index(map, image, cell, anchor, 5 + c));
    most = out[c] > most ? out[c] : most;
  }
  for (int64_t c = 0; c < map->classes; ++c) sum += out[c] = exp(out[c] - most);
  for (int64_t c = 0; c < map->classes; ++c) out[c] /= sum;
}

double cr_region_overlap(cr_region a, cr_region b) {
  const double width =
      fmin(a.x + a.width / 2, b.x + b.width / 2) - fmax(a.x - a.width / 2, b.x - b.width / 2);
  const double height =
      fmin(a.y + a.height / 2, b.y + b.height / 2) - fmax(a.y - a.height / 2, b.y - b.height / 2);
  if (!(width > 0 && height > 0)) return 0;
  const double common = width * height;
  return common / (a.width * a.height + b.width * b.height - common);
}

/* Moves the last object in front of those of higher images. */
static void sort_last(cr_buffer *buffer) {
  cr_region_truth *all = (cr_region_truth *)(void *)buffer->data;
  size_t at = buffer->size / sizeof *all - 1;
  const cr_region_truth last = all[at];
  for (; at > 0 && all[at - 1].image > last.image; --at) all[at] = all[at - 1];
  all[at] = last;
}

crema_status cr_region_read_truth(const cr_layer *layer, const cr_host_values *from, int64_t rows,
                                  int64_t images, int64_t labels, cr_buffer *out) {
  cr_buffer_clear(out);
  for (int64_t i = 0; i < rows; ++i) {
    double v[8];
    for (int k = 0; k < 8; ++k) v[k] = cr_host_get(from, 8 * i + k);
    if (v[0] == -1 || !(v[5] > v[3] && v[6] > v[4])) continue;
    if (!(v[0] >= 0 && v[0] < (double)images)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is of image %g, of %lld",
                           (long long)i, v[0], (long long)images);
    }
    if (!(v[1] >= 1 && v[1] < (double)labels + 1)) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "object %lld has label %g, must be 1 to %lld, 0 being the background",
                           (long long)i, v[1], (long long)labels);
    }
    const cr_region_truth truth = {
        (int64_t)v[0],
        (int64_t)v[1] - 1,
        {(v[3] + v[5]) / 2, (v[4] + v[6]) / 2, v[5] - v[3], v[6] - v[4]}};
    CR_TRY(cr_buffer_append(out, &truth, sizeof truth));
    sort_last(out);
  }
  return CREMA_OK;
}

size_t cr_region_truths_of(const cr_region_truth *truth, size_t truths, int64_t image,
                           size_t *first) {
  size_t end = *first;
  while (end < truths && truth[end].image < image) ++end;
  *first = end;
  while (end < truths && truth[end].image == image) ++end;
  return end - *first;
}

/* ---- boxes --------------------------------------------------------------- */

static crema_status need_tensor(cr_layer *layer, cr_tensor **tensor, const crema_shape *shape) {
  return cr_layer_pass_tensor(layer, tensor, cr_layer_arithmetic(layer),
                              crema_shape_count(shape, 0, shape->axes));
}

crema_status cr_region_boxes_make(cr_layer *layer, const cr_region_map *map,
                                  const crema_shape *map_shape, int64_t objects, bool classes,
                                  cr_region_boxes *out) {
  const int64_t images = map_shape->dim[0], cells = map->side * map->side;
  const bool overlaps = objects > 0;
  const crema_shape biases = cr_shape_2(map->anchors, 2), rows = cr_shape_2(objects, 5);
  const crema_shape box = cr_shape_4(images, map->anchors, 5, cells);
  const crema_shape overlap = cr_shape_3(images, map->anchors, cells);
  const crema_shape class = cr_shape_4(images, map->anchors, 2, cells);
  cr_host_results to;
  CR_TRY(cr_layer_tensor(layer, &out->biases, cr_layer_arithmetic(layer), 2 * map->anchors));
  CR_TRY(cr_host_write(out->biases, &to));
  for (int64_t i = 0; i < 2 * map->anchors; ++i) cr_host_put(&to, i, (double)map->biases[i]);
  CR_TRY(need_tensor(layer, &out->box, &box));
  if (overlaps) CR_TRY(need_tensor(layer, &out->objects, &rows));
  if (overlaps) CR_TRY(need_tensor(layer, &out->overlap, &overlap));
  if (classes) CR_TRY(need_tensor(layer, &out->classes, &class));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_REGION);
  return cr_layer_op_make(
      layer, &out->op, &desc, 6,
      (const crema_shape *[]){map_shape, &biases, overlaps ? &rows : NULL, &box,
                              overlaps ? &overlap : NULL, classes ? &class : NULL});
}

crema_status cr_region_boxes_find(cr_region_boxes *boxes, crema_context *context,
                                  crema_blob *bottom, const cr_region_truth *truth, size_t truths) {
  const int64_t rows = boxes->objects ? cr_tensor_count(boxes->objects) / 5 : 0;
  cr_host_results to;
  if (rows > 0) CR_TRY(cr_host_write(boxes->objects, &to));
  for (int64_t i = 0; i < rows; ++i) {
    const bool is_one = (size_t)i < truths;
    const cr_region box = is_one ? truth[i].box : (cr_region){0};
    const double row[5] = {is_one ? (double)truth[i].image : -1, box.x, box.y, box.width,
                           box.height};
    for (int k = 0; k < 5; ++k) cr_host_put(&to, 5 * i + k, row[k]);
  }
  return cr_layer_op_run(&boxes->op, context,
                         (cr_tensor *[]){bottom->data, boxes->biases, boxes->objects, boxes->box,
                                         boxes->overlap, boxes->classes},
                         NULL);
}

cr_region cr_region_box(const cr_region_map *map, const cr_host_values *box, int64_t at) {
  const int64_t cells = map->side * map->side;
  const int64_t first = at / cells * 5 * cells + at % cells;
  return (cr_region){cr_host_get(box, first), cr_host_get(box, first + cells),
                     cr_host_get(box, first + 2 * cells), cr_host_get(box, first + 3 * cells)};
}
