/* All device functions. */
#ifndef CR_CUDA_KERNELS_DEVICE_FUNCTIONS_H
#define CR_CUDA_KERNELS_DEVICE_FUNCTIONS_H

#include "device/cuda/kernels/channel.h"
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/dots.h"
#include "device/cuda/kernels/eltwise.h"
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/lrn.h"
#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/rowwise.h"
#include "device/cuda/kernels/softmax.h"
#include "device/cuda/kernels/unary.h"
#include "device/cuda/kernels/update.h"
#include "device/cuda/kernels/window.h"

/* CR_VALUE functions as CR_EACH ones: cr_<name>_stored. */
#define CR_EACH(name, args)
#define CR_THREAD_BLOCK(name, args)
#define CR_VALUE(name, args)                                             \
  CR_HD void cr_##name##_stored(const void *block, int64_t i) {          \
    cr_put(((const args *)block)->out, i, cr_##name##_device(block, i)); \
  }
#include "device/cuda/kernels/device_functions.inc"
#undef CR_EACH
#undef CR_THREAD_BLOCK
#undef CR_VALUE

#endif
