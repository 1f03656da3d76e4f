/* Layers that multiply each channel by a number and add one: BatchNorm with its running statistics,
 * Scale, Bias, linear Power. */
#ifndef CR_INFER_AFFINE_H
#define CR_INFER_AFFINE_H

#include "infer/graph.h"

/* y = scale[c] * x + shift[c], in double. */
typedef struct cr_affine {
  int axis;         /* of the channels; -1: one pair of numbers for all values */
  int64_t channels; /* 1 then */
  double *scale, *shift;
  bool shifts; /* some shift is not 0 */
} cr_affine;

/* Reads the numbers of a layer. *found is false for a layer of another kind, and for numbers that
 * are NaN, infinite or very large. Free *out in any case. */
crema_status cr_affine_read(const cr_graph *graph, int layer, cr_affine *out,
                            bool *found) CREMA_MUST_USE;

/* The identity. */
crema_status cr_affine_identity(int axis, int64_t channels, cr_affine *out) CREMA_MUST_USE;

/* Whether `part` has the same channels in the same axis as `whole`, or one pair for all channels.
 */
bool cr_affine_fits(const cr_affine *part, const cr_affine *whole);

/* Composes `whole` with `next` after it, or `previous` before it, which fit. */
void cr_affine_append(cr_affine *whole, const cr_affine *next);
void cr_affine_prepend(cr_affine *whole, const cr_affine *previous);

void cr_affine_free(cr_affine *affine);

#endif
