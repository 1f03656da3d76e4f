/* The threads that work with the calling one. */
#ifndef CR_DEVICE_CPU_TEAM_H
#define CR_DEVICE_CPU_TEAM_H

/* How many threads, at most `wanted`, the calling thread may have in a parallel region, itself
 * included. OpenMP ends the process when a thread cannot be started, so where more are wanted than
 * before they are tried out first, and then started as OpenMP's. The first time that the system
 * has fewer to give is logged as a warning. */
int cr_cpu_team(int wanted);

#endif
