/* The CUDA rows without a GPU: their table over host memory. */
#include <stddef.h>

#include "device/gpu/rows.h"
#include "device/registry.h"
#include "device_under_test.h"

#define ENTRY(name) &cr_##name.kernel,
static const cr_kernel *const rows[] = {CR_GPU_ROWS(ENTRY) NULL};

crema_context *test_device_context(void) {
  static cr_backend backend;
  static crema_device device;
  static crema_context context;
  if (context.device == NULL) {
    backend = cr_backend_cpu;
    backend.name = "cuda rows on the host";
    backend.kernels = rows;
    device.backend = &backend;
    context.device = &device;
  }
  return &context;
}

crema_status test_device_finish(crema_context *context) {
  return cr_gpu_fault_take(cr_gpu_fault_of(context));
}
