/* The border between C and nvcc: how launch.c starts kernels that launch.cu holds. */
#ifndef CR_CUDA_START_H
#define CR_CUDA_START_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a CR_EACH body over `count` > 0 elements. cudaErrorInvalidValue for a CR_TEAM body. */
cudaError_t cr_cuda_start_each(int body, cudaStream_t stream, const void *args, int64_t count);

/* Starts a CR_TEAM body over `segments` > 0 segments with teams of `lanes` threads: 1, or a
 * multiple of 32 up to 1024. cudaErrorInvalidValue for a CR_EACH body. */
cudaError_t cr_cuda_start_teams(int body, cudaStream_t stream, const void *args, int64_t segments,
                                int lanes);

#ifdef __cplusplus
}
#endif

#endif
