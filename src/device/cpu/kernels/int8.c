/* The steps that kernels of int8 share: rounding, widening, and finishing a sum of products. */
#include "device/cpu/kernels/int8.h"

#include <string.h>

#define CR_REF_F32
#include "device/cpu/kernels/post_ops.h"

enum { PIECE = 256 };

/* The nearest integer of [low, high], a tie to the even one; NaN becomes `low`. The sum of a small
 * number and 1.5 * 2^23 has no bit for a fraction. */
static inline float nearest(float x, float low, float high) {
  const float magic = 12582912.0f;
  x = x > low ? x : low;
  x = x < high ? x : high;
  return (x + magic) - magic;
}

void cr_int8_put(crema_dtype type, const float *from, int64_t count, void *values, int64_t at) {
  if (type == CREMA_F32) {
    memcpy((float *)values + at, from, (size_t)count * sizeof *from);
    return;
  }
  const float low = type == CREMA_U8 ? 0 : -128, high = type == CREMA_U8 ? 255 : 127;
  uint8_t *to = (uint8_t *)values + at;
  for (int64_t i = cr_int8_put_wide(from, count, low, high, to); i < count; ++i) {
    to[i] = (uint8_t)(int32_t)nearest(from[i], low, high);
  }
}

void cr_int8_floats(crema_dtype type, const void *from, int64_t i, int64_t count, float *out) {
  if (type == CREMA_F32) {
    memcpy(out, (const float *)from + i, (size_t)count * sizeof *out);
    return;
  }
  for (int64_t k = 0; k < count; ++k) out[k] = (float)cr_int8_get(type, from, i + k);
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
