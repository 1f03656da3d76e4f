/* AbsVal: the absolute value.
 *
 * Formula: y = |x|.
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: none.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "absval" type: "AbsVal" bottom: "x" top: "y" } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  (void)param, (void)arithmetic;
  *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_ABS};
  return true;
}

const cr_layer_class cr_layer_abs_val = {
    CR_LAYER_UNARY("AbsVal", cr_layer_unary_by_input),
    .fusion.post = post,
    .setup = cr_layer_unary_setup,
    .backward = cr_layer_pair_backward,
};
