/* Pooling over any number of spatial axes. A window is clipped to the input; the average's
 * divisor is the window clipped to the padded input. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/ref.h"
#include "device/cpu/ref_pool.h"
#include "device/cpu/ref_rows.h"

crema_status cr_ref_pool_plan(cr_plan *plan, const crema_shape *in, const crema_shape *out) {
  const cr_window *window = &plan->desc->u.pool.window;
  for (int a = 0; a < window->axes && a < CR_MAX_SPATIAL; ++a) {
    if (window->dilation[a] > 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "pooling with a dilated window");
    }
  }
  /* Pooling has no dilation of its own, so an unset one means dense as well. */
  cr_window dense = *window;
  for (int a = 0; a < CR_MAX_SPATIAL; ++a) dense.dilation[a] = 1;
  cr_ref_pool pool = {.planes = 1};
  CR_TRY(cr_slide_make(&dense, in, out, &pool.slide));
  if (in->dim[0] != out->dim[0] || in->dim[1] != out->dim[1]) {
    char text[2][128];
    return cr_fail(CREMA_E_SHAPE, "pooling of %s to %s",
                   crema_shape_text(in, text[0], sizeof text[0]),
                   crema_shape_text(out, text[1], sizeof text[1]));
  }
  pool.planes = in->dim[0] * in->dim[1];
  cr_ref_pool *kept = malloc(sizeof *kept);
  if (!kept) return cr_fail_memory(sizeof *kept, "the plan of a pooling");
  *kept = pool;
  plan->state = kept;
  return CREMA_OK;
}

crema_status cr_ref_pool_plan_bwd(cr_plan *plan) {
  return cr_ref_pool_plan(plan, &plan->desc->arg[2].shape, &plan->desc->arg[0].shape);
}

void cr_ref_pool_destroy(cr_plan *plan) {
  free(plan->state);
}

void cr_ref_pool_scatter(const cr_ref_pool *p, const float *diff_dst, const int32_t *aux,
                         float *diff_src) {
  const cr_slide *s = &p->slide;
#pragma omp parallel for schedule(static) if (p->planes * s->in_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    float *plane = diff_src + c * s->in_count;
    memset(plane, 0, (size_t)s->in_count * sizeof *plane);
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t from = c * s->out_count + i;
      const int64_t index = cr_slide_locate(s, i, aux[from]);
      if (index >= 0) plane[index] += diff_dst[from];
    }
  }
}

static crema_status pool_fwd_plan(cr_plan *plan) {
  return cr_ref_pool_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* The input's extents are not among the arguments' shapes. */
static crema_status pool_mask_plan(cr_plan *plan) {
  const crema_shape *out = &plan->desc->arg[0].shape;
  crema_shape in = *out;
  for (int a = 0; a + 2 < in.axes && a < CR_MAX_SPATIAL; ++a) {
    in.dim[a + 2] = plan->desc->u.pool.src[a];
  }
  return cr_ref_pool_plan(plan, &in, out);
}

/* The largest value of a window and its index in the unclipped window; the first one when several
 * are equal. */
static float window_max(const cr_slide *s, const cr_span *span, const float *plane,
                        int32_t *index) {
  *index = -1;
  if (span->empty) return -FLT_MAX;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span->begin, sizeof at);
  float best = plane[cr_slide_in_index(s, at)];
  int64_t best_at[CR_MAX_SPATIAL];
  memcpy(best_at, at, sizeof at);
  do {
    const float *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      if (!(row[x] > best)) continue;
      best = row[x];
      memcpy(best_at, at, sizeof at);
      best_at[last] = x;
    }
  } while (cr_span_next(s, span, at));
  *index = cr_span_index(s, span, best_at);
  return best;
}

static float window_average(const cr_slide *s, const cr_span *span, const float *plane) {
  if (span->empty) return 0;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span->begin, sizeof at);
  double sum = 0;
  do {
    const float *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) sum += (double)row[x];
  } while (cr_span_next(s, span, at));
  return (float)(sum / (double)span->padded_count);
}

/* src (N,C,S...), dst (N,C,S'...), aux. */
static crema_status pool_fwd(const cr_call *call) {
  const cr_ref_pool *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  int32_t *aux = (int32_t *)call->buffer[2].address;
  const bool max = call->desc->u.pool.method == CR_POOL_MAX;
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    const float *plane = src + c * s->in_count;
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t to = c * s->out_count + i;
      cr_span span;
      cr_slide_span(s, i, &span);
      int32_t index = 0;
      dst[to] = max ? window_max(s, &span, plane, &index) : window_average(s, &span, plane);
      if (aux) aux[to] = index;
    }
  }
  return CREMA_OK;
}

/* Spreads one average's gradient over its window. */
static void spread(const cr_slide *s, int64_t index, float gradient, float *plane) {
  cr_span span;
  cr_slide_span(s, index, &span);
  if (span.empty) return;
  const float share = gradient / (float)span.padded_count;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span.begin, sizeof at);
  do {
    float *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span.begin[last]; x < span.end[last]; ++x) row[x] += share;
  } while (cr_span_next(s, &span, at));
}

/* diff_dst, aux (max only), diff_src. */
static crema_status pool_bwd(const cr_call *call) {
  const cr_ref_pool *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const bool max = call->desc->u.pool.method == CR_POOL_MAX;
  if (max) {
    if (!aux)
      return cr_fail(CREMA_E_ARGUMENT, "max pooling: the indices of the maxima are missing");
    cr_ref_pool_scatter(p, diff_dst, aux, diff_src);
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (p->planes * s->in_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    float *plane = diff_src + c * s->in_count;
    memset(plane, 0, (size_t)s->in_count * sizeof *plane);
    for (int64_t i = 0; i < s->out_count; ++i) {
      spread(s, i, diff_dst[c * s->out_count + i], plane);
    }
  }
  return CREMA_OK;
}

/* aux (I32), mask: the index in the input plane as a float. */
static crema_status pool_mask(const cr_call *call) {
  const cr_ref_pool *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const int32_t *aux = (const int32_t *)call->buffer[0].address;
  float *mask = cr_f32(call->buffer, 1);
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t at = c * s->out_count + i;
      mask[at] = (float)cr_slide_locate(s, i, aux[at]);
    }
  }
  return CREMA_OK;
}

CR_KERNEL(pool_fwd_f32_ref, POOL_FWD, .plan = pool_fwd_plan, .run = pool_fwd,
          .destroy = cr_ref_pool_destroy);
CR_KERNEL(pool_bwd_f32_ref, POOL_BWD, .plan = cr_ref_pool_plan_bwd, .run = pool_bwd,
          .destroy = cr_ref_pool_destroy);
CR_KERNEL(pool_mask_f32_ref, POOL_MASK, .plan = pool_mask_plan, .run = pool_mask,
          .destroy = cr_ref_pool_destroy);
