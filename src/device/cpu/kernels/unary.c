/* Element-wise functions of one argument. Backward, the sigmoid and the hyperbolic tangent are
 * seen through their values, so that src may have been overwritten by dst. */

#include "core/fail.h"
#include "device/cpu/kernels/post_ops.h"
#include "device/cpu/kernels/vector_math.h"

/* Elements that a thread works through at a time. */
enum { PIECE = 4096 };

/* The numbers of a function, what it makes of one value, and the derivative dy / dx. */
typedef struct parameters {
  cr_real alpha, beta, gamma;
} parameters;

typedef cr_real value_function(const parameters *p, cr_real x);
typedef cr_real slope_function(const parameters *p, cr_real x, cr_real y);

/* A comparison, not a product, so that -infinity gives 0 and nan stays nan. */
CR_INLINE cr_real relu_value(const parameters *p, cr_real x) {
  (void)p;
  return x < 0 ? 0 : x;
}

CR_INLINE cr_real leaky_value(const parameters *p, cr_real x) {
  return x < 0 ? p->alpha * x : x;
}

CR_INLINE cr_real relu_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return x > 0 ? 1 : p->alpha;
}

CR_INLINE cr_real sigmoid_value(const parameters *p, cr_real x) {
  (void)p;
  return cr_ref_sigmoid(x);
}

CR_INLINE cr_real sigmoid_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)x;
  return y * (1 - y);
}

CR_INLINE cr_real tanh_value(const parameters *p, cr_real x) {
  (void)p;
  return cr_ref_tanh(x);
}

CR_INLINE cr_real tanh_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)x;
  return 1 - y * y;
}

/* (beta x + gamma)^alpha; a product where alpha is 1, 2 or 3. */
CR_INLINE cr_real linear_value(const parameters *p, cr_real x) {
  return p->beta * x + p->gamma;
}

CR_INLINE cr_real square_value(const parameters *p, cr_real x) {
  const cr_real base = p->beta * x + p->gamma;
  return base * base;
}

CR_INLINE cr_real cube_value(const parameters *p, cr_real x) {
  const cr_real base = p->beta * x + p->gamma;
  return base * base * base;
}

CR_INLINE cr_real power_value(const parameters *p, cr_real x) {
  return p->alpha == 0 ? 1 : pow(p->beta * x + p->gamma, p->alpha);
}

CR_INLINE cr_real linear_slope(const parameters *p, cr_real x, cr_real y) {
  (void)x, (void)y;
  return p->alpha * p->beta;
}

CR_INLINE cr_real square_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return p->alpha * p->beta * (p->beta * x + p->gamma);
}

CR_INLINE cr_real power_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return p->alpha * p->beta * pow(p->beta * x + p->gamma, p->alpha - 1);
}

/* exp(alpha (beta x + gamma)) */
CR_INLINE cr_real exp_value(const parameters *p, cr_real x) {
  return cr_ref_exp(p->alpha * (p->beta * x + p->gamma));
}

CR_INLINE cr_real exp_slope(const parameters *p, cr_real x, cr_real y) {
  (void)x;
  return p->alpha * p->beta * y;
}

/* alpha log(beta x + gamma) */
CR_INLINE cr_real log_value(const parameters *p, cr_real x) {
  return p->alpha * cr_ref_log(p->beta * x + p->gamma);
}

CR_INLINE cr_real log_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  return p->alpha * p->beta / (p->beta * x + p->gamma);
}

CR_INLINE cr_real abs_value(const parameters *p, cr_real x) {
  (void)p;
  return fabs(x);
}

CR_INLINE cr_real abs_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)y;
  return (cr_real)(x > 0 ? 1 : 0) - (cr_real)(x < 0 ? 1 : 0);
}

/* beta x for x > 0, beta alpha (exp(x) - 1) otherwise. */
CR_INLINE cr_real elu_value(const parameters *p, cr_real x) {
  return p->beta * (x > 0 ? x : p->alpha * cr_ref_expm1(x));
}

