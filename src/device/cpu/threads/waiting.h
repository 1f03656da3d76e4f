/* How idle OpenMP threads wait. */
#ifndef CR_DEVICE_CPU_THREADS_WAITING_H
#define CR_DEVICE_CPU_THREADS_WAITING_H

#include <stdbool.h>

/* GCC's OpenMP library lets a thread without work spin for some 5 ms before it sleeps. Between the
 * ops of a net that is the fastest way to wait, as long as every thread has a processor. It does
 * harm in two cases: when other programs need the processors (a parallel loop then waits for a
 * thread that is not running while the others spin, and a pass takes ten times as long), and while
 * a net is planned, when one thread works and touches fresh memory beside the spinning ones.
 *
 * The library spins a few microseconds only while it manages more threads than there are
 * processors. In these two cases crema therefore keeps a sleeping thread that has started OpenMP
 * threads of its own, which makes it so. Nothing is done where the environment says how to wait
 * (OMP_WAIT_POLICY, GOMP_SPINCOUNT), where one thread works alone, or where more threads would have
 * to sleep than work. */

/* An op is about to be planned: no spinning for the next moments. */
void cr_cpu_waiting_planned(void);

/* An op is about to run: once in a while, looks how long the calling thread had to wait for a
 * processor, and starts or ends spinning. What it waited between ops, other than for moments, says
 * nothing of the ops that follow. Costs one reading of the clock. */
void cr_cpu_waiting_look(void);

/* The op has run; a no-op where there was no look before it. Costs the same. */
void cr_cpu_waiting_leave(void);

/* True while the calls above make idle threads sleep soon. */
bool cr_cpu_waiting_is_calm(void);

#endif
