/* Every device function as a kernel. A kernel takes its argument block by value, so that a launch
 * needs no memory. Loops step by the grid, so that any count fits. This file is compiled once for
 * each form (kernels/hd.h): CR_FORM_NAME is its name. With CR_HALVES_ONLY it has only the functions
 * with forms for 16-bit types. */
#include <string.h>

#include "device/cuda/start.h"
#include "device/gpu/kernels/device_functions.h"

#define CR_JOIN(a, b) a##b
#define CR_TABLE(form) CR_JOIN(cr_cuda_, form)
#define CR_NAMESPACE_OF(form) CR_JOIN(kernels_of_, form)
#define CR_NAMESPACE CR_NAMESPACE_OF(CR_FORM_NAME)

/* The form is a part of the kernels' names. */
namespace CR_NAMESPACE {
namespace {

constexpr int threads = 256;
[[maybe_unused]] constexpr int values = 4; /* of a thread */
constexpr int64_t most_blocks = 1 << 20;

template <size_t bytes>
struct packed_args {
  alignas(8) char data[bytes];
};

template <size_t bytes, void (*function)(const void *, int64_t)>
__global__ void __launch_bounds__(threads)
    each_kernel(const __grid_constant__ packed_args<bytes> args, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    function(&args, i);
  }
}

/* A thread writes its values after it has computed all of them: a load cannot be moved before a
 * write that might be to the same memory. */
template <typename block_type, size_t bytes, float (*function)(const void *, int64_t)>
__global__ void __launch_bounds__(threads)
    value_kernel(const __grid_constant__ packed_args<bytes> args, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * threads * values;
  const cr_hd_values out = reinterpret_cast<const block_type *>(&args)->out;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads * values + threadIdx.x; i < count;
       i += step) {
    if (i + (values - 1) * threads < count) {
      float value[values];
#pragma unroll
      for (int k = 0; k < values; ++k) value[k] = function(&args, i + k * threads);
#pragma unroll
      for (int k = 0; k < values; ++k) cr_put(out, i + k * threads, value[k]);
    } else {
      for (int k = 0; k < values && i + k * threads < count; ++k) {
        cr_put(out, i + k * threads, function(&args, i + k * threads));
      }
    }
  }
}

/* Packs, then the elements after the last pack. `one` writes an element. */
template <size_t bytes, void (*pack)(const void *, int64_t), void (*one)(const void *, int64_t)>
__global__ void __launch_bounds__(threads)
    packs_kernel(const __grid_constant__ packed_args<bytes> args, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * threads * CR_PACK;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  const int64_t whole = count / CR_PACK * CR_PACK;
  for (int64_t i = first * CR_PACK; i < whole; i += step) pack(&args, i);
  if (first < count - whole) one(&args, whole + first);
}

/* Writes the value of an element. */
template <typename block_type, float (*function)(const void *, int64_t)>
CR_HD void write_value(const void *args, int64_t i) {
  cr_put(static_cast<const block_type *>(args)->out, i, function(args, i));
}

template <size_t bytes, void (*function)(const void *, int64_t, cr_thread_block)>
__global__ void __launch_bounds__(threads)
    alone_kernel(const __grid_constant__ packed_args<bytes> args, int64_t segments) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const cr_thread_block thread_block = {0, 1, nullptr};
  for (int64_t s = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; s < segments;
       s += step) {
    function(&args, s, thread_block);
  }
}

template <size_t bytes, void (*function)(const void *, int64_t, cr_thread_block)>
__global__ void __launch_bounds__(1024)
    thread_block_kernel(const __grid_constant__ packed_args<bytes> args, int64_t segments) {
  const cr_thread_block thread_block = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                                        nullptr};
  for (int64_t s = blockIdx.x; s < segments; s += gridDim.x) function(&args, s, thread_block);
}

unsigned blocks_for(int64_t count, int64_t per_block) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
}

/* The result of this launch; the runtime's last error may be left over from another call. For
 * count 0 loads the kernel and starts nothing. */
template <typename kernel>
cudaError_t launch(kernel *function, unsigned blocks, unsigned size, cudaStream_t stream,
                   void *args, int64_t count) {
  cudaFuncAttributes attributes;
  void *parameters[] = {args, &count};
  const void *name = reinterpret_cast<const void *>(function);
  if (count == 0) return cudaFuncGetAttributes(&attributes, name);
  return cudaLaunchKernel(name, dim3(blocks), dim3(size), parameters, 0, stream);
}

template <size_t bytes, void (*function)(const void *, int64_t)>
cudaError_t start_each(cudaStream_t stream, const void *args, int64_t count) {
  packed_args<bytes> copy;
  memcpy(copy.data, args, bytes);
  return launch(each_kernel<bytes, function>, blocks_for(count, threads), threads, stream, &copy,
                count);
}

