/* The gradient of an element-wise function y = f(x): dx = dy f'(x). The sigmoid, the hyperbolic
 * tangent and the exponential have f' from y, so that x may have been overwritten. */

#include "device/cpu/kernels/post_ops.h"
#include "device/cpu/kernels/vector_math.h"

/* Powers of simple slope have numbers after the functions. */
enum { LINEAR = CR_UNARY_FUNCTIONS, SQUARE };

typedef struct slope_params {
  cr_real alpha, beta, gamma;
} slope_params;

/* f'(x); `function` is a constant in each caller. */
CR_INLINE cr_real slope_of(int function, const slope_params *p, cr_real x, cr_real y) {
  const cr_real rate = p->alpha * p->beta, line = p->beta * x + p->gamma;
  cr_real s = 0;
  switch (function) {
    case CR_UNARY_RELU: return x > 0 ? 1 : p->alpha;
    case CR_UNARY_SIGMOID: return y * (1 - y);
    case CR_UNARY_TANH: return 1 - y * y;
    case LINEAR: return rate;
    case SQUARE: return rate * line;
    case CR_UNARY_POWER: return rate * pow(line, p->alpha - 1);
    case CR_UNARY_EXP: return rate * y;
    case CR_UNARY_LOG: return rate / line;
    case CR_UNARY_ABS: return (cr_real)(x > 0 ? 1 : 0) - (cr_real)(x < 0 ? 1 : 0);
    case CR_UNARY_ELU: return x > 0 ? p->beta : y + p->beta * p->alpha;
    case CR_UNARY_BNLL: return cr_ref_sigmoid(x);
    case CR_UNARY_CLIP:
      if (x > p->alpha && x < p->beta) return 1;
      return x == p->alpha || x == p->beta ? p->gamma : 0;
    case CR_UNARY_SWISH:
      s = cr_ref_sigmoid(p->alpha * x);
      return p->alpha * y + s * (1 - p->alpha * y);
    case CR_UNARY_GELU: /* 0.3989...: 1 / sqrt(2 pi) */
      s = cr_ref_exp(-x * x / 2);
      return cr_ref_normal_share(x) + x * s * (cr_real)0.39894228040143268;
    case CR_UNARY_GELU_TANH:
      s = cr_ref_sigmoid(cr_ref_gelu_argument(x));
      return s + x * s * (1 - s) * cr_ref_gelu_argument_slope(x);
    default: return 0;
  }
}

/* The arrays of a call. */
typedef struct slope_arrays {
  const cr_real *x, *y, *dy;
  cr_real *dx;
} slope_arrays;

CR_INLINE void map(int function, const slope_params *given, int64_t count, slope_arrays a) {
  const slope_params p = *given;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    a.dx[i] = a.dy[i] * slope_of(function, &p, a.x[i], a.y[i]);
  }
}

CR_REF_CLONES static void map_function(int function, const slope_params *p, int64_t count,
                                       const slope_arrays *a) {
  switch (function) {
    case CR_UNARY_RELU: map(CR_UNARY_RELU, p, count, *a); break;
    case CR_UNARY_SIGMOID: map(CR_UNARY_SIGMOID, p, count, *a); break;
    case CR_UNARY_TANH: map(CR_UNARY_TANH, p, count, *a); break;
    case LINEAR: map(LINEAR, p, count, *a); break;
    case SQUARE: map(SQUARE, p, count, *a); break;
    case CR_UNARY_POWER: map(CR_UNARY_POWER, p, count, *a); break;
    case CR_UNARY_EXP: map(CR_UNARY_EXP, p, count, *a); break;
    case CR_UNARY_LOG: map(CR_UNARY_LOG, p, count, *a); break;
    case CR_UNARY_ABS: map(CR_UNARY_ABS, p, count, *a); break;
    case CR_UNARY_ELU: map(CR_UNARY_ELU, p, count, *a); break;
    case CR_UNARY_BNLL: map(CR_UNARY_BNLL, p, count, *a); break;
    case CR_UNARY_CLIP: map(CR_UNARY_CLIP, p, count, *a); break;
    case CR_UNARY_SWISH: map(CR_UNARY_SWISH, p, count, *a); break;
    case CR_UNARY_GELU: map(CR_UNARY_GELU, p, count, *a); break;
    case CR_UNARY_GELU_TANH: map(CR_UNARY_GELU_TANH, p, count, *a); break;
    default: map(CR_UNARY_THRESHOLD, p, count, *a); break;
  }
}

void cr_ref_unary_slope(const cr_post *post, int64_t count, const cr_real *x, const cr_real *y,
                        const cr_real *dy, cr_real *dx) {
  const slope_params p = {(cr_real)post->alpha, (cr_real)post->beta, (cr_real)post->gamma};
  int function = (int)post->function;
  if (function == CR_UNARY_POWER) {
    /* A constant also has slope 0 at 0, although the formula gives NaN there. */
    if (p.alpha * p.beta == 0) function = CR_UNARY_THRESHOLD;
    else if (p.alpha == 1) function = LINEAR;
    else if (p.alpha == 2) function = SQUARE;
  }
  map_function(function, &p, count, &(slope_arrays){x, y, dy, dx});
}
