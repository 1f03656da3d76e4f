/* Sum, product and maximum of several arrays of one shape. Each works through blocks that stay
 * in the first-level cache; a block of every source is read before the block of dst is
 * written, so that dst may be any of the sources. */
#include <string.h>

#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

enum { BLOCK = 1024 };

static int64_t blocks_of(int64_t count) {
  return (count + BLOCK - 1) / BLOCK;
}

static int64_t block_length(int64_t count, int64_t block) {
  return count - block * BLOCK < BLOCK ? count - block * BLOCK : BLOCK;
}

/* src..., dst. */
static crema_status sum_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  float *dst = cr_f32(call->buffer, sources);
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    float acc[BLOCK] = {0};
    for (int k = 0; k < sources; ++k) {
      const float *x = cr_f32(call->buffer, k) + b * BLOCK;
      const float factor = call->desc->arg[k].scale;
#pragma omp simd
      for (int64_t i = 0; i < length; ++i) acc[i] += factor * x[i];
    }
    memcpy(dst + b * BLOCK, acc, (size_t)length * sizeof *acc);
  }
  return CREMA_OK;
}

/* The product of all sources but `skip`, times `first` unless that is NULL. */
static void product_block(const crema_devptr *buffer, int sources, int skip, const float *first,
                          int64_t at, int64_t length, float *acc) {
  for (int64_t i = 0; i < length; ++i) acc[i] = first ? first[at + i] : 1;
  for (int k = 0; k < sources; ++k) {
    if (k == skip) continue;
    const float *x = cr_f32(buffer, k) + at;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) acc[i] *= x[i];
  }
}

/* src..., dst. */
static crema_status prod_run(const cr_call *call) {
  const int sources = call->desc->args - 1;
  float *dst = cr_f32(call->buffer, sources);
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    float acc[BLOCK];
    product_block(call->buffer, sources, -1, NULL, b * BLOCK, length, acc);
    memcpy(dst + b * BLOCK, acc, (size_t)length * sizeof *acc);
  }
  return CREMA_OK;
}

/* src..., diff_dst, diff_src: the gradient of source u.index. */
static crema_status prod_bwd(const cr_call *call) {
  const int sources = call->desc->args - 2, index = call->desc->u.index;
  const float *diff_dst = cr_f32(call->buffer, sources);
  float *diff_src = cr_f32(call->buffer, sources + 1);
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    float acc[BLOCK];
    product_block(call->buffer, sources, index, diff_dst, b * BLOCK, length, acc);
    memcpy(diff_src + b * BLOCK, acc, (size_t)length * sizeof *acc);
  }
  return CREMA_OK;
}

/* src..., dst, aux. Of equal values the first source wins, except that the second wins over the
 * first: Caffe compares the first two the other way round. */
static crema_status max_run(const cr_call *call) {
  const int sources = call->desc->args - 2;
  float *dst = cr_f32(call->buffer, sources);
  int32_t *aux = (int32_t *)call->buffer[sources + 1].address;
  const int64_t count = cr_op_arg_count(call->desc, sources);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(count); ++b) {
    const int64_t length = block_length(count, b);
    float best[BLOCK];
    int32_t which[BLOCK] = {0};
    memcpy(best, cr_f32(call->buffer, 0) + b * BLOCK, (size_t)length * sizeof *best);
    for (int k = 1; k < sources; ++k) {
      const float *x = cr_f32(call->buffer, k) + b * BLOCK;
      for (int64_t i = 0; i < length; ++i) {
        const bool wins = k == 1 ? !(best[i] > x[i]) : x[i] > best[i];
        best[i] = wins ? x[i] : best[i];
        which[i] = wins ? k : which[i];
      }
    }
    memcpy(dst + b * BLOCK, best, (size_t)length * sizeof *best);
    memcpy(aux + b * BLOCK, which, (size_t)length * sizeof *which);
  }
  return CREMA_OK;
}

/* diff_dst, aux, diff_src. */
static crema_status max_bwd(const cr_call *call) {
  const float *diff_dst = cr_f32(call->buffer, 0);
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const int32_t index = call->desc->u.index;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) diff_src[i] = aux[i] == index ? diff_dst[i] : 0;
  return CREMA_OK;
}

CR_KERNEL(sum_f32_ref, SUM, .run = sum_run);
CR_KERNEL(prod_f32_ref, PROD, .run = prod_run);
CR_KERNEL(prod_bwd_f32_ref, PROD_BWD, .run = prod_bwd);
CR_KERNEL(max_f32_ref, MAX, .run = max_run);
CR_KERNEL(max_bwd_f32_ref, MAX_BWD, .run = max_bwd);
