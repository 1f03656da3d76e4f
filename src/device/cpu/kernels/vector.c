/* Operations on an array as a whole: axpby, set, scalar products. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

/* x, y: y = alpha x + beta y. */
static crema_status axpby(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "axpby without its factors");
  const cr_real *x = cr_as_reals(call->buffer, 0);
  cr_real *y = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real alpha = (cr_real)call->scalars->alpha, beta = (cr_real)call->scalars->beta;
  if (beta == 0) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i];
  } else {
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < count; ++i) {
      y[i] = alpha * x[i] + beta * y[i];
    }
  }
  return CREMA_OK;
}

/* dst = u.value. */
static crema_status set(const cr_call *call) {
  cr_real *dst = cr_as_reals(call->buffer, 0);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real value = (cr_real)call->desc->u.value;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = value;
  return CREMA_OK;
}

static double dot_part(const cr_real *a, const cr_real *b, int64_t begin, int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) sum += (double)a[i] * (double)b[i];
  return sum;
}

static double dot(const cr_real *a, const cr_real *b, int64_t count) {
  double sums[CR_REF_PARTS], sum = 0;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    sums[part] = dot_part(a, b, cr_ref_part(count, part), cr_ref_part(count, part + 1));
  }
  for (int part = 0; part < CR_REF_PARTS; ++part) sum += sums[part];
  return sum;
}

/* a, b, result (F64). */
static crema_status segment_dots(const cr_call *call) {
  CR_TRY(cr_check_dots_segments(call));
  const cr_op_scalars *s = call->scalars;
  const cr_real *a = cr_as_reals(call->buffer, 0), *b = cr_as_reals(call->buffer, 1);
  double *result = (double *)call->buffer[2].address;
  for (int k = 0; k < s->segments; ++k) {
    result[k] = dot(a + s->segment[k].begin, b + s->segment[k].begin, s->segment[k].count);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(axpby, AXPBY, .run = axpby);
CR_REF_KERNEL(set, SET, .run = set);
CR_REF_KERNEL(segment_dots, SEGMENT_DOTS, .plan = cr_check_dots, .run = segment_dots);
