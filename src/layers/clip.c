/* Clip: cuts values to a range.
 *
 * Formula: y = min(max(x, min), max).
 * Shapes: x (any) -> y (as x), also in place.
 * Fields: clip_param.
 * Caffe: the same; the gradient at min and at max is the gradient of y.
 * Example, x 2 3 4 4:
 *   layer { name: "clip" type: "Clip" bottom: "x" top: "y" clip_param { min: -1 max: 1 } } */
#include "layers/common/layer_unary.h"

static bool post(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out) {
  const Caffe__ClipParameter *p = param->clip_param;
  (void)arithmetic;
  if (p == NULL || !(p->min <= p->max)) return false;
  *out = (cr_post){.kind = CR_POST_UNARY,
                   .function = CR_UNARY_CLIP,
                   .alpha = (double)p->min,
                   .beta = (double)p->max,
                   .gamma = 1};
  return true;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ClipParameter *param = layer->param->clip_param;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "clip_param with min and max is required");
  }
  if (!(param->min <= param->max)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "min %g is above max %g", (double)param->min,
                         (double)param->max);
  }
  return cr_layer_unary_setup(layer, bottom, top);
}

const cr_layer_class cr_layer_clip = {
    CR_LAYER_UNARY("Clip", cr_layer_unary_by_input),
    .fusion.post = post,
    .int8.takes_bf16 = true,
    .setup = setup,
    .backward = cr_layer_pair_backward,
};
