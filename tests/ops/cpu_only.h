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
    case CR_OP_LSTM_FWD:
    case CR_OP_LSTM_BWD:
    case CR_OP_LSTM_UNIT_FWD:
    case CR_OP_LSTM_UNIT_BWD:
    case CR_OP_RNN_FWD:
    case CR_OP_RNN_BWD:
    case CR_OP_RECURRENT_BWD_WEIGHTS:
    case CR_OP_NORMALIZE_FWD:
    case CR_OP_NORMALIZE_BWD:
    case CR_OP_ROW_LOSS:
    case CR_OP_ROW_LOSS_BWD:
    case CR_OP_REGION:
    case CR_OP_SMOOTH_L1_FWD:
    case CR_OP_SMOOTH_L1_BWD:
    case CR_OP_INTERP_FWD:
    case CR_OP_INTERP_BWD:
    case CR_OP_UNPOOL_FWD:
    case CR_OP_UNPOOL_BWD: return true;
    default: return false;
  }
}

#endif
