/* Sigmoid: the logistic function.
 *
 * Formula: y = 1 / (1 + exp(-x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: sigmoid_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_SIGMOID, 0, 0, 0);
}

const cr_layer_class cr_layer_sigmoid = {
    CR_LAYER_UNARY("Sigmoid", cr_layer_unary_by_value),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
