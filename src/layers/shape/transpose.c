/* Transpose: exchanges axes (Shi et al., "CRNN", 2017).
 *
 * Formula: axis i of y = axis dim[i] of x; dim names each axis once.
 * Shapes: x (any) -> y: the extents of x in that order.
 * Fields: transpose_param.
 * Caffe: as in the forks for CRNN. Other forks have layers of this name without dim, which crema
 * rejects.
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
  (void)top;
  if (order.count != (size_t)bottom[0]->shape.axes) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "transpose_param needs a dim for each of %d axes, found %zu",
                         bottom[0]->shape.axes, order.count);
  }
  return cr_layer_permute_check(layer, bottom, &order);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const cr_axis_order order = order_of(layer);
  return cr_layer_permute_make(layer, bottom, top, &order);
}

const cr_layer_class cr_layer_transpose = {
    CR_LAYER_PERMUTE("Transpose"),
    .setup = setup,
    .reshape = reshape,
};
