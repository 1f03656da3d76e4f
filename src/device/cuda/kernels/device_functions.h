/* All device functions. */
#ifndef CR_CUDA_KERNELS_DEVICE_FUNCTIONS_H
#define CR_CUDA_KERNELS_DEVICE_FUNCTIONS_H

#include "device/cuda/kernels/channel.h"
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/dots.h"
#include "device/cuda/kernels/eltwise.h"
#include "device/cuda/kernels/interp.h"
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/lrn.h"
#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/normalize.h"
#include "device/cuda/kernels/recurrent.h"
#include "device/cuda/kernels/roi.h"
#include "device/cuda/kernels/row_loss.h"
#include "device/cuda/kernels/rowwise.h"
#include "device/cuda/kernels/softmax.h"
#include "device/cuda/kernels/unary.h"
#include "device/cuda/kernels/update.h"
#include "device/cuda/kernels/window.h"

#endif
