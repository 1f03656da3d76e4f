#include "layers/common/layer_weights.h"

#include "core/fail.h"

crema_status cr_layer_weights_add(cr_layer *layer, const crema_shape *weights,
                                  const Caffe__FillerParameter *weight_filler,
                                  const crema_shape *bias,
                                  const Caffe__FillerParameter *bias_filler) {
  CR_TRY(cr_layer_set_params(layer, bias == NULL ? 1 : 2));
  CR_TRY(cr_layer_add_param(layer, 0, weights, weight_filler));
  return bias == NULL ? CREMA_OK : cr_layer_add_param(layer, 1, bias, bias_filler);
}

crema_status cr_layer_weights_make_bias(cr_layer *layer, cr_layer_op *op, const crema_shape *top,
                                        const crema_shape *bias) {
  const crema_shape folded = cr_layer_fold(top, 1, 2);
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_BWD_BIAS);
  return CR_LAYER_MAKE(layer, op, &desc, &folded, bias);
}

crema_status cr_layer_weights_run_bias(cr_layer *layer, cr_layer_op *op, crema_context *context,
                                       cr_tensor *diff_top) {
  if (layer->params < 2 || !layer->param_propagate_down[1]) return CREMA_OK;
  return CR_LAYER_RUN(op, context, diff_top, layer->blob[1]->diff);
}

crema_status cr_layer_weights_make(cr_layer *layer, cr_layer_weights *ops, const cr_op_desc *desc,
                                   const crema_shape *src, const crema_shape *dst,
                                   const crema_shape *weights, const crema_shape *bias) {
  CR_TRY(CR_LAYER_MAKE(layer, &ops->weights, desc, src, dst, weights, NULL));
  if (bias == NULL) return CREMA_OK;
  if (!ops->transposed) {
    CR_TRY(CR_LAYER_MAKE(layer, &ops->both, desc, src, dst, weights, bias));
  }
  return cr_layer_weights_make_bias(layer, &ops->bias, ops->transposed ? src : dst, bias);
}

crema_status cr_layer_weights_run(cr_layer_weights *ops, cr_layer *layer, crema_context *context,
                                  cr_tensor *src, cr_tensor *diff_dst) {
  bool weights = layer->param_propagate_down[0];
  bool bias = layer->params > 1 && layer->param_propagate_down[1] && layer->rectifier == NULL;
  if (weights && bias && !ops->transposed) {
    return CR_LAYER_RUN(&ops->both, context, src, diff_dst, layer->blob[0]->diff,
                        layer->blob[1]->diff);
  }
  if (weights) {
    CR_TRY(CR_LAYER_RUN(&ops->weights, context, src, diff_dst, layer->blob[0]->diff, NULL));
  }
  if (!bias) return CREMA_OK;
  return cr_layer_weights_run_bias(layer, &ops->bias, context, ops->transposed ? src : diff_dst);
}

bool cr_layer_weights_uses_bottom(const cr_layer *layer, int bottom) {
  (void)bottom;
  return layer->param_propagate_down[0];
}
