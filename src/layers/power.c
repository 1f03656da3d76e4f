/* Power: a power of a linear function.
 *
 * Formula: y = (shift + scale * x) ^ power.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: power_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "power" type: "Power" bottom: "x" top: "y"
 *     power_param { power: 2 scale: 0.5 shift: 1 } } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__PowerParameter *param = layer->param->power_param;
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_POWER, param ? (double)param->power : 1,
                            param ? (double)param->scale : 1, param ? (double)param->shift : 0);
}

const cr_layer_class cr_layer_power = {
    CR_LAYER_UNARY("Power", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
