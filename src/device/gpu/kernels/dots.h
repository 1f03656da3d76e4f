/* Scalar products of the segments of two arrays, in two launches: of the parts of each segment, and
 * their sums. */
#ifndef CR_GPU_KERNELS_DOTS_H
#define CR_GPU_KERNELS_DOTS_H

#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/update.h"
#include "device/gpu/kernels/values.h"

typedef struct cr_dots_args {
  cr_hd_values a, b;
  CR_GLOBAL cr_wide *part; /* (segments, parts) */
  CR_GLOBAL cr_f64 *out;   /* (segments) */
  int64_t parts;           /* of each segment */
  int64_t begin[CR_GPU_SEGMENTS], count[CR_GPU_SEGMENTS];
} cr_dots_args;

/* `number` counts the parts of all segments. */
CR_HD void cr_dots_parts_device(const void *args, int64_t number, cr_thread_block thread_block) {
  const cr_dots_args *d = (const cr_dots_args *)args;
  const cr_quotient at = cr_divide(number, d->parts);
  const int64_t begin = d->begin[at.whole], count = d->count[at.whole];
  const int64_t last = begin + cr_part_begin(count, d->parts, at.rest + 1);
  cr_wide sum = 0;
  for (int64_t i = begin + cr_part_begin(count, d->parts, at.rest) + thread_block.lane; i < last;
       i += thread_block.lanes) {
    sum += (cr_wide)cr_get(d->a, i) * (cr_wide)cr_get(d->b, i);
  }
  sum = cr_thread_block_sum(thread_block, sum);
  if (thread_block.lane == 0) d->part[number] = sum;
}

CR_HD void cr_dots_total_device(const void *args, int64_t segment) {
  const cr_dots_args *d = (const cr_dots_args *)args;
  cr_wide sum = 0;
  for (int64_t k = 0; k < d->parts; ++k) sum += d->part[segment * d->parts + k];
  d->out[segment] = cr_f64_of(sum);
}

#endif
