/* Thread blocks: the threads of one block that work on one segment together.
 *
 * A device function with a thread block processes its segment starting at thread_block.lane in
 * steps of thread_block.lanes. It combines the lanes' results with the calls below, which every
 * lane must reach. A thread block of one lane is a single thread, on the device and on the host.
 * Sums are made in a fixed order, so that equal inputs give equal bits. */
#ifndef CR_GPU_KERNELS_THREAD_BLOCK_H
#define CR_GPU_KERNELS_THREAD_BLOCK_H

#include "device/gpu/kernels/hd.h"

typedef struct cr_thread_block {
  int lane, lanes; /* on the device: 1, or a multiple of 32 up to 1024 */
#ifdef CR_OPENCL
  __local cr_wide *part; /* one for each lane */
#else
  void *host; /* how the lanes of a thread block on the host meet; NULL on the device */
#endif
} cr_thread_block;

#ifdef __CUDACC__

/* On the device; nvcc's host pass also needs a definition, which is never called. */
CR_HD double cr_thread_block_sum(cr_thread_block thread_block, double value) {
#ifdef __CUDA_ARCH__
  __shared__ double part[32];
  if (thread_block.lanes == 1) return value;
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (thread_block.lanes == 32) return value;
  __syncthreads(); /* everybody has read the parts of the sum before */
  if (thread_block.lane % 32 == 0) part[thread_block.lane / 32] = value;
  __syncthreads();
  value = part[0];
  for (int warp = 1; warp < thread_block.lanes / 32; ++warp) value += part[warp];
#endif
  (void)thread_block;
  return value;
}

CR_HD float cr_thread_block_max(cr_thread_block thread_block, float value) {
#ifdef __CUDA_ARCH__
  __shared__ float part[32];
  if (thread_block.lanes == 1) return value;
  for (int step = 16; step > 0; step >>= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = other > value ? other : value;
  }
  if (thread_block.lanes == 32) return value;
  __syncthreads();
  if (thread_block.lane % 32 == 0) part[thread_block.lane / 32] = value;
  __syncthreads();
  value = part[0];
  for (int warp = 1; warp < thread_block.lanes / 32; ++warp) {
    value = part[warp] > value ? part[warp] : value;
  }
#endif
  (void)thread_block;
  return value;
}

#elif defined(CR_OPENCL)

/* The number of lanes is a power of two. */
CR_HD cr_wide cr_thread_block_sum(cr_thread_block thread_block, cr_wide value) {
  __local cr_wide *part = thread_block.part;
  if (thread_block.lanes == 1) return value;
  barrier(CLK_LOCAL_MEM_FENCE); /* everybody has read the sum before */
  part[thread_block.lane] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = thread_block.lanes / 2; step > 0; step /= 2) {
    if (thread_block.lane < step) part[thread_block.lane] += part[thread_block.lane + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return part[0];
}

CR_HD float cr_thread_block_max(cr_thread_block thread_block, float value) {
  __local cr_wide *part = thread_block.part;
  if (thread_block.lanes == 1) return value;
  barrier(CLK_LOCAL_MEM_FENCE);
  part[thread_block.lane] = (cr_wide)value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = thread_block.lanes / 2; step > 0; step /= 2) {
    if (thread_block.lane < step && part[thread_block.lane + step] > part[thread_block.lane]) {
      part[thread_block.lane] = part[thread_block.lane + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return (float)part[0];
}

#else

/* For the tests; the sum over the lanes and the largest value. */
double cr_thread_block_sum(cr_thread_block thread_block, double value);
float cr_thread_block_max(cr_thread_block thread_block, float value);

#endif

#endif
