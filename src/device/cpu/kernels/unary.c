/* Element-wise functions of one argument: y = f(x). device/backend/op_desc.h has the formulas. */

#include "core/fail.h"
#include "device/cpu/kernels/post_ops.h"
#include "device/cpu/kernels/vector_math.h"

/* Elements that a thread computes at a time. */
enum { PIECE = 4096 };

/* Powers that are products have numbers after the functions. */
enum { LINEAR = CR_UNARY_FUNCTIONS, SQUARE, CUBE };

typedef struct unary_params {
  cr_real alpha, beta, gamma;
} unary_params;

/* `function` is a constant in each caller. Comparisons are written so that NaN stays NaN. */
CR_INLINE cr_real value_of(int function, const unary_params *p, cr_real x) {
  const cr_real line = p->beta * x + p->gamma;
  switch (function) {
    case CR_UNARY_RELU:
      if (p->alpha == 0) return x < 0 ? 0 : x; /* not a product: -infinity becomes 0 */
      return x < 0 ? p->alpha * x : x;
    case CR_UNARY_SIGMOID: return cr_ref_sigmoid(x);
    case CR_UNARY_TANH: return cr_ref_tanh(x);
    case LINEAR: return line;
    case SQUARE: return line * line;
    case CUBE: return line * line * line;
    case CR_UNARY_POWER: return pow(line, p->alpha);
    case CR_UNARY_EXP: return cr_ref_exp(p->alpha * line);
    case CR_UNARY_LOG: return p->alpha * cr_ref_log(line);
    case CR_UNARY_ABS: return fabs(x);
    case CR_UNARY_ELU: return p->beta * (x > 0 ? x : p->alpha * cr_ref_expm1(x));
    case CR_UNARY_BNLL: return cr_ref_softplus(x);
    case CR_UNARY_THRESHOLD: return x > p->alpha ? 1 : 0;
    case CR_UNARY_CLIP: return x < p->alpha ? p->alpha : x > p->beta ? p->beta : x;
    case CR_UNARY_SWISH: return x * cr_ref_sigmoid(p->alpha * x);
    case CR_UNARY_GELU: return x * cr_ref_normal_share(x);
    case CR_UNARY_GELU_TANH: return x * cr_ref_sigmoid(cr_ref_gelu_argument(x));
    default: return x;
  }
}

CR_INLINE void map(int function, const unary_params *given, int64_t count, const cr_real *x,
                   cr_real *y) {
  const unary_params p = *given;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = value_of(function, &p, x[i]);
}

CR_REF_CLONES static void map_function(int function, const unary_params *p, int64_t count,
                                       const cr_real *x, cr_real *y) {
  switch (function) {
    case CR_UNARY_RELU: map(CR_UNARY_RELU, p, count, x, y); break;
    case CR_UNARY_SIGMOID: map(CR_UNARY_SIGMOID, p, count, x, y); break;
    case CR_UNARY_TANH: map(CR_UNARY_TANH, p, count, x, y); break;
    case LINEAR: map(LINEAR, p, count, x, y); break;
    case SQUARE: map(SQUARE, p, count, x, y); break;
    case CUBE: map(CUBE, p, count, x, y); break;
    case CR_UNARY_POWER: map(CR_UNARY_POWER, p, count, x, y); break;
    case CR_UNARY_EXP: map(CR_UNARY_EXP, p, count, x, y); break;
    case CR_UNARY_LOG: map(CR_UNARY_LOG, p, count, x, y); break;
    case CR_UNARY_ABS: map(CR_UNARY_ABS, p, count, x, y); break;
    case CR_UNARY_ELU: map(CR_UNARY_ELU, p, count, x, y); break;
    case CR_UNARY_BNLL: map(CR_UNARY_BNLL, p, count, x, y); break;
    case CR_UNARY_THRESHOLD: map(CR_UNARY_THRESHOLD, p, count, x, y); break;
    case CR_UNARY_CLIP: map(CR_UNARY_CLIP, p, count, x, y); break;
    case CR_UNARY_SWISH: map(CR_UNARY_SWISH, p, count, x, y); break;
    case CR_UNARY_GELU: map(CR_UNARY_GELU, p, count, x, y); break;
    case CR_UNARY_GELU_TANH: map(CR_UNARY_GELU_TANH, p, count, x, y); break;
    default: break;
  }
}

void cr_ref_unary(const cr_post *post, int64_t count, const cr_real *x, cr_real *y) {
  const unary_params p = {(cr_real)post->alpha, (cr_real)post->beta, (cr_real)post->gamma};
  int function = (int)post->function;
  if (function == CR_UNARY_POWER && p.alpha == 1) function = LINEAR;
  if (function == CR_UNARY_POWER && p.alpha == 2) function = SQUARE;
  if (function == CR_UNARY_POWER && p.alpha == 3) function = CUBE;
  map_function(function, &p, count, x, y);
}

static crema_status unary_plan(cr_plan *plan) {
  const unsigned function = (unsigned)plan->desc->u.unary.function;
  if (function < CR_UNARY_FUNCTIONS) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "element-wise function %u", function);
}

/* src, dst. */
static crema_status unary_fwd(const cr_call *call) {
  const cr_post function = cr_op_function(call->desc);
  const cr_real *x = cr_as_reals(call->buffer, 0);
  cr_real *y = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    cr_ref_unary(&function, count - i < PIECE ? count - i : PIECE, x + i, y + i);
  }
  return CREMA_OK;
}

/* src, dst, diff_dst, diff_src. */
static crema_status unary_bwd(const cr_call *call) {
  const cr_post function = cr_op_function(call->desc);
  const cr_real *x = cr_as_reals(call->buffer, 0), *y = cr_as_reals(call->buffer, 1);
  const cr_real *dy = cr_as_reals(call->buffer, 2);
  cr_real *dx = cr_as_reals(call->buffer, 3);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    const int64_t n = count - i < PIECE ? count - i : PIECE;
    cr_ref_unary_slope(&function, n, x + i, y + i, dy + i, dx + i);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(unary_fwd, UNARY_FWD, .plan = unary_plan, .run = unary_fwd);
CR_REF_KERNEL(unary_bwd, UNARY_BWD, .plan = unary_plan, .run = unary_bwd);
