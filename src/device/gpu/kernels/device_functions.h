/* All device functions. */
#ifndef CR_GPU_KERNELS_DEVICE_FUNCTIONS_H
#define CR_GPU_KERNELS_DEVICE_FUNCTIONS_H

#include "device/gpu/kernels/channel.h"
#include "device/gpu/kernels/convert_array.h"
#include "device/gpu/kernels/dots.h"
#include "device/gpu/kernels/eltwise.h"
#include "device/gpu/kernels/interp.h"
#include "device/gpu/kernels/loss.h"
#include "device/gpu/kernels/lrn.h"
#include "device/gpu/kernels/move.h"
#include "device/gpu/kernels/normalize.h"
#include "device/gpu/kernels/pool_last.h"
#include "device/gpu/kernels/recurrent.h"
#include "device/gpu/kernels/reorder.h"
#include "device/gpu/kernels/roi.h"
#include "device/gpu/kernels/row_loss.h"
#include "device/gpu/kernels/rowwise.h"
#include "device/gpu/kernels/softmax.h"
#include "device/gpu/kernels/unary.h"
#include "device/gpu/kernels/update.h"
#include "device/gpu/kernels/window.h"

#endif
