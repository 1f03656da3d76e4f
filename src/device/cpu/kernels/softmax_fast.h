/* Softmax of floats block by block (softmax_fast.c), for the fast kernels of losses. */
#ifndef CR_DEVICE_CPU_KERNELS_SOFTMAX_FAST_H
#define CR_DEVICE_CPU_KERNELS_SOFTMAX_FAST_H

#include "device/cpu/kernels/element_type.h"

/* Positions of a block at most. */
enum { CR_SOFTMAX_POSITIONS = 192 };

/* Adjacent positions in one sample or, if the axis is the last one, rows of several samples.
 * `first` is the first position and `at` its element of class 0. The scores of position i minus
 * top[i] are the exponents, and sum[i] is the sum of the powers: log(p) = x - top - log(sum). */
typedef struct cr_softmax_block {
  int64_t first, at, count;
  float top[CR_SOFTMAX_POSITIONS], sum[CR_SOFTMAX_POSITIONS];
} cr_softmax_block;

/* How many blocks there are. */
int64_t cr_softmax_fast_blocks(const cr_split *s);
/* Where block b lies; its tops and sums remain as they are. */
void cr_softmax_fast_place(const cr_split *s, int64_t b, cr_softmax_block *out);
/* y = softmax(x) for block b; x and y may be one. y NULL: computes only *out. */
void cr_softmax_fast_block(const cr_split *s, int64_t b, const float *x, float *y,
                           cr_softmax_block *out);

#endif
