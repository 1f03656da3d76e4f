#include "device/cpu/cpu.h"

#include "device/cpu/plain_rows.h"

#define CR_PLAIN_ENTRY(name) &cr_##name,

const cr_kernel *const cr_cpu_kernels[] = {CR_PLAIN_ROWS(CR_PLAIN_ENTRY) NULL};
