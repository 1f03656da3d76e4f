/* ELU: the exponential linear unit (Clevert, Unterthiner and Hochreiter, 2016).
 *
 * Formula: y = lambda * x for x > 0, lambda * alpha * (exp(x) - 1) otherwise.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: elu_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "elu" type: "ELU" bottom: "x" top: "y" elu_param { alpha: 0.5 } } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ELUParameter *param = layer->param->elu_param;
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_ELU, param ? (double)param->alpha : 1,
                            param ? (double)param->lambda : 1, 0);
}

const cr_layer_class cr_layer_elu = {
    CR_LAYER_UNARY("ELU", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
