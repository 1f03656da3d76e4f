#include "device/cpu/cpu.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plain_rows.h"

#define CR_ENTRY(name) &cr_##name,

const cr_kernel *const cr_cpu_kernels[] = {CR_FAST_ROWS(CR_ENTRY) CR_REF_ROWS(CR_ENTRY) NULL};
