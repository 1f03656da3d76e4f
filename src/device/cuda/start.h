/* The border between C and nvcc: how launch.c starts kernels that launch.cu holds. */
#ifndef CR_CUDA_START_H
#define CR_CUDA_START_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the kernels of one form (kernels/hd.h) are started. A call returns cudaErrorInvalidValue for
 * a device function that has no such kernel. With count 0 it loads the kernel's code into the
 * current device and starts nothing. */
typedef struct cr_cuda_form {
  /* `count` elements of a CR_EACH or CR_VALUE device function. */
  cudaError_t (*each)(int function, cudaStream_t stream, const void *args, int64_t count);
  /* The same by packs (kernels/pack.h). */
  cudaError_t (*packs)(int function, cudaStream_t stream, const void *args, int64_t count);
  /* `segments` segments of a CR_THREAD_BLOCK device function with thread blocks of `lanes` threads:
   * 1, or a multiple of 32 up to 1024. */
  cudaError_t (*thread_blocks)(int function, cudaStream_t stream, const void *args,
                               int64_t segments, int lanes);
} cr_cuda_form;

extern const cr_cuda_form cr_cuda_any, cr_cuda_f32, cr_cuda_f16, cr_cuda_bf16;

#ifdef __cplusplus
}
#endif

#endif
