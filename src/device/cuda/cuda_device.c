/* The device table over the CUDA runtime: devices, contexts, memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/cuda_table.h"
#include "device/cuda/nccl_library.h"
#include "device/gpu/convert.h"
#include "device/gpu/layout.h"
#include "device/gpu/rows.h"

static crema_status cuda_count(int *out) {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  *out = 0;
  if (error == cudaSuccess) {
    *out = count;
    return CREMA_OK;
  }
  if (error == cudaErrorCudartUnloading) return cr_cuda_check(error, "counting devices");
  (void)cudaGetLastError();
  if (error == cudaErrorNoDevice) {
    return cr_fail(CREMA_E_NO_DEVICE, "the NVIDIA driver finds no device");
  }
  if (error == cudaErrorInitializationError) {
    return cr_fail(CREMA_E_NO_DEVICE,
                   "CUDA does not start: %s (a process that was forked from one that used CUDA "
                   "cannot use it)",
                   cudaGetErrorString(error));
  }
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    (void)cudaGetLastError();
    return cr_fail(CREMA_E_NO_DEVICE, "the NVIDIA driver is missing");
  }
  (void)cudaRuntimeGetVersion(&runtime);
  if (error == cudaErrorInsufficientDriver) {
    return cr_fail(CREMA_E_NO_DEVICE,
                   "the NVIDIA driver knows CUDA up to %d.%d, but %d.%d is needed", driver / 1000,
                   driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  return cr_fail(CREMA_E_NO_DEVICE, "the NVIDIA driver answers: %s", cudaGetErrorString(error));
}

static crema_status attribute(const crema_device *device, enum cudaDeviceAttr what, int *out) {
  return cr_cuda_check(cudaDeviceGetAttribute(out, what, device->index), "asking a device");
}

/* A build has code only for some devices, which its options choose. */
static crema_status check_code(cudaError_t error, const struct cudaDeviceProp *properties) {
  if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction &&
      error != cudaErrorUnsupportedPtxVersion) {
    return cr_cuda_check(error, "asking for a kernel");
  }
  (void)cudaGetLastError();
  return cr_fail(CREMA_E_UNSUPPORTED,
                 "the device has compute capability %d.%d, and this build has no code for it: %s",
                 properties->major, properties->minor, cudaGetErrorString(error));
}

/* Events decide it rather than the device's flags, which other users of CUDA in the process share.
 */
static crema_status find_wait(const cuda_wait **out) {
  static const cuda_wait waits[] = {
      {"spin", false, cudaEventDisableTiming},
      {"sleep", true, cudaEventDisableTiming | cudaEventBlockingSync}};
  const char *text = getenv("CREMA_CUDA_WAIT");
  *out = &waits[0];
  if (text == NULL || text[0] == '\0') return CREMA_OK;
  for (size_t i = 0; i < sizeof waits / sizeof waits[0]; ++i) {
    if (strcmp(text, waits[i].name) != 0) continue;
    *out = &waits[i];
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_ARGUMENT, "CREMA_CUDA_WAIT is spin or sleep, not '%s'", text);
}

static crema_status cuda_open(crema_device *device) {
  struct cudaDeviceProp properties;
  const cuda_wait *wait = NULL;
  int before = -1;
  CR_TRY(find_wait(&wait));
  CR_TRY(cr_gpu_enter(device, &before));
  /* The driver makes its own state for the device now rather than inside the first copy. */
  cudaError_t error = cudaFree(NULL), code = cudaSuccess;
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device->index);
  if (error == cudaSuccess) code = cr_cuda_load_kernel(CR_DEVICE_FUNCTION_set);
  cr_gpu_leave(before);
  CR_TRY(cr_cuda_check(error, "opening a device"));
  CR_TRY(check_code(code, &properties));
  device->memory_bytes = properties.totalGlobalMem;
  device->state = (void *)wait;
  return CREMA_OK;
}

static void cuda_close(crema_device *device) {
  (void)device;
}

