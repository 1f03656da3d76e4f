/* Local response normalisation across channels, without a gradient, a piece of the channels of one
 * position at a time. `lrn_fwd_last` is for channels-last tensors. For them oneDNN has only
 * portable code, which takes twice as long as its code for blocks of channels. Values are F32, BF16
 * or F16, computed in float. `lrn_quantize_ref` rounds its result to int8.
 *
 * Gain over oneDNN on Sapphire Rapids, one thread: 2.3x for the LRN layers
 * of GoogLeNet, whose forward pass takes 1.04x the time without it. */
#include <math.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/half_blocks.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/int8.h"
#include "device/cpu/kernels/lrn_power.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/onednn/primitive.h"

enum {
  PIECE = 1024,        /* channels at a time */
  PARALLEL_MIN = 16384 /* values; below, one thread is faster */
};

/* The sums of `size` squares from each of `count` on. */
CR_INLINE void sum_windows(int64_t size, int64_t count, const float *restrict square,
                           float *restrict sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float acc = square[i];
    for (int64_t j = 1; j < size; ++j) acc += square[i + j];
    sum[i] = acc;
  }
}

/* One piece: `count` channels, starting at x[at]; x has `held` channels. Missing channels of a
 * window count as 0. y may be x + at, because all squares are computed before y is written. */
CR_CLONES static void normalise(const cr_lrn_params *p, int64_t at, int64_t count, int64_t held,
                                const float *x, float *y) {
  const float factor = p->alpha / (float)p->size, k = p->k, beta = p->beta;
  const int64_t before = (p->size - 1) / 2, missing = before > at ? before - at : 0;
  const int64_t windows = count + p->size - 1, first = at - before + missing;
  const int64_t left = held - first, there = left < windows - missing ? left : windows - missing;
  float square[PIECE + CR_LRN_WINDOW_MAX], sum[PIECE];
  for (int64_t i = 0; i < missing; ++i) square[i] = 0;
#pragma omp simd
  for (int64_t i = 0; i < there; ++i) square[missing + i] = x[first + i] * x[first + i];
  for (int64_t i = missing + there; i < windows; ++i) square[i] = 0;
  if (p->size == 5) sum_windows(5, count, square, sum);
  else sum_windows(p->size, count, square, sum);
  if (beta == 0.75f) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      y[i] = x[at + i] * cr_power_of_minus_3_4(k + factor * sum[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = x[at + i] * powf(k + factor * sum[i], -beta);
  }
}

static crema_status check(cr_plan *plan) {
  const cr_lrn_params *p = &plan->desc->u.lrn;
  CR_TRY(cr_check_lrn(plan));
  if (!p->within_channel && p->size <= CR_LRN_WINDOW_MAX) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "a window other than of few channels");
}

static crema_status plan_last(cr_plan *plan) {
  const cr_layout *layout = cr_dnnl_held(plan, 0);
  crema_dtype type = CREMA_F32;
  CR_TRY(check(plan));
  CR_TRY(cr_dnnl_one_type(plan, &type));
  if (!cr_dnnl_absent(plan, 2)) return cr_fail(CREMA_E_UNSUPPORTED, "for a gradient");
  if (cr_dnnl_layout_order(layout).kind != CR_DNNL_LAST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held channels-last");
  }
  if (plan->desc->arg[0].shape.dim[1] > PIECE) {
    return cr_fail(CREMA_E_UNSUPPORTED, "many channels");
  }
  plan->format[0] = plan->format[1] = (cr_format){type, layout};
  return CREMA_OK;
}

/* The position whose values begin at element `at`, at once, as dst may be src. */
static void run_position(const cr_call *call, int64_t at) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const crema_dtype type = call->plan->format[0].type;
  const int64_t channels = call->desc->arg[0].shape.dim[1];
  const void *src = (const void *)call->buffer[0].address;
  void *dst = (void *)call->buffer[1].address;
  if (type == CREMA_F32) {
    normalise(p, 0, channels, channels, (const float *)src + at, (float *)dst + at);
    return;
  }
  float x[PIECE];
  cr_load_floats(type, src, at, channels, x);
  normalise(p, 0, channels, channels, x, x);
  cr_store_floats(type, dst, at, channels, x);
}

