/* Starting kernels, which launch.cu holds, from C. */
#include "device/gpu/launch.h"

#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/start.h"

/* Longer than every argument block. */
static const char no_args[8192];

cudaError_t cr_cuda_load_kernel(int function) {
  const cudaError_t error = cr_cuda_start_each(function, NULL, no_args, 0);
  if (error != cudaErrorInvalidValue) {
    return error == cudaSuccess ? cr_cuda_start_each_common(function, NULL, no_args, 0) : error;
  }
  for (int lanes = 1; lanes <= 32; lanes += 31) { /* a kernel for one lane, and one for several */
    cudaError_t code = cr_cuda_start_thread_blocks(function, NULL, no_args, 0, lanes);
    if (code == cudaSuccess) {
      code = cr_cuda_start_thread_blocks_common(function, NULL, no_args, 0, lanes);
    }
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

crema_status cr_cuda_load_kernels(void) {
  for (int i = 0; i < CR_BODIES; ++i) {
    CR_TRY(cr_cuda_check(cr_cuda_load_kernel(i), "loading a kernel"));
  }
  return CREMA_OK;
}

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
