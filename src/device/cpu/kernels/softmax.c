/* Softmax along an axis and its gradient; values are (outer, C, inner):
 *
 *   y_c = exp(x_c - top) / sum,  dx_c = y_c (dy_c - sum of dy_k y_k over the classes k),
 *
 * where top is the largest x_c, so that no power overflows, and sum adds up the powers of the C
 * classes. Where the axis is the last one, loops run along the classes of a row, else along
 * positions that lie side by side. */
#include "device/cpu/kernels/softmax.h"

#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/vector_math.h"

/* The block is a row of `classes` values. y: NULL or x are possible. */
CR_REF_CLONES static void softmax_row(int64_t classes, const cr_real *x, cr_real *y,
                                      cr_softmax_block *b) {
  cr_real top = -INFINITY;
  double sum = 0;
#pragma omp simd reduction(max : top)
  for (int64_t c = 0; c < classes; ++c) top = x[c] > top ? x[c] : top;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) {
    const cr_real power = cr_ref_exp_below_0(false, x[c] - top);
    if (y != NULL) y[c] = power;
    sum += (double)power;
  }
  b->top[0] = top, b->sum[0] = (cr_real)sum;
  const cr_real scale = (cr_real)(1 / sum);
#pragma omp simd
  for (int64_t c = 0; c < (y == NULL ? 0 : classes); ++c) y[c] *= scale;
}

/* The same for a block of positions side by side, whose classes lie `step` apart. */
CR_REF_CLONES static void softmax_planes(int64_t classes, int64_t step, const cr_real *x,
                                         cr_real *y, cr_softmax_block *b) {
  const int64_t count = b->count;
  cr_real *top = b->top, scale[CR_SOFTMAX_POSITIONS];
  double sum[CR_SOFTMAX_POSITIONS] = {0};
  for (int64_t i = 0; i < count; ++i) top[i] = -INFINITY;
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) top[i] = x[at + i] > top[i] ? x[at + i] : top[i];
  }
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const cr_real power = cr_ref_exp_below_0(false, x[at + i] - top[i]);
      if (y != NULL) y[at + i] = power;
      sum[i] += (double)power;
    }
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    b->sum[i] = (cr_real)sum[i];
    scale[i] = (cr_real)(1 / sum[i]);
  }
  for (int64_t at = 0; at < (y == NULL ? 0 : classes * step); at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[at + i] *= scale[i];
  }
}

static int64_t blocks_of(const cr_split *s) {
  return s->outer * ((s->inner + CR_SOFTMAX_POSITIONS - 1) / CR_SOFTMAX_POSITIONS);
}

static void place(const cr_split *s, int64_t b, cr_softmax_block *out) {
  const int64_t strips = (s->inner + CR_SOFTMAX_POSITIONS - 1) / CR_SOFTMAX_POSITIONS;
  const int64_t sample = b / strips, begin = b % strips * CR_SOFTMAX_POSITIONS;
  out->first = sample * s->inner + begin;
  out->at = sample * s->channels * s->inner + begin;
  out->count = cr_least(CR_SOFTMAX_POSITIONS, s->inner - begin);
}

static void softmax_block(const cr_split *s, int64_t b, const cr_real *x, cr_real *y,
                          cr_softmax_block *out) {
  place(s, b, out);
  x += out->at;
  if (y != NULL) y += out->at;
  if (s->inner == 1) softmax_row(s->channels, x, y, out);
  else softmax_planes(s->channels, s->inner, x, y, out);
}

#ifdef CR_REF_F64
int64_t cr_softmax_plain_blocks(const cr_split *s) {
  return blocks_of(s);
}
void cr_softmax_plain_place(const cr_split *s, int64_t b, cr_softmax_block *out) {
  place(s, b, out);
}
void cr_softmax_plain_block(const cr_split *s, int64_t b, const cr_real *x, cr_real *y,
                            cr_softmax_block *out) {
  softmax_block(s, b, x, y, out);
}
#endif

/* src, dst. */
static crema_status softmax_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_real *x = cr_as_reals(call->buffer, 0);
  cr_real *y = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(&s); ++b) {
    cr_softmax_block block;
    softmax_block(&s, b, x, y, &block);
  }
  return CREMA_OK;
}

/* The gradient of a block of `count` positions; a row is one whose classes lie 1 apart. */
CR_REF_CLONES static void gradient(int64_t classes, int64_t step, int64_t count, const cr_real *y,
                                   const cr_real *dy, cr_real *dx) {
  double sum[CR_SOFTMAX_POSITIONS] = {0}, all = 0;
#pragma omp simd reduction(+ : all)
  for (int64_t c = 0; c < (step == 1 ? classes : 0); ++c) all += (double)y[c] * (double)dy[c];
#pragma omp simd
  for (int64_t c = 0; c < (step == 1 ? classes : 0); ++c) {
    dx[c] = (cr_real)((double)y[c] * ((double)dy[c] - all));
  }
  if (step == 1) return;
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += (double)y[at + i] * (double)dy[at + i];
  }
  for (int64_t at = 0; at < classes * step; at += step) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      dx[at + i] = (cr_real)((double)y[at + i] * ((double)dy[at + i] - sum[i]));
    }
  }
}

/* dst, diff_dst, diff_src. */
static crema_status softmax_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, call->desc->u.axis);
  const cr_real *y = cr_as_reals(call->buffer, 0), *dy = cr_as_reals(call->buffer, 1);
  cr_real *dx = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t b = 0; b < blocks_of(&s); ++b) {
    cr_softmax_block at;
    place(&s, b, &at);
    gradient(s.channels, s.inner, at.count, y + at.at, dy + at.at, dx + at.at);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(softmax_fwd, SOFTMAX_FWD, .run = softmax_fwd);
CR_REF_KERNEL(softmax_bwd, SOFTMAX_BWD, .run = softmax_bwd);
