#include "layers/common/layer_int8.h"

#include "core/dtype.h"
#include "core/fail.h"

crema_status cr_layer_int8_make(cr_layer *layer, cr_layer_rounded *rounded, cr_layer_op *slot,
                                const cr_op_desc *desc, const crema_shape *const *shape,
                                const crema_blob *bottom) {
  const cr_layer_int8 *how = layer->int8;
  const crema_shape *src = shape[0];
  const float scale[] = {1, 1, 1, 1, how->addend_scale};
  cr_op_desc made = *desc;
  made.kind = desc->kind == CR_OP_CONV_FWD ? CR_OP_CONV_INT8 : CR_OP_IP_INT8;
  if (cr_dtype_is_floating(cr_tensor_type(bottom->data))) {
    const cr_op_desc round = cr_layer_op_desc(CR_OP_QUANTIZE);
    CR_TRY(cr_layer_pass_tensor(layer, &rounded->tensor, how->from,
                                crema_shape_count(src, 0, src->axes)));
    CR_TRY(cr_layer_op_make_scaled(layer, &rounded->op, &round, 4,
                                   (const crema_shape *[]){src, NULL, NULL, src},
                                   (const float[]){1, 1, 1, how->from_scale}));
  }
  return cr_layer_op_make_numbers(layer, slot, &made, 5, shape, scale, how->numbers, how->number);
}

crema_status cr_layer_int8_round(cr_layer_rounded *rounded, crema_context *context,
                                 cr_tensor **source) {
  if (rounded->tensor == NULL) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&rounded->op, context, *source, NULL, NULL, rounded->tensor));
  *source = rounded->tensor;
  return CREMA_OK;
}
