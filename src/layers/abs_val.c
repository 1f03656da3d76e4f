/* AbsVal: the absolute value.
 *
 * Formula: y = |x|.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "absval" type: "AbsVal" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  return cr_layer_unary_set(layer, CR_UNARY_ABS, 0, 0, 0);
}

const cr_layer_class cr_layer_abs_val = {
    CR_LAYER_UNARY("AbsVal", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
