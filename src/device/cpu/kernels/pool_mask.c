/* Max pooling's second top: from indices in windows to indices in planes. */
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/pooling.h"

/* The input's extents are not among the arguments' shapes. */
static crema_status pool_mask_plan(cr_plan *plan) {
  const crema_shape *out = &plan->desc->arg[0].shape;
  crema_shape in = *out;
  for (int a = 0; a + 2 < in.axes && a < CR_MAX_SPATIAL; ++a) {
    in.dim[a + 2] = plan->desc->u.pool.src[a];
  }
  return cr_pooling_plan(plan, &in, out);
}

/* aux (I32), mask: the index in the input plane as a number. */
static crema_status pool_mask(const cr_call *call) {
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const int32_t *aux = (const int32_t *)call->buffer[0].address;
  cr_real *mask = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t at = c * s->out_count + i;
      mask[at] = (cr_real)cr_slide_locate(s, i, aux[at]);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(pool_mask, POOL_MASK, .plan = pool_mask_plan, .run = pool_mask,
              .destroy = cr_plan_release);
