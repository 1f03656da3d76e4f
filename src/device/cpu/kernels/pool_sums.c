/* Gradients of pooling: from windows to the elements of the input. */
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

crema_status cr_ref_pool_plan_bwd(cr_plan *plan) {
  return cr_pooling_plan(plan, &plan->desc->arg[2].shape, &plan->desc->arg[0].shape);
}

void cr_ref_pool_bwd(const cr_call *call, bool average) {
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const int32_t *aux = (const int32_t *)call->buffer[1].address;
#pragma omp parallel for schedule(static) if (p->planes * s->in_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    const cr_value *diff_dst = cr_as_values(call->buffer, 0) + c * s->out_count;
    cr_real *plane = cr_as_reals(call->buffer, 2) + c * s->in_count;
    memset(plane, 0, (size_t)s->in_count * sizeof *plane);
    for (int64_t i = 0; i < s->out_count; ++i) {
      if (average) {
        spread(p, i, cr_get(diff_dst, i), plane);
      } else {
        const int64_t index = cr_slide_locate(s, i, aux[c * s->out_count + i]);
        if (index >= 0) plane[index] += cr_get(diff_dst, i);
      }
    }
  }
}
