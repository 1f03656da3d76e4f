/* Work on rows: mean and deviation, sums of a row, the largest values of a line. */
#ifndef CR_GPU_KERNELS_ROWWISE_H
#define CR_GPU_KERNELS_ROWWISE_H

#include "device/backend/op_enums.h"
#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/values.h"

typedef struct cr_row_args {
  cr_hd_values x, y, dy, out;
  CR_GLOBAL float *divisor; /* written forward, read backward */
  int64_t width, inner, ranks;
  float eps, coeff;
  int reduction;
  bool variance;
} cr_row_args;

/* y = (x - mean) / divisor, divisor = sqrt(variance) + eps, or 1. */
CR_HD void cr_mvn_fwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_row_args *a = (const cr_row_args *)args;
  const cr_hd_values x = cr_hd_values_from(a->x, row * a->width);
  const cr_wide width = a->width > 0 ? (cr_wide)a->width : 1;
  cr_wide sum = 0, square = 0, scale = 1;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes)
    sum += (cr_wide)cr_get(x, i);
  const cr_wide mean = cr_thread_block_sum(thread_block, sum) / width;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes) {
    square += ((cr_wide)cr_get(x, i) - mean) * ((cr_wide)cr_get(x, i) - mean);
  }
  square = cr_thread_block_sum(thread_block, square);
  if (a->variance) scale = sqrt(square / width) + (cr_wide)a->eps;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes) {
    cr_put(a->out, row * a->width + i, (float)(((cr_wide)cr_get(x, i) - mean) / scale));
  }
  if (thread_block.lane == 0) a->divisor[row] = (float)scale;
}

/* (dy - mean(dy) - y mean(dy y)) / divisor, without the last term if only the mean was removed. */
CR_HD void cr_mvn_bwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_row_args *a = (const cr_row_args *)args;
  const cr_hd_values y = cr_hd_values_from(a->y, row * a->width);
  const cr_hd_values dy = cr_hd_values_from(a->dy, row * a->width);
  const cr_wide width = a->width > 0 ? (cr_wide)a->width : 1;
  cr_wide sum = 0, along = 0;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes) {
    sum += (cr_wide)cr_get(dy, i);
    if (a->variance) along += (cr_wide)cr_get(dy, i) * (cr_wide)cr_get(y, i);
  }
  const cr_wide mean = cr_thread_block_sum(thread_block, sum) / width;
  along = cr_thread_block_sum(thread_block, along) / width;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes) {
    const cr_wide dx = (cr_wide)cr_get(dy, i) - mean - (cr_wide)cr_get(y, i) * along;
    cr_put(a->out, row * a->width + i, (float)(dx / (cr_wide)a->divisor[row]));
  }
}

CR_HD void cr_row_reduce_fwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_row_args *a = (const cr_row_args *)args;
  const cr_hd_values x = cr_hd_values_from(a->x, row * a->width);
  cr_wide sum = 0;
  for (int64_t i = thread_block.lane; i < a->width; i += thread_block.lanes) {
    const cr_wide v = (cr_wide)cr_get(x, i);
    if (a->reduction == CR_REDUCE_SUM) {
      sum += v;
    } else {
      sum += a->reduction == CR_REDUCE_ASUM ? fabs(v) : v * v;
    }
  }
  sum = cr_thread_block_sum(thread_block, sum);
  if (thread_block.lane == 0) cr_put(a->out, row, (float)(sum * (cr_wide)a->coeff));
}

CR_HD void cr_row_reduce_bwd_device(const void *args, int64_t i) {
  const cr_row_args *a = (const cr_row_args *)args;
  const float factor = cr_get(a->dy, cr_divide(i, a->width).whole) * a->coeff;
  float slope = 1;
  if (a->reduction == CR_REDUCE_ASUM)
    slope = (float)((cr_get(a->x, i) > 0) - (cr_get(a->x, i) < 0));
  if (a->reduction == CR_REDUCE_SUMSQ) slope = 2 * cr_get(a->x, i);
  cr_put(a->out, i, factor * slope);
}

/* Among equal values the later is larger; NaN is below all numbers. */
CR_HD bool cr_is_above(float a, int64_t at_a, float b, int64_t at_b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return b_nan && (!a_nan || at_a > at_b);
  return a > b || (a == b && at_a > at_b);
}

/* The K largest values of line i in descending order; each rank is the largest value below the
 * preceding rank. `out` gets the indices, `y` the values (absent: not requested). */
CR_HD void cr_arg_max_device(const void *args, int64_t i) {
  const cr_row_args *a = (const cr_row_args *)args;
  const cr_quotient line = cr_divide(i, a->inner);
  const cr_hd_values x = cr_hd_values_from(a->x, line.whole * a->width * a->inner + line.rest);
  int64_t before = -1;
  for (int64_t k = 0; k < a->ranks; ++k) {
    int64_t best = -1;
    for (int64_t c = 0; c < a->width; ++c) {
      const float v = cr_get(x, c * a->inner);
      if (before >= 0 && !cr_is_above(cr_get(x, before * a->inner), before, v, c)) continue;
      if (best < 0 || cr_is_above(v, c, cr_get(x, best * a->inner), best)) best = c;
    }
    const int64_t to = (line.whole * a->ranks + k) * a->inner + line.rest;
    cr_put(a->out, to, (float)best);
    if (a->y.at != NULL) cr_put(a->y, to, cr_get(x, best * a->inner));
    before = best;
  }
}

#endif
