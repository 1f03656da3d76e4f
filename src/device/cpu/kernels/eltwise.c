/* Sum, product and maximum of several arrays of one shape. Each works through blocks that stay
 * in the first-level cache; a block of every source is read before the block of dst is
 * written, so that dst may be any of the sources. */
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
CR_INLINE void write_sum(const cr_op_arg *arg, const cr_value *a, const cr_value *b, int64_t length,
                         const cr_real *before, cr_value *dst) {
  const cr_real of_a = arg[0].scale, of_b = b != NULL ? arg[1].scale : 0;
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real one = (before != NULL ? before[i] : 0) + of_a * cr_get(a, i);
    cr_put(dst, i, b != NULL ? one + of_b * cr_get(b, i) : one);
  }
}

/* The common sums, of one and of two, need no memory in between. */
CR_CLONES static void sum_block(const cr_call *call, int64_t at, int64_t length) {
  const int sources = call->desc->args - 1;
  const cr_op_arg *arg = call->desc->arg;
  cr_value *dst = cr_as_values(call->buffer, sources) + at;
  cr_real acc[BLOCK];
  int k = 0;
  for (; k + 2 < sources; ++k) {
    const cr_value *x = cr_as_values(call->buffer, k) + at;
    const cr_real factor = arg[k].scale;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) acc[i] = (k > 0 ? acc[i] : 0) + factor * cr_get(x, i);
  }
  const cr_value *a = cr_as_values(call->buffer, k) + at;
  const cr_value *b = k + 1 < sources ? cr_as_values(call->buffer, k + 1) + at : NULL;
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
static void product_block(const crema_devptr *buffer, int sources, int skip, const cr_value *first,
                          int64_t at, int64_t length, cr_real *acc) {
  for (int64_t i = 0; i < length; ++i) acc[i] = first ? cr_get(first, at + i) : 1;
  for (int k = 0; k < sources; ++k) {
    if (k == skip) continue;
    const cr_value *x = cr_as_values(buffer, k) + at;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) acc[i] *= cr_get(x, i);
  }
}

/* src..., dst. */
static crema_status prod_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  cr_value *dst = cr_as_values(call->buffer, sources);
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
  const cr_value *diff_dst = cr_as_values(call->buffer, sources);
  cr_value *diff_src = cr_as_values(call->buffer, sources + 1);
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

/* The larger of two sources and which it is; with equal values the second wins, too. dst may be
 * either. */
CR_CLONES static void max_of_two(int64_t length, const cr_value *a, const cr_value *b,
                                 cr_value *dst, int32_t *which) {
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real one = cr_get(a, i), two = cr_get(b, i);
    which[i] = one > two ? 0 : 1;
    cr_put(dst, i, one > two ? one : two);
  }
}

/* Source k against the largest value so far and which source has it. */
CR_CLONES static void max_block(int k, int64_t length, const cr_value *x, cr_real *best,
                                int32_t *which) {
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real value = cr_get(x, i);
    which[i] = value > best[i] ? k : which[i];
    best[i] = value > best[i] ? value : best[i];
  }
}

/* More than two sources, or one: the first two are compared in memory of the block's own, as dst
 * may be any of the sources. */
static void max_of_many(const crema_devptr *buffer, int sources, int64_t at, int64_t length,
                        cr_value *dst, int32_t *aux) {
  cr_value first[BLOCK];
  cr_real best[BLOCK];
  int32_t which[BLOCK] = {0};
  const cr_value *a = cr_as_values(buffer, 0) + at;
  if (sources > 1) {
    max_of_two(length, a, cr_as_values(buffer, 1) + at, first, which);
    a = first;
  }
  cr_get_all(a, length, best);
  for (int k = 2; k < sources; ++k) max_block(k, length, cr_as_values(buffer, k) + at, best, which);
  cr_put_all(best, length, dst + at);
  memcpy(aux + at, which, (size_t)length * sizeof *which);
}

CR_CLONES static void choose(int64_t count, int32_t index, const int32_t *which, const cr_value *x,
                             cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = cr_get(x, i);
    cr_put(y, i, which[i] == index ? value : 0);
  }
}

/* src..., dst, aux. Of equal values the first source wins, except that the second wins over the
 * first: Caffe compares the first two the other way round. */
static crema_status max_run(const cr_call *call) {
  const int sources = call->desc->args - 2;
  cr_value *dst = cr_as_values(call->buffer, sources);
  int32_t *aux = (int32_t *)call->buffer[sources + 1].address;
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t at = b * BLOCK, length = block_length(count, b);
    if (sources == 2) {
      max_of_two(length, cr_as_values(call->buffer, 0) + at, cr_as_values(call->buffer, 1) + at,
                 dst + at, aux + at);
    } else {
      max_of_many(call->buffer, sources, at, length, dst, aux);
    }
  }
  return CREMA_OK;
}

/* diff_dst, aux, diff_src. */
static crema_status max_bwd(const cr_call *call) {
  const cr_value *diff_dst = cr_as_values(call->buffer, 0);
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  cr_value *diff_src = cr_as_values(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const int32_t index = call->desc->u.index;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t at = b * BLOCK;
    choose(block_length(count, b), index, aux + at, diff_dst + at, diff_src + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sum, SUM, .run = sum_run);
CR_REF_KERNEL(prod, PROD, .run = prod_run);
CR_REF_KERNEL(prod_bwd, PROD_BWD, .run = prod_bwd);
CR_REF_KERNEL(max, MAX, .run = max_run);
CR_REF_KERNEL(max_bwd, MAX_BWD, .run = max_bwd);
