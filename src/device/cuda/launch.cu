/* Every body as a kernel. A kernel takes its argument block by value, so that a launch needs no
 * memory of its own; loops step by the grid, so that any count fits. */
#include <string.h>

#include "device/cuda/kernels/bodies.h"
#include "device/cuda/start.h"

namespace {

constexpr int threads = 256;
constexpr int64_t most_blocks = 1 << 20;

template <size_t bytes>
struct block {
  alignas(8) char data[bytes];
};

template <size_t bytes, void (*body)(const void *, int64_t)>
__global__ void __launch_bounds__(threads)
    each_kernel(const __grid_constant__ block<bytes> args, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    body(&args, i);
  }
}

template <size_t bytes, void (*body)(const void *, int64_t, cr_team)>
__global__ void __launch_bounds__(threads)
    alone_kernel(const __grid_constant__ block<bytes> args, int64_t segments) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const cr_team team = {0, 1, nullptr};
  for (int64_t s = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; s < segments;
       s += step) {
    body(&args, s, team);
  }
}

template <size_t bytes, void (*body)(const void *, int64_t, cr_team)>
__global__ void __launch_bounds__(1024)
    team_kernel(const __grid_constant__ block<bytes> args, int64_t segments) {
  const cr_team team = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), nullptr};
  for (int64_t s = blockIdx.x; s < segments; s += gridDim.x) body(&args, s, team);
}

unsigned blocks_for(int64_t count, int64_t per_block) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
}

/* What this launch itself answers: the runtime's last error may be left over from somebody else's
 * call. */
template <typename kernel>
cudaError_t launch(kernel *function, unsigned blocks, unsigned size, cudaStream_t stream,
                   void *args, int64_t count) {
  void *parameters[] = {args, &count};
  return cudaLaunchKernel(reinterpret_cast<const void *>(function), dim3(blocks), dim3(size),
                          parameters, 0, stream);
}

template <size_t bytes, void (*body)(const void *, int64_t)>
cudaError_t start_each(cudaStream_t stream, const void *args, int64_t count) {
  block<bytes> copy;
  memcpy(copy.data, args, bytes);
  return launch(each_kernel<bytes, body>, blocks_for(count, threads), threads, stream, &copy,
                count);
}

template <size_t bytes, void (*body)(const void *, int64_t, cr_team)>
cudaError_t start_teams(cudaStream_t stream, const void *args, int64_t segments, int lanes) {
  block<bytes> copy;
  memcpy(copy.data, args, bytes);
  if (lanes == 1) {
    return launch(alone_kernel<bytes, body>, blocks_for(segments, threads), threads, stream, &copy,
                  segments);
  }
  return launch(team_kernel<bytes, body>, blocks_for(segments, 1), static_cast<unsigned>(lanes),
                stream, &copy, segments);
}

struct starter {
  cudaError_t (*each)(cudaStream_t, const void *, int64_t);
  cudaError_t (*teams)(cudaStream_t, const void *, int64_t, int);
};

const starter starters[] = {
#define CR_EACH(name, args) {start_each<sizeof(args), cr_##name##_body>, nullptr},
#define CR_TEAM(name, args) {nullptr, start_teams<sizeof(args), cr_##name##_body>},
#include "device/cuda/kernels/bodies.inc"
#undef CR_EACH
#undef CR_TEAM
};

}  // namespace

extern "C" cudaError_t cr_cuda_start_each(int body, cudaStream_t stream, const void *args,
                                          int64_t count) {
  const starter &s = starters[body];
  return s.each == nullptr ? cudaErrorInvalidValue : s.each(stream, args, count);
}

extern "C" cudaError_t cr_cuda_start_teams(int body, cudaStream_t stream, const void *args,
                                           int64_t segments, int lanes) {
  const starter &s = starters[body];
  return s.teams == nullptr ? cudaErrorInvalidValue : s.teams(stream, args, segments, lanes);
}
