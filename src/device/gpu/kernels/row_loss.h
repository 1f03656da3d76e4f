/* The loss of each row of scores, and its gradient. */
#ifndef CR_GPU_KERNELS_ROW_LOSS_H
#define CR_GPU_KERNELS_ROW_LOSS_H

#include "device/gpu/kernels/thread_block.h"
#include "device/gpu/kernels/values.h"

typedef struct cr_row_loss_args {
  cr_hd_values x, out; /* scores and their gradient (rows, C) */
  const CR_GLOBAL float *label, *diff_loss;
  CR_GLOBAL float *loss;
  int64_t classes;
  float alpha;
  bool logistic; /* a sigmoid for each class, else a softmax */
} cr_row_loss_args;

/* The largest score of a row, which is subtracted from the exponents, and the sum of the powers. */
typedef struct cr_row_powers {
  float top;
  cr_wide sum;
} cr_row_powers;

CR_HD cr_row_powers cr_row_powers_of(const cr_row_loss_args *a, int64_t begin,
                                     cr_thread_block thread_block) {
  cr_row_powers p = {-FLT_MAX, 0};
  for (int64_t c = thread_block.lane; c < a->classes; c += thread_block.lanes) {
    const float x = cr_get(a->x, begin + c);
    p.top = x > p.top ? x : p.top;
  }
  p.top = cr_thread_block_max(thread_block, p.top);
  for (int64_t c = thread_block.lane; c < a->classes; c += thread_block.lanes) {
    p.sum += (cr_wide)expf(cr_get(a->x, begin + c) - p.top);
  }
  p.sum = cr_thread_block_sum(thread_block, p.sum);
  return p;
}

/* The sum of the cross entropies of the sigmoids with the truth. */
CR_HD cr_wide cr_row_entropy(const cr_row_loss_args *a, int64_t begin, int64_t truth,
                             cr_thread_block thread_block) {
  cr_wide sum = 0;
  for (int64_t c = thread_block.lane; c < a->classes; c += thread_block.lanes) {
    const cr_wide x = (cr_wide)cr_get(a->x, begin + c);
    sum += (x > 0 ? x : 0) - (c == truth ? x : 0) + log1p(exp(-fabs(x)));
  }
  return cr_thread_block_sum(thread_block, sum);
}

CR_HD void cr_row_loss_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_row_loss_args *a = (const cr_row_loss_args *)args;
  const int64_t begin = row * a->classes;
  const int64_t truth = cr_class_of(a->label[row], a->classes, false, 0);
  cr_wide loss = 0;
  if (a->logistic) {
    loss = cr_row_entropy(a, begin, truth, thread_block);
  } else {
    const cr_row_powers p = cr_row_powers_of(a, begin, thread_block);
    const cr_wide most = -log((cr_wide)FLT_MIN);
    if (truth >= 0) loss = (cr_wide)p.top + log(p.sum) - (cr_wide)cr_get(a->x, begin + truth);
    if (loss > most) loss = most;
  }
  if (thread_block.lane == 0) a->loss[row] = (float)loss;
}

CR_HD void cr_row_loss_bwd_device(const void *args, int64_t row, cr_thread_block thread_block) {
  const cr_row_loss_args *a = (const cr_row_loss_args *)args;
  const int64_t begin = row * a->classes;
  const int64_t truth = cr_class_of(a->label[row], a->classes, false, 0);
  const float factor = a->alpha * a->diff_loss[row];
  const bool counts = factor != 0 && (truth >= 0 || a->logistic);
  cr_row_powers p = {0, 1};
  if (counts && !a->logistic) p = cr_row_powers_of(a, begin, thread_block);
  const float scale = (float)(1 / p.sum);
  for (int64_t c = thread_block.lane; c < a->classes; c += thread_block.lanes) {
    const float x = cr_get(a->x, begin + c);
    const float prob = a->logistic ? cr_sigmoid_of(x) : expf(x - p.top) * scale;
    cr_put(a->out, begin + c, counts ? factor * (prob - (c == truth ? 1.0f : 0.0f)) : 0);
  }
}

#endif
