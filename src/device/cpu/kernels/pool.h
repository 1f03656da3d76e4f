/* Shared by the plain kernels of max, average and stochastic pooling. */
#ifndef CR_DEVICE_CPU_KERNELS_POOL_H
#define CR_DEVICE_CPU_KERNELS_POOL_H

#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/pooling.h"

#define cr_ref_pool_plan_bwd CR_REF_NAME(cr_ref_pool_plan_bwd)
#define cr_ref_pool_bwd CR_REF_NAME(cr_ref_pool_bwd)

/* kernel.plan of the gradients, whose arguments are diff_dst, aux, diff_src. */
crema_status cr_ref_pool_plan_bwd(cr_plan *plan) CREMA_MUST_USE;

/* diff_src = the sum over windows of diff_dst: with `average` each element of a window gets an
 * equal share, else the element that aux names gets all. Skips indices outside the input. */
void cr_ref_pool_bwd(const cr_call *call, bool average);

#endif
