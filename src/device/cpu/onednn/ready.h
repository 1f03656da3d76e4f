/* Whether an op may be planned or run now, where memory is short or generated code is refused. */
#ifndef CR_DEVICE_CPU_ONEDNN_READY_H
#define CR_DEVICE_CPU_ONEDNN_READY_H

#include "device/backend/kernel.h"

/* When an allocation fails, oneDNN uses the missing memory or throws a C++ exception, and GCC's
 * OpenMP library ends the process. Neither can be caught from C. Both are therefore called only
 * while more memory is free than they need.
 *
 * The `ready` of the back-end table:
 *
 * - CREMA_E_UNSUPPORTED: plan->kernel calls oneDNN and cannot be used for lack of memory or
 *   threads, or because the system forbids generated code. The first time logs a warning.
 * - CREMA_E_NO_MEMORY: no kernel can be used.
 *
 * Costs two system calls if the process had a memory limit at the first call, else nothing. */
crema_status cr_cpu_ready(const cr_plan *plan, bool planning) CREMA_MUST_USE;

/* True if oneDNN may be called outside a plan. */
bool cr_dnnl_is_ready(void);

#endif
