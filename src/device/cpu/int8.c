/* Rounding to integers of 8 bits: the kernel that does only that, and the last step of others. */
#include "device/cpu/int8.h"

#include <stdlib.h>

#include "core/fail.h"
#define CR_REF_F32
#include "device/cpu/ref_posts.h"

enum { PIECE = 256 };

/* The nearest integer of [low, high], a tie to the even one; NaN becomes `low`. Adding 1.5 * 2^23
 * to a small number leaves no bit for a fraction. */
static inline float nearest(float x, float low, float high) {
  const float magic = 12582912.0f;
  x = x > low ? x : low;
  x = x < high ? x : high;
  return (x + magic) - magic;
}

static void put_unsigned(const float *from, int64_t count, uint8_t *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = (uint8_t)nearest(from[i], 0, 255);
}

static void put_signed(const float *from, int64_t count, int8_t *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = (int8_t)nearest(from[i], -128, 127);
}

void cr_int8_put(crema_dtype type, const float *from, int64_t count, void *values, int64_t at) {
  if (type == CREMA_F32) memcpy((float *)values + at, from, (size_t)count * sizeof *from);
  else if (type == CREMA_U8) put_unsigned(from, count, (uint8_t *)values + at);
  else put_signed(from, count, (int8_t *)values + at);
}

void cr_int8_widen(crema_dtype type, const void *values, int64_t count, int16_t *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = (int16_t)cr_int8_get(type, values, i);
}

/* addend[i] = the scaled value at + i of the op's last argument. */
static void read_addend(const cr_call *call, int64_t at, int64_t count, float *addend) {
  const cr_op_arg *arg = &call->desc->arg[CR_ARG_ADDEND];
  const void *values = (const void *)call->buffer[CR_ARG_ADDEND].address;
  for (int64_t i = 0; i < count; ++i) {
    const float value = arg->type == CREMA_F32 ? ((const float *)values)[at + i]
                                               : (float)cr_int8_get(arg->type, values, at + i);
    addend[i] = arg->scale * value;
  }
}

void cr_int8_finish(const cr_call *call, const int32_t *sums, int64_t count, int64_t channel,
                    int64_t step, int64_t at) {
  const cr_posts *posts = cr_op_posts(call->desc);
  const float *number = cr_op_numbers(call->desc), *bias = cr_f32(call->buffer, 2);
  const bool adds = cr_posts_add(posts);
  float value[PIECE], addend[PIECE];
  for (int64_t from = 0; from < count; from += PIECE) {
    const int64_t n = count - from < PIECE ? count - from : PIECE;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = channel + (from + i) * step;
      value[i] = number[c] * ((float)sums[from + i] + bias[c]);
    }
    if (adds) read_addend(call, at + from, n, addend);
    cr_ref_posts(posts, n, 0, value, adds ? addend : NULL, value);
    cr_int8_put(call->desc->arg[CR_ARG_RESULT].type, value, n,
                (void *)call->buffer[CR_ARG_RESULT].address, at + from);
  }
}

/* ---- quantize ------------------------------------------------------------ */

/* In the order in which the source lies; pads stay 0. */
static crema_status plan_quantize(cr_plan *plan) {
  const cr_op_arg *to = &plan->desc->arg[1];
  if ((to->type != CREMA_U8 && to->type != CREMA_I8) || !(to->scale > 0)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "rounding to %s with scale %g", crema_dtype_name(to->type),
                   (double)to->scale);
  }
  const cr_layout *held = plan->hint[0].layout;
  const cr_layout *same = plan->hint[0].type == CREMA_F32 ? cr_layout_in(held, to->type) : NULL;
  if (same == NULL) return CREMA_OK;
  plan->format[0].layout = held;
  plan->format[1].layout = same;
  return CREMA_OK;
}

static crema_status run_quantize(const cr_call *call) {
  const cr_layout *layout = call->plan->format[0].layout;
  const int64_t count =
      layout != NULL ? (int64_t)(layout->bytes / sizeof(float)) : cr_op_arg_count(call->desc, 0);
  const float *from = cr_f32(call->buffer, 0);
  const float factor = 1 / call->desc->arg[1].scale;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    float value[PIECE];
    for (int64_t i = 0; i < n; ++i) value[i] = factor * from[at + i];
    cr_int8_put(call->desc->arg[1].type, value, n, (void *)call->buffer[1].address, at);
  }
  return CREMA_OK;
}

CR_KERNEL(quantize_ref, QUANTIZE, .follows_hints = true, .plan = plan_quantize,
          .run = run_quantize);
