/* Statuses for the CUDA runtime's errors. */
#include "core/fail.h"
#include "device/cuda/cuda_private.h"

crema_status cr_cuda_check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return CREMA_OK;
  /* Reading the last error clears it, unless the device is lost for good. */
  (void)cudaGetLastError();
  crema_status code = CREMA_E_DEVICE;
  if (error == cudaErrorMemoryAllocation) code = CREMA_E_NO_MEMORY;
  if (error == cudaErrorCudartUnloading) code = CREMA_E_CLOSED;
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
      error == cudaErrorInvalidDevice) {
    code = CREMA_E_NO_DEVICE;
  }
  return cr_fail(code, "%s: %s", what, cudaGetErrorString(error));
}
