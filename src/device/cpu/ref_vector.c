/* Operations on an array as a whole: axpby, set, copy, reduce. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* x, y: y = alpha x + beta y. */
static crema_status axpby(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                          const bool *accumulate, const cr_op_scalars *scalars,
                          crema_devptr workspace) {
  (void)context, (void)accumulate, (void)workspace;
  if (!scalars) return cr_fail(CREMA_E_ARGUMENT, "axpby without its factors");
  const float *x = cr_f32(buffer, 0);
  float *y = cr_f32(buffer, 1);
  const int64_t count = cr_ref_count(plan, 0);
  const float alpha = scalars->alpha, beta = scalars->beta;
  if (beta == 0) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_PLAIN_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i];
  } else {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_PLAIN_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i] + beta * y[i];
  }
  return CREMA_OK;
}

/* dst = u.value. */
static crema_status set(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                        const bool *accumulate, const cr_op_scalars *scalars,
                        crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  float *dst = cr_f32(buffer, 0);
  const int64_t count = cr_ref_count(plan, 0);
  const float value = plan->desc->u.value;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_PLAIN_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = value;
  return CREMA_OK;
}

static crema_status copy_plan(cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  if (arg[0].type != arg[1].type || crema_dtype_size(arg[0].type) == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "copy from %s to %s", crema_dtype_name(arg[0].type),
                   crema_dtype_name(arg[1].type));
  }
  return CREMA_OK;
}

/* src, dst: any element type. */
static crema_status copy(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                         const bool *accumulate, const cr_op_scalars *scalars,
                         crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const char *src = (const char *)buffer[0].address;
  char *dst = (char *)buffer[1].address;
  const int64_t bytes = cr_ref_count(plan, 0) * (int64_t)crema_dtype_size(plan->desc->arg[0].type);
  if (src == dst || bytes == 0) return CREMA_OK;
#pragma omp parallel for schedule(static) if (bytes >= 4 * CR_PLAIN_PARALLEL_MIN)
  for (int part = 0; part < CR_PLAIN_PARTS; ++part) {
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
static crema_status reduce(cr_plan *plan, crema_context *context, const crema_devptr *buffer,
                           const bool *accumulate, const cr_op_scalars *scalars,
                           crema_devptr workspace) {
  (void)context, (void)accumulate, (void)scalars, (void)workspace;
  const float *src = cr_f32(buffer, 0);
  double *result = (double *)buffer[1].address;
  const int64_t count = cr_ref_count(plan, 0);
  double sums[CR_PLAIN_PARTS];
#pragma omp parallel for schedule(static) if (count >= CR_PLAIN_PARALLEL_MIN)
  for (int part = 0; part < CR_PLAIN_PARTS; ++part) {
    const int64_t begin = cr_ref_part(count, part), end = cr_ref_part(count, part + 1);
    sums[part] = reduce_part(plan->desc->u.reduce, end - begin, src + begin);
  }
  double sum = 0;
  for (int part = 0; part < CR_PLAIN_PARTS; ++part) sum += sums[part];
  *result = sum;
  return CREMA_OK;
}

const cr_kernel cr_axpby_f32_ref = {
    .name = "axpby_f32_ref", .op = CR_OP_AXPBY, .type = CREMA_F32, .run = axpby};
const cr_kernel cr_set_f32_ref = {
    .name = "set_f32_ref", .op = CR_OP_SET, .type = CREMA_F32, .run = set};
const cr_kernel cr_copy_f32_ref = {
    .name = "copy_f32_ref", .op = CR_OP_COPY, .type = CREMA_F32, .plan = copy_plan, .run = copy};
const cr_kernel cr_copy_f64_ref = {
    .name = "copy_f64_ref", .op = CR_OP_COPY, .type = CREMA_F64, .plan = copy_plan, .run = copy};
const cr_kernel cr_copy_i32_ref = {
    .name = "copy_i32_ref", .op = CR_OP_COPY, .type = CREMA_I32, .plan = copy_plan, .run = copy};
const cr_kernel cr_copy_u8_ref = {
    .name = "copy_u8_ref", .op = CR_OP_COPY, .type = CREMA_U8, .plan = copy_plan, .run = copy};
const cr_kernel cr_reduce_f32_ref = {
    .name = "reduce_f32_ref", .op = CR_OP_REDUCE, .type = CREMA_F32, .run = reduce};
