/* Rounding to int8: the kernel that does only that, and the last step of other kernels. */
#include "device/cpu/kernels/int8.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#define CR_REF_F32
#include "device/cpu/kernels/post_ops.h"

enum { PIECE = 256 };

/* ---- rounding ------------------------------------------------------------ */

/* The nearest integer of [low, high], a tie to the even one; NaN becomes `low`. The sum of a small
 * number and 1.5 * 2^23 has no bit for a fraction. */
static inline float nearest(float x, float low, float high) {
  const float magic = 12582912.0f;
  x = x > low ? x : low;
  x = x < high ? x : high;
  return (x + magic) - magic;
}

#ifdef __x86_64__
#include <immintrin.h>

/* NaN becomes `low`: the maximum of NaN and a number is the second operand. */
__attribute__((target("avx512f"))) static __m512i nearest_16(__m512 x, float low, float high) {
  const __m512 above = _mm512_max_ps(x, _mm512_set1_ps(low));
  const __m512 between = _mm512_min_ps(above, _mm512_set1_ps(high));
  return _mm512_cvt_roundps_epi32(between, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Sixteen values per step; returns the number of values written. */
__attribute__((target("avx512f"))) static int64_t put_vectors(const float *from, int64_t count,
                                                              float low, float high, void *to) {
  int64_t i = 0;
  for (; count - i >= 16; i += 16) {
    const __m128i bytes = _mm512_cvtepi32_epi8(nearest_16(_mm512_loadu_ps(from + i), low, high));
    _mm_storeu_si128((__m128i *)(void *)((char *)to + i), bytes);
  }
  return i;
}

static int64_t put_wide(const float *from, int64_t count, float low, float high, void *to) {
  return __builtin_cpu_supports("avx512f") ? put_vectors(from, count, low, high, to) : 0;
}

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Sixteen values from i on as floats; 0 where the mask is 0. */
WIDE static inline __m512 load_16(crema_dtype type, const void *from, int64_t i, __mmask16 mask) {
  if (type == CREMA_F32) return _mm512_maskz_loadu_ps(mask, (const float *)from + i);
  const __m128i bytes = _mm_maskz_loadu_epi8(mask, (const char *)from + i);
  return _mm512_cvtepi32_ps(type == CREMA_U8 ? _mm512_cvtepu8_epi32(bytes)
                                             : _mm512_cvtepi8_epi32(bytes));
}

/* `left` columns from k on of a row that begins with value i. */
WIDE __attribute__((always_inline)) static inline __m512i scale_16(const cr_int8_scaling *s,
                                                                   crema_dtype type,
                                                                   const void *from, int64_t i,
                                                                   int64_t k, int64_t left) {
  const __mmask16 mask = (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
  const __m512 scale = _mm512_maskz_loadu_ps(mask, s->scale + k);
  const __m512 bias = _mm512_maskz_loadu_ps(mask, s->bias + k);
  const __m512 x = load_16(type, from, i + k, mask);
  return nearest_16(_mm512_fmadd_ps(x, scale, bias), s->low, s->to == CREMA_U8 ? 255 : 127);
}

/* The same of up to 64 columns. */
WIDE __attribute__((always_inline)) static inline void scale_64(const cr_int8_scaling *s,
                                                                crema_dtype type, const void *from,
                                                                int64_t i, int64_t k, int64_t left,
                                                                char *to) {
  /* Packing takes four values of each sixteen in turn. */
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i a = scale_16(s, type, from, i, k, left);
  const __m512i b = scale_16(s, type, from, i, k + 16, left - 16);
  const __m512i c = scale_16(s, type, from, i, k + 32, left - 32);
  const __m512i d = scale_16(s, type, from, i, k + 48, left - 48);
  const __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
  const __m512i bytes =
      s->to == CREMA_U8 ? _mm512_packus_epi16(ab, cd) : _mm512_packs_epi16(ab, cd);
  const __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
  _mm512_mask_storeu_epi8(to + k, mask, _mm512_permutexvar_epi32(order, bytes));
}

/* The type is a constant in each copy. */
WIDE __attribute__((always_inline)) static inline void scale_rows(const cr_int8_scaling *s,
                                                                  crema_dtype type,
                                                                  const void *from, int64_t i,
                                                                  int64_t rows, char *to) {
  const cr_int8_scaling r = *s;
  for (int64_t row = 0; row < rows; ++row, i += r.step, to += r.width) {
    int64_t k = 0;
    for (; r.width - k >= 64; k += 64) scale_64(&r, type, from, i, k, 64, to);
    if (k < r.width) scale_64(&r, type, from, i, k, r.width - k, to);
  }
}

WIDE static void scale_unsigned(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows,
                                char *to) {
  scale_rows(s, CREMA_U8, from, i, rows, to);
}

WIDE static void scale_signed(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows,
                              char *to) {
  scale_rows(s, CREMA_I8, from, i, rows, to);
}

WIDE static void scale_floats(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows,
                              char *to) {
  scale_rows(s, CREMA_F32, from, i, rows, to);
}

static bool scale_wide(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows,
                       char *to) {
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) return false;
  if (s->from == CREMA_U8) scale_unsigned(s, from, i, rows, to);
  else if (s->from == CREMA_I8) scale_signed(s, from, i, rows, to);
  else scale_floats(s, from, i, rows, to);
  return true;
}

#else

static int64_t put_wide(const float *from, int64_t count, float low, float high, void *to) {
  (void)from, (void)count, (void)low, (void)high, (void)to;
  return 0;
}

static bool scale_wide(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows,
                       char *to) {
  (void)s, (void)from, (void)i, (void)rows, (void)to;
  return false;
}

#endif

void cr_int8_put(crema_dtype type, const float *from, int64_t count, void *values, int64_t at) {
  if (type == CREMA_F32) {
    memcpy((float *)values + at, from, (size_t)count * sizeof *from);
    return;
  }
  const float low = type == CREMA_U8 ? 0 : -128, high = type == CREMA_U8 ? 255 : 127;
  uint8_t *to = (uint8_t *)values + at;
  for (int64_t i = put_wide(from, count, low, high, to); i < count; ++i) {
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

/* Columns k and on of one row. */
static void scale_columns(const cr_int8_scaling *s, const void *from, int64_t i, int64_t k,
                          void *to, int64_t j) {
  const int64_t left = s->width - k, count = left < PIECE ? left : PIECE;
  float value[PIECE];
  cr_int8_floats(s->from, from, i + k, count, value);
  for (int64_t m = 0; m < count; ++m) {
    const float y = value[m] * s->scale[k + m] + s->bias[k + m];
    value[m] = y > s->low ? y : s->low;
  }
  cr_int8_put(s->to, value, count, to, j + k);
}

void cr_int8_scale(const cr_int8_scaling *s, const void *from, int64_t i, int64_t rows, void *to,
                   int64_t j) {
  cr_int8_scaling cut = *s;
  const float least = s->to == CREMA_U8 ? 0 : -128;
  cut.low = s->low > least ? s->low : least;
  if (scale_wide(&cut, from, i, rows, (char *)to + j)) return;
  for (int64_t row = 0; row < rows; ++row, i += s->step, j += s->width) {
    for (int64_t k = 0; k < s->width; k += PIECE) scale_columns(&cut, from, i, k, to, j);
  }
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

crema_status cr_int8_check_affine(const cr_plan *plan) {
  const cr_op_arg *from = &plan->desc->arg[0], *to = &plan->desc->arg[3];
  const bool rounds = to->type == CREMA_U8 || to->type == CREMA_I8;
  if ((from->type == CREMA_U8 || from->type == CREMA_I8) && (rounds || to->type == CREMA_F32)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "scaling %s to %s", crema_dtype_name(from->type),
                 crema_dtype_name(to->type));
}

/* True without scale, bias and post operations. */
static bool rounds_alone(const cr_op_desc *desc) {
  return desc->arg[1].shape.axes < 0 && desc->arg[2].shape.axes < 0 &&
         cr_posts_count(cr_op_posts(desc)) == 0;
}

/* Keeps the order of the source if channels do not matter; pads stay 0. */
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

static crema_status plan_affine(cr_plan *plan) {
  return cr_int8_check_affine(plan);
}

static crema_status run_round(const cr_call *call) {
  const cr_layout *layout = call->plan->format[0].layout;
  const int64_t count =
      layout != NULL ? (int64_t)(layout->bytes / sizeof(float)) : cr_op_arg_count(call->desc, 0);
  const void *from = (const void *)call->buffer[0].address;
  const crema_dtype type = call->desc->arg[0].type;
  const float factor = call->desc->kind == CR_OP_QUANTIZE ? 1 / call->desc->arg[3].scale : 1;
  const bool alone = rounds_alone(call->desc);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t n = count - at < PIECE ? count - at : PIECE;
    float value[PIECE];
    cr_int8_floats(type, from, at, n, value);
    if (!alone) scale_values(call, at, n, value);
    for (int64_t i = 0; i < n; ++i) value[i] *= factor;
    cr_int8_put(call->desc->arg[3].type, value, n, (void *)call->buffer[3].address, at);
  }
  return CREMA_OK;
}

CR_KERNEL(quantize_ref, QUANTIZE, .follows_hints = true, .plan = plan_quantize, .run = run_round);

CR_KERNEL(affine_int8_ref, AFFINE_INT8, .plan = plan_affine, .run = run_round);
