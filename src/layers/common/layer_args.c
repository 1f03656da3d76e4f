#include "layers/common/layer_args.h"

#include <stdlib.h>

#include "core/fail.h"

crema_status cr_layer_args_make(cr_layer_args *args, int count) {
  size_t n = count > 0 ? (size_t)count : 1;
  cr_layer_args_free(args);
  args->shape = calloc(n, sizeof *args->shape);
  args->tensor = calloc(n, sizeof *args->tensor);
  if (args->shape == NULL || args->tensor == NULL) {
    cr_layer_args_free(args);
    return cr_fail_memory(n * (sizeof *args->shape + sizeof *args->tensor), "op arguments");
  }
  args->count = count;
  return CREMA_OK;
}

void cr_layer_args_free(cr_layer_args *args) {
  free(args->tensor);
  free((void *)args->shape);
  args->tensor = NULL;
  args->shape = NULL;
  args->count = 0;
}
