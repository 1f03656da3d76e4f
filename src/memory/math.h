/* Sums, scaling and updates of tensors, done where the newest values are: on the host when only the
 * host has them, otherwise on the device that has them. Results of float16 and bfloat16 are
 * computed in float, sums in double. */
#ifndef CR_MEMORY_MATH_H
#define CR_MEMORY_MATH_H

#include "memory/tensor.h"

/* Sum of absolute values, and of squares; 0 for a tensor that is zero. Errors: CREMA_E_TYPE for
 * integers. */
crema_status cr_tensor_asum(cr_tensor *tensor, double *out) CREMA_MUST_USE;
crema_status cr_tensor_sumsq(cr_tensor *tensor, double *out) CREMA_MUST_USE;

/* The largest absolute value; 0 for a tensor that is zero or empty, NaN when one is NaN. Errors as
 * above. */
crema_status cr_tensor_amax(cr_tensor *tensor, double *out) CREMA_MUST_USE;

/* tensor = factor * tensor. Errors: CREMA_E_TYPE for integers. */
crema_status cr_tensor_scale(cr_tensor *tensor, float factor) CREMA_MUST_USE;

/* tensor = tensor - difference. Errors: CREMA_E_TYPE; CREMA_E_SHAPE; CREMA_E_STATE when the tensor
 * was never given values. */
crema_status cr_tensor_subtract(cr_tensor *tensor, cr_tensor *difference) CREMA_MUST_USE;

#endif
