/* Transpose: exchanges axes (Shi et al., "CRNN", 2017).
 *
 * Formula: axis i of y = axis dim[i] of x; dim names each axis once. Without dim, the channels of
 * each position become a row: row (n H + h) W + w of y = x[n][.][h][w].
 * Shapes: x (any) -> y: the extents of x in that order. Without dim, x (N, C, H, W), (N, C, H) or
 * (N, C) -> y (N H W, C).
 * Fields: transpose_param.
 * Caffe: with dim as in the forks for CRNN. Without dim as in the forks for LRCN, some of whose y
 * have two more axes of extent 1. The forks whose Transpose exchanges height and width need
 * dim: 0 dim: 1 dim: 3 dim: 2 in crema.
 * Example, x 2 3 4 5:
 *   layer { name: "turn" type: "Transpose" bottom: "x" top: "y"
 *     transpose_param { dim: 3 dim: 0 dim: 2 dim: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_permute.h"

static cr_axis_order order_of(const cr_layer *layer) {
  const Caffe__TransposeParameter *param = layer->param->transpose_param;
  if (param == NULL) return (cr_axis_order){.field = "dim"};
  return (cr_axis_order){"dim", param->dim, param->n_dim};
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const cr_axis_order order = order_of(layer);
  const crema_shape *from = &bottom[0]->shape;
  char text[128];
  (void)top;
  if (order.count == 0 && (from->axes < 2 || from->axes > 4)) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "without dim the bottom must have 2 to 4 axes, found shape %s",
                         crema_shape_text(from, text, sizeof text));
  }
  if (order.count > 0 && order.count != (size_t)from->axes) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "transpose_param needs a dim for each of %d axes, found %zu", from->axes,
                         order.count);
  }
  return cr_layer_permute_check(layer, bottom, &order);
}

/* The channels to the end, and one row for each position. */
static crema_status make_rows(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape x = cr_layer_fold(&bottom[0]->shape, 1, 2);
  const crema_shape y = {.axes = 3, .dim = {x.dim[0], x.dim[2], x.dim[1]}};
  const crema_shape to = cr_shape_2(x.dim[0] * x.dim[2], x.dim[1]);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_PERMUTE);
  desc.u.order[1] = 2;
  desc.u.order[2] = 1;
  CR_TRY(crema_blob_reshape(top[0], &to));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){.x = {&x}, .y = &y});
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const cr_axis_order order = order_of(layer);
  if (order.count == 0) return make_rows(layer, bottom, top);
  return cr_layer_permute_make(layer, bottom, top, &order);
}

const cr_layer_class cr_layer_transpose = {
    CR_LAYER_PERMUTE("Transpose"),
    .setup = setup,
    .reshape = reshape,
};
