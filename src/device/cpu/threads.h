/* How many threads an op gets; they receive no signals while they work. */
#ifndef CR_DEVICE_CPU_THREADS_H
#define CR_DEVICE_CPU_THREADS_H

#include "device/backend/kernel.h"

/* How many of `most` threads the op is worth, by its cost (ops.inc). */
int cr_cpu_threads_for(const cr_op_desc *desc, int most);

/* Limits the calling thread's parallel regions while `plan` is made or run: waking and joining
 * threads costs more than a small op, and where processors are shared it can cost a whole time
 * slice. The first call, at plan time, fixes the number, because a library partitions its work
 * then. Until cr_cpu_leave none of these threads receives signals (core/signals.h). Returns the
 * number that cr_cpu_leave restores; 0: nothing was changed. */
int cr_cpu_enter(cr_plan *plan);
void cr_cpu_leave(int before);

/* The same for moving `elements` values; also ended by cr_cpu_leave. */
int cr_cpu_enter_move(int64_t elements);

#endif
