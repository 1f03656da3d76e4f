/* Sum and product of several arrays of one shape. Each processes blocks that fit the L1 cache. A
 * block of every source is read before the block of dst is written, so dst may be any of the
 * sources. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

enum { BLOCK = 1024 };

static int64_t blocks_of(int64_t count) {
  return (count + BLOCK - 1) / BLOCK;
}

static int64_t block_length(int64_t count, int64_t block) {
  return count - block * BLOCK < BLOCK ? count - block * BLOCK : BLOCK;
}

/* Writes the sum of the last source, or of the last two, to which `before` is added unless it is
 * NULL. */
CR_INLINE void write_sum(const cr_op_arg *arg, const cr_real *a, const cr_real *b, int64_t length,
                         const cr_real *before, cr_real *dst) {
  const cr_real of_a = arg[0].scale, of_b = b != NULL ? arg[1].scale : 0;
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real one = (before != NULL ? before[i] : 0) + of_a * a[i];
    dst[i] = b != NULL ? one + of_b * b[i] : one;
  }
}

/* The common sums, of one and of two, need no memory in between. */
CR_REF_CLONES static void sum_block(const cr_call *call, int64_t at, int64_t length) {
  const int sources = call->desc->args - 1;
  const cr_op_arg *arg = call->desc->arg;
  cr_real *dst = cr_as_reals(call->buffer, sources) + at;
  cr_real acc[BLOCK];
  int k = 0;
  for (; k + 2 < sources; ++k) {
    const cr_real *x = cr_as_reals(call->buffer, k) + at;
    const cr_real factor = arg[k].scale;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) acc[i] = (k > 0 ? acc[i] : 0) + factor * x[i];
  }
  const cr_real *a = cr_as_reals(call->buffer, k) + at;
  const cr_real *b = k + 1 < sources ? cr_as_reals(call->buffer, k + 1) + at : NULL;
  if (k > 0) write_sum(arg + k, a, b, length, acc, dst);
  else if (b != NULL) write_sum(arg, a, b, length, NULL, dst);
  else write_sum(arg, a, NULL, length, NULL, dst);
}

/* src..., dst. */
static crema_status sum_run(const cr_call *call) {
  const int64_t count = cr_op_arg_count(call->desc, call->desc->args - 1);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    sum_block(call, b * BLOCK, block_length(count, b));
  }
  return CREMA_OK;
}

/* The product of all sources but `skip`, times `first` unless that is NULL. */
static void product_block(const crema_devptr *buffer, int sources, int skip, const cr_real *first,
                          int64_t at, int64_t length, cr_real *acc) {
  for (int64_t i = 0; i < length; ++i) acc[i] = first ? first[at + i] : 1;
  for (int k = 0; k < sources; ++k) {
    if (k == skip) continue;
    const cr_real *x = cr_as_reals(buffer, k) + at;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) acc[i] *= x[i];
  }
}

/* src..., dst. */
static crema_status prod_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  cr_real *dst = cr_as_reals(call->buffer, sources);
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    cr_real acc[BLOCK];
    product_block(call->buffer, sources, -1, NULL, b * BLOCK, length, acc);
    cr_put_all(acc, length, dst + b * BLOCK);
  }
  return CREMA_OK;
}

/* src..., diff_dst, diff_src: the gradient of source u.index. */
static crema_status prod_bwd(const cr_call *call) {
  const int sources = call->desc->args - 2, index = call->desc->u.index;
  const cr_real *diff_dst = cr_as_reals(call->buffer, sources);
  cr_real *diff_src = cr_as_reals(call->buffer, sources + 1);
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    cr_real acc[BLOCK];
    product_block(call->buffer, sources, index, diff_dst, b * BLOCK, length, acc);
    cr_put_all(acc, length, diff_src + b * BLOCK);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sum, SUM, .run = sum_run);
CR_REF_KERNEL(prod, PROD, .run = prod_run);
CR_REF_KERNEL(prod_bwd, PROD_BWD, .run = prod_bwd);