CR_INLINE cr_real elu_slope(const parameters *p, cr_real x, cr_real y) {
  return x > 0 ? p->beta : y + p->beta * p->alpha;
}

/* log(1 + exp(x)) */
CR_INLINE cr_real bnll_value(const parameters *p, cr_real x) {
  (void)p;
  return cr_ref_softplus(x);
}

CR_INLINE cr_real bnll_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)y;
  return cr_ref_sigmoid(x);
}

CR_INLINE cr_real threshold_value(const parameters *p, cr_real x) {
  return x > p->alpha ? 1 : 0;
}

CR_INLINE cr_real no_slope(const parameters *p, cr_real x, cr_real y) {
  (void)p, (void)x, (void)y;
  return 0;
}

/* Written so that nan stays nan. */
CR_INLINE cr_real clip_value(const parameters *p, cr_real x) {
  return x < p->alpha ? p->alpha : x > p->beta ? p->beta : x;
}

CR_INLINE cr_real clip_slope(const parameters *p, cr_real x, cr_real y) {
  (void)y;
  const cr_real end = x == p->alpha || x == p->beta ? p->gamma : 0;
  return x > p->alpha && x < p->beta ? 1 : end;
}

/* x sigmoid(alpha x) */
CR_INLINE cr_real swish_value(const parameters *p, cr_real x) {
  return x * cr_ref_sigmoid(p->alpha * x);
}

CR_INLINE cr_real swish_slope(const parameters *p, cr_real x, cr_real y) {
  const cr_real s = cr_ref_sigmoid(p->alpha * x);
  return p->alpha * y + s * (1 - p->alpha * y);
}

/* ---- over arrays --------------------------------------------------------- */

CR_INLINE void map(value_function *value, const parameters *given, int64_t count, const cr_real *x,
                   cr_real *y) {
  const parameters p = *given;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = value(&p, x[i]);
}

CR_REF_CLONES static void map_power(const parameters *p, int64_t count, const cr_real *x,
                                    cr_real *y) {
  if (p->alpha == 1) {
    map(linear_value, p, count, x, y);
  } else if (p->alpha == 2) {
    map(square_value, p, count, x, y);
  } else if (p->alpha == 3) {
    map(cube_value, p, count, x, y);
  } else {
    map(power_value, p, count, x, y);
  }
}

CR_REF_CLONES static void map_function(cr_unary function, const parameters *p, int64_t count,
                                       const cr_real *x, cr_real *y) {
  switch (function) {
    case CR_UNARY_RELU:
      if (p->alpha == 0) map(relu_value, p, count, x, y);
      else map(leaky_value, p, count, x, y);
      break;
    case CR_UNARY_SIGMOID: map(sigmoid_value, p, count, x, y); break;
    case CR_UNARY_TANH: map(tanh_value, p, count, x, y); break;
    case CR_UNARY_POWER: map_power(p, count, x, y); break;
    case CR_UNARY_EXP: map(exp_value, p, count, x, y); break;
    case CR_UNARY_LOG: map(log_value, p, count, x, y); break;
    case CR_UNARY_ABS: map(abs_value, p, count, x, y); break;
    case CR_UNARY_ELU: map(elu_value, p, count, x, y); break;
    case CR_UNARY_BNLL: map(bnll_value, p, count, x, y); break;
    case CR_UNARY_THRESHOLD: map(threshold_value, p, count, x, y); break;
    case CR_UNARY_CLIP: map(clip_value, p, count, x, y); break;
    case CR_UNARY_SWISH: map(swish_value, p, count, x, y); break;
    case CR_UNARY_FUNCTIONS: break;
  }
}

/* What backward works on: dx = dy times the derivative at x, where the function's value is y. */
typedef struct gradient {
  const cr_real *x, *y, *dy;
  cr_real *dx;
} gradient;

CR_INLINE void map_slope(slope_function *slope, const parameters *given, int64_t begin, int64_t end,
                         const gradient *g) {
  const parameters p = *given;
  const cr_real *x = g->x, *y = g->y, *dy = g->dy;
  cr_real *dx = g->dx;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    dx[i] = dy[i] * slope(&p, x[i], y[i]);
  }
}

