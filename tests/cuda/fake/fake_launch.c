/* Launches on the host: launch.cu's own host code runs, as nvcc made it, and ends in the calls
 * below, which check how a kernel is started and run its device function element by element. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../functions_host.h"
#include "device/gpu/launch.h"
#include "fake_driver.h"
#include "fake_runtime.h"

double cr_thread_block_sum(cr_thread_block thread_block, double value) {
  (void)thread_block;
  return value;
}
float cr_thread_block_max(cr_thread_block thread_block, float value) {
  (void)thread_block;
  return value;
}

/* ---- device functions by name ---- */

enum { KERNELS = 512 };

typedef enum fake_shape { EACH, PACKS, ALONE, THREAD_BLOCK } fake_shape;

typedef struct fake_kernel {
  const void *host_function; /* how the host code names it */
  const host_body *function;
  fake_shape shape;
  atomic_uint loaded; /* one bit per device */
} fake_kernel;

/* Filled by the module's constructors, before anybody launches. */
static struct {
  fake_kernel kernel[KERNELS];
  int count;
} registered;

/* A mangled name holds the length of each name before it. */
static bool mentions(const char *mangled, const char *name) {
  char text[128];
  snprintf(text, sizeof text, "%zu%s", strlen(name), name);
  return strstr(mangled, text) != NULL;
}

/* The device function that a kernel's name mentions, in the form of its namespace. */
static const host_body *function_of(const char *mangled) {
  static const struct {
    const char *kernels;
    const host_body *function;
  } forms[] = {{"kernels_of_any", host_functions_any},
               {"kernels_of_f32", host_functions_f32},
               {"kernels_of_f16", host_functions_f16},
               {"kernels_of_bf16", host_functions_bf16}};
  for (size_t form = 0; form < sizeof forms / sizeof *forms; ++form) {
    if (!mentions(mangled, forms[form].kernels)) continue;
    for (int i = 0; i < CR_BODIES; ++i) {
      char text[128];
      snprintf(text, sizeof text, "cr_%s_device", forms[form].function[i].text);
      if (mentions(mangled, text)) return &forms[form].function[i];
    }
  }
  return NULL;
}

/* ---- what the code that nvcc makes calls ---- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device,
                            const char *name, int limit, uint3 *tid, uint3 *bid, dim3 *block,
                            dim3 *grid, int *size);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *host_function);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary) {
  static void *handle[1];
  handle[0] = binary;
  return handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) {
  (void)handle;
}
void __cudaUnregisterFatBinary(void **handle) {
  (void)handle;
}
void __cudaRegisterFunction(void **handle, const char *host_function, char *device,
                            const char *name, int limit, uint3 *tid, uint3 *bid, dim3 *block,
                            dim3 *grid, int *size) {
  (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
  (void)size;
  const host_body *function = function_of(name);
  if (function == NULL || registered.count == KERNELS) {
    fprintf(stderr, "fake runtime: kernel %s is not known\n", name);
    abort();
  }
  fake_kernel *kernel = &registered.kernel[registered.count++];
  kernel->host_function = host_function;
  kernel->function = function;
  kernel->shape = EACH;
  if (mentions(name, "packs_kernel")) kernel->shape = PACKS;
  if (mentions(name, "alone_kernel")) kernel->shape = ALONE;
  if (mentions(name, "thread_block_kernel")) kernel->shape = THREAD_BLOCK;
}
/* The host functions themselves are never called: kernels are started by cudaLaunchKernel. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  (void)grid, (void)block, (void)shared, (void)stream;
  return 1;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  (void)grid, (void)block, (void)shared, (void)stream;
  return fake_fail(cudaErrorInvalidConfiguration);
}
cudaError_t __cudaGetKernel(void **kernel, const void *host_function) {
  (void)kernel, (void)host_function;
  return fake_fail(cudaErrorInvalidDeviceFunction);
}
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream) {
  (void)kernel, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
  return fake_fail(cudaErrorInvalidDeviceFunction);
}

/* ---- launches ---- */

static bool configuration_fits(fake_shape shape, dim3 grid, dim3 block, size_t shared) {
  if (grid.x < 1 || grid.x > INT32_MAX || grid.y != 1 || grid.z != 1) return false;
  if (block.y != 1 || block.z != 1 || shared != 0) return false;
  if (shape == THREAD_BLOCK) return block.x >= 32 && block.x <= 1024 && block.x % 32 == 0;
  return block.x >= 1 && block.x <= 256;
}

static fake_kernel *kernel_of(const void *host_function) {
  for (int i = 0; i < registered.count; ++i) {
    if (registered.kernel[i].host_function == host_function) return &registered.kernel[i];
  }
  return NULL;
}

/* The driver loads a kernel when it is first asked for. It may wait for the device then. */
static void load(fake_kernel *kernel) {
  const unsigned bit = 1u << fake_device();
  if ((atomic_fetch_or(&kernel->loaded, bit) & bit) == 0) fake_touch_memory();
}

/* For tests: how many kernels the device has not loaded. */
__attribute__((visibility("default"))) int fake_unloaded_kernels(int device);

int fake_unloaded_kernels(int device) {
  int count = 0;
  for (int i = 0; i < registered.count; ++i) {
    if ((atomic_load(&registered.kernel[i].loaded) >> device & 1) == 0) ++count;
  }
  return count;
}

/* FAKE_CUDA_NO_CODE: the kernels are made for other devices. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *host_function) {
  memset(out, 0, sizeof *out);
  (void)fake_device();
  fake_kernel *kernel = kernel_of(host_function);
  if (kernel == NULL) return fake_fail(cudaErrorInvalidDeviceFunction);
  const bool made = getenv("FAKE_CUDA_NO_CODE") == NULL;
  if (!made) return fake_fail(cudaErrorNoKernelImageForDevice);
  load(kernel);
  return cudaSuccess;
}

/* A kernel with its arguments. */
typedef struct fake_started {
  const fake_kernel *kernel;
  int64_t count;
  _Alignas(8) char args[8192];
} fake_started;

static void run(const void *data) {
  const fake_started *s = data;
  const cr_thread_block alone = {.lane = 0, .lanes = 1};
  const fake_shape shape = s->kernel->shape;
  if (fake_is_idle()) return;
  if (shape == EACH || shape == PACKS) {
    host_run_each(s->kernel->function, s->args, s->count, shape == PACKS);
    return;
  }
  for (int64_t i = 0; i < s->count; ++i) s->kernel->function->thread_block(s->args, i, alone);
}

cudaError_t cudaLaunchKernel(const void *host_function, dim3 grid, dim3 block, void **args,
                             size_t shared, cudaStream_t stream) {
  fake_kernel *kernel = kernel_of(host_function);
  if (kernel == NULL) return fake_fail(cudaErrorInvalidDeviceFunction);
  if (!configuration_fits(kernel->shape, grid, block, shared)) {
    return fake_fail(cudaErrorInvalidConfiguration);
  }
  if (stream->device != fake_device()) return fake_fail(cudaErrorInvalidResourceHandle);
  int64_t count = 0;
  memcpy(&count, args[1], sizeof count);
  if (count <= 0) return fake_fail(cudaErrorInvalidValue);
  load(kernel);
  fake_started started = {.kernel = kernel, .count = count};
  if (kernel->function->bytes > sizeof started.args) return fake_fail(cudaErrorInvalidValue);
  memcpy(started.args, args[0], kernel->function->bytes);
  if (!fake_record(stream, run, &started, sizeof started)) run(&started);
  return cudaSuccess;
}
