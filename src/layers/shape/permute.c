/* Permute: exchanges axes.
 *
 * Formula: axis i of y = axis order[i] of x; axes that order does not name follow in their old
 * order.
 * Shapes: x (any) -> y: the extents of x in that order.
 * Fields: permute_param.
 * Caffe: as in Caffe-SSD.
 * Example, x 2 3 4 5:
 *   layer { name: "nhwc" type: "Permute" bottom: "x" top: "y"
 *     permute_param { order: 0 order: 2 order: 3 order: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_permute.h"

static cr_axis_order order_of(const cr_layer *layer) {
  const Caffe__PermuteParameter *param = layer->param->permute_param;
  if (param == NULL) return (cr_axis_order){.field = "order"};
  return (cr_axis_order){"order", param->order, param->n_order};
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const cr_axis_order order = order_of(layer);
  (void)top;
  return cr_layer_permute_check(layer, bottom, &order);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const cr_axis_order order = order_of(layer);
  return cr_layer_permute_make(layer, bottom, top, &order);
}

const cr_layer_class cr_layer_permute = {
    CR_LAYER_PERMUTE("Permute"),
    .setup = setup,
    .reshape = reshape,
};
