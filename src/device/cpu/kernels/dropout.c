/* Dropout (Srivastava et al., 2014). Element i is kept or not by word i % 4 of the counter-based
 * generator at (s.seed, s.counter, i / 4): the mask does not depend on threads. */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/draws.h"
#include "device/cpu/kernels/element_type.h"

static cr_real keep_scale(cr_real ratio) {
  return ratio < 1 ? 1 / (1 - ratio) : 0;
}

/* What becomes of a value: scale x + shift if it is kept (plain: scale x), else `dropped`. */
typedef struct line {
  bool plain;
  cr_real scale, shift, dropped;
} line;

static line line_of(const cr_op_desc *desc) {
  const bool plain = !desc->u.dropout.line;
  if (plain) return (line){.plain = true, .scale = keep_scale(desc->u.dropout.ratio)};
  return (line){.scale = (cr_real)desc->u.dropout.gain,
                .shift = (cr_real)desc->u.dropout.shift,
                .dropped = (cr_real)desc->u.dropout.dropped};
}

/* Elements that a thread works through at a time. */
enum { PIECE = 2048 };

CR_INLINE void keep_some(int64_t count, const uint32_t *words, uint64_t threshold, bool plain,
                         const line *to, const cr_real *src, cr_real *dst, uint8_t *mask) {
  /* Above all words the threshold does not fit in one. */
  const uint32_t least = (uint32_t)threshold;
  const uint8_t possible = threshold <= UINT32_MAX;
  const cr_real scale = to->scale, shift = to->shift, dropped = plain ? 0 : to->dropped;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t kept = (words[i] >= least ? 1 : 0) & possible;
    const cr_real value = plain ? src[i] * scale : src[i] * scale + shift;
    mask[i] = kept;
    dst[i] = kept ? value : dropped;
  }
}

CR_REF_CLONES static void keep(int64_t count, const uint32_t *words, uint64_t threshold,
                               const line *to, const cr_real *src, cr_real *dst, uint8_t *mask) {
  if (to->plain) keep_some(count, words, threshold, true, to, src, dst, mask);
  else keep_some(count, words, threshold, false, to, src, dst, mask);
}

CR_REF_CLONES static void keep_gradient(int64_t count, const uint8_t *mask, cr_real scale,
                                        const cr_real *diff_dst, cr_real *diff_src) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real value = diff_dst[i] * scale;
    diff_src[i] = mask[i] ? value : 0;
  }
}

/* src, dst, mask (1: kept). */
static crema_status dropout_fwd(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "dropout without a seed");
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  uint8_t *mask = (uint8_t *)call->buffer[2].address;
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float ratio = call->desc->u.dropout.ratio;
  const line to = line_of(call->desc);
  /* The fraction `ratio` of all 2^32 words is below it. */
  const uint64_t threshold = ratio > 0 ? (uint64_t)((double)ratio * 4294967296.0) : 0;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 4)
  for (int64_t i = 0; i < count; i += PIECE) {
    uint32_t words[PIECE];
    cr_cpu_draw(call->scalars->seed, call->scalars->counter, (uint64_t)i / 4, PIECE / 4, words);
    keep(count - i < PIECE ? count - i : PIECE, words, threshold, &to, src + i, dst + i, mask + i);
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status dropout_bwd(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  const uint8_t *mask = (const uint8_t *)call->buffer[1].address;
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real scale = line_of(call->desc).scale;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE) {
    keep_gradient(count - i < PIECE ? count - i : PIECE, mask + i, scale, diff_dst + i,
                  diff_src + i);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(dropout_fwd, DROPOUT_FWD, .run = dropout_fwd);
CR_REF_KERNEL(dropout_bwd, DROPOUT_BWD, .run = dropout_bwd);
