/* Softmax along one axis of (outer, C, inner), and its gradient; one segment per line. */
#ifndef CR_GPU_KERNELS_SOFTMAX_H
#define CR_GPU_KERNELS_SOFTMAX_H

#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/values.h"

typedef struct cr_softmax_args {
  cr_hd_values x; /* forward: src; backward: dst */
  cr_hd_values dy, out;
  int64_t channels, inner;
} cr_softmax_args;

CR_HD int64_t cr_line_begin(int64_t line, int64_t channels, int64_t inner) {
  const cr_quotient at = cr_divide(line, inner);
  return at.whole * channels * inner + at.rest;
}

CR_HD void cr_softmax_fwd_device(const void *args, int64_t line, cr_thread_block thread_block) {
  const cr_softmax_args *a = (const cr_softmax_args *)args;
  const int64_t begin = cr_line_begin(line, a->channels, a->inner);
  const cr_hd_values x = cr_hd_values_from(a->x, begin), y = cr_hd_values_from(a->out, begin);
  float top = -FLT_MAX;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    const float v = cr_get(x, c * a->inner);
    top = v > top ? v : top;
  }
  top = cr_thread_block_max(thread_block, top);
  cr_wide sum = 0;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    sum += (cr_wide)expf(cr_get(x, c * a->inner) - top);
  }
  const float scale = (float)(1 / cr_thread_block_sum(thread_block, sum));
  /* Computed again rather than kept in the result, which may have few digits. */
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes)
    cr_put(y, c * a->inner, expf(cr_get(x, c * a->inner) - top) * scale);
}

/* dx = y (dy - sum(y dy)). */
CR_HD void cr_softmax_bwd_device(const void *args, int64_t line, cr_thread_block thread_block) {
  const cr_softmax_args *a = (const cr_softmax_args *)args;
  const int64_t begin = cr_line_begin(line, a->channels, a->inner);
  const cr_hd_values y = cr_hd_values_from(a->x, begin), dy = cr_hd_values_from(a->dy, begin);
  const cr_hd_values dx = cr_hd_values_from(a->out, begin);
  cr_wide sum = 0;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    sum += (cr_wide)cr_get(y, c * a->inner) * (cr_wide)cr_get(dy, c * a->inner);
  }
  sum = cr_thread_block_sum(thread_block, sum);
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    const int64_t at = c * a->inner;
    cr_put(dx, at, (float)((cr_wide)cr_get(y, at) * ((cr_wide)cr_get(dy, at) - sum)));
  }
}

#endif
