/* Conversions of element types and orders on a device. */
#ifndef CR_GPU_CONVERT_H
#define CR_GPU_CONVERT_H

#include "device/backend/backend.h"

/* The entry `convert` of a plug-in's table. */
crema_status cr_gpu_convert(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src);

/* The entry `convert_many`. */
crema_status cr_gpu_convert_many(crema_context *context, const cr_conversion *conversion,
                                 int count);

#endif
