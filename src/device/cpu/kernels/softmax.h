/* Softmax block by block, for the losses that go with it. */
#ifndef CR_DEVICE_CPU_KERNELS_SOFTMAX_H
#define CR_DEVICE_CPU_KERNELS_SOFTMAX_H

#include "device/cpu/kernels/element_type.h"

/* F32 takes the functions of softmax_fast.c, F64 the functions of softmax.c. */
#ifdef CR_REF_F32
#define cr_softmax_blocks cr_softmax_fast_blocks
#define cr_softmax_place cr_softmax_fast_place
#define cr_softmax_block_of cr_softmax_fast_block
#else
#define cr_softmax_blocks cr_softmax_plain_blocks
#define cr_softmax_place cr_softmax_plain_place
#define cr_softmax_block_of cr_softmax_plain_block
#endif

/* Positions of a block at most. */
enum { CR_SOFTMAX_POSITIONS = 192 };

/* Adjacent positions in one sample or, if the axis is the last one, rows of several samples.
 * `first` is the first position and `at` its element of class 0. The scores of position i minus
 * top[i] are the exponents, and sum[i] is the sum of the powers: log(p) = x - top - log(sum). */
typedef struct cr_softmax_block {
  int64_t first, at, count;
  cr_real top[CR_SOFTMAX_POSITIONS], sum[CR_SOFTMAX_POSITIONS];
} cr_softmax_block;

/* How many blocks there are. */
int64_t cr_softmax_blocks(const cr_split *s);
/* Where block b lies; its tops and sums remain as they are. */
void cr_softmax_place(const cr_split *s, int64_t b, cr_softmax_block *out);
/* y = softmax(x) for block b; x and y may be one. y NULL: only *out is found. */
void cr_softmax_block_of(const cr_split *s, int64_t b, const cr_real *x, cr_real *y,
                         cr_softmax_block *out);

#endif
