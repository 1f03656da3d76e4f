/* Conversion between plain element types. */
#ifndef CR_DEVICE_BACKEND_CONVERT_H
#define CR_DEVICE_BACKEND_CONVERT_H

#include "crema/types.h"

/* Converts `count` values between plain element types at host addresses. Results are rounded to
 * nearest even; integers are limited to their range (NaN becomes 0); a bool is 1 for all but 0.
 * Errors: CREMA_E_TYPE for an unknown element type. */
crema_status cr_convert_plain(int64_t count, crema_dtype dst_type, void *dst, crema_dtype src_type,
                              const void *src) CREMA_MUST_USE;

#endif
