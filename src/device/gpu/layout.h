/* The channels-last layout: the values of a blob (N, C, S...) in the order N, S..., C, without
 * gaps. Tensor cores read images and filters in this order without a transposition. Layouts are
 * interned: the same shape and type on the same device is the same pointer. */
#ifndef CR_GPU_LAYOUT_H
#define CR_GPU_LAYOUT_H

#include "device/backend/layout.h"

/* The channels-last layout of `shape`, which has at least two axes. *out is NULL if this order is
 * row-major: with one channel, or with one position. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_gpu_last(crema_device *device, const crema_shape *shape, crema_dtype type,
                         const cr_layout **out) CREMA_MUST_USE;

/* See cr_backend. */
const cr_layout *cr_gpu_same_order(const cr_layout *layout, crema_dtype type);
void cr_gpu_layout_text(const cr_layout *layout, char *text, size_t size);

#endif
