/* The plans of max, average and stochastic pooling. */
#ifndef CR_DEVICE_CPU_KERNELS_POOLING_H
#define CR_DEVICE_CPU_KERNELS_POOLING_H

#include "device/backend/kernel.h"
#include "device/cpu/kernels/window.h"

typedef struct cr_pooling {
  cr_slide slide;
  int64_t planes; /* N * C */
  bool inside;    /* averages count only elements of the input */
} cr_pooling;

/* Plans u.pool's window over `in` (N,C,S...) giving `out` (N,C,S'...); plan->state becomes a
 * cr_pooling. Errors: CREMA_E_SHAPE, CREMA_E_UNSUPPORTED for a dilated window. */
crema_status cr_pooling_plan(cr_plan *plan, const crema_shape *in,
                             const crema_shape *out) CREMA_MUST_USE;
/* The divisor of the average of a window that is not empty. */
int64_t cr_pooling_divisor(const cr_pooling *pooling, const cr_span *span);

#endif
