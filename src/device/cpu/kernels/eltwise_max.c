/* The maximum of several arrays of one shape, and which array has it. All sources are read before
 * an element is written, so dst may be any of the sources. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

CR_REF_CLONES static void max_of_two(int64_t count, const cr_real *a, const cr_real *b,
                                     cr_real *dst, int32_t *aux) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real one = a[i], two = b[i];
    aux[i] = one > two ? 0 : 1;
    dst[i] = one > two ? one : two;
  }
}

/* src..., dst, aux. Of equal values the first source wins, except that the second wins over the
 * first: Caffe compares the first two the other way round. */
static crema_status max_run(const cr_call *call) {
  const int sources = call->desc->args - 2;
  cr_real *dst = cr_as_reals(call->buffer, sources);
  int32_t *aux = (int32_t *)call->buffer[sources + 1].address;
  const int64_t count = cr_op_arg_count(call->desc, sources);
  const cr_real *a = cr_as_reals(call->buffer, 0), *b = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < (sources == 2 ? CR_REF_PARTS : 0); ++p) {
    const int64_t at = cr_ref_part(count, p), length = cr_ref_part(count, p + 1) - at;
    max_of_two(length, a + at, b + at, dst + at, aux + at);
  }
  if (sources == 2) return CREMA_OK;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    cr_real best = a[i];
    int32_t which = 0;
    for (int k = 1; k < sources; ++k) {
      const cr_real value = cr_as_reals(call->buffer, k)[i];
      if (k == 1 ? best > value : !(value > best)) continue;
      best = value;
      which = k;
    }
    dst[i] = best;
    aux[i] = which;
  }
  return CREMA_OK;
}

/* y = x where source `index` has the maximum, else 0. */
CR_REF_CLONES static void choose(int64_t count, int32_t index, const int32_t *which,
                                 const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = x[i];
    y[i] = which[i] == index ? value : 0;
  }
}

/* diff_dst, aux, diff_src: the gradient of source u.index. */
static crema_status max_bwd(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    const int64_t at = cr_ref_part(count, p), length = cr_ref_part(count, p + 1) - at;
    choose(length, call->desc->u.index, aux + at, diff_dst + at, diff_src + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(max, MAX, .run = max_run);
CR_REF_KERNEL(max_bwd, MAX_BWD, .run = max_bwd);
