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
    case CR_OP_REGION: return true;
    default: return false;
  }
}

#endif
