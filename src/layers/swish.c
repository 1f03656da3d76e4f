/* Swish: a smooth ReLU (Ramachandran, Zoph and Le, 2017).
 *
 * Formula: y = x / (1 + exp(-beta * x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: swish_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "swish" type: "Swish" bottom: "x" top: "y" swish_param { beta: 1.5 } } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__SwishParameter *param = layer->param->swish_param;
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_SWISH, param ? (double)param->beta : 1, 0, 0);
}

const cr_layer_class cr_layer_swish = {
    CR_LAYER_UNARY("Swish", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
