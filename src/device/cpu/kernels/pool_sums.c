/* Gradients of pooling: what the values of windows give to the elements of the input. */
#include "core/fail.h"
#include "device/cpu/kernels/pool.h"

/* Spreads one average's gradient over its window. */
static void spread(const cr_pooling *p, int64_t index, cr_real gradient, cr_real *plane) {
  const cr_slide *s = &p->slide;
  cr_span span;
  cr_slide_span(s, index, &span);
  if (span.empty) return;
  const cr_real share = gradient / (cr_real)cr_pooling_divisor(p, &span);
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
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const cr_value *diff_dst = cr_as_values(call->buffer, 0) + c * s->out_count;
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
  cr_value *plane = cr_as_values(call->buffer, 2) + c * s->in_count;
  cr_real *sums = cr_sums_begin(plane, s->in_count, false, spare);
  for (int64_t i = 0; i < s->out_count; ++i) {
    if (average) {
      spread(p, i, cr_get(diff_dst, i), sums);
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
