/* The functions of the CPU's back-end table. */
#ifndef CR_DEVICE_CPU_CPU_H
#define CR_DEVICE_CPU_CPU_H

#include "device/backend/backend.h"

/* The kernel table, ends with NULL (kernels.c). */
extern const cr_kernel *const cr_cpu_kernels[];

/* Converts `count` values where at least one of the two formats is a layout of oneDNN
 * (onednn/layout.c). Errors: CREMA_E_UNSUPPORTED, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_dnnl_convert(crema_context *context, int64_t count, cr_format dst_format,
                             crema_devptr dst, cr_format src_format,
                             crema_devptr src) CREMA_MUST_USE;

#endif
