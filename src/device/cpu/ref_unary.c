/* Element-wise functions of one argument. Backward, the sigmoid and the hyperbolic tangent are
 * seen through their values, so that src may have been overwritten by dst. */

#include "core/fail.h"
#include "device/cpu/ref_posts.h"

/* The numbers of a function, what it makes of one value, and the derivative dy / dx. */
typedef struct parameters {
  cr_real alpha, beta, gamma;
} parameters;

typedef cr_real (*value_function)(const parameters *p, cr_real x);
typedef cr_real (*slope_function)(const parameters *p, cr_real x, cr_real y);

/* The branch keeps the exponent negative: no overflow, and full precision in both tails. */
static cr_real sigmoid(cr_real x) {
  const cr_real power = exp(-fabs(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
}

static cr_real sigmoid_value(const parameters *p, cr_real x) {
  (void)p;
  return sigmoid(x);
}

static cr_real tanh_value(const parameters *p, cr_real x) {
  (void)p;
  return tanh(x);
}

/* (beta x + gamma)^alpha; a product where alpha is 1, 2 or 3. */
static cr_real power_value(const parameters *p, cr_real x) {
  const cr_real base = p->beta * x + p->gamma;
  if (p->alpha == 1) return base;
  if (p->alpha == 2) return base * base;
  if (p->alpha == 3) return base * base * base;
  return p->alpha == 0 ? 1 : pow(base, p->alpha);
}

static cr_real power_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  const cr_real base = p->beta * x + p->gamma, factor = p->alpha * p->beta;
  if (factor == 0) return 0;
  if (p->alpha == 1) return factor;
  return p->alpha == 2 ? factor * base : factor * pow(base, p->alpha - 1);
}

/* exp(alpha (beta x + gamma)) */
static cr_real exp_value(const parameters *p, cr_real x) {
  return exp(p->alpha * (p->beta * x + p->gamma));
}

static cr_real exp_slope(const parameters *p, cr_real x, cr_real y) {
  (void)x;
  return p->alpha * p->beta * y;
}

/* alpha log(beta x + gamma) */
static cr_real log_value(const parameters *p, cr_real x) {
  return p->alpha * log(p->beta * x + p->gamma);
}

static cr_real log_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return p->alpha * p->beta / (p->beta * x + p->gamma);
}

static cr_real abs_value(const parameters *p, cr_real x) {
  (void)p;
  return fabs(x);
}

static cr_real abs_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)y;
  return (cr_real)((x > 0) - (x < 0));
}

/* beta x for x > 0, beta alpha (exp(x) - 1) otherwise. */
static cr_real elu_value(const parameters *p, cr_real x) {
  return p->beta * (x > 0 ? x : p->alpha * expm1(x));
}

static cr_real elu_slope(const parameters *p, cr_real x, cr_real y) {
  return x > 0 ? p->beta : y + p->beta * p->alpha;
}

/* log(1 + exp(x)), written so that exp never overflows. */
static cr_real bnll_value(const parameters *p, cr_real x) {
  (void)p;
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static cr_real bnll_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)y;
  return sigmoid(x);
}

static cr_real threshold_value(const parameters *p, cr_real x) {
  return x > p->alpha ? 1 : 0;
}

static cr_real threshold_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)x, (void)y;
  return 0;
}

/* Written so that nan stays nan. */
static cr_real clip_value(const parameters *p, cr_real x) {
  return x < p->alpha ? p->alpha : x > p->beta ? p->beta : x;
}

static cr_real clip_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return x >= p->alpha && x <= p->beta ? 1 : 0;
}

/* x sigmoid(alpha x) */
static cr_real swish_value(const parameters *p, cr_real x) {
  return x * sigmoid(p->alpha * x);
}

static cr_real swish_slope(const parameters *p, cr_real x, cr_real y) {
  const cr_real s = sigmoid(p->alpha * x);
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

#ifndef CR_REF_NARROW
cr_real cr_ref_unary(cr_unary function, cr_real alpha, cr_real beta, cr_real gamma, cr_real x) {
  const parameters p = {alpha, beta, gamma};
  if (function == CR_UNARY_RELU) return x < 0 ? (alpha == 0 ? 0 : alpha * x) : x;
  return functions[function].value(&p, x);
}
#endif

static void relu(int64_t count, cr_real slope, const cr_value *x, cr_value *y) {
  if (slope == 0) {
    /* A comparison, not a product, so that -infinity gives 0 and nan stays nan. */
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) {
      const cr_real value = cr_get(x, i);
      cr_put(y, i, value < 0 ? 0 : value);
    }
  } else {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) {
      const cr_real value = cr_get(x, i);
      cr_put(y, i, value < 0 ? slope * value : value);
    }
  }
}

static void relu_gradient(int64_t count, cr_real slope, const cr_value *x, const cr_value *dy,
                          cr_value *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real given = cr_get(dy, i);
    cr_put(dx, i, cr_get(x, i) > 0 ? given : slope * given);
  }
}

static void sigmoid_gradient(int64_t count, const cr_value *y, const cr_value *dy, cr_value *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = cr_get(y, i);
    cr_put(dx, i, cr_get(dy, i) * value * (1 - value));
  }
}

static void tanh_gradient(int64_t count, const cr_value *y, const cr_value *dy, cr_value *dx) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = cr_get(y, i);
    cr_put(dx, i, cr_get(dy, i) * (1 - value * value));
  }
}

static crema_status unary_plan(cr_plan *plan) {
  const unsigned function = (unsigned)plan->desc->u.unary.function;
  if (function < CR_UNARY_FUNCTIONS) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", function);
}

static parameters parameters_of(const cr_op_desc *desc) {
  return (parameters){(cr_real)desc->u.unary.alpha, (cr_real)desc->u.unary.beta,
                      (cr_real)desc->u.unary.gamma};
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const value_function value = functions[function].value;
  const parameters p = parameters_of(call->desc);
  const cr_value *x = cr_as_values(call->buffer, 0);
  cr_value *y = cr_as_values(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  if (function == CR_UNARY_RELU) {
    relu(count, p.alpha, x, y);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t i = 0; i < count; ++i) cr_put(y, i, value(&p, cr_get(x, i)));
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const slope_function slope = functions[function].slope;
  const parameters p = parameters_of(call->desc);
  const cr_value *x = cr_as_values(call->buffer, 0), *y = cr_as_values(call->buffer, 1),
                 *dy = cr_as_values(call->buffer, 2);
  cr_value *dx = cr_as_values(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  switch (function) {
    case CR_UNARY_RELU: relu_gradient(count, p.alpha, x, dy, dx); return CREMA_OK;
    case CR_UNARY_SIGMOID: sigmoid_gradient(count, y, dy, dx); return CREMA_OK;
    case CR_UNARY_TANH: tanh_gradient(count, y, dy, dx); return CREMA_OK;
    default: break;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t i = 0; i < count; ++i) {
    cr_put(dx, i, cr_get(dy, i) * slope(&p, cr_get(x, i), cr_get(y, i)));
  }
  return CREMA_OK;
}

CR_REF_KERNEL(unary_fwd, UNARY_FWD, .plan = unary_plan, .run = unary_fwd);
CR_REF_KERNEL(unary_bwd, UNARY_BWD, .plan = unary_plan, .run = unary_bwd);
