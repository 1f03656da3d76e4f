/* Flatten: makes one axis of several.
 *
 * Formula: y = x; no value moves.
 * Shapes: x (any) -> y: the axes from axis to end_axis become one. It shares data and diff with x.
 * Fields: flatten_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "flat" type: "Flatten" bottom: "x" top: "y" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__FlattenParameter *param = layer->param->flatten_param;
  const crema_shape *from = &bottom[0]->shape;
  int start = 0, end = 0;
  CR_TRY(cr_layer_axis(layer, from, param ? param->axis : 1, "axis", &start));
  CR_TRY(cr_layer_axis(layer, from, param ? param->end_axis : -1, "end_axis", &end));
  if (start > end) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "axis %d comes after end_axis %d", start, end);
  }
  crema_shape to = cr_shape(start, from->dim);
  to.dim[to.axes++] = crema_shape_count(from, start, end + 1);
  for (int i = end + 1; i < from->axes; ++i) to.dim[to.axes++] = from->dim[i];
  return cr_layer_view(bottom[0], &to, top[0]);
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  (void)bottoms;
  return cr_layer_reach_from(param->flatten_param ? param->flatten_param->axis : 1);
}

const cr_layer_class cr_layer_flatten = {
    .type = "Flatten",
    .bottoms = {1, 1},
    .tops = {1, 1},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .memory.shares = CR_SHARES_BLOB,
    .setup = cr_layer_noop,
    .reshape = reshape,
    .forward = cr_layer_noop_forward,
    .backward = cr_layer_noop_backward,
    .fusion.reach = reach,
};
