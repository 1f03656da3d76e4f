/* Rows to Euclidean length 1, times a scale per channel, of arrays (N, C, inner). A row has the
 * channels of one position, or of a sample. */
#ifndef CR_GPU_KERNELS_NORMALIZE_H
#define CR_GPU_KERNELS_NORMALIZE_H

#include "device/gpu/kernels/channel.h"
#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/values.h"

typedef struct cr_normalize_args {
  cr_hd_values x, scale, dy, out;
  CR_GLOBAL float *norm; /* of each row: written forward, read backward */
  cr_channel_planes planes;
  bool whole;  /* a row is a sample */
  bool shared; /* one scale for all channels */
  float eps;
  /* The gradient of the scales. */
  CR_GLOBAL cr_wide *part; /* (parts, C) */
  int64_t parts;           /* of each channel's sum */
  cr_hd_values diff_scale;
  bool add;
} cr_normalize_args;

/* A row's values are at begin, begin + step, ... */
typedef struct cr_normalize_row {
  int64_t begin, step, count;
} cr_normalize_row;

CR_HD cr_normalize_row cr_normalize_row_of(const cr_normalize_args *a, int64_t row) {
  const int64_t channels = a->planes.channels.by, inner = a->planes.inner.by;
  cr_normalize_row r = {row * channels * inner, 1, channels * inner};
  if (!a->whole) {
    const cr_quotient at = cr_divide_by(row, a->planes.inner);
    r.begin = at.whole * channels * inner + at.rest;
    r.step = inner;
    r.count = channels;
  }
  return r;
}

/* The scale of a row's value k. */
CR_HD float cr_normalize_scale(const cr_normalize_args *a, int64_t k) {
  if (a->shared) return cr_get(a->scale, 0);
  return cr_get(a->scale, a->whole ? cr_divide_by(k, a->planes.inner).whole : k);
}

/* y = x scale / norm, norm = sqrt(sum of x^2 + eps). */
CR_HD void cr_normalize_fwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_normalize_args *a = (const cr_normalize_args *)args;
  const cr_normalize_row r = cr_normalize_row_of(a, row);
  cr_wide sum = 0;
  CR_UNROLL
  for (int64_t k = thread_block.lane; k < r.count; k += thread_block.lanes) {
    const cr_wide x = (cr_wide)cr_get(a->x, r.begin + k * r.step);
    sum += x * x;
  }
  const cr_wide norm = sqrt(cr_thread_block_sum(thread_block, sum) + (cr_wide)a->eps);
  const float inverse = (float)(1 / norm);
  for (int64_t k = thread_block.lane; k < r.count; k += thread_block.lanes) {
    const int64_t at = r.begin + k * r.step;
    cr_put(a->out, at, cr_get(a->x, at) * inverse * cr_normalize_scale(a, k));
  }
  if (thread_block.lane == 0) a->norm[row] = (float)norm;
}

/* dx = (z - x sum(x z) / norm^2) / norm, z = scale dy. */
CR_HD void cr_normalize_bwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_normalize_args *a = (const cr_normalize_args *)args;
  const cr_normalize_row r = cr_normalize_row_of(a, row);
  cr_wide along = 0;
  CR_UNROLL
  for (int64_t k = thread_block.lane; k < r.count; k += thread_block.lanes) {
    const int64_t at = r.begin + k * r.step;
    along += (cr_wide)cr_get(a->x, at) * (cr_wide)(cr_get(a->dy, at) * cr_normalize_scale(a, k));
  }
  const cr_wide inverse = 1 / (cr_wide)a->norm[row];
  along = cr_thread_block_sum(thread_block, along) * inverse * inverse * inverse;
  const float of_dy = (float)inverse, of_x = (float)along;
  for (int64_t k = thread_block.lane; k < r.count; k += thread_block.lanes) {
    const int64_t at = r.begin + k * r.step;
    const float z = cr_get(a->dy, at) * cr_normalize_scale(a, k);
    cr_put(a->out, at, z * of_dy - cr_get(a->x, at) * of_x);
  }
}

/* Parts of the sums over x dy / norm of each channel, as cr_channel_parts_device. */
CR_HD void cr_normalize_scale_parts_device(const void *args, int64_t segment,
                                           cr_thread_block thread_block) {
  const cr_normalize_args *a = (const cr_normalize_args *)args;
  const cr_channel_part part = cr_channel_part_of(&a->planes, a->parts, segment);
  cr_wide sum = 0;
  CR_UNROLL
  for (int64_t k = part.begin + thread_block.lane; k < part.end; k += thread_block.lanes) {
    const int64_t at = cr_channel_place(&a->planes, part.channel, k);
    const int64_t row = a->whole ? cr_divide_by(k, a->planes.inner).whole : k;
    sum += (cr_wide)cr_get(a->x, at) * (cr_wide)cr_get(a->dy, at) / (cr_wide)a->norm[row];
  }
  sum = cr_thread_block_sum(thread_block, sum);
  if (thread_block.lane == 0) a->part[segment] = sum;
}

/* The scale of channel i, or of all. */
CR_HD void cr_normalize_scale_total_device(const void *args, int64_t i) {
  const cr_normalize_args *a = (const cr_normalize_args *)args;
  const int64_t channels = a->planes.channels.by;
  cr_wide sum = 0;
  for (int64_t k = i; k < a->parts * channels; k += a->shared ? 1 : channels) sum += a->part[k];
  const float made = (float)sum;
  cr_put(a->diff_scale, i, a->add ? cr_get(a->diff_scale, i) + made : made);
}

#endif
