/* The border between C and nvcc: how launch.c starts kernels that launch.cu holds. */
#ifndef CR_CUDA_START_H
#define CR_CUDA_START_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a CR_EACH or CR_VALUE device function over `count` elements. cudaErrorInvalidValue for a
 * CR_THREAD_BLOCK device function. The second is for the common case (kernels/hd.h). For count 0
 * these functions load the kernel's code into the current device and start nothing. */
cudaError_t cr_cuda_start_each(int function, cudaStream_t stream, const void *args, int64_t count);
cudaError_t cr_cuda_start_each_common(int function, cudaStream_t stream, const void *args,
                                      int64_t count);

/* Starts a CR_THREAD_BLOCK device function over `segments` segments with thread blocks of
 * `lanes` threads: 1, or a multiple of 32 up to 1024. cudaErrorInvalidValue for other device
 * functions. */
cudaError_t cr_cuda_start_thread_blocks(int function, cudaStream_t stream, const void *args,
                                        int64_t segments, int lanes);
cudaError_t cr_cuda_start_thread_blocks_common(int function, cudaStream_t stream, const void *args,
                                               int64_t segments, int lanes);

#ifdef __cplusplus
}
#endif

#endif
