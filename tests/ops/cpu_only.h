/* Ops that have no row but on the CPU, to which other back ends leave them. */
#ifndef CR_TESTS_OPS_CPU_ONLY_H
#define CR_TESTS_OPS_CPU_ONLY_H

#include <stdbool.h>

#include "device/backend/op_desc.h"

static inline bool op_is_cpu_only(cr_op_kind kind) {
  switch (kind) {
    case CR_OP_CONV_INT8:
    case CR_OP_IP_INT8:
    case CR_OP_QUANTIZE:
    case CR_OP_AFFINE_INT8:
    case CR_OP_AVERAGE_INT8:
    case CR_OP_LRN_QUANTIZE:
    case CR_OP_FLIP:
    case CR_OP_SAMPLE_FWD:
    case CR_OP_SAMPLE_BWD_DATA:
    case CR_OP_SAMPLE_BWD_GRID:
    case CR_OP_RESAMPLE:
    case CR_OP_CORRELATION_FWD:
    case CR_OP_CORRELATION_BWD_A:
    case CR_OP_CORRELATION_BWD_B:
    case CR_OP_LOCAL_FWD:
    case CR_OP_LOCAL_BWD_DATA:
    case CR_OP_LOCAL_BWD_WEIGHTS:
    case CR_OP_NOISE:
    case CR_OP_REGION: return true;
    default: return false;
  }
}

#endif
