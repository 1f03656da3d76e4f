/* Local response normalisation (Krizhevsky et al., 2012).
 *
 * s_i = k + alpha / n * (sum of x_j^2 over the window of i), y_i = x_i s_i^-beta; n is the window's
 * element count: size across channels, size^2 within one. The gradient is dx_i = dy_i s_i^-beta - 2
 * alpha beta / n * x_i * (sum of dy_j y_j / s_j over the windows j that see i). The sums are
 * written to the workspace before anything else is written, so that dst may be src and diff_src
 * diff_dst. aux is not used: s is cheaper to recompute than to keep. */
#include <math.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

enum { TILE = 128 };

typedef struct lrn_shape {
  int64_t batch, channels, height, width;
} lrn_shape;

static lrn_shape shape_of(const cr_plan *plan) {
  const int64_t *dim = plan->desc->arg[0].shape.dim;
  return (lrn_shape){dim[0], dim[1], dim[2], dim[3]};
}

static crema_status check(cr_plan *plan, size_t arrays) {
  CR_TRY(cr_check_lrn(plan));
  plan->workspace_bytes = arrays * (size_t)cr_op_arg_count(plan->desc, 0) * sizeof(float);
  return CREMA_OK;
}

static crema_status lrn_fwd_plan(cr_plan *plan) {
  return check(plan, 1);
}
static crema_status lrn_bwd_plan(cr_plan *plan) {
  return check(plan, 2);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* sum[i] = sum over the window of i of v_j, v = x * x when `square`, else x. The window of
 * element i begins `before` elements before it. Across channels. */
static void sum_across(const lrn_shape *s, int64_t size, int64_t before, bool square,
                       const float *x, float *sum) {
  const int64_t plane = s->height * s->width, tiles = (plane + TILE - 1) / TILE;
#pragma omp parallel for collapse(3) \
    schedule(static) if (s->batch * s->channels * plane >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s->batch; ++n) {
    for (int64_t c = 0; c < s->channels; ++c) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t length = plane - t * TILE < TILE ? plane - t * TILE : TILE;
        const float *image = x + n * s->channels * plane + t * TILE;
        float acc[TILE] = {0};
        const int64_t end = least(c - before + size, s->channels);
        for (int64_t j = c > before ? c - before : 0; j < end; ++j) {
          const float *v = image + j * plane;
          if (square) {
#pragma omp simd
            for (int64_t i = 0; i < length; ++i) acc[i] += v[i] * v[i];
          } else {
#pragma omp simd
            for (int64_t i = 0; i < length; ++i) acc[i] += v[i];
          }
        }
        float *out = sum + (n * s->channels + c) * plane + t * TILE;
        for (int64_t i = 0; i < length; ++i) out[i] = acc[i];
      }
    }
  }
}

/* The same within one channel: size x size windows over rows and columns. */
static void sum_within(const lrn_shape *s, int64_t size, int64_t before, bool square,
                       const float *x, float *sum) {
  const int64_t plane = s->height * s->width;
#pragma omp parallel for collapse(2) \
    schedule(static) if (s->batch * s->channels * plane >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->batch * s->channels; ++c) {
    for (int64_t y = 0; y < s->height; ++y) {
      const float *v = x + c * plane;
      for (int64_t z = 0; z < s->width; ++z) {
        float acc = 0;
        const int64_t rows = least(y - before + size, s->height);
        const int64_t columns = least(z - before + size, s->width);
        for (int64_t i = y > before ? y - before : 0; i < rows; ++i) {
          for (int64_t j = z > before ? z - before : 0; j < columns; ++j) {
            const float value = v[i * s->width + j];
            acc += square ? value * value : value;
          }
        }
        sum[c * plane + y * s->width + z] = acc;
      }
    }
  }
}

static void window_sums(const cr_plan *plan, int64_t before, bool square, const float *x,
                        float *sum) {
  const lrn_shape s = shape_of(plan);
  const cr_lrn_params *p = &plan->desc->u.lrn;
  if (p->within_channel) {
    sum_within(&s, p->size, before, square, x, sum);
  } else {
    sum_across(&s, p->size, before, square, x, sum);
  }
}

static float share(const cr_lrn_params *p) {
  const float size = (float)p->size;
  return p->alpha / (p->within_channel ? size * size : size);
}

/* s^-beta; the usual 3/4 without a call of pow. */
static inline float falling_power(float s, float beta) {
  if (beta == 0.75f) return 1 / (sqrtf(s) * sqrtf(sqrtf(s)));
  return powf(s, -beta);
}

/* src, dst, aux. */
static crema_status lrn_fwd(const cr_call *call) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1), *sum = cr_f32(&call->workspace, 0);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const float factor = share(p), k = p->k, beta = p->beta;
  window_sums(call->plan, (p->size - 1) / 2, true, src, sum);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) dst[i] = src[i] * falling_power(k + factor * sum[i], beta);
  return CREMA_OK;
}

/* src, dst, diff_dst, aux, diff_src. */
static crema_status lrn_bwd(const cr_call *call) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const float *src = cr_f32(call->buffer, 0), *diff_dst = cr_f32(call->buffer, 2);
  float *diff_src = cr_f32(call->buffer, 4);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  if (count == 0) return CREMA_OK; /* there is no workspace to point into */
  /* dst is recomputed from src, because a layer in place may have overwritten it. `ratio` holds dy
   * y / s. `diff_src` may be `diff_dst`, so the window sums of `ratio` go over `power` once the
   * first term has been used. */
  float *power = cr_f32(&call->workspace, 0), *ratio = power + count;
  const float factor = share(p), k = p->k, beta = p->beta;
  const int64_t before = (p->size - 1) / 2;
  window_sums(call->plan, before, true, src, power);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const float s = k + factor * power[i];
    const float first = diff_dst[i] * falling_power(s, beta);
    ratio[i] = first * src[i] / s;
    diff_src[i] = first;
  }
  /* Element i is seen by the windows of i - (size - 1 - before) ... i + before. */
  window_sums(call->plan, p->size - 1 - before, false, ratio, power);
  const float slope = 2 * factor * beta;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) diff_src[i] -= slope * src[i] * power[i];
  return CREMA_OK;
}

CR_KERNEL(lrn_fwd_f32_ref, LRN_FWD, .plan = lrn_fwd_plan, .run = lrn_fwd);
CR_KERNEL(lrn_bwd_f32_ref, LRN_BWD, .plan = lrn_bwd_plan, .run = lrn_bwd);
