/* The threads that work with the calling one. */
#ifndef CR_DEVICE_CPU_THREADS_OMP_TEAM_H
#define CR_DEVICE_CPU_THREADS_OMP_TEAM_H

/* How many threads, at most `wanted`, the calling thread may have in a parallel region, itself
 * included. OpenMP ends the process when a thread cannot be started, so where more are wanted than
 * ever before, plain threads are started first to see whether it can be done. The first time that
 * the system allows fewer is logged as a warning. */
int cr_cpu_team(int wanted);

#endif
