#include "device/cpu/kernels/pooling.h"

#include "core/fail.h"
#include "device/cpu/kernels/plan_state.h"

crema_status cr_pooling_plan(cr_plan *plan, const crema_shape *in, const crema_shape *out) {
  const cr_window *window = &plan->desc->u.pool.window;
  for (int a = 0; a < window->axes && a < CR_MAX_SPATIAL; ++a) {
    if (window->dilation[a] > 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "pooling with a dilated window");
    }
  }
  /* Pooling has no dilation field, so an unset dilation means dense too. */
  cr_window dense = *window;
  for (int a = 0; a < CR_MAX_SPATIAL; ++a) dense.dilation[a] = 1;
  cr_pooling pool = {.planes = 1, .inside = plan->desc->u.pool.method == CR_POOL_AVERAGE_INPUT};
  CR_TRY(cr_slide_make(&dense, in, out, &pool.slide));
  if (in->dim[0] != out->dim[0] || in->dim[1] != out->dim[1]) {
    char text[2][128];
    return cr_fail(CREMA_E_SHAPE, "pooling of %s to %s",
                   crema_shape_text(in, text[0], sizeof text[0]),
                   crema_shape_text(out, text[1], sizeof text[1]));
  }
  pool.planes = in->dim[0] * in->dim[1];
  return cr_plan_keep(plan, &pool, sizeof pool);
}

int64_t cr_pooling_divisor(const cr_pooling *pooling, const cr_span *span) {
  int64_t count = 1;
  if (!pooling->inside) return span->padded_count;
  for (int a = 0; a < pooling->slide.axes; ++a) count *= span->end[a] - span->begin[a];
  return count;
}
