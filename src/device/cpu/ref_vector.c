/* Operations on an array as a whole: axpby, set, copy, reduce. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* x, y: y = alpha x + beta y. */
static crema_status axpby(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "axpby without its factors");
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float alpha = call->scalars->alpha, beta = call->scalars->beta;
  if (beta == 0) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i];
  } else {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i] + beta * y[i];
  }
  return CREMA_OK;
}

/* dst = u.value. */
static crema_status set(const cr_call *call) {
  float *dst = cr_f32(call->buffer, 0);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float value = call->desc->u.value;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = value;
  return CREMA_OK;
}

/* src, dst: any element type. */
static crema_status copy(const cr_call *call) {
  const char *src = (const char *)call->buffer[0].address;
  char *dst = (char *)call->buffer[1].address;
  const int64_t bytes =
      cr_op_arg_count(call->desc, 0) * (int64_t)crema_dtype_size(call->desc->arg[0].type);
  if (src == dst || bytes == 0) return CREMA_OK;
#pragma omp parallel for schedule(static) if (bytes >= 4 * CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    const int64_t begin = cr_ref_part(bytes, part), end = cr_ref_part(bytes, part + 1);
    memcpy(dst + begin, src + begin, (size_t)(end - begin));
  }
  return CREMA_OK;
}

static double reduce_part(cr_reduction reduction, int64_t count, const float *x) {
  double sum = 0;
  switch (reduction) {
    case CR_REDUCE_SUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += (double)x[i];
      break;
    case CR_REDUCE_ASUM:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += (double)fabsf(x[i]);
      break;
    case CR_REDUCE_SUMSQ:
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += (double)x[i] * (double)x[i];
      break;
  }
  return sum;
}

/* src, result (F64). */
static crema_status reduce(const cr_call *call) {
  const float *src = cr_f32(call->buffer, 0);
  double *result = (double *)call->buffer[1].address;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  double sums[CR_REF_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    const int64_t begin = cr_ref_part(count, part), end = cr_ref_part(count, part + 1);
    sums[part] = reduce_part(call->desc->u.reduce, end - begin, src + begin);
  }
  double sum = 0;
  for (int part = 0; part < CR_REF_PARTS; ++part) sum += sums[part];
  *result = sum;
  return CREMA_OK;
}

CR_KERNEL(axpby_f32_ref, AXPBY, .run = axpby);
CR_KERNEL(set_f32_ref, SET, .run = set);
CR_KERNEL(copy_f32_ref, COPY, .plan = cr_check_copy, .run = copy);
const cr_kernel cr_copy_f64_ref = {.name = "copy_f64_ref",
                                   .op = CR_OP_COPY,
                                   .type = CREMA_F64,
                                   .plan = cr_check_copy,
                                   .run = copy};
const cr_kernel cr_copy_i32_ref = {.name = "copy_i32_ref",
                                   .op = CR_OP_COPY,
                                   .type = CREMA_I32,
                                   .plan = cr_check_copy,
                                   .run = copy};
const cr_kernel cr_copy_u8_ref = {
    .name = "copy_u8_ref", .op = CR_OP_COPY, .type = CREMA_U8, .plan = cr_check_copy, .run = copy};
CR_KERNEL(reduce_f32_ref, REDUCE, .run = reduce);
