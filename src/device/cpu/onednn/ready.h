/* Whether an op may be planned or run now, where memory is short or generated code is refused. */
#ifndef CR_DEVICE_CPU_ONEDNN_READY_H
#define CR_DEVICE_CPU_ONEDNN_READY_H

#include "device/backend/kernel.h"

/* oneDNN and GCC's OpenMP library do not survive an allocation that fails: the one uses what it did
 * not get or ends by a C++ exception, the other ends the process. They are therefore only called
 * while there is more memory left than they can need.
 *
 * The `ready` of the back-end table. CREMA_E_UNSUPPORTED: plan->kernel, which calls oneDNN, cannot
 * be used for lack of memory or of threads, or because the system allows no generated code; the
 * first time that is logged as a warning. CREMA_E_NO_MEMORY: no kernel can be used. Costs two
 * system calls where the process had a limit on its memory when it was first asked for, else
 * nothing. */
crema_status cr_cpu_ready(const cr_plan *plan, bool planning) CREMA_MUST_USE;

/* Whether oneDNN may be called outside a plan. */
bool cr_dnnl_is_ready(void);

/* Whether threads may be asked of OpenMP outside a plan. */
bool cr_openmp_is_ready(void);

#endif
