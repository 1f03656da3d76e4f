/* Launches of device functions, up to the driver. */
#include "device/gpu/launch.h"

static const char *const function_names[] = {
#define CR_EACH(name, args) #name,
#define CR_VALUE(name, args) #name,
#define CR_THREAD_BLOCK(name, args) #name,
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
};

const char *cr_gpu_function_name(int function) {
  return function_names[function % CR_COMMON];
}

static crema_status start(crema_context *context, const cr_gpu_launch *launch) {
  cr_gpu_count_launch(context);
  return cr_gpu_start(context, launch);
}

crema_status cr_gpu_each(crema_context *context, int function, const void *args, int64_t count) {
  if (count <= 0) return CREMA_OK;
  return start(context, &(cr_gpu_launch){.function = function, .args = args, .count = count});
}

crema_status cr_gpu_thread_blocks(crema_context *context, int function, const void *args,
                                  int64_t segments, int64_t length) {
  if (segments <= 0) return CREMA_OK;
  /* Thread blocks that are long enough to use full memory transactions, and short enough that each
   * lane has several steps. */
  const int lanes = length <= 1       ? 1
                    : length <= 64    ? 32
                    : length <= 1024  ? 128
                    : length <= 16384 ? 256
                                      : 1024;
  return start(context, &(cr_gpu_launch){
                            .function = function, .args = args, .count = segments, .lanes = lanes});
}
