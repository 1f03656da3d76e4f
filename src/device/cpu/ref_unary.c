/* Element-wise functions of one argument. Backward, the sigmoid and the hyperbolic tangent are
 * seen through their values, so that src may have been overwritten by dst. */
#include <math.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

static void relu(int64_t count, float slope, const float *x, float *y) {
  if (slope == 0) {
    /* A comparison, not a product, so that -infinity gives 0 and nan stays nan. */
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
  } else {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? slope * x[i] : x[i];
  }
}

/* The branch keeps the exponent negative: no overflow, and full precision in both tails. */
static float sigmoid_of(float x) {
  const float power = expf(-fabsf(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
}

static crema_status unary_plan(cr_plan *plan) {
  switch (plan->desc->u.unary.function) {
    case CR_UNARY_RELU:
    case CR_UNARY_SIGMOID:
    case CR_UNARY_TANH: return CREMA_OK;
    default: break;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %d",
                 (int)plan->desc->u.unary.function);
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  switch (call->desc->u.unary.function) {
    case CR_UNARY_RELU: relu(count, call->desc->u.unary.alpha, x, y); break;
    case CR_UNARY_SIGMOID:
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
      for (int64_t i = 0; i < count; ++i) y[i] = sigmoid_of(x[i]);
      break;
    case CR_UNARY_TANH:
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
      for (int64_t i = 0; i < count; ++i) y[i] = tanhf(x[i]);
      break;
    default: break;
  }
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  const float *x = cr_f32(call->buffer, 0), *y = cr_f32(call->buffer, 1),
              *dy = cr_f32(call->buffer, 2);
  float *dx = cr_f32(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float slope = call->desc->u.unary.alpha;
  switch (call->desc->u.unary.function) {
    case CR_UNARY_RELU:
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
      for (int64_t i = 0; i < count; ++i) dx[i] = x[i] > 0 ? dy[i] : slope * dy[i];
      break;
    case CR_UNARY_SIGMOID:
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
      for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
      break;
    case CR_UNARY_TANH:
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
      for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
      break;
    default: break;
  }
  return CREMA_OK;
}

CR_KERNEL(unary_fwd_f32_ref, UNARY_FWD, .plan = unary_plan, .run = unary_fwd);
CR_KERNEL(unary_bwd_f32_ref, UNARY_BWD, .plan = unary_plan, .run = unary_bwd);
