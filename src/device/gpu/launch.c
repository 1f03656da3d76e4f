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
  return function_names[cr_gpu_number_of(function)];
}

enum { HALVES = 1, PACKS = 2 };

static const unsigned char function_forms[] = {
#define CR_EACH(name, args) 0,
#define CR_VALUE(name, args) 0,
#define CR_THREAD_BLOCK(name, args) 0,
#define CR_EACH_HALVES(name, args) HALVES,
#define CR_THREAD_BLOCK_HALVES(name, args) HALVES,
#define CR_EACH_PACKS(name, args) HALVES | PACKS,
#define CR_VALUE_PACKS(name, args) HALVES | PACKS,
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
#undef CR_EACH_HALVES
#undef CR_THREAD_BLOCK_HALVES
#undef CR_EACH_PACKS
#undef CR_VALUE_PACKS
};

bool cr_gpu_has_halves(cr_device_function function) {
  return (function_forms[function] & HALVES) != 0;
}

bool cr_gpu_has_packs(cr_device_function function) {
  return (function_forms[function] & PACKS) != 0;
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
