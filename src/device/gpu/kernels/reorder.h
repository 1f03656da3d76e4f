/* Moves values between row-major and channels-last order, of any element types. */
#ifndef CR_GPU_KERNELS_REORDER_H
#define CR_GPU_KERNELS_REORDER_H

#include "device/gpu/kernels/convert.h"

/* The extents of a blob (N, C, S) that is held channels-last: (N, S, C). */
typedef struct cr_last_order {
  bool last; /* else in row-major order */
  cr_divisor channels, inner;
} cr_last_order;

typedef struct cr_reorder_args {
  const CR_GLOBAL void *from;
  CR_GLOBAL void *to;
  int from_type, to_type;
  cr_last_order from_order, to_order;
} cr_reorder_args;

/* The row-major index of element i in memory. */
CR_HD int64_t cr_last_index(const cr_last_order *order, int64_t i) {
  if (!order->last) return i;
  const cr_quotient at = cr_divide_by(i, order->channels);
  const cr_quotient image = cr_divide_by(at.whole, order->inner);
  return (image.whole * order->channels.by + at.rest) * order->inner.by + image.rest;
}

/* The place in memory of the element of row-major index i. */
CR_HD int64_t cr_last_place(const cr_last_order *order, int64_t i) {
  if (!order->last) return i;
  const cr_quotient at = cr_divide_by(i, order->inner);
  const cr_quotient image = cr_divide_by(at.whole, order->channels);
  return (image.whole * order->inner.by + at.rest) * order->channels.by + image.rest;
}

/* Element i in the order of the result, so that neighbouring threads write neighbouring values.
 * Values of one type keep their bits. */
CR_HD void cr_reorder_device(const void *args, int64_t i) {
  const cr_reorder_args *a = (const cr_reorder_args *)args;
  const int64_t k = cr_last_place(&a->from_order, cr_last_index(&a->to_order, i));
  const bool same = a->from_type == a->to_type;
  if (same && a->to_type == CREMA_F32) {
    ((CR_GLOBAL float *)a->to)[i] = ((const CR_GLOBAL float *)a->from)[k];
  } else if (same && (a->to_type == CREMA_F16 || a->to_type == CREMA_BF16)) {
    ((CR_GLOBAL uint16_t *)a->to)[i] = ((const CR_GLOBAL uint16_t *)a->from)[k];
  } else {
    cr_hd_store(a->to_type, a->to, i, cr_hd_load(a->from_type, a->from, k));
  }
}

#endif
