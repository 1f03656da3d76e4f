/* Tile: repeats a blob.
 *
 * Formula: y = tiles copies of x, one after the other along axis.
 * Shapes: x (any) -> y: as x, the extent of axis times tiles.
 * Fields: tile_param.
 * Caffe: the same.
 * Example, x 2 3:
 *   layer { name: "tile" type: "Tile" bottom: "x" top: "y" tile_param { axis: 1 tiles: 4 } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct tile_state {
  cr_layer_op forward, backward;
} tile_state;

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
  tile_state *s = layer->state;
  const Caffe__TileParameter *param = layer->param->tile_param;
  crema_shape to = bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &to, param->axis, "axis", &axis));
  const int64_t outer = crema_shape_count(&to, 0, axis);
  const int64_t inner = crema_shape_count(&to, axis, to.axes);
  CR_TRY(cr_layer_multiply(layer, param->tiles, &to.dim[axis]));
  CR_TRY(crema_blob_reshape(top[0], &to));
  const crema_shape x = cr_shape_2(outer, inner), y = cr_shape_3(outer, param->tiles, inner);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_TILE_FWD);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 2, (const crema_shape *[]){&x, &y}, NULL));
  desc.kind = CR_OP_TILE_BWD;
  return cr_layer_op_make(layer, &s->backward, &desc, 2, (const crema_shape *[]){&y, &x}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  tile_state *s = layer->state;
  return cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, top[0]->data},
                         NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  tile_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(&s->backward, context, (cr_tensor *[]){top[0]->diff, bottom[0]->diff},
                         NULL);
}

const cr_layer_class cr_layer_tile = {
    .type = "Tile",
    .state_size = sizeof(tile_state),
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
