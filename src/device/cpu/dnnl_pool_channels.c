/* Max pooling over two axes of tensors that are held channels-last or in blocks of channels,
 * without a gradient. Channels-last, oneDNN 2.6 takes some 16 channels of all positions at a time,
 * which the processor does not foresee: where the values do not lie in the nearest caches, it needs
 * about twice as long. Here all channels of a position are taken before the next one. */
#include <stdlib.h>
#include <string.h>

#include "core/clones.h"
#include "core/fail.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"
#include "device/cpu/pooling.h"

enum { PARALLEL_MIN = 16384 /* values; below, one thread is faster */ };

/* `windows` beside each other: the rows and columns of the input that each covers, and the values
 * from a row to the next and from a window to the next. */
typedef struct patch {
  int64_t windows, rows, columns, row, step, channels;
} patch;

/* ---- values that the processor compares as they are ---------------------- */

/* Defines pool_NAME. The small patch is good where rows and columns are constants. A maximum is
 * what the reference finds: the first value stays if it is no number. */
#define POOL_OF(name, type)                                                                       \
  CR_INLINE type larger_##name(type value, type best) {                                           \
    return value > best ? value : best;                                                           \
  }                                                                                               \
                                                                                                  \
  CR_INLINE void small_patch_##name(const type *restrict from, int64_t rows, int64_t columns,     \
                                    const patch *p, type *restrict to) {                          \
    const int64_t row = p->row, channels = p->channels;                                           \
    _Pragma("omp simd") for (int64_t c = 0; c < channels; ++c) {                                  \
      type best = from[c];                                                                        \
      for (int64_t y = 0; y < rows; ++y) {                                                        \
        for (int64_t x = 0; x < columns; ++x) {                                                   \
          best = larger_##name(from[y * row + x * channels + c], best);                           \
        }                                                                                         \
      }                                                                                           \
      to[c] = best;                                                                               \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  CR_INLINE void any_patch_##name(const type *restrict from, const patch *p, type *restrict to) { \
    memcpy(to, from, (size_t)p->channels * sizeof *to);                                           \
    for (int64_t y = 0; y < p->rows; ++y) {                                                       \
      for (int64_t x = 0; x < p->columns; ++x) {                                                  \
        const type *at = from + y * p->row + x * p->channels;                                     \
        _Pragma("omp simd") for (int64_t c = 0; c < p->channels; ++c) {                           \
          to[c] = larger_##name(at[c], to[c]);                                                    \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }                                                                                               \
                                                                                                  \
  CR_CLONES static void pool_##name(const void *src, const patch *p, void *dst) {                 \
    const type *from = src;                                                                       \
    type *to = dst;                                                                               \
    for (int64_t i = 0; i < p->windows; ++i, from += p->step, to += p->channels) {                \
      if (p->rows == 3 && p->columns == 3) small_patch_##name(from, 3, 3, p, to);                 \
      else if (p->rows == 2 && p->columns == 2) small_patch_##name(from, 2, 2, p, to);            \
      else any_patch_##name(from, p, to);                                                         \
    }                                                                                             \
  }

POOL_OF(f32, float)
POOL_OF(u8, uint8_t)
POOL_OF(i8, int8_t)

/* ---- BF16 ---------------------------------------------------------------- */

/* Two channels in a word of 32 bits. Either is a float whose last 16 bits are 0, and a maximum is
 * one of the values: nothing is widened, and nothing rounded. */
typedef uint32_t channels_pair __attribute__((may_alias, aligned(2)));

CR_INLINE float as_float(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

CR_INLINE uint32_t as_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

CR_INLINE float first_of(uint32_t pair) {
  return as_float(pair << 16);
}

CR_INLINE float second_of(uint32_t pair) {
  return as_float(pair & 0xffff0000u);
}

CR_INLINE uint32_t pair_of(float first, float second) {
  return as_bits(first) >> 16 | as_bits(second);
}

CR_INLINE void small_patch_bf16(const uint16_t *restrict from, int64_t rows, int64_t columns,
                                const patch *p, uint16_t *restrict to) {
  const int64_t row = p->row, channels = p->channels;
#pragma omp simd
  for (int64_t i = 0; i < channels / 2; ++i) {
    const uint32_t begin = *(const channels_pair *)(from + 2 * i);
    float first = first_of(begin), second = second_of(begin);
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) {
        const uint32_t pair = *(const channels_pair *)(from + y * row + x * channels + 2 * i);
        first = larger_f32(first_of(pair), first);
        second = larger_f32(second_of(pair), second);
      }
    }
    *(channels_pair *)(to + 2 * i) = pair_of(first, second);
  }
}

CR_INLINE void any_patch_bf16(const uint16_t *restrict from, const patch *p, int64_t first,
                              uint16_t *restrict to) {
  memcpy(to + first, from + first, (size_t)(p->channels - first) * sizeof *to);
  for (int64_t y = 0; y < p->rows; ++y) {
    for (int64_t x = 0; x < p->columns; ++x) {
      const uint16_t *at = from + y * p->row + x * p->channels;
#pragma omp simd
      for (int64_t c = first; c < p->channels; ++c) {
        to[c] = (uint16_t)(as_bits(larger_f32(first_of(at[c]), first_of(to[c]))) >> 16);
      }
    }
  }
}

CR_CLONES static void pool_bf16(const void *src, const patch *p, void *dst) {
  const int64_t pairs = p->channels / 2 * 2;
  const uint16_t *from = src;
  uint16_t *to = dst;
  for (int64_t i = 0; i < p->windows; ++i, from += p->step, to += p->channels) {
    int64_t done = pairs;
    if (p->rows == 3 && p->columns == 3) small_patch_bf16(from, 3, 3, p, to);
    else if (p->rows == 2 && p->columns == 2) small_patch_bf16(from, 2, 2, p, to);
    else done = 0;
    if (done < p->channels) any_patch_bf16(from, p, done, to);
  }
}

/* ---- planning and running ------------------------------------------------ */

static bool has_windows_inside(const cr_slide *s) {
  for (int a = 0; a < 2; ++a) {
    if (s->pad[a] >= s->kernel[a]) return false;
    if ((s->out[a] - 1) * s->stride[a] - s->pad[a] >= s->in[a]) return false;
  }
  return true;
}

static crema_status plan_channels(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  const cr_layout *layout = plan->hint[0].layout;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  if (desc->u.pool.method != CR_POOL_MAX || desc->u.pool.window.axes != 2) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not maxima over two axes");
  }
  if (!cr_dnnl_absent(plan, 2)) return cr_fail(CREMA_E_UNSUPPORTED, "for a gradient");
  const cr_dnnl_order_kind order = cr_dnnl_layout_order(layout).kind;
  if (order != CR_DNNL_LAST && order != CR_DNNL_BLOCKED) {
    return cr_fail(CREMA_E_UNSUPPORTED, "channels do not lie side by side");
  }
  CR_TRY(cr_pooling_plan(plan, &desc->arg[0].shape, &desc->arg[1].shape));
  if (!has_windows_inside(&((const cr_pooling *)plan->state)->slide)) {
    cr_pooling_destroy(plan);
    plan->state = NULL;
    return cr_fail(CREMA_E_UNSUPPORTED, "windows outside the input");
  }
  plan->format[0] = plan->format[1] = (cr_format){type, layout};
  return cr_dnnl_layout_ordered(plan->context->device, &desc->arg[1].shape, type,
                                cr_dnnl_layout_order(layout), &plan->format[1].layout);
}

typedef void pool_patch(const void *from, const patch *p, void *to);

static pool_patch *patch_of(crema_dtype type) {
  switch (type) {
    case CREMA_BF16: return pool_bf16;
    case CREMA_U8: return pool_u8;
    case CREMA_I8: return pool_i8;
    default: return pool_f32;
  }
}

/* The part of axis `a` that the window of element `at` covers. */
static int64_t clip_window(const cr_slide *s, int a, int64_t at, int64_t *begin) {
  const int64_t first = at * s->stride[a] - s->pad[a], end = first + s->kernel[a];
  *begin = first > 0 ? first : 0;
  return (end < s->in[a] ? end : s->in[a]) - *begin;
}

/* How many windows from the one of column `at` on cover as many columns. */
static int64_t alike(const cr_slide *s, int64_t at) {
  int64_t end = (s->in[1] - s->kernel[1] + s->pad[1]) / s->stride[1] + 1;
  if (end > s->out[1]) end = s->out[1];
  return at * s->stride[1] >= s->pad[1] && at < end ? end - at : 1;
}

/* Row `i` of the result, over all planes. */
static void run_row(const cr_call *call, int64_t channels, int64_t i) {
  const cr_slide *s = &((const cr_pooling *)call->plan->state)->slide;
  const crema_dtype type = call->plan->format[0].type;
  pool_patch *const pool = patch_of(type);
  const int64_t position = channels * (int64_t)crema_dtype_size(type);
  patch p = {.row = s->in[1] * channels, .step = s->stride[1] * channels, .channels = channels};
  int64_t y = 0, x = 0;
  p.rows = clip_window(s, 0, i % s->out[0], &y);
  const char *src = (const char *)call->buffer[0].address +
                    (i / s->out[0] * s->in_count + y * s->in[1]) * position;
  char *to = (char *)call->buffer[1].address + i * s->out[1] * position;
  for (int64_t j = 0; j < s->out[1]; j += p.windows) {
    p.columns = clip_window(s, 1, j, &x);
    p.windows = alike(s, j);
    pool(src + x * position, &p, to + j * position);
  }
}

/* Blocks of channels are planes of so many channels. */
static crema_status run_channels(const cr_call *call) {
  const cr_slide *s = &((const cr_pooling *)call->plan->state)->slide;
  const crema_shape *shape = &call->desc->arg[0].shape;
  const cr_dnnl_order order = cr_dnnl_layout_order(call->plan->format[0].layout);
  const int64_t channels = order.kind == CR_DNNL_LAST ? shape->dim[1] : order.block;
  const int64_t rows = shape->dim[0] * ((shape->dim[1] + channels - 1) / channels) * s->out[0];
#pragma omp parallel for schedule(static) if (rows * s->out[1] * channels >= PARALLEL_MIN)
  for (int64_t i = 0; i < rows; ++i) run_row(call, channels, i);
  return CREMA_OK;
}

#define POOL_CHANNELS(row, of)                       \
  const cr_kernel cr_##row = {.name = #row,          \
                              .op = CR_OP_POOL_FWD,  \
                              .type = CREMA_##of,    \
                              .library = true,       \
                              .follows_hints = true, \
                              .plan = plan_channels, \
                              .run = run_channels,   \
                              .destroy = cr_pooling_destroy}

POOL_CHANNELS(pool_fwd_channels_u8, U8);
POOL_CHANNELS(pool_fwd_channels_i8, I8);

CR_KERNEL(pool_fwd_channels, POOL_FWD, .types = CR_TYPE(F32) | CR_TYPE(BF16), .library = true,
          .follows_hints = true, .plan = plan_channels, .run = run_channels,
          .destroy = cr_pooling_destroy);