static crema_status cuda_memory_info(crema_device *device, size_t *free_bytes,
                                     size_t *total_bytes) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("memory is allocated"));
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error = cudaMemGetInfo(free_bytes, total_bytes);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "asking for free memory");
}

static crema_status cuda_describe(crema_device *device, crema_device_info *out) {
  struct cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  char blas[32], dnn[32] = "built without cuDNN";
  int before = -1;
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error = cudaGetDeviceProperties(&properties, device->index);
  cr_gpu_leave(before);
  CR_TRY(cr_cuda_check(error, "asking a device"));
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  cr_cuda_blas_text(blas, sizeof blas);
#ifdef CREMA_CUDNN
  cr_cuda_dnn_text(dnn, sizeof dnn);
#endif
  snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, properties.name);
  snprintf(out->library, sizeof out->library, "CUDA %d.%d (driver %d.%d), %s, %s", runtime / 1000,
           runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, blas, dnn);
  out->compute_units = properties.multiProcessorCount;
  out->capability_major = properties.major;
  out->capability_minor = properties.minor;
  return cuda_memory_info(device, &out->memory_free, &out->memory_total);
}

static crema_status cuda_set_current(crema_device *device) {
  return cr_cuda_check(cudaSetDevice(device->index), "choosing a device");
}

/* The query itself would open the current device, so it runs on a device that is open. Without any
 * there is no device memory. */
static bool enter_any(int *before) {
  int current = -1, count = 0;
  *before = -1;
  if (cudaGetDevice(&current) != cudaSuccess || cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  if (cr_cuda_is_open(current)) return true;
  for (int i = 0; i < count; ++i) {
    const crema_device device = {.backend = &cr_gpu_backend, .index = i};
    if (cr_cuda_is_open(i)) return cr_gpu_enter(&device, before) == CREMA_OK;
  }
  return false;
}

static int cuda_owner(uintptr_t address) {
  struct cudaPointerAttributes attributes;
  int before = -1;
  if (!enter_any(&before)) return -1;
  const cudaError_t error =
      cudaPointerGetAttributes(&attributes, (const void *)address); /* NOLINT */
  cr_gpu_leave(before);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return -1;
  }
  const bool ours =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return ours ? attributes.device : -1;
}

static bool cuda_can_access_peer(crema_device *device, crema_device *peer) {
  int can = 0;
  if (device->index == peer->index) return false;
  if (cudaDeviceCanAccessPeer(&can, device->index, peer->index) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return can != 0;
}

static bool cuda_same_board(crema_device *device, crema_device *peer) {
  crema_device *const pair[2] = {device, peer};
  int group[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    int several = 0;
    if (attribute(pair[i], cudaDevAttrIsMultiGpuBoard, &several) != CREMA_OK || several == 0 ||
        attribute(pair[i], cudaDevAttrMultiGpuBoardGroupID, &group[i]) != CREMA_OK) {
      return false;
    }
  }
  return group[0] == group[1];
}

static crema_status cuda_enable_peer(crema_device *device, crema_device *peer) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("devices are connected"));
  CR_TRY(cr_gpu_enter(device, &before));
  cudaError_t error = cudaDeviceEnablePeerAccess(peer->index, 0);
  cr_gpu_leave(before);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    error = cudaSuccess;
  }
  return cr_cuda_check(error, "enabling peer access");
}

static crema_status cuda_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  void *memory = NULL;
  int before = -1;
  CR_TRY(cr_cuda_interrupt("memory is allocated"));
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error = cudaMalloc(&memory, bytes);
  cr_gpu_leave(before);
  CR_TRY(cr_cuda_check(error, "allocating device memory"));
  out->address = (uintptr_t)memory;
  return CREMA_OK;
}

/* If the device cannot be entered, the driver is unloaded or the device is lost, and its memory
 * with it. */
