/* Bilinear interpolation whose corners stay corners, and the reverse of max pooling. */
#ifndef CR_GPU_KERNELS_INTERP_H
#define CR_GPU_KERNELS_INTERP_H

#include "device/gpu/kernels/hd.h"
#include "device/gpu/kernels/values.h"

/* An axis of the small map and of the large one, which may be the smaller of the two. */
typedef struct cr_interp_axis {
  int32_t small, large;
  cr_divisor by_large, by_small; /* extents */
  cr_divisor steps_of_large;     /* extent - 1; of 1: by 0 */
  cr_divisor steps_of_small;
} cr_interp_axis;

typedef struct cr_interp_args {
  cr_hd_values from, out;
  cr_interp_axis y, x;
} cr_interp_args;

/* The terms of position `at` of the large map: two neighbours and the weight of the second. */
typedef struct cr_interp_place {
  int32_t low, high;
  float weight;
} cr_interp_place;

CR_HD cr_interp_place cr_interp_at(const cr_interp_axis *axis, int32_t at) {
  cr_interp_place p = {0, axis->small > 1 ? 1 : 0, 0};
  if (axis->large == 1) return p;
  const cr_quotient q = cr_divide_by((int64_t)at * (axis->small - 1), axis->steps_of_large);
  p.low = (int32_t)q.whole;
  p.high = p.low + (p.low < axis->small - 1 ? 1 : 0);
  p.weight = (float)q.rest / (float)(axis->large - 1);
  return p;
}

/* Element i of the large map. */
CR_HD float cr_interp_fwd_device(const void *args, int64_t i) {
  const cr_interp_args *a = (const cr_interp_args *)args;
  const cr_quotient row = cr_divide_by(i, a->x.by_large);
  const cr_quotient plane = cr_divide_by(row.whole, a->y.by_large);
  const cr_interp_place y = cr_interp_at(&a->y, (int32_t)plane.rest);
  const cr_interp_place x = cr_interp_at(&a->x, (int32_t)row.rest);
  const int64_t first = plane.whole * a->y.small;
  const int64_t above = (first + y.low) * a->x.small, below = (first + y.high) * a->x.small;
  const float top =
      (1 - x.weight) * cr_get(a->from, above + x.low) + x.weight * cr_get(a->from, above + x.high);
  const float bottom =
      (1 - x.weight) * cr_get(a->from, below + x.low) + x.weight * cr_get(a->from, below + x.high);
  return (1 - y.weight) * top + y.weight * bottom;
}

/* The positions begin ... end - 1 of the large map, among which are all that position `at` of the
 * small one has a share in. */
CR_HD void cr_interp_reach(const cr_interp_axis *axis, int32_t at, int32_t *begin, int32_t *end) {
  *begin = 0;
  *end = axis->large;
  if (axis->small == 1 || axis->large == 1) return;
  const int64_t steps = axis->large - 1;
  if (at > 1) *begin = (int32_t)cr_divide_by((at - 1) * steps, axis->steps_of_small).whole;
  const int64_t last = cr_divide_by((at + 1) * steps, axis->steps_of_small).whole + 1;
  if (last < axis->large) *end = (int32_t)last;
}

/* The share of position `at` of the small map in position `of` of the large one. */
CR_HD float cr_interp_share(const cr_interp_axis *axis, int32_t at, int32_t of) {
  const cr_interp_place p = cr_interp_at(axis, of);
  return (p.low == at ? 1 - p.weight : 0) + (p.high == at ? p.weight : 0);
}

/* Element i of the small map: the sum of its shares, row by row. */
CR_HD float cr_interp_bwd_device(const void *args, int64_t i) {
  const cr_interp_args *a = (const cr_interp_args *)args;
  const cr_quotient row = cr_divide_by(i, a->x.by_small);
  const cr_quotient plane = cr_divide_by(row.whole, a->y.by_small);
  const int32_t y = (int32_t)plane.rest, x = (int32_t)row.rest;
  int32_t top, bottom, left, right;
  cr_interp_reach(&a->y, y, &top, &bottom);
  cr_interp_reach(&a->x, x, &left, &right);
  float sum = 0;
  for (int32_t k = top; k < bottom; ++k) {
    const float share = cr_interp_share(&a->y, y, k);
    const int64_t at = (plane.whole * a->y.large + k) * a->x.large;
    float of_row = 0;
    if (share == 0) continue;
    for (int32_t j = left; j < right; ++j) {
      of_row += cr_interp_share(&a->x, x, j) * cr_get(a->from, at + j);
    }
    sum += share * of_row;
  }
  return sum;
}

typedef struct cr_unpool_args {
  cr_hd_values from, out;
  const CR_GLOBAL float *mask; /* of each value of the small planes: its index in the large one */
  cr_divisor small;            /* values of a plane */
  int64_t large, count;
  CR_GLOBAL cr_gpu_fault *fault;
} cr_unpool_args;

/* The index that the mask has for value i; -1, reported, when the plane has no such. */
CR_HD int64_t cr_unpool_index(const cr_unpool_args *a, int64_t i) {
  const float value = a->mask[i];
  if (value >= 0 && (cr_wide)value < (cr_wide)a->large) return (int64_t)value;
  cr_report(a->fault, CR_GPU_FAULT_INDEX, value, i, a->count, a->large);
  return -1;
}

/* A plane of F32: one thread processes its values in order, so the last value of an index stays. */
CR_HD void cr_unpool_fwd_device(const void *args, int64_t plane) {
  const cr_unpool_args *a = (const cr_unpool_args *)args;
  CR_GLOBAL float *to = (CR_GLOBAL float *)a->out.at + plane * a->large;
  for (int64_t i = plane * a->small.by; i < (plane + 1) * a->small.by; ++i) {
    const int64_t index = cr_unpool_index(a, i);
    if (index >= 0) to[index] = cr_get(a->from, i);
  }
}

CR_HD float cr_unpool_bwd_device(const void *args, int64_t i) {
  const cr_unpool_args *a = (const cr_unpool_args *)args;
  const int64_t index = cr_unpool_index(a, i);
  if (index < 0) return 0;
  return cr_get(a->from, cr_divide_by(i, a->small).whole * a->large + index);
}

#endif
