#include "layers/common/layer_weights.h"

#include "core/fail.h"

crema_status cr_layer_weights_make(cr_layer *layer, cr_layer_weights *ops, const cr_op_desc *desc,
                                   const crema_shape *src, const crema_shape *dst,
                                   const crema_shape *weights, const crema_shape *bias) {
  CR_TRY(cr_layer_op_make(layer, &ops->weights, desc, 4,
                          (const crema_shape *[]){src, dst, weights, NULL}, NULL));
  if (bias == NULL) return CREMA_OK;
  if (!ops->transposed) {
    CR_TRY(cr_layer_op_make(layer, &ops->both, desc, 4,
                            (const crema_shape *[]){src, dst, weights, bias}, NULL));
  }
  const crema_shape folded = cr_layer_fold(ops->transposed ? src : dst, 1, 2);
  cr_op_desc sum = cr_layer_op_desc(CR_OP_AFFINE_BWD_BIAS);
  return cr_layer_op_make(layer, &ops->bias, &sum, 2, (const crema_shape *[]){&folded, bias}, NULL);
}

crema_status cr_layer_weights_run(cr_layer_weights *ops, cr_layer *layer, crema_context *context,
                                  cr_tensor *src, cr_tensor *diff_dst) {
  bool weights = layer->param_propagate_down[0];
  bool bias = layer->params > 1 && layer->param_propagate_down[1];
  if (weights && bias && !ops->transposed) {
    return cr_layer_op_run(
        &ops->both, context,
        (cr_tensor *[]){src, diff_dst, layer->blob[0]->diff, layer->blob[1]->diff}, NULL);
  }
  if (weights) {
    CR_TRY(cr_layer_op_run(&ops->weights, context,
                           (cr_tensor *[]){src, diff_dst, layer->blob[0]->diff, NULL}, NULL));
  }
  if (!bias) return CREMA_OK;
  cr_tensor *top = ops->transposed ? src : diff_dst;
  return cr_layer_op_run(&ops->bias, context, (cr_tensor *[]){top, layer->blob[1]->diff}, NULL);
}

bool cr_layer_weights_uses_bottom(const cr_layer *layer, int bottom) {
  (void)bottom;
  return layer->param_propagate_down[0];
}
