/* The report of memory: bytes of each blob, and of the devices. */
#ifndef CREMA_TOOLS_MEMORY_REPORT_H
#define CREMA_TOOLS_MEMORY_REPORT_H

#include "crema/solver.h"

/* Starts counting allocated memory, for the report's totals. */
void cli_memory_report_begin(void);

/* Writes a table of the blobs and parameters of each of the solver's nets, with element types and
 * sums, and the totals of `device` (NULL: the CPU) to standard output. */
void cli_memory_report(crema_solver *solver, crema_device *device);

#endif
