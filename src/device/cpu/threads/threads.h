/* How many threads an op gets; they receive no signals while they work. */
#ifndef CR_DEVICE_CPU_THREADS_THREADS_H
#define CR_DEVICE_CPU_THREADS_THREADS_H

#include "device/backend/kernel.h"

/* How many of `most` threads the op is worth, by its cost (ops.inc). */
int cr_cpu_threads_for(const cr_op_desc *desc, int most);

/* The maximum number of threads of an op of the context: the number in the calling thread's
 * parallel regions, or the context's limit if that is lower. */
int cr_cpu_threads_of(const crema_context *context);

/* Limits the calling thread's parallel regions while `plan` is made or run. Waking and joining
 * threads takes longer than a small op. On shared processors it can cost a full time slice. The
 * number is fixed when the plan is made, because a library partitions its work then. Until
 * cr_cpu_leave none of these threads receives signals (core/signals.h). Returns the number that
 * cr_cpu_leave restores; 0: no change. */
int cr_cpu_enter_plan(cr_plan *plan);
int cr_cpu_enter_run(const cr_plan *plan);
void cr_cpu_leave(int before);

/* The same for moving `elements` values; also ended by cr_cpu_leave. */
int cr_cpu_enter_move(const crema_context *context, int64_t elements);

/* The `workers` and `spread` of the back-end table. */
int cr_cpu_workers(const crema_context *context, double multiply_adds);
crema_status cr_cpu_spread(int workers, int64_t count, cr_host_work *work,
                           void *state) CREMA_MUST_USE;

#endif
