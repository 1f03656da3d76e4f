/* Softmax along one axis of (outer, C, inner), and its gradient; one segment per line. */
#ifndef CR_CUDA_KERNELS_SOFTMAX_H
#define CR_CUDA_KERNELS_SOFTMAX_H

#include "device/cuda/kernels/thread_block.h"

typedef struct cr_softmax_args {
  const float *x; /* forward: src; backward: dst */
  const float *dy;
  float *out;
  int64_t channels, inner;
} cr_softmax_args;

CR_HD int64_t cr_line_begin(int64_t line, int64_t channels, int64_t inner) {
  const cr_quotient at = cr_divide(line, inner);
  return at.whole * channels * inner + at.rest;
}

CR_HD void cr_softmax_fwd_device(const void *args, int64_t line, cr_thread_block thread_block) {
  const cr_softmax_args *a = (const cr_softmax_args *)args;
  const int64_t begin = cr_line_begin(line, a->channels, a->inner);
  const float *x = a->x + begin;
  float *y = a->out + begin;
  float top = -FLT_MAX;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    const float v = x[c * a->inner];
    top = v > top ? v : top;
  }
  top = cr_thread_block_max(thread_block, top);
  double sum = 0;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    const float power = expf(x[c * a->inner] - top);
    y[c * a->inner] = power;
    sum += (double)power;
  }
  const float scale = (float)(1 / cr_thread_block_sum(thread_block, sum));
  /* Each lane scales what it wrote itself. */
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes)
    y[c * a->inner] *= scale;
}

/* dx = y (dy - sum(y dy)). */
CR_HD void cr_softmax_bwd_device(const void *args, int64_t line, cr_thread_block thread_block) {
  const cr_softmax_args *a = (const cr_softmax_args *)args;
  const int64_t begin = cr_line_begin(line, a->channels, a->inner);
  const float *y = a->x + begin, *dy = a->dy + begin;
  float *dx = a->out + begin;
  double sum = 0;
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    sum += (double)y[c * a->inner] * (double)dy[c * a->inner];
  }
  sum = cr_thread_block_sum(thread_block, sum);
  for (int64_t c = thread_block.lane; c < a->channels; c += thread_block.lanes) {
    const int64_t at = c * a->inner;
    dx[at] = (float)((double)y[at] * ((double)dy[at] - sum));
  }
}

#endif
