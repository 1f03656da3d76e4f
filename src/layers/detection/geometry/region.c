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
  return CR_LAYER_MAKE(layer, &out->op, &desc, map_shape, &biases, overlaps ? &rows : NULL, &box,
                       overlaps ? &overlap : NULL, classes ? &class : NULL);
}

crema_status cr_region_boxes_find(cr_region_boxes *boxes, crema_context *context,
                                  crema_blob *bottom, const cr_truths *truths) {
  const int64_t rows = boxes->objects ? cr_tensor_count(boxes->objects) / 5 : 0;
  cr_host_results to;
  if (rows > 0) CR_TRY(cr_host_write(boxes->objects, &to));
  for (int64_t i = 0; i < rows; ++i) {
    const bool is_one = truths != NULL && (size_t)i < truths->count;
    const cr_box box = is_one ? truths->at[i].box : (cr_box){0};
    const double row[5] = {
        is_one ? (double)truths->at[i].item : -1, ((double)box.xmin + (double)box.xmax) / 2,
        ((double)box.ymin + (double)box.ymax) / 2, (double)box.xmax - (double)box.xmin,
        (double)box.ymax - (double)box.ymin};
    for (int k = 0; k < 5; ++k) cr_host_put(&to, 5 * i + k, row[k]);
  }
  return CR_LAYER_RUN(&boxes->op, context, bottom->data, boxes->biases, boxes->objects, boxes->box,
                      boxes->overlap, boxes->classes);
}

cr_box cr_region_box(const cr_region_map *map, const cr_host_values *box, int64_t at) {
  const int64_t cells = map->side * map->side;
  const int64_t first = at / cells * 5 * cells + at % cells;
  return cr_box_around(cr_host_get(box, first), cr_host_get(box, first + cells),
                       cr_host_get(box, first + 2 * cells), cr_host_get(box, first + 3 * cells));
}
