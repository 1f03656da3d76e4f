/* Pooling over any number of spatial axes. A window is clipped to the input; the average's
 * divisor is the window clipped to the padded input. */
#include <float.h>

#include "core/fail.h"
#include "device/cpu/ref_pool.h"
#include "device/cpu/ref_type.h"

static crema_status pool_fwd_plan(cr_plan *plan) {
  return cr_pooling_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* The largest value of a window and its index in the unclipped window; the first one when several
 * are equal. */
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

static cr_real window_average(const cr_slide *s, const cr_span *span, const cr_value *plane) {
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
  return (cr_real)(sum / (double)span->padded_count);
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
          max ? window_max(s, &span, plane, &index) : window_average(s, &span, plane);
      cr_put(dst, to, value);
      if (aux) aux[to] = index;
    }
  }
  return CREMA_OK;
}

/* Spreads one average's gradient over its window. */
static void spread(const cr_slide *s, int64_t index, cr_real gradient, cr_real *plane) {
  cr_span span;
  cr_slide_span(s, index, &span);
  if (span.empty) return;
  const cr_real share = gradient / (cr_real)span.padded_count;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span.begin, sizeof at);
  do {
    cr_real *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span.begin[last]; x < span.end[last]; ++x) row[x] += share;
  } while (cr_span_next(s, &span, at));
}

/* So many planes are summed at once, whatever the number of threads. */
static int64_t groups_of(int64_t planes) {
  return planes < CR_REF_PARTS ? planes : CR_REF_PARTS;
}

crema_status cr_ref_pool_plan_bwd(cr_plan *plan) {
  CR_TRY(cr_pooling_plan(plan, &plan->desc->arg[2].shape, &plan->desc->arg[0].shape));
  const cr_pooling *p = plan->state;
  plan->workspace_bytes = cr_sums_bytes(groups_of(p->planes) * p->slide.in_count);
  return CREMA_OK;
}

/* Plane c of diff_src; `spare` for its sums. */
static void plane_bwd(const cr_call *call, bool average, int64_t c, cr_real *spare) {
  const cr_slide *s = &((const cr_pooling *)call->plan->state)->slide;
  const cr_value *diff_dst = cr_as_values(call->buffer, 0) + c * s->out_count;
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  cr_value *plane = cr_as_values(call->buffer, 2) + c * s->in_count;
  cr_real *sums = cr_sums_begin(plane, s->in_count, false, spare);
  for (int64_t i = 0; i < s->out_count; ++i) {
    if (average) {
      spread(s, i, cr_get(diff_dst, i), sums);
    } else {
      const int64_t index = cr_slide_locate(s, i, aux[c * s->out_count + i]);
      if (index >= 0) sums[index] += cr_get(diff_dst, i);
    }
  }
  cr_sums_end(sums, s->in_count, plane);
}

void cr_ref_pool_bwd(const cr_call *call, bool average) {
  const cr_pooling *p = call->plan->state;
  const int64_t groups = groups_of(p->planes), size = p->slide.in_count;
  cr_real *spare = cr_as_reals(&call->workspace, 0);
#pragma omp parallel for schedule(static) if (p->planes * size >= CR_REF_PARALLEL_MIN)
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t c = p->planes * g / groups; c < p->planes * (g + 1) / groups; ++c) {
      plane_bwd(call, average, c, spare ? spare + g * size : NULL);
    }
  }
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
              .destroy = cr_pooling_destroy);
CR_REF_KERNEL(pool_bwd, POOL_BWD, .plan = cr_ref_pool_plan_bwd, .run = pool_bwd,
              .destroy = cr_pooling_destroy);
