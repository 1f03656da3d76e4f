/* Rounding to integers of 8 bits: the kernel that does only that, and the last step of others. */
#include "device/cpu/int8.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#define CR_REF_F32
#include "device/cpu/ref_posts.h"

enum { PIECE = 256 };

/* ---- rounding ------------------------------------------------------------ */

/* The nearest integer of [low, high], a tie to the even one; NaN becomes `low`. Adding 1.5 * 2^23
 * to a small number leaves no bit for a fraction. */
static inline float nearest(float x, float low, float high) {
  const float magic = 12582912.0f;
  x = x > low ? x : low;
  x = x < high ? x : high;
  return (x + magic) - magic;
}

#ifdef __x86_64__
#include <immintrin.h>

/* Without NaN, as the second operand of a maximum takes its place. */
__attribute__((target("avx512f"))) static __m512i nearest_16(const float *from, float low,
                                                             float high) {
  const __m512 above = _mm512_max_ps(_mm512_loadu_ps(from), _mm512_set1_ps(low));
  const __m512 between = _mm512_min_ps(above, _mm512_set1_ps(high));
  return _mm512_cvt_roundps_epi32(between, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Sixteen values at a time; returns how many it has written. */
__attribute__((target("avx512f"))) static int64_t put_vectors(const float *from, int64_t count,
                                                              float low, float high, void *to) {
  int64_t i = 0;
  for (; count - i >= 16; i += 16) {
    const __m128i bytes = _mm512_cvtepi32_epi8(nearest_16(from + i, low, high));
    _mm_storeu_si128((__m128i *)(void *)((char *)to + i), bytes);
  }
  return i;
}

static int64_t put_wide(const float *from, int64_t count, float low, float high, void *to) {
  return __builtin_cpu_supports("avx512f") ? put_vectors(from, count, low, high, to) : 0;
}

#else

static int64_t put_wide(const float *from, int64_t count, float low, float high, void *to) {
  (void)from, (void)count, (void)low, (void)high, (void)to;
  return 0;
}

#endif

static void put_unsigned(const float *from, int64_t count, uint8_t *to) {
  int64_t i = put_wide(from, count, 0, 255, to);
  for (; i < count; ++i) to[i] = (uint8_t)nearest(from[i], 0, 255);
}

static void put_signed(const float *from, int64_t count, int8_t *to) {
  int64_t i = put_wide(from, count, -128, 127, to);
  for (; i < count; ++i) to[i] = (int8_t)nearest(from[i], -128, 127);
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

crema_status cr_int8_check_quantize(const cr_plan *plan) {
  const cr_op_arg *to = &plan->desc->arg[3];
  if ((to->type == CREMA_U8 || to->type == CREMA_I8) && to->scale > 0) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "rounding to %s with scale %g", crema_dtype_name(to->type),
                 (double)to->scale);
}

/* Whether the values are rounded as they are. */
static bool rounds_alone(const cr_op_desc *desc) {
  return desc->arg[1].shape.axes < 0 && desc->arg[2].shape.axes < 0 &&
         cr_posts_count(cr_op_posts(desc)) == 0;
}

/* In the order in which the source lies, where channels do not matter; pads stay 0. */
static crema_status plan_quantize(cr_plan *plan) {
  CR_TRY(cr_int8_check_quantize(plan));
  const cr_layout *held = plan->hint[0].layout;
  const cr_layout *same =
      plan->hint[0].type == CREMA_F32 ? cr_layout_in(held, plan->desc->arg[3].type) : NULL;
  if (same == NULL || !rounds_alone(plan->desc)) return CREMA_OK;
  plan->format[0].layout = held;
  plan->format[3].layout = same;
  return CREMA_OK;
}

/* value[i] = f(value[i] * scale + bias), of elements `at` and on. */
static void scale_values(const cr_call *call, int64_t at, int64_t count, float *value) {
  const float *scale = cr_f32(call->buffer, 1), *bias = cr_f32(call->buffer, 2);
  const cr_split split = cr_op_split(call->desc, 0, 1);
  for (int64_t i = 0; i < count && (scale != NULL || bias != NULL); ++i) {
    const int64_t c = (at + i) / split.inner % split.channels;
    if (scale != NULL) value[i] *= scale[c];
    if (bias != NULL) value[i] += bias[c];
  }
  cr_ref_posts(cr_op_posts(call->desc), count, 0, value, NULL, value);
}

static crema_status run_quantize(const cr_call *call) {
  const cr_layout *layout = call->plan->format[0].layout;
  const int64_t count =
      layout != NULL ? (int64_t)(layout->bytes / sizeof(float)) : cr_op_arg_count(call->desc, 0);
  const float *from = cr_f32(call->buffer, 0);
  const float factor = 1 / call->desc->arg[3].scale;
  const bool alone = rounds_alone(call->desc);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    float value[PIECE];
    memcpy(value, from + at, (size_t)n * sizeof *value);
    if (!alone) scale_values(call, at, n, value);
    for (int64_t i = 0; i < n; ++i) value[i] *= factor;
    cr_int8_put(call->desc->arg[3].type, value, n, (void *)call->buffer[3].address, at);
  }
  return CREMA_OK;
}

CR_KERNEL(quantize_ref, QUANTIZE, .follows_hints = true, .plan = plan_quantize,
          .run = run_quantize);
