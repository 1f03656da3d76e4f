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

/* to[i] = from[k]. Values of one type keep their bits. */
CR_HD void cr_move_value(int to_type, CR_GLOBAL void *to, int64_t i, int from_type,
                         const CR_GLOBAL void *from, int64_t k) {
  const bool same = from_type == to_type;
  if (same && to_type == CREMA_F32) {
    ((CR_GLOBAL float *)to)[i] = ((const CR_GLOBAL float *)from)[k];
  } else if (same && (to_type == CREMA_F16 || to_type == CREMA_BF16)) {
    ((CR_GLOBAL uint16_t *)to)[i] = ((const CR_GLOBAL uint16_t *)from)[k];
  } else {
    cr_hd_store(to_type, to, i, cr_hd_load(from_type, from, k));
  }
}

/* Element i in the order of the result, so that neighbouring threads write neighbouring values. */
CR_HD void cr_reorder_device(const void *args, int64_t i) {
  const cr_reorder_args *a = (const cr_reorder_args *)args;
  const int64_t k = cr_last_place(&a->from_order, cr_last_index(&a->to_order, i));
  cr_move_value(a->to_type, a->to, i, a->from_type, a->from, k);
}

/* The number of arrays that fit one launch, whose arguments have 4 KiB at most. */
enum { CR_GPU_REORDERS = 48 };

typedef struct cr_reorder_piece {
  int64_t begin;    /* the number of elements of earlier pieces */
  int64_t from, to; /* the first element, counted from the addresses below */
  cr_last_order order;
} cr_reorder_piece;

/* Several arrays, to channels-last order or from it. */
typedef struct cr_reorder_many_args {
  const CR_GLOBAL void *from;
  CR_GLOBAL void *to;
  int from_type, to_type;
  bool to_last;
  int pieces;
  cr_reorder_piece piece[CR_GPU_REORDERS];
} cr_reorder_many_args;

CR_HD void cr_reorder_many_device(const void *args, int64_t i) {
  const cr_reorder_many_args *a = (const cr_reorder_many_args *)args;
  int low = 0, high = a->pieces;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a->piece[middle].begin <= i) low = middle;
    else high = middle;
  }
  const cr_reorder_piece *piece = &a->piece[low];
  const int64_t n = i - piece->begin;
  const int64_t k = a->to_last ? cr_last_index(&piece->order, n) : cr_last_place(&piece->order, n);
  cr_move_value(a->to_type, a->to, piece->to + n, a->from_type, a->from, piece->from + k);
}

#endif
