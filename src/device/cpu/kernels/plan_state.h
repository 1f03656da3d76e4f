/* The state of a plan that is one block of memory. */
#ifndef CR_DEVICE_CPU_KERNELS_PLAN_STATE_H
#define CR_DEVICE_CPU_KERNELS_PLAN_STATE_H

#include "device/backend/kernel.h"

/* plan->state = a copy of the `bytes` bytes at `state`. */
crema_status cr_plan_keep(cr_plan *plan, const void *state, size_t bytes) CREMA_MUST_USE;

/* Releases the copy: the destroy() of kernels with such a state. */
void cr_plan_release(cr_plan *plan);

#endif
