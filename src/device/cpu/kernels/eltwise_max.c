/* The maximum of several arrays of one shape, and which array has it. Works through blocks that
 * stay in the cache. */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

enum { BLOCK = 1024 };

static int64_t blocks_of(int64_t count) {
  return (count + BLOCK - 1) / BLOCK;
}

static int64_t block_length(int64_t count, int64_t block) {
  return count - block * BLOCK < BLOCK ? count - block * BLOCK : BLOCK;
}

/* The larger of two sources and which it is; with equal values the second wins, too. dst may be
 * either. */
CR_REF_CLONES static void max_of_two(int64_t length, const cr_real *a, const cr_real *b,
                                     cr_real *dst, int32_t *which) {
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real one = a[i], two = b[i];
    which[i] = one > two ? 0 : 1;
    dst[i] = one > two ? one : two;
  }
}

/* Source k against the largest value so far and which source has it. */
CR_REF_CLONES static void max_block(int k, int64_t length, const cr_real *x, cr_real *best,
                                    int32_t *which) {
#pragma omp simd
  for (int64_t i = 0; i < length; ++i) {
    const cr_real value = x[i];
    which[i] = value > best[i] ? k : which[i];
    best[i] = value > best[i] ? value : best[i];
  }
}

/* More than two sources, or one: the first two are compared in memory of the block's own, as dst
 * may be any of the sources. */
static void max_of_many(const crema_devptr *buffer, int sources, int64_t at, int64_t length,
                        cr_real *dst, int32_t *aux) {
  cr_real first[BLOCK];
  cr_real best[BLOCK];
  int32_t which[BLOCK] = {0};
  const cr_real *a = cr_as_reals(buffer, 0) + at;
  if (sources > 1) {
    max_of_two(length, a, cr_as_reals(buffer, 1) + at, first, which);
    a = first;
  }
  cr_get_all(a, length, best);
  for (int k = 2; k < sources; ++k) max_block(k, length, cr_as_reals(buffer, k) + at, best, which);
  cr_put_all(best, length, dst + at);
  memcpy(aux + at, which, (size_t)length * sizeof *which);
}

CR_REF_CLONES static void choose(int64_t count, int32_t index, const int32_t *which,
                                 const cr_real *x, cr_real *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = x[i];
    y[i] = which[i] == index ? value : 0;
  }
}

/* src..., dst, aux. Of equal values the first source wins, except that the second wins over the
 * first: Caffe compares the first two the other way round. */
static crema_status max_run(const cr_call *call) {
  const int sources = call->desc->args - 2;
  cr_real *dst = cr_as_reals(call->buffer, sources);
  int32_t *aux = (int32_t *)call->buffer[sources + 1].address;
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t at = b * BLOCK, length = block_length(count, b);
    if (sources == 2) {
      max_of_two(length, cr_as_reals(call->buffer, 0) + at, cr_as_reals(call->buffer, 1) + at,
                 dst + at, aux + at);
    } else {
      max_of_many(call->buffer, sources, at, length, dst, aux);
    }
  }
  return CREMA_OK;
}

/* diff_dst, aux, diff_src. */
static crema_status max_bwd(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const int32_t index = call->desc->u.index;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t at = b * BLOCK;
    choose(block_length(count, b), index, aux + at, diff_dst + at, diff_src + at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(max, MAX, .run = max_run);
CR_REF_KERNEL(max_bwd, MAX_BWD, .run = max_bwd);
