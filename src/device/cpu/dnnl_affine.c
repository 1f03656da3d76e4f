/* y = x * scale + bias, one scale and one bias per channel, and its gradients, for tensors held in
 * blocks of channels: so that Scale between a convolution and a ReLU does not cost two conversions.
 * The arguments' shapes are (outer, C, inner), the layout's (N, C, S...). */
#include <string.h>

#include "core/fail.h"
#include "device/backend/kernel.h"
#include "device/cpu/dnnl_layout.h"
#include "device/cpu/dnnl_rows.h"

enum {
  BLOCK_MAX = 16,
  LANES = 8,           /* channels that are summed at a time */
  PARALLEL_MIN = 16384 /* values; below, one thread is faster */
};

/* Memory in blocks: (outer, blocks, inner, block). */
typedef struct blocks {
  int64_t outer, channels, blocks, inner;
  int block;
} blocks;

static blocks blocks_of(const cr_plan *plan) {
  const crema_shape *shape = &plan->desc->arg[0].shape;
  int block = cr_dnnl_layout_order(plan->format[0].layout).block;
  return (blocks){.outer = shape->dim[0],
                  .channels = shape->dim[1],
                  .blocks = (shape->dim[1] + block - 1) / block,
                  .inner = shape->dim[2],
                  .block = block};
}

/* Asks for all arguments of argument 0's shape in its layout. */
static crema_status plan_blocks(cr_plan *plan) {
  const cr_layout *layout = plan->hint[0].layout;
  const crema_shape *shape = &plan->desc->arg[0].shape;
  cr_dnnl_order order = cr_dnnl_layout_order(layout);
  if (layout == NULL || layout->type != CREMA_F32 || order.kind != CR_DNNL_BLOCKED ||
      order.block > BLOCK_MAX || order.block % LANES != 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held in blocks of channels");
  }
  if (shape->axes != 3 || layout->shape.dim[0] != shape->dim[0] ||
      layout->shape.dim[1] != shape->dim[1]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not along the channels");
  }
  for (int i = 0; i < plan->desc->args; ++i) {
    if (crema_shape_equal(&plan->desc->arg[i].shape, shape)) plan->format[i].layout = layout;
  }
  return CREMA_OK;
}

/* The values of block `i`'s channels; `other` for an absent argument, 0 behind the last channel. */
static void load_channels(const blocks *b, int64_t i, const float *values, float other,
                          float *out) {
  for (int k = 0; k < b->block; ++k) {
    int64_t c = i * b->block + k;
    out[k] = c >= b->channels ? 0.0f : values == NULL ? other : values[c];
  }
}

static void scale_all(const blocks *b, const float *x, const float *scale, const float *bias,
                      float *y) {
  const int64_t plane = b->inner * b->block, planes = b->outer * b->blocks;
#pragma omp parallel for schedule(static) if (planes * plane >= PARALLEL_MIN)
  for (int64_t i = 0; i < planes; ++i) {
    float s[BLOCK_MAX], t[BLOCK_MAX];
    load_channels(b, i % b->blocks, scale, 1.0f, s);
    load_channels(b, i % b->blocks, bias, 0.0f, t);
    const float *from = x + i * plane;
    float *to = y + i * plane;
    for (int64_t p = 0; p < b->inner; ++p, from += b->block, to += b->block) {
#pragma omp simd
      for (int k = 0; k < b->block; ++k) to[k] = from[k] * s[k] + t[k];
    }
  }
}

/* Adds a plane's values, times those of `weight` unless that is NULL, to `sum`. In double: where
 * the terms of a channel nearly cancel, a sum in single precision would keep few true digits. */
static void sum_plane(const blocks *b, const float *x, const float *weight, double *sum) {
  for (int lane = 0; lane < b->block; lane += LANES) {
    double part[LANES] = {0};
    const float *at = x + lane;
    if (weight == NULL) {
      for (int64_t p = 0; p < b->inner; ++p, at += b->block) {
#pragma omp simd
        for (int k = 0; k < LANES; ++k) part[k] += (double)at[k];
      }
    } else {
      const float *by = weight + lane;
      for (int64_t p = 0; p < b->inner; ++p, at += b->block, by += b->block) {
#pragma omp simd
        for (int k = 0; k < LANES; ++k) part[k] += (double)at[k] * (double)by[k];
      }
    }
    for (int k = 0; k < LANES; ++k) sum[lane + k] += part[k];
  }
}

/* out (C) = or += the sum of x over all positions, times weight unless that is NULL. One thread
 * sums a block of channels, so that the result does not depend on the number of threads. */
static void sum_channels(const blocks *b, const float *x, const float *weight, bool accumulate,
                         float *out) {
  const int64_t plane = b->inner * b->block;
#pragma omp parallel for schedule(static) if (b->outer * b->blocks * plane >= PARALLEL_MIN)
  for (int64_t i = 0; i < b->blocks; ++i) {
    double sum[BLOCK_MAX] = {0};
    for (int64_t n = 0; n < b->outer; ++n) {
      int64_t at = (n * b->blocks + i) * plane;
      sum_plane(b, x + at, weight == NULL ? NULL : weight + at, sum);
    }
    for (int k = 0; k < b->block && i * b->block + k < b->channels; ++k) {
      float *to = &out[i * b->block + k];
      *to = (float)(accumulate ? (double)*to + sum[k] : sum[k]);
    }
  }
}

static crema_status run_fwd(const cr_call *call) {
  blocks b = blocks_of(call->plan);
  scale_all(&b, cr_f32(call->buffer, 0), cr_f32(call->buffer, 1), cr_f32(call->buffer, 2),
            cr_f32(call->buffer, 3));
  return CREMA_OK;
}

static crema_status run_bwd_data(const cr_call *call) {
  blocks b = blocks_of(call->plan);
  scale_all(&b, cr_f32(call->buffer, 0), cr_f32(call->buffer, 1), NULL, cr_f32(call->buffer, 2));
  return CREMA_OK;
}

static crema_status run_bwd_scale(const cr_call *call) {
  blocks b = blocks_of(call->plan);
  sum_channels(&b, cr_f32(call->buffer, 0), cr_f32(call->buffer, 1), call->accumulate[2],
               cr_f32(call->buffer, 2));
  return CREMA_OK;
}

static crema_status run_bwd_bias(const cr_call *call) {
  blocks b = blocks_of(call->plan);
  sum_channels(&b, cr_f32(call->buffer, 0), NULL, call->accumulate[1], cr_f32(call->buffer, 1));
  return CREMA_OK;
}

CR_KERNEL(affine_fwd_f32_blocked, AFFINE_FWD, .library = true, .follows_hints = true,
          .plan = plan_blocks, .run = run_fwd);

CR_KERNEL(affine_bwd_data_f32_blocked, AFFINE_BWD_DATA, .library = true, .follows_hints = true,
          .plan = plan_blocks, .run = run_bwd_data);

CR_KERNEL(affine_bwd_scale_f32_blocked, AFFINE_BWD_SCALE, .library = true, .follows_hints = true,
          .can_accumulate = true, .plan = plan_blocks, .run = run_bwd_scale);

CR_KERNEL(affine_bwd_bias_f32_blocked, AFFINE_BWD_BIAS, .library = true, .follows_hints = true,
          .can_accumulate = true, .plan = plan_blocks, .run = run_bwd_bias);
