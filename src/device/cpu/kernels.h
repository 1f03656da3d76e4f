/* The CPU's kernel table. */
#ifndef CR_DEVICE_CPU_KERNELS_H
#define CR_DEVICE_CPU_KERNELS_H

#include "device/kernel.h"

/* All rows, best first; the plain reference rows last. Ends with NULL. */
extern const cr_kernel *const cr_cpu_kernels[];

#endif
