/* Starting kernels, which launch.cu holds, from C. */
#include "device/gpu/launch.h"

#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/start.h"

crema_status cr_gpu_start(crema_context *context, const cr_gpu_launch *launch) {
  const cudaStream_t stream = cr_cuda_context(context)->stream;
  const bool common = launch->function >= CR_COMMON;
  const int function = launch->function % CR_COMMON;
  const cudaError_t error =
      launch->lanes == 0
          ? (common ? cr_cuda_start_each_common : cr_cuda_start_each)(function, stream,
                                                                      launch->args, launch->count)
          : (common ? cr_cuda_start_thread_blocks_common : cr_cuda_start_thread_blocks)(
                function, stream, launch->args, launch->count, launch->lanes);
  if (error == cudaSuccess) return CREMA_OK;
  char what[64];
  snprintf(what, sizeof what, "starting kernel %s", cr_gpu_function_name(function));
  return cr_cuda_check(error, what);
}
