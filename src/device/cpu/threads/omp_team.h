/* Teams of OpenMP threads, where memory or threads are limited. */
#ifndef CR_DEVICE_CPU_THREADS_OMP_TEAM_H
#define CR_DEVICE_CPU_THREADS_OMP_TEAM_H

#include <stdbool.h>

#include "crema/status.h"

/* The number of threads, at most `wanted`, that the calling thread may have in a parallel region,
 * itself included. OpenMP ends the process if a thread cannot be started, so a larger team than
 * ever before is tried with plain threads first. The first time that the system allows fewer is
 * logged as a warning. */
int cr_cpu_team(int wanted);

/* OpenMP ends the process if it gets no memory; it needs some kilobytes.
 * Errors: CREMA_E_NO_MEMORY if less than 2 MB are free. */
crema_status cr_openmp_need_memory(void) CREMA_MUST_USE;

/* The same as a question. */
bool cr_openmp_is_ready(void);

#endif
