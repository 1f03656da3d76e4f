/* Softmax, for the losses that go with it. */
#ifndef CR_DEVICE_CPU_KERNELS_SOFTMAX_H
#define CR_DEVICE_CPU_KERNELS_SOFTMAX_H

#include "device/cpu/kernels/element_type.h"

#define cr_ref_softmax_blocks CR_REF_NAME(cr_ref_softmax_blocks)
#define cr_ref_softmax_place CR_REF_NAME(cr_ref_softmax_place)
#define cr_ref_softmax_block CR_REF_NAME(cr_ref_softmax_block)

/* Positions of a block at most. */
enum { CR_SOFTMAX_POSITIONS = 192 };

/* Positions that lie side by side, of one sample or, where nothing lies behind the axis, of several
 * ones: the first of them, its element of class 0, and what was taken off each one's scores before
 * their powers were summed. The logarithm of a probability is x - top - log(sum). */
typedef struct cr_softmax_block {
  int64_t first, at, count;
  cr_real top[CR_SOFTMAX_POSITIONS], sum[CR_SOFTMAX_POSITIONS];
} cr_softmax_block;

/* How many blocks there are. */
int64_t cr_ref_softmax_blocks(const cr_split *s);
/* Where block b lies; its tops and sums remain as they are. */
void cr_ref_softmax_place(const cr_split *s, int64_t b, cr_softmax_block *out);
/* y = softmax(x) for block b; x and y may be one. y NULL: only *out is found. */
void cr_ref_softmax_block(const cr_split *s, int64_t b, const cr_value *x, cr_value *y,
                          cr_softmax_block *out);

#endif
