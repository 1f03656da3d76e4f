/* BNLL: the binomial normal log likelihood, a smooth ReLU.
 *
 * Formula: y = log(1 + exp(x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "bnll" type: "BNLL" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_BNLL, 0, 0, 0);
}

const cr_layer_class cr_layer_bnll = {
    CR_LAYER_UNARY("BNLL", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
