/* What the reference kernels of integers of 8 bits share. */
#ifndef CR_DEVICE_CPU_INT8_H
#define CR_DEVICE_CPU_INT8_H

#include "device/backend/kernel.h"

/* Value `i` of an array of U8 or I8. */
static inline int32_t cr_int8_get(crema_dtype type, const void *values, int64_t i) {
  return type == CREMA_U8 ? ((const uint8_t *)values)[i] : ((const int8_t *)values)[i];
}

/* values[at...] = `count` floats: rounded and cut where `type` is U8 or I8, as they are for F32. */
void cr_int8_put(crema_dtype type, const float *from, int64_t count, void *values, int64_t at);

/* The type and scale of QUANTIZE's result. */
crema_status cr_int8_check_quantize(const cr_plan *plan) CREMA_MUST_USE;

/* What follows the sums in CONV_INT8 and IP_INT8: dst[at...] from `count` sums of output channels
 * `channel`, `channel` + `step`... */
void cr_int8_finish(const cr_call *call, const int32_t *sums, int64_t count, int64_t channel,
                    int64_t step, int64_t at);

/* to[i] = value i of an array of U8 or I8. */
void cr_int8_widen(crema_dtype type, const void *values, int64_t count, int16_t *to);

#endif
