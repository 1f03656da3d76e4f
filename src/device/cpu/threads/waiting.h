/* How idle OpenMP threads wait. */
#ifndef CR_DEVICE_CPU_THREADS_WAITING_H
#define CR_DEVICE_CPU_THREADS_WAITING_H

#include <stdbool.h>

/* GCC's OpenMP library lets a thread without work spin for some 5 ms before it sleeps. Between the
 * ops of a net that is the fastest way to wait while every thread has a processor. Spinning does
 * harm in two cases. If other programs need the processors, a parallel loop waits for a thread that
 * is not running while all other threads spin. A pass then takes ten times as long. While a net is
 * planned, one thread works and touches fresh memory alongside the spinning threads.
 *
 * The library spins a few microseconds only while it manages more threads than processors. In these
 * two cases crema keeps a sleeping thread that has started a team of OpenMP threads, which makes it
 * so. It does nothing if the environment sets the way to wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), if
 * only one thread works, or if more threads would sleep than work. */

/* An op is about to be planned: no spinning for the next moments. */
void cr_cpu_waiting_planned(void);

/* An op is about to run. Once in a while, reads how long the calling thread waited for a processor,
 * and starts or ends spinning. Long pauses between ops do not count. Costs one reading of the
 * clock. */
void cr_cpu_waiting_look(void);

/* The op has run; a no-op without a look before it. Costs the same. */
void cr_cpu_waiting_leave(void);

/* True while the calls above make idle threads sleep soon. */
bool cr_cpu_waiting_is_calm(void);

#endif
