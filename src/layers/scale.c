/* Scale: multiplies by a learnt or computed factor.
 *
 * Formula: y = x * scale + bias. Scale and bias span the axes of x starting at axis and are
 * repeated over all other axes.
 * Shapes: x (any), optionally scale -> y (as x), also in place. Without a second bottom the scale
 * is parameter 0 of num_axes axes (-1: to the last; 0: a scalar), filled with 1 unless filler says
 * otherwise; with bias_term the bias is the last parameter.
 * Fields: scale_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "scale" type: "Scale" bottom: "x" top: "y" scale_param { bias_term: true } } */
#include "core/fail.h"
#include "layers/common/layer_affine.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__ScaleParameter defaults = CAFFE__SCALE_PARAMETER__INIT;
  static const Caffe__FillerParameter ones = CR_CONSTANT_FILLER(1);
  const Caffe__ScaleParameter *param = layer->param->scale_param;
  cr_layer_affine *s = layer->state;
  crema_shape shape;
  int learned = layer->bottoms == 1;
  (void)top;
  if (param == NULL) param = &defaults;
  s->axis = param->axis;
  s->scale = true;
  s->bias = param->bias_term;
  CR_TRY(cr_layer_affine_shape(layer, bottom, param->num_axes, &shape));
  CR_TRY(cr_layer_set_params(layer, learned + s->bias));
  if (learned) CR_TRY(cr_layer_add_param(layer, 0, &shape, param->filler ? param->filler : &ones));
  return s->bias ? cr_layer_add_param(layer, learned, &shape, param->bias_filler) : CREMA_OK;
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  return cr_layer_affine_reach(bottoms, param->scale_param ? param->scale_param->axis : 1);
}

const cr_layer_class cr_layer_scale = {
    CR_LAYER_AFFINE("Scale"),
    .int8.rounds_tops = true,
    .int8.scales_integers = true,
    .memory.runs_ops = true,
    .setup = setup,
    .fusion.reach = reach,
    .fusion.scales_channels = cr_layer_affine_scales_channels,
};
