/* Element-wise functions of one argument. Backward, the sigmoid and the hyperbolic tangent are
 * seen through their values, so that src may have been overwritten by dst. */
#include <math.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* The numbers of a function, what it makes of one value, and the derivative dy / dx. */
typedef struct parameters {
  float alpha, beta, gamma;
} parameters;

typedef float (*value_function)(const parameters *p, float x);
typedef float (*slope_function)(const parameters *p, float x, float y);

/* The branch keeps the exponent negative: no overflow, and full precision in both tails. */
static float sigmoid(float x) {
  const float power = expf(-fabsf(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
}

static float sigmoid_value(const parameters *p, float x) {
  (void)p;
  return sigmoid(x);
}

static float tanh_value(const parameters *p, float x) {
  (void)p;
  return tanhf(x);
}

/* (beta x + gamma)^alpha; a product where alpha is 1, 2 or 3. */
static float power_value(const parameters *p, float x) {
  const float base = p->beta * x + p->gamma;
  if (p->alpha == 1) return base;
  if (p->alpha == 2) return base * base;
  if (p->alpha == 3) return base * base * base;
  return p->alpha == 0 ? 1 : powf(base, p->alpha);
}

static float power_slope(const parameters *p, float x, float y) {
  (void)y;
  const float base = p->beta * x + p->gamma, factor = p->alpha * p->beta;
  if (factor == 0) return 0;
  if (p->alpha == 1) return factor;
  return p->alpha == 2 ? factor * base : factor * powf(base, p->alpha - 1);
}

/* exp(alpha (beta x + gamma)) */
static float exp_value(const parameters *p, float x) {
  return expf(p->alpha * (p->beta * x + p->gamma));
}

static float exp_slope(const parameters *p, float x, float y) {
  (void)x;
  return p->alpha * p->beta * y;
}

/* alpha log(beta x + gamma) */
static float log_value(const parameters *p, float x) {
  return p->alpha * logf(p->beta * x + p->gamma);
}

static float log_slope(const parameters *p, float x, float y) {
  (void)y;
  return p->alpha * p->beta / (p->beta * x + p->gamma);
}

static float abs_value(const parameters *p, float x) {
  (void)p;
  return fabsf(x);
}

static float abs_slope(const parameters *p, float x, float y) {
  (void)p, (void)y;
  return (float)((x > 0) - (x < 0));
}

/* beta x for x > 0, beta alpha (exp(x) - 1) otherwise. */
static float elu_value(const parameters *p, float x) {
  return p->beta * (x > 0 ? x : p->alpha * expm1f(x));
}

static float elu_slope(const parameters *p, float x, float y) {
  return x > 0 ? p->beta : y + p->beta * p->alpha;
}

/* log(1 + exp(x)), written so that exp never overflows. */
static float bnll_value(const parameters *p, float x) {
  (void)p;
  return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

static float bnll_slope(const parameters *p, float x, float y) {
  (void)p, (void)y;
  return sigmoid(x);
}

static float threshold_value(const parameters *p, float x) {
  return x > p->alpha ? 1 : 0;
}

static float threshold_slope(const parameters *p, float x, float y) {
  (void)p, (void)x, (void)y;
  return 0;
}

/* Written so that nan stays nan. */
static float clip_value(const parameters *p, float x) {
  return x < p->alpha ? p->alpha : x > p->beta ? p->beta : x;
}

static float clip_slope(const parameters *p, float x, float y) {
  (void)y;
  return x >= p->alpha && x <= p->beta ? 1 : 0;
}

/* x sigmoid(alpha x) */
static float swish_value(const parameters *p, float x) {
  return x * sigmoid(p->alpha * x);
}

static float swish_slope(const parameters *p, float x, float y) {
  const float s = sigmoid(p->alpha * x);
  return p->alpha * y + s * (1 - p->alpha * y);
}

/* ReLU, and the gradients of sigmoid and tanh, have loops of their own. */
static const struct {
  value_function value;
  slope_function slope;
} functions[CR_UNARY_FUNCTIONS] = {
    [CR_UNARY_SIGMOID] = {sigmoid_value, NULL},
    [CR_UNARY_TANH] = {tanh_value, NULL},
    [CR_UNARY_POWER] = {power_value, power_slope},
    [CR_UNARY_EXP] = {exp_value, exp_slope},
    [CR_UNARY_LOG] = {log_value, log_slope},
    [CR_UNARY_ABS] = {abs_value, abs_slope},
    [CR_UNARY_ELU] = {elu_value, elu_slope},
    [CR_UNARY_BNLL] = {bnll_value, bnll_slope},
    [CR_UNARY_THRESHOLD] = {threshold_value, threshold_slope},
    [CR_UNARY_CLIP] = {clip_value, clip_slope},
    [CR_UNARY_SWISH] = {swish_value, swish_slope},
};

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

static void relu_gradient(int64_t count, float slope, const float *x, const float *dy, float *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dx[i] = x[i] > 0 ? dy[i] : slope * dy[i];
}

static void sigmoid_gradient(int64_t count, const float *y, const float *dy, float *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

static void tanh_gradient(int64_t count, const float *y, const float *dy, float *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

static crema_status unary_plan(cr_plan *plan) {
  const unsigned function = (unsigned)plan->desc->u.unary.function;
  if (function < CR_UNARY_FUNCTIONS) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", function);
}

static parameters parameters_of(const cr_op_desc *desc) {
  return (parameters){desc->u.unary.alpha, desc->u.unary.beta, desc->u.unary.gamma};
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const value_function value = functions[function].value;
  const parameters p = parameters_of(call->desc);
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  if (function == CR_UNARY_RELU) {
    relu(count, p.alpha, x, y);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t i = 0; i < count; ++i) y[i] = value(&p, x[i]);
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const slope_function slope = functions[function].slope;
  const parameters p = parameters_of(call->desc);
  const float *x = cr_f32(call->buffer, 0), *y = cr_f32(call->buffer, 1),
              *dy = cr_f32(call->buffer, 2);
  float *dx = cr_f32(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  switch (function) {
    case CR_UNARY_RELU: relu_gradient(count, p.alpha, x, dy, dx); return CREMA_OK;
    case CR_UNARY_SIGMOID: sigmoid_gradient(count, y, dy, dx); return CREMA_OK;
    case CR_UNARY_TANH: tanh_gradient(count, y, dy, dx); return CREMA_OK;
    default: break;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * slope(&p, x[i], y[i]);
  return CREMA_OK;
}

CR_KERNEL(unary_fwd_f32_ref, UNARY_FWD, .plan = unary_plan, .run = unary_fwd);
CR_KERNEL(unary_bwd_f32_ref, UNARY_BWD, .plan = unary_plan, .run = unary_bwd);
