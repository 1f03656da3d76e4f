#include "layers/common/layer_args.h"

#include "core/fail.h"

crema_status cr_layer_args_make(cr_layer *layer, cr_layer_args *args, int count) {
  void *shapes = NULL, *tensors = NULL;
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *args->shape, &shapes));
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *args->tensor, &tensors));
  args->shape = shapes;
  args->tensor = tensors;
  args->count = count;
  return CREMA_OK;
}

crema_status cr_layer_args_make_join(cr_layer *layer, cr_layer_args *args, int parts, int axis,
                                     const crema_shape *whole, cr_layer_op *join,
                                     cr_layer_op *cut) {
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONCAT);
  desc.u.axis = axis;
  args->shape[parts] = whole;
  CR_TRY(cr_layer_op_make(layer, join, &desc, parts + 1, args->shape));
  for (int i = parts; i > 0; --i) args->shape[i] = args->shape[i - 1];
  args->shape[0] = whole;
  desc.kind = CR_OP_SLICE;
  return cr_layer_op_make(layer, cut, &desc, parts + 1, args->shape);
}
