/* What the reference kernels of max, average and stochastic pooling share. */
#ifndef CR_DEVICE_CPU_REF_POOL_H
#define CR_DEVICE_CPU_REF_POOL_H

#include "device/backend/kernel.h"
#include "device/cpu/ref_window.h"

typedef struct cr_ref_pool {
  cr_slide slide;
  int64_t planes; /* N * C */
} cr_ref_pool;

/* Plans u.pool's window over `in` (N,C,S...) giving `out` (N,C,S'...); plan->state becomes a
 * cr_ref_pool. Errors: CREMA_E_SHAPE, CREMA_E_UNSUPPORTED for a dilated window. */
crema_status cr_ref_pool_plan(cr_plan *plan, const crema_shape *in,
                              const crema_shape *out) CREMA_MUST_USE;
/* kernel.plan of the gradients, whose arguments are diff_dst, aux, diff_src. */
crema_status cr_ref_pool_plan_bwd(cr_plan *plan) CREMA_MUST_USE;
/* kernel.destroy */
void cr_ref_pool_destroy(cr_plan *plan);

/* diff_src = each value of diff_dst at the index in its window that aux names, added up; indices
 * outside the input are left out. */
void cr_ref_pool_scatter(const cr_ref_pool *pool, const float *diff_dst, const int32_t *aux,
                         float *diff_src);

#endif
