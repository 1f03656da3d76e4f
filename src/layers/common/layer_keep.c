#include "layers/common/layer_keep.h"

#include "core/fail.h"

crema_status cr_layer_keep_make(cr_layer *layer, cr_layer_keep *keep, const crema_blob *bottom) {
  const crema_shape *shape = &bottom->shape;
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_COPY);
  CR_TRY(cr_layer_pass_tensor(layer, &keep->input, cr_tensor_type(bottom->data),
                              crema_shape_count(shape, 0, shape->axes)));
  return CR_LAYER_MAKE(layer, &keep->copy, &desc, shape, shape);
}

crema_status cr_layer_keep_forward(cr_layer *layer, cr_layer_keep *keep, crema_context *context,
                                   const crema_blob *bottom, const crema_blob *top,
                                   cr_tensor **input) {
  *input = bottom->data;
  if (!layer->needs_backward || !cr_layer_in_place(bottom, top)) return CREMA_OK;
  *input = keep->input;
  if (cr_tensor_take(keep->input, bottom->data)) return CREMA_OK;
  return CR_LAYER_RUN(&keep->copy, context, bottom->data, keep->input);
}

cr_tensor *cr_layer_keep_input(const cr_layer_keep *keep, const crema_blob *bottom,
                               const crema_blob *top) {
  return cr_layer_in_place(bottom, top) ? keep->input : bottom->data;
}