template <typename block_type, float (*function)(const void *, int64_t)>
cudaError_t start_values(cudaStream_t stream, const void *args, int64_t count) {
  packed_args<sizeof(block_type)> copy;
  memcpy(copy.data, args, sizeof(block_type));
  return launch(value_kernel<block_type, sizeof(block_type), function>,
                blocks_for(count, threads * values), threads, stream, &copy, count);
}

template <size_t bytes, void (*pack)(const void *, int64_t), void (*one)(const void *, int64_t)>
cudaError_t start_packs(cudaStream_t stream, const void *args, int64_t count) {
  packed_args<bytes> copy;
  memcpy(copy.data, args, bytes);
  return launch(packs_kernel<bytes, pack, one>, blocks_for(count, threads * CR_PACK), threads,
                stream, &copy, count);
}

template <size_t bytes, void (*function)(const void *, int64_t, cr_thread_block)>
cudaError_t start_thread_blocks(cudaStream_t stream, const void *args, int64_t segments,
                                int lanes) {
  packed_args<bytes> copy;
  memcpy(copy.data, args, bytes);
  if (lanes == 1) {
    return launch(alone_kernel<bytes, function>, blocks_for(segments, threads), threads, stream,
                  &copy, segments);
  }
  return launch(thread_block_kernel<bytes, function>, blocks_for(segments, 1),
                static_cast<unsigned>(lanes), stream, &copy, segments);
}

struct starter {
  cudaError_t (*each)(cudaStream_t, const void *, int64_t);
  cudaError_t (*packs)(cudaStream_t, const void *, int64_t);
  cudaError_t (*thread_blocks)(cudaStream_t, const void *, int64_t, int);
};

#ifdef CR_HALVES_ONLY
#define CR_EACH(name, args) {},
#define CR_VALUE(name, args) {},
#define CR_THREAD_BLOCK(name, args) {},
#else
#define CR_EACH(name, args) CR_EACH_HALVES(name, args)
#define CR_VALUE(name, args) {start_values<args, cr_##name##_device>, nullptr, nullptr},
#define CR_THREAD_BLOCK(name, args) CR_THREAD_BLOCK_HALVES(name, args)
#endif
#define CR_EACH_HALVES(name, args) {start_each<sizeof(args), cr_##name##_device>, nullptr, nullptr},
#define CR_THREAD_BLOCK_HALVES(name, args) \
  {nullptr, nullptr, start_thread_blocks<sizeof(args), cr_##name##_device>},

/* Packs; in the form for F32 also single elements, and in the form for any type only these. */
#ifndef CR_ONE_TYPE
#define CR_EACH_PACKS(name, args) CR_EACH(name, args)
#define CR_VALUE_PACKS(name, args) CR_VALUE(name, args)
#elif defined(CR_HALVES_ONLY)
#define CR_EACH_PACKS(name, args) \
  {nullptr, start_packs<sizeof(args), cr_##name##_pack, cr_##name##_device>, nullptr},
#define CR_VALUE_PACKS(name, args)                                                              \
  {nullptr, start_packs<sizeof(args), cr_##name##_pack, write_value<args, cr_##name##_device>>, \
   nullptr},
#else
#define CR_EACH_PACKS(name, args)                \
  {start_each<sizeof(args), cr_##name##_device>, \
   start_packs<sizeof(args), cr_##name##_pack, cr_##name##_device>, nullptr},
#define CR_VALUE_PACKS(name, args)         \
  {start_values<args, cr_##name##_device>, \
   start_packs<sizeof(args), cr_##name##_pack, write_value<args, cr_##name##_device>>, nullptr},
#endif

const starter starters[] = {
#ifdef CR_DEVICE_FUNCTIONS /* tests may list fewer */
#include CR_DEVICE_FUNCTIONS
#else
#include "device/gpu/kernels/device_functions.inc"
#endif
};

cudaError_t each(int function, cudaStream_t stream, const void *args, int64_t count) {
  const starter &s = starters[function];
  return s.each == nullptr ? cudaErrorInvalidValue : s.each(stream, args, count);
}

cudaError_t packs(int function, cudaStream_t stream, const void *args, int64_t count) {
  const starter &s = starters[function];
  return s.packs == nullptr ? cudaErrorInvalidValue : s.packs(stream, args, count);
}

cudaError_t thread_blocks(int function, cudaStream_t stream, const void *args, int64_t segments,
                          int lanes) {
  const starter &s = starters[function];
  return s.thread_blocks == nullptr ? cudaErrorInvalidValue
                                    : s.thread_blocks(stream, args, segments, lanes);
}

}  // namespace
}  // namespace CR_NAMESPACE

extern "C" const cr_cuda_form CR_TABLE(CR_FORM_NAME) = {CR_NAMESPACE::each, CR_NAMESPACE::packs,
                                                        CR_NAMESPACE::thread_blocks};
