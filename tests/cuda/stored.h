/* The device functions that return a value, as functions that write it: cr_<name>_stored. */
#ifndef CR_TESTS_CUDA_STORED_H
#define CR_TESTS_CUDA_STORED_H

#include "device/gpu/kernels/device_functions.h"

#define CR_EACH(name, args)
#define CR_THREAD_BLOCK(name, args)
#define CR_VALUE(name, args)                                             \
  static inline void cr_##name##_stored(const void *block, int64_t i) {  \
    cr_put(((const args *)block)->out, i, cr_##name##_device(block, i)); \
  }
#include "device/gpu/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_THREAD_BLOCK
#undef CR_VALUE

#endif
