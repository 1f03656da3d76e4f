/* Element-wise functions whose gradient needs the source. u.unary: function, alpha, beta, gamma. */
#include <math.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* The numbers of a function, and what it makes of one value; the gradient is d y / d x. */
typedef struct parameters {
  float alpha, beta, gamma;
} parameters;

typedef float (*value_function)(const parameters *p, float x);
typedef float (*slope_function)(const parameters *p, float x, float y);

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

static float sigmoid(float x) {
  const float power = expf(-fabsf(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
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

static const struct {
  value_function value;
  slope_function slope;
} functions[] = {
    [CR_FUNCTION_POWER] = {power_value, power_slope},
    [CR_FUNCTION_EXP] = {exp_value, exp_slope},
    [CR_FUNCTION_LOG] = {log_value, log_slope},
    [CR_FUNCTION_ABS] = {abs_value, abs_slope},
    [CR_FUNCTION_ELU] = {elu_value, elu_slope},
    [CR_FUNCTION_BNLL] = {bnll_value, bnll_slope},
    [CR_FUNCTION_THRESHOLD] = {threshold_value, threshold_slope},
    [CR_FUNCTION_CLIP] = {clip_value, clip_slope},
    [CR_FUNCTION_SWISH] = {swish_value, swish_slope},
};

static crema_status function_plan(cr_plan *plan) {
  const unsigned kind = (unsigned)plan->desc->u.function.kind;
  if (kind < sizeof functions / sizeof functions[0]) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", kind);
}

static parameters parameters_of(const cr_plan *plan) {
  return (parameters){plan->desc->u.function.alpha, plan->desc->u.function.beta,
                      plan->desc->u.function.gamma};
}

/* src, dst. */
static crema_status function_fwd(const cr_call *call) {
  const value_function value = functions[call->desc->u.function.kind].value;
  const parameters p = parameters_of(call->plan);
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) y[i] = value(&p, x[i]);
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status function_bwd(const cr_call *call) {
  const slope_function slope = functions[call->desc->u.function.kind].slope;
  const parameters p = parameters_of(call->plan);
  const float *x = cr_f32(call->buffer, 0), *y = cr_f32(call->buffer, 1),
              *dy = cr_f32(call->buffer, 2);
  float *dx = cr_f32(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * slope(&p, x[i], y[i]);
  return CREMA_OK;
}

CR_KERNEL(function_fwd_f32_ref, FUNCTION_FWD, .plan = function_plan, .run = function_fwd);
CR_KERNEL(function_bwd_f32_ref, FUNCTION_BWD, .plan = function_plan, .run = function_bwd);
