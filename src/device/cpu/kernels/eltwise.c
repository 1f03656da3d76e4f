/* Sum and product of several arrays of one shape. All sources are read before an element is
 * written, so dst may be any of the sources. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

/* dst = of_a a + of_b b, or of_a a if b is NULL. */
CR_REF_CLONES static void sum_of_two(int64_t count, cr_real of_a, const cr_real *a, cr_real of_b,
                                     const cr_real *b, cr_real *dst) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = b == NULL ? of_a * a[i] : of_a * a[i] + of_b * b[i];
  }
}

/* src..., dst: the sum of scale_k src_k. */
static crema_status sum_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  const cr_op_arg *arg = call->desc->arg;
  cr_real *dst = cr_as_reals(call->buffer, sources);
  const int64_t count = cr_op_arg_count(call->desc, sources);
  const cr_real *a = cr_as_reals(call->buffer, 0);
  const cr_real *b = sources == 2 ? cr_as_reals(call->buffer, 1) : NULL;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < (sources <= 2 ? CR_REF_PARTS : 0); ++p) {
    const int64_t at = cr_ref_part(count, p), length = cr_ref_part(count, p + 1) - at;
    sum_of_two(length, arg[0].scale, a + at, arg[1].scale, b == NULL ? NULL : b + at, dst + at);
  }
  if (sources <= 2) return CREMA_OK;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    cr_real sum = 0;
    for (int k = 0; k < sources; ++k) sum += arg[k].scale * cr_as_reals(call->buffer, k)[i];
    dst[i] = sum;
  }
  return CREMA_OK;
}

/* The product of element i of the sources other than source `skip`. */
static cr_real product(const crema_devptr *buffer, int sources, int skip, int64_t i) {
  cr_real all = 1;
  for (int k = 0; k < sources; ++k) {
    if (k != skip) all *= cr_as_reals(buffer, k)[i];
  }
  return all;
}

static void multiply(int64_t count, const cr_real *a, const cr_real *b, cr_real *dst) {
#pragma omp parallel for simd schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = a[i] * b[i];
}

/* src..., dst. */
static crema_status prod_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  cr_real *dst = cr_as_reals(call->buffer, sources);
  const int64_t count = cr_op_arg_count(call->desc, sources);
  if (sources == 2) {
    multiply(count, cr_as_reals(call->buffer, 0), cr_as_reals(call->buffer, 1), dst);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = product(call->buffer, sources, -1, i);
  return CREMA_OK;
}

/* src..., diff_dst, diff_src: the gradient of source u.index. */
static crema_status prod_bwd(const cr_call *call) {
  const int sources = call->desc->args - 2, index = call->desc->u.index;
  const cr_real *diff_dst = cr_as_reals(call->buffer, sources);
  cr_real *diff_src = cr_as_reals(call->buffer, sources + 1);
  const int64_t count = cr_op_arg_count(call->desc, sources);
  if (sources == 2) {
    multiply(count, diff_dst, cr_as_reals(call->buffer, 1 - index), diff_src);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    diff_src[i] = diff_dst[i] * product(call->buffer, sources, index, i);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sum, SUM, .run = sum_run);
CR_REF_KERNEL(prod, PROD, .run = prod_run);
CR_REF_KERNEL(prod_bwd, PROD_BWD, .run = prod_bwd);
