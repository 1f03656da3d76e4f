/* The device that the CUDA runtime uses for the calling thread.
 *
 * Two habits of the runtime matter here. A thread that has made no call yet has device 0 without
 * being bound to it: libraries that reach for the driver (cuBLASLt does) find no context there. And
 * from CUDA 12 on cudaSetDevice opens an unopened device, which takes a good part of a second and
 * some hundred megabytes of its memory. Returning to a device must not do that. */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"

typedef struct driver_calls {
  __typeof__(&cuDeviceGet) device_get;
  __typeof__(&cuDevicePrimaryCtxGetState) state;
} driver_calls;

static driver_calls driver;

/* The runtime has opened the driver already. Opening it a second time costs nothing and is never
 * undone. */
static void find_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return;
  void *device_get = dlsym(library, "cuDeviceGet");
  void *state = dlsym(library, "cuDevicePrimaryCtxGetState");
  if (device_get == NULL || state == NULL) return;
  memcpy(&driver.device_get, &device_get, sizeof device_get);
  memcpy(&driver.state, &state, sizeof state);
}

static bool has_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_driver);
  return driver.state != NULL;
}

bool cr_cuda_is_open(int index) {
  CUdevice device = 0;
  unsigned flags = 0;
  int active = 1;
  if (!has_driver()) return true;
  if (driver.device_get(&device, index) != CUDA_SUCCESS) return true;
  return driver.state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

/* The runtime and the driver go one after the other; either knows it of itself. */
bool cr_cuda_is_gone(void) {
  int count = 0;
  CUdevice device = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorCudartUnloading) return true;
  if (error != cudaSuccess) (void)cudaGetLastError();
  return has_driver() && driver.device_get(&device, 0) == CUDA_ERROR_DEINITIALIZED;
}

crema_status cr_cuda_library_failure(void) {
  return cr_cuda_is_gone() ? CREMA_E_CLOSED : CREMA_E_DEVICE;
}

/* The device that this thread is known to be bound to. */
static _Thread_local int bound = -1;

crema_status cr_gpu_enter(const crema_device *device, int *before) {
  int current = -1;
  *before = -1;
  CR_TRY(cr_cuda_check(cudaGetDevice(&current), "asking for the current device"));
  if (current == device->index && bound == current) return CREMA_OK;
  CR_TRY(cr_cuda_check(cudaSetDevice(device->index), "choosing a device"));
  /* Until 12 the device is bound by the first call that needs it. */
  if (CUDART_VERSION < 12000) CR_TRY(cr_cuda_check(cudaFree(NULL), "opening a device"));
  bound = device->index;
  if (current != device->index && cr_cuda_is_open(current)) *before = current;
  return CREMA_OK;
}

void cr_gpu_leave(int before) {
  if (before < 0) return;
  bound = -1;
  if (cudaSetDevice(before) != cudaSuccess) (void)cudaGetLastError();
}
