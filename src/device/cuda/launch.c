/* Launching kernels from C. */
#include "device/cuda/launch.h"

#include <stdio.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/start.h"

static const char *const function_names[] = {
#define CR_EACH(name, args) #name,
#define CR_THREAD_BLOCK(name, args) #name,
#include "device/cuda/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_THREAD_BLOCK
};

static crema_status check(cudaError_t error, cr_device_function function) {
  if (error == cudaSuccess) return CREMA_OK;
  char what[64];
  snprintf(what, sizeof what, "starting kernel %s", function_names[function]);
  return cr_cuda_check(error, what);
}

crema_status cr_cuda_each(crema_context *context, cr_device_function function, const void *args,
                          int64_t count) {
  if (count <= 0) return CREMA_OK;
  return check(cr_cuda_start_each((int)function, cr_cuda_context(context)->stream, args, count),
               function);
}

/* Thread blocks that are long enough to use whole memory transactions, and short enough that every
 * lane has several steps to do. */
static int lanes_for(int64_t length) {
  if (length <= 1) return 1;
  if (length <= 64) return 32;
  if (length <= 1024) return 128;
  return length <= 16384 ? 256 : 1024;
}

crema_status cr_cuda_thread_blocks(crema_context *context, cr_device_function function,
                                   const void *args, int64_t segments, int64_t length) {
  if (segments <= 0) return CREMA_OK;
  return check(cr_cuda_start_thread_blocks((int)function, cr_cuda_context(context)->stream, args,
                                           segments, lanes_for(length)),
               function);
}
