#include "functions_host.h"

#include "stored.h"

#ifdef CR_COMMON_ONLY
#define host_functions host_functions_common
#endif

const host_function host_functions[] = {
#define CR_EACH(name, args) {.each = cr_##name##_device},
#define CR_VALUE(name, args) {.each = cr_##name##_stored},
#define CR_THREAD_BLOCK(name, args) {.thread_block = cr_##name##_device},
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_VALUE
#undef CR_THREAD_BLOCK
};
