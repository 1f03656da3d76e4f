/* Shared by the kernels of int8. */
#ifndef CR_DEVICE_CPU_KERNELS_INT8_H
#define CR_DEVICE_CPU_KERNELS_INT8_H

#include "device/backend/kernel.h"

/* Value `i` of an array of U8 or I8. */
static inline int32_t cr_int8_get(crema_dtype type, const void *values, int64_t i) {
  return type == CREMA_U8 ? ((const uint8_t *)values)[i] : ((const int8_t *)values)[i];
}

/* values[at...] = `count` floats: rounded and saturated to U8 or I8, or copied as F32. */
void cr_int8_put(crema_dtype type, const float *from, int64_t count, void *values, int64_t at);

/* Rounds full vectors of those values; returns the number of values written. */
int64_t cr_int8_put_wide(const float *from, int64_t count, float low, float high, void *to);

/* `count` values of F32, U8 or I8 from i on as floats. */
void cr_int8_floats(crema_dtype type, const void *from, int64_t i, int64_t count, float *out);

/* The type and scale of QUANTIZE's result. */
crema_status cr_int8_check_quantize(const cr_plan *plan) CREMA_MUST_USE;

/* The types and the method of AVERAGE_INT8. */
crema_status cr_int8_check_average(const cr_plan *plan) CREMA_MUST_USE;

/* The types of AFFINE_INT8. */
crema_status cr_int8_check_affine(cr_plan *plan) CREMA_MUST_USE;

/* Rounds max(low, x * scale + bias), with a scale and a bias for each column of a row. */
typedef struct cr_int8_scaling {
  crema_dtype from, to; /* from F32, U8 or I8 to U8 or I8 */
  int64_t width, step;  /* values of a row; distance of rows in the source */
  const float *scale, *bias;
  float low;
} cr_int8_scaling;

/* Reads `rows` rows from value i on, and writes from value j on. */
void cr_int8_scale(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows, void *to,
                   int64_t j);

/* Finishes CONV_INT8 and IP_INT8: dst[at...] from `count` sums of output channels `channel`,
 * `channel` + `step`... */
void cr_int8_finish(const cr_call *call, const int32_t *sums, int64_t count, int64_t channel,
                    int64_t step, int64_t at);

/* to[i] = value i of an array of U8 or I8. */
void cr_int8_widen(crema_dtype type, const void *values, int64_t count, int16_t *to);

#endif