CR_REF_CLONES static void map_power_slope(const parameters *p, int64_t begin, int64_t end,
                                          const gradient *g) {
  if (p->alpha * p->beta == 0) {
    map_slope(no_slope, p, begin, end, g);
  } else if (p->alpha == 1) {
    map_slope(linear_slope, p, begin, end, g);
  } else if (p->alpha == 2) {
    map_slope(square_slope, p, begin, end, g);
  } else {
    map_slope(power_slope, p, begin, end, g);
  }
}

CR_REF_CLONES static void map_derivative(cr_unary function, const parameters *p, int64_t begin,
                                         int64_t end, const gradient *g) {
  switch (function) {
    case CR_UNARY_RELU: map_slope(relu_slope, p, begin, end, g); break;
    case CR_UNARY_SIGMOID: map_slope(sigmoid_slope, p, begin, end, g); break;
    case CR_UNARY_TANH: map_slope(tanh_slope, p, begin, end, g); break;
    case CR_UNARY_POWER: map_power_slope(p, begin, end, g); break;
    case CR_UNARY_EXP: map_slope(exp_slope, p, begin, end, g); break;
    case CR_UNARY_LOG: map_slope(log_slope, p, begin, end, g); break;
    case CR_UNARY_ABS: map_slope(abs_slope, p, begin, end, g); break;
    case CR_UNARY_ELU: map_slope(elu_slope, p, begin, end, g); break;
    case CR_UNARY_BNLL: map_slope(bnll_slope, p, begin, end, g); break;
    case CR_UNARY_THRESHOLD: map_slope(no_slope, p, begin, end, g); break;
    case CR_UNARY_CLIP: map_slope(clip_slope, p, begin, end, g); break;
    case CR_UNARY_SWISH: map_slope(swish_slope, p, begin, end, g); break;
    case CR_UNARY_FUNCTIONS: break;
  }
}

void cr_ref_unary(const cr_post *post, int64_t count, cr_real *y) {
  const parameters p = {(cr_real)post->alpha, (cr_real)post->beta, (cr_real)post->gamma};
  map_function(post->function, &p, count, y, y);
}

void cr_ref_unary_slope(const cr_post *post, int64_t count, const cr_real *x, const cr_real *y,
                        cr_real *diff) {
  const parameters p = {(cr_real)post->alpha, (cr_real)post->beta, (cr_real)post->gamma};
  map_derivative(post->function, &p, 0, count, &(gradient){x, y, diff, diff});
}

/* ---- the kernels --------------------------------------------------------- */

static crema_status unary_plan(cr_plan *plan) {
  const unsigned function = (unsigned)plan->desc->u.unary.function;
  if (function < CR_UNARY_FUNCTIONS) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", function);
}

static parameters parameters_of(const cr_op_desc *desc) {
  return (parameters){(cr_real)desc->u.unary.alpha, (cr_real)desc->u.unary.beta,
                      (cr_real)desc->u.unary.gamma};
}

static int64_t end_of(int64_t begin, int64_t count) {
  return count - begin < PIECE ? count : begin + PIECE;
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const parameters p = parameters_of(call->desc);
  const cr_real *x = cr_as_reals(call->buffer, 0);
  cr_real *y = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    map_function(function, &p, end_of(i, count) - i, x + i, y + i);
  }
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  const cr_unary function = call->desc->u.unary.function;
  const parameters p = parameters_of(call->desc);
  const gradient g = {cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1),
                      cr_as_reals(call->buffer, 2), cr_as_reals(call->buffer, 3)};
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    map_derivative(function, &p, i, end_of(i, count), &g);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(unary_fwd, UNARY_FWD, .plan = unary_plan, .run = unary_fwd);
CR_REF_KERNEL(unary_bwd, UNARY_BWD, .plan = unary_plan, .run = unary_bwd);
