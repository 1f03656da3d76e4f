/* Sum and product of several arrays of one shape. All sources are read before an element is
 * written, so dst may be any of the sources. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

/* The elements from `at` to end - 1 of the sum of scale_k src_k. Where the number of sources is a
 * constant, the loop over the elements is vectorised. */
CR_INLINE void sum_of(int sources, const cr_call *call, int64_t at, int64_t end) {
  cr_real *dst = cr_as_reals(call->buffer, call->desc->args - 1);
#pragma omp simd
  for (int64_t i = at; i < end; ++i) {
    cr_real sum = call->desc->arg[0].scale * cr_as_reals(call->buffer, 0)[i];
    for (int k = 1; k < sources; ++k) {
      sum += call->desc->arg[k].scale * cr_as_reals(call->buffer, k)[i];
    }
    dst[i] = sum;
  }
}

CR_REF_CLONES static void sum_part(const cr_call *call, int64_t at, int64_t end) {
  const int sources = call->desc->args - 1;
  switch (sources) {
    case 1: sum_of(1, call, at, end); break;
    case 2: sum_of(2, call, at, end); break;
    case 3: sum_of(3, call, at, end); break;
    case 4: sum_of(4, call, at, end); break;
    default: sum_of(sources, call, at, end);
  }
  cr_real *dst = cr_as_reals(call->buffer, sources);
  for (int64_t i = at; call->desc->u.sum.rectify && i < end; ++i) dst[i] = dst[i] < 0 ? 0 : dst[i];
}

/* src..., dst. */
static crema_status sum_run(const cr_call *call) {
  const int64_t count = cr_op_arg_count(call->desc, 0);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int p = 0; p < CR_REF_PARTS; ++p) {
    sum_part(call, cr_ref_part(count, p), cr_ref_part(count, p + 1));
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
