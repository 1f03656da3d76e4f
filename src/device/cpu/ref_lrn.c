/* Local response normalisation (Krizhevsky et al., 2012).
 *
 * s_i = k + alpha / n * (sum of x_j^2 over the window of i), y_i = x_i s_i^-beta; n is the window's
 * element count: size across channels, size^2 within one. The gradient is dx_i = dy_i s_i^-beta - 2
 * alpha beta / n * x_i * (sum of dy_j y_j / s_j over the windows j that see i). The sums are
 * written to the workspace before anything else is written, so that dst may be src and diff_src
 * diff_dst. aux is not used: s is cheaper to recompute than to keep. */

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/ref_type.h"

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
  plan->workspace_bytes = arrays * (size_t)cr_op_arg_count(plan->desc, 0) * sizeof(cr_real);
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

/* What is summed: the squares of values, or numbers as they are. */
typedef struct terms {
  const cr_value *squared; /* NULL: `plain` */
  const cr_real *plain;
} terms;

static inline cr_real square(const cr_value *x, int64_t i) {
  const cr_real value = cr_get(x, i);
  return value * value;
}

/* sum[i] = sum over the window of i of x_j. The window of element i begins `before` elements before
 * it. Across channels. */
static void sum_across(const lrn_shape *s, int64_t size, int64_t before, terms x, cr_real *sum) {
  const int64_t plane = s->height * s->width, tiles = (plane + TILE - 1) / TILE;
#pragma omp parallel for collapse(3) \
    schedule(static) if (s->batch * s->channels * plane >= CR_REF_PARALLEL_MIN)
  for (int64_t n = 0; n < s->batch; ++n) {
    for (int64_t c = 0; c < s->channels; ++c) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t length = plane - t * TILE < TILE ? plane - t * TILE : TILE;
        const int64_t image = n * s->channels * plane + t * TILE;
        cr_real acc[TILE] = {0};
        const int64_t end = least(c - before + size, s->channels);
        for (int64_t j = c > before ? c - before : 0; j < end; ++j) {
          const int64_t at = image + j * plane;
          if (x.squared) {
#pragma omp simd
            for (int64_t i = 0; i < length; ++i) acc[i] += square(x.squared, at + i);
          } else {
#pragma omp simd
            for (int64_t i = 0; i < length; ++i) acc[i] += x.plain[at + i];
          }
        }
        cr_real *out = sum + (n * s->channels + c) * plane + t * TILE;
        for (int64_t i = 0; i < length; ++i) out[i] = acc[i];
      }
    }
  }
}

/* The same within one channel: size x size windows over rows and columns. */
static void sum_within(const lrn_shape *s, int64_t size, int64_t before, terms x, cr_real *sum) {
  const int64_t plane = s->height * s->width;
#pragma omp parallel for collapse(2) \
    schedule(static) if (s->batch * s->channels * plane >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->batch * s->channels; ++c) {
    for (int64_t y = 0; y < s->height; ++y) {
      for (int64_t z = 0; z < s->width; ++z) {
        cr_real acc = 0;
        const int64_t rows = least(y - before + size, s->height);
        const int64_t columns = least(z - before + size, s->width);
        for (int64_t i = y > before ? y - before : 0; i < rows; ++i) {
          for (int64_t j = z > before ? z - before : 0; j < columns; ++j) {
            const int64_t at = c * plane + i * s->width + j;
            acc += x.squared ? square(x.squared, at) : x.plain[at];
          }
        }
        sum[c * plane + y * s->width + z] = acc;
      }
    }
  }
}

static void window_sums(const cr_plan *plan, int64_t before, terms x, cr_real *sum) {
  const lrn_shape s = shape_of(plan);
  const cr_lrn_params *p = &plan->desc->u.lrn;
  if (p->within_channel) {
    sum_within(&s, p->size, before, x, sum);
  } else {
    sum_across(&s, p->size, before, x, sum);
  }
}

static cr_real share(const cr_lrn_params *p) {
  const cr_real size = (cr_real)p->size;
  return p->alpha / (p->within_channel ? size * size : size);
}

/* s^-beta; the usual 3/4 without a call of pow. */
static inline cr_real falling_power(cr_real s, cr_real beta) {
  if (beta == 0.75) return 1 / (sqrt(s) * sqrt(sqrt(s)));
  return pow(s, -beta);
}

/* src, dst, aux. */
static crema_status lrn_fwd(const cr_call *call) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  cr_real *sum = cr_as_reals(&call->workspace, 0);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  const cr_real factor = share(p), k = p->k, beta = p->beta;
  window_sums(call->plan, (p->size - 1) / 2, (terms){.squared = src}, sum);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    cr_put(dst, i, cr_get(src, i) * falling_power(k + factor * sum[i], beta));
  }
  return CREMA_OK;
}

/* src, dst, diff_dst, aux, diff_src. */
static crema_status lrn_bwd(const cr_call *call) {
  const cr_lrn_params *p = &call->desc->u.lrn;
  const cr_value *src = cr_as_values(call->buffer, 0), *diff_dst = cr_as_values(call->buffer, 2);
  cr_value *diff_src = cr_as_values(call->buffer, 4);
  const int64_t count = cr_op_arg_count(call->desc, 0);
  if (count == 0) return CREMA_OK; /* there is no workspace to point into */
  /* dst is recomputed from src, because a layer in place may have overwritten it. `ratio` holds dy
   * y / s. `diff_src` may be `diff_dst`, so the window sums of `ratio` go over `power` once the
   * first term has been used. */
  cr_real *power = cr_as_reals(&call->workspace, 0), *ratio = power + count;
  const cr_real factor = share(p), k = p->k, beta = p->beta;
  const int64_t before = (p->size - 1) / 2;
  window_sums(call->plan, before, (terms){.squared = src}, power);
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const cr_real s = k + factor * power[i];
    const cr_real first = cr_get(diff_dst, i) * falling_power(s, beta);
    ratio[i] = first * cr_get(src, i) / s;
    cr_put(diff_src, i, first);
  }
  /* Element i is seen by the windows of i - (size - 1 - before) ... i + before. */
  window_sums(call->plan, p->size - 1 - before, (terms){.plain = ratio}, power);
  const cr_real slope = 2 * factor * beta;
#pragma omp parallel for simd schedule(static) if (parallel : count >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    cr_put(diff_src, i, cr_get(diff_src, i) - slope * cr_get(src, i) * power[i]);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(lrn_fwd, LRN_FWD, .plan = lrn_fwd_plan, .run = lrn_fwd);
CR_REF_KERNEL(lrn_bwd, LRN_BWD, .plan = lrn_bwd_plan, .run = lrn_bwd);
