/* BNLL: the binomial normal log likelihood, a smooth ReLU.
 *
 * Formula: y = log(1 + exp(x)).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "bnll" type: "BNLL" bottom: "x" top: "y" } */
#include "layers/common/layer_function.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_function *s = layer->state;
  (void)bottom;
  (void)top;
  s->kind = CR_FUNCTION_BNLL;
  return CREMA_OK;
}

CR_LAYER_FUNCTION_CLASS(bnll, "BNLL", setup, cr_layer_function_backward);
