/* Softmax at one position, for the plain kernels of softmax and of its loss. */
#ifndef CR_DEVICE_CPU_KERNELS_SOFTMAX_H
#define CR_DEVICE_CPU_KERNELS_SOFTMAX_H

#include "device/cpu/kernels/vector_math.h"

/* The largest score and the sum of exp(x_c - top): log(p_c) = x_c - top - log(sum). */
typedef struct cr_softmax_sum {
  cr_real top;
  double sum;
} cr_softmax_sum;

/* The element of class 0 at position p; the next class is `inner` elements after it. */
static inline int64_t cr_softmax_at(const cr_split *s, int64_t p) {
  return p / s->inner * s->channels * s->inner + p % s->inner;
}

static inline cr_softmax_sum cr_softmax_sum_of(const cr_split *s, const cr_real *x) {
  const int64_t end = s->channels * s->inner;
  cr_softmax_sum all = {-INFINITY, 0};
  for (int64_t at = 0; at < end; at += s->inner) all.top = x[at] > all.top ? x[at] : all.top;
  for (int64_t at = 0; at < end; at += s->inner) {
    all.sum += (double)cr_ref_exp_below_0(false, x[at] - all.top);
  }
  return all;
}

/* The probabilities of the classes; x and y may be one. */
static inline cr_softmax_sum cr_softmax_of(const cr_split *s, const cr_real *x, cr_real *y) {
  const cr_softmax_sum all = cr_softmax_sum_of(s, x);
  const cr_real scale = (cr_real)(1 / all.sum);
  for (int64_t at = 0; at < s->channels * s->inner; at += s->inner) {
    y[at] = cr_ref_exp_below_0(false, x[at] - all.top) * scale;
  }
  return all;
}

#endif
