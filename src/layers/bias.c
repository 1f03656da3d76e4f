/* Bias: adds a learnt or computed bias.
 *
 * Formula: y = x + bias. The bias spans the axes of x starting at axis and is repeated over all
 * other axes.
 * Shapes: x (any), optionally bias -> y (as x), also in place. Without a second bottom the bias is
 * parameter 0 of num_axes axes (-1: to the last; 0: a scalar).
 * Fields: bias_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "bias" type: "Bias" bottom: "x" top: "y" bias_param { filler { value: 0.5 } } }
 */
#include "core/fail.h"
#include "layers/common/layer_affine.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__BiasParameter defaults = CAFFE__BIAS_PARAMETER__INIT;
  const Caffe__BiasParameter *param = layer->param->bias_param;
  cr_layer_affine *s = layer->state;
  crema_shape shape;
  (void)top;
  if (param == NULL) param = &defaults;
  s->axis = param->axis;
  s->bias = true;
  if (layer->bottoms > 1) return CREMA_OK;
  CR_TRY(cr_layer_affine_shape(layer, bottom, param->num_axes, &shape));
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &shape, param->filler);
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  return cr_layer_affine_reach(bottoms, param->bias_param ? param->bias_param->axis : 1);
}

const cr_layer_class cr_layer_bias = {
    CR_LAYER_AFFINE("Bias"),
    .memory.runs_ops = true,
    .setup = setup,
    .fusion.reach = reach,
};
