/* Clip: cuts values to a range.
 *
 * Formula: y = min(max(x, min), max).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: clip_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "clip" type: "Clip" bottom: "x" top: "y" clip_param { min: -1 max: 1 } } */
#include "layers/common/layer_unary.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ClipParameter *param = layer->param->clip_param;
  (void)bottom, (void)top;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "clip_param with min and max is required");
  }
  if (!(param->min <= param->max)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "min %g is above max %g", (double)param->min,
                         (double)param->max);
  }
  return cr_layer_unary_set(layer, CR_UNARY_CLIP, (double)param->min, (double)param->max, 0);
}

const cr_layer_class cr_layer_clip = {
    CR_LAYER_UNARY("Clip", cr_layer_unary_by_input),
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
