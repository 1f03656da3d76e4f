#include "layers/common/layer_args.h"

#include "core/fail.h"
#include "layers/common/layer_op.h"

crema_status cr_layer_args_make(cr_layer *layer, cr_layer_args *args, int count) {
  void *shapes = NULL, *tensors = NULL;
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *args->shape, &shapes));
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *args->tensor, &tensors));
  args->shape = shapes;
  args->tensor = tensors;
  args->count = count;
  return CREMA_OK;
}