static crema_status run_last(const cr_call *call) {
  const crema_shape *shape = &call->desc->arg[0].shape;
  const int64_t channels = shape->dim[1], positions = shape->dim[0] * shape->dim[2] * shape->dim[3];
#pragma omp parallel for schedule(static) if (positions * channels >= PARALLEL_MIN)
  for (int64_t i = 0; i < positions; ++i) run_position(call, i * channels);
  return CREMA_OK;
}

CR_KERNEL(lrn_fwd_last, LRN_FWD, .types = CR_DNNL_TYPES, .library = true, .follows_hints = true,
          .plan = plan_last, .run = run_last);

static crema_status plan_quantize(cr_plan *plan) {
  const cr_op_arg *to = &plan->desc->arg[1];
  const cr_layout *held = cr_dnnl_held(plan, 0);
  CR_TRY(check(plan));
  if (to->type != CREMA_U8 && to->type != CREMA_I8) {
    return cr_fail(CREMA_E_UNSUPPORTED, "rounding to %s", crema_dtype_name(to->type));
  }
  if (plan->hint[0].type != CREMA_F32 || cr_dnnl_layout_order(held).kind != CR_DNNL_LAST) {
    return CREMA_OK;
  }
  const cr_layout *same = cr_layout_in(held, to->type);
  if (same == NULL) return CREMA_OK;
  plan->format[0].layout = held;
  plan->format[1].layout = same;
  return CREMA_OK;
}

/* `count` channels, starting at `first`, of a position whose channel 0 is element `at`; channels
 * are `step` elements apart. */
static void quantize_piece(const cr_call *call, int64_t at, int64_t step, int64_t first,
                           int64_t count) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const cr_op_arg *to = &call->desc->arg[1];
  const int64_t channels = call->desc->arg[0].shape.dim[1], half = p->size / 2;
  const int64_t from = first < half ? 0 : first - half, end = first + count + half;
  const int64_t held = (end < channels ? end : channels) - from;
  const float *src = cr_f32(call->buffer, 0) + at + from * step;
  uint8_t *dst = (uint8_t *)call->buffer[1].address + at + first * step, byte[PIECE];
  float x[PIECE + CR_LRN_WINDOW_MAX], y[PIECE];
  if (step != 1) {
    for (int64_t i = 0; i < held; ++i) x[i] = src[i * step];
    src = x;
  }
  normalise(p, first - from, count, held, src, y);
  const float factor = 1 / to->scale;
  for (int64_t i = 0; i < count; ++i) y[i] *= factor;
  cr_int8_put(to->type, y, count, step == 1 ? dst : byte, 0);
  for (int64_t i = 0; i < count && step != 1; ++i) dst[i * step] = byte[i];
}

static crema_status run_quantize(const cr_call *call) {
  const crema_shape *shape = &call->desc->arg[0].shape;
  const int64_t channels = shape->dim[1], plane = shape->dim[2] * shape->dim[3];
  const bool last = call->plan->format[0].layout != NULL;
#pragma omp parallel for schedule(static) if (shape->dim[0] * plane * channels >= PARALLEL_MIN)
  for (int64_t i = 0; i < shape->dim[0] * plane; ++i) {
    const int64_t at = last ? i * channels : i / plane * channels * plane + i % plane;
    for (int64_t c = 0; c < channels; c += PIECE) {
      quantize_piece(call, at, last ? 1 : plane, c, channels - c < PIECE ? channels - c : PIECE);
    }
  }
  return CREMA_OK;
}

CR_KERNEL(lrn_quantize_ref, LRN_QUANTIZE, .follows_hints = true, .plan = plan_quantize,
          .run = run_quantize);
