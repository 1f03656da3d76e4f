/* Pooling over any number of spatial axes. A window is clipped to the input; the average's
 * divisor is the window clipped to the padded input, or to the input. */
#include <float.h>

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/pool.h"

static crema_status pool_fwd_plan(cr_plan *plan) {
  return cr_pooling_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* The largest value of a window and its index in the unclipped window; the first of equal values.
 */
static cr_real window_max(const cr_slide *s, const cr_span *span, const cr_value *plane,
                          int32_t *index) {
  *index = -1;
  if (span->empty) return -FLT_MAX;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span->begin, sizeof at);
  cr_real best = cr_get(plane, cr_slide_in_index(s, at));
  int64_t best_at[CR_MAX_SPATIAL];
  memcpy(best_at, at, sizeof at);
  do {
    const cr_value *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      if (!(cr_get(row, x) > best)) continue;
      best = cr_get(row, x);
      memcpy(best_at, at, sizeof at);
      best_at[last] = x;
    }
  } while (cr_span_next(s, span, at));
  *index = cr_span_index(s, span, best_at);
  return best;
}

static cr_real window_average(const cr_pooling *p, const cr_span *span, const cr_value *plane) {
  const cr_slide *s = &p->slide;
  if (span->empty) return 0;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span->begin, sizeof at);
  double sum = 0;
  do {
    const cr_value *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      sum += (double)cr_get(row, x);
    }
  } while (cr_span_next(s, span, at));
  return (cr_real)(sum / (double)cr_pooling_divisor(p, span));
}

/* src (N,C,S...), dst (N,C,S'...), aux. */
static crema_status pool_fwd(const cr_call *call) {
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  int32_t *aux = (int32_t *)call->buffer[2].address;
  const bool max = call->desc->u.pool.method == CR_POOL_MAX;
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    const cr_value *plane = src + c * s->in_count;
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t to = c * s->out_count + i;
      cr_span span;
      cr_slide_span(s, i, &span);
      int32_t index = 0;
      const cr_real value =
          max ? window_max(s, &span, plane, &index) : window_average(p, &span, plane);
      cr_put(dst, to, value);
      if (aux) aux[to] = index;
    }
  }
  return CREMA_OK;
}

/* diff_dst, aux (max only), diff_src. */
static crema_status pool_bwd(const cr_call *call) {
  const bool max = call->desc->u.pool.method == CR_POOL_MAX;
  if (max && call->buffer[1].address == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "max pooling: the indices of the maxima are missing");
  }
  cr_ref_pool_bwd(call, !max);
  return CREMA_OK;
}

CR_REF_KERNEL(pool_fwd, POOL_FWD, .plan = pool_fwd_plan, .run = pool_fwd,
              .destroy = cr_plan_release);
CR_REF_KERNEL(pool_bwd, POOL_BWD, .plan = cr_ref_pool_plan_bwd, .run = pool_bwd,
              .destroy = cr_plan_release);
