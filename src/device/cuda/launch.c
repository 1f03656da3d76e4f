/* Launching kernels from C. */
#include "device/cuda/launch.h"

#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/start.h"

static const char *const function_names[] = {
#define CR_EACH(name, args) #name,
#define CR_VALUE(name, args) #name,
#define CR_THREAD_BLOCK(name, args) #name,
#include "device/cuda/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
};

static crema_status check(cudaError_t error, int function) {
  if (error == cudaSuccess) return CREMA_OK;
  char what[64];
  snprintf(what, sizeof what, "starting kernel %s", function_names[function % CR_COMMON]);
  return cr_cuda_check(error, what);
}

crema_status cr_cuda_each(crema_context *context, int function, const void *args, int64_t count) {
  if (count <= 0) return CREMA_OK;
  const bool common = function >= CR_COMMON;
  return check((common ? cr_cuda_start_each_common : cr_cuda_start_each)(
                   function % CR_COMMON, cr_cuda_context(context)->stream, args, count),
               function);
}

crema_status cr_cuda_thread_blocks(crema_context *context, int function, const void *args,
                                   int64_t segments, int64_t length) {
  if (segments <= 0) return CREMA_OK;
  const bool common = function >= CR_COMMON;
  /* Thread blocks that are long enough to use full memory transactions, and short enough that each
   * lane has several steps. */
  const int lanes = length <= 1       ? 1
                    : length <= 64    ? 32
                    : length <= 1024  ? 128
                    : length <= 16384 ? 256
                                      : 1024;
  return check((common ? cr_cuda_start_thread_blocks_common : cr_cuda_start_thread_blocks)(
                   function % CR_COMMON, cr_cuda_context(context)->stream, args, segments, lanes),
               function);
}