static void cuda_free(crema_device *device, crema_devptr memory) {
  int before = -1;
  (void)!cr_cuda_interrupt("memory is freed");
  if (cr_gpu_enter(device, &before) != CREMA_OK) return;
  if (cudaFree((void *)memory.address) != cudaSuccess) (void)cudaGetLastError(); /* NOLINT */
  cr_gpu_leave(before);
}

static crema_status cuda_host_alloc(crema_device *device, size_t bytes, void **out) {
  int before = -1;
  CR_TRY(cr_cuda_interrupt("memory is allocated"));
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error =
      cudaHostAlloc(out, bytes > 0 ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
  cr_gpu_leave(before);
  return cr_cuda_check(error, "allocating page-locked memory");
}

static void cuda_host_free(crema_device *device, void *memory) {
  int before = -1;
  (void)!cr_cuda_interrupt("memory is freed");
  if (memory == NULL || cr_gpu_enter(device, &before) != CREMA_OK) return;
  if (cudaFreeHost(memory) != cudaSuccess) (void)cudaGetLastError();
  cr_gpu_leave(before);
}

/* If the device can access any host address, the driver also returns one for pageable memory. Such
 * memory may move between host and device and cannot pass data between them. So the kind of memory
 * is checked first. */
static cudaError_t alias_of(void *memory, void **alias) {
  struct cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
  if (error != cudaSuccess) return error;
  if (attributes.type != cudaMemoryTypeHost) return cudaErrorInvalidValue;
  return cudaHostGetDevicePointer(alias, memory, 0);
}

static crema_status cuda_host_alias(crema_device *device, void *memory, crema_devptr *out) {
  void *alias = NULL;
  int before = -1;
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error = alias_of(memory, &alias);
  cr_gpu_leave(before);
  if (error == cudaErrorInvalidValue) {
    (void)cudaGetLastError();
    return cr_fail(CREMA_E_ARGUMENT, "host memory at %#zx is not page-locked", (size_t)memory);
  }
  CR_TRY(cr_cuda_check(error, "reaching page-locked memory"));
  out->address = (uintptr_t)alias;
  return CREMA_OK;
}

#define ENTRY(name) &cr_##name.kernel,
static const cr_kernel *const kernels[] = {
#ifdef CREMA_CUDNN
    CR_CUDNN_ROWS(ENTRY)
#endif
        CR_GPU_ROWS(ENTRY) NULL};

const cr_backend cr_gpu_backend = {
    .type = CREMA_DEVICE_CUDA,
    .name = "cuda",
    .host_memory = false,
    .has_fast_math = true,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .context_open = cr_cuda_context_open,
    .context_close = cr_cuda_context_close,
    .finish = cr_cuda_finish,
    .failure = cr_cuda_failure,
    .copy = cr_cuda_copy,
    .zero = cr_cuda_zero,
    .convert = cr_gpu_convert,
    .convert_many = cr_gpu_convert_many,
    .converts_at_once = true,
    .same_order = cr_gpu_same_order,
    .layout_text = cr_gpu_layout_text,
    .event_create = cr_cuda_event_create,
    .event_destroy = cr_cuda_event_destroy,
    .event_record = cr_cuda_event_record,
    .event_wait = cr_cuda_event_wait,
    .event_query = cr_cuda_event_query,
    .event_finish = cr_cuda_event_finish,
    .capture_begin = cr_cuda_capture_begin,
    .capture_end = cr_cuda_capture_end,
    .graph_run = cr_cuda_graph_run,
    .graph_destroy = cr_cuda_graph_destroy,
    .host_alias = cuda_host_alias,
    .memory_info = cuda_memory_info,
    .busy = cr_cuda_busy,
    .owner = cuda_owner,
    .set_current = cuda_set_current,
    .enter_device = cr_gpu_enter,
    .leave_device = cr_gpu_leave,
    .can_access_peer = cuda_can_access_peer,
    .same_board = cuda_same_board,
    .enable_peer = cuda_enable_peer,
    .collectives = &cr_cuda_collectives,
    .kernels = kernels,
};
