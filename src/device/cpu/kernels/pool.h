/* What the reference kernels of max, average and stochastic pooling share. */
#ifndef CR_DEVICE_CPU_KERNELS_POOL_H
#define CR_DEVICE_CPU_KERNELS_POOL_H

#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/pooling.h"

#define cr_ref_pool_plan_bwd CR_REF_NAME(cr_ref_pool_plan_bwd)
#define cr_ref_pool_bwd CR_REF_NAME(cr_ref_pool_bwd)

/* kernel.plan of the gradients, whose arguments are diff_dst, aux, diff_src. */
crema_status cr_ref_pool_plan_bwd(cr_plan *plan) CREMA_MUST_USE;

/* diff_src = the sum of what each value of diff_dst gives to the elements of its window: an equal
 * share to each when `average`, else all to the one that aux names; indices outside the input are
 * left out. */
void cr_ref_pool_bwd(const cr_call *call, bool average);

#endif
