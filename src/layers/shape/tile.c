/* Tile: repeats a blob.
 *
 * Formula: y = tiles copies of x, one after the other along axis.
 * Shapes: x (any) -> y: as x, the extent of axis times tiles.
 * Fields: tile_param.
 * Caffe: the same.
 * Example, x 2 3:
 *   layer { name: "tile" type: "Tile" bottom: "x" top: "y" tile_param { axis: 1 tiles: 4 } } */
#include "core/fail.h"
#include "layers/common/layer_pair.h"
#include "layers/common/layer_shape.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_TILE_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_TILE_BWD, {CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__TileParameter *param = layer->param->tile_param;
  (void)top;
  if (param == NULL || param->tiles < 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "tile_param needs tiles of 1 or more");
  }
  (void)bottom;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__TileParameter *param = layer->param->tile_param;
  crema_shape to = bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &to, param->axis, "axis", &axis));
  const int64_t outer = crema_shape_count(&to, 0, axis);
  const int64_t inner = crema_shape_count(&to, axis, to.axes);
  CR_TRY(cr_layer_multiply(layer, param->tiles, &to.dim[axis]));
  CR_TRY(crema_blob_reshape(top[0], &to));
  const crema_shape x = cr_shape_2(outer, inner), y = cr_shape_3(outer, param->tiles, inner);
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_TILE_FWD);
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&x}, .y = &y});
}

const cr_layer_class cr_layer_tile = {
    CR_LAYER_PAIR("Tile", cr_layer_pair, 1),
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
    .backward = cr_layer_pair_backward,
};
