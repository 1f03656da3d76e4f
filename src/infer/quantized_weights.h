/* Weights in a shorter type than they are stored in. */
#ifndef CR_INFER_QUANTIZED_WEIGHTS_H
#define CR_INFER_QUANTIZED_WEIGHTS_H

#include "infer/graph.h"

/* The target type of F32 weights: BF16, or I8. An I8 value of 1 in row r, the weights of output
 * channel r, means scale[r]. */
typedef struct cr_quantization {
  crema_dtype type;
  int64_t rows, length; /* I8: they are stored row by row */
  int64_t step, next; /* I8: in F32, from one weight of a row to the next, from a row to the next */
  const float *scale; /* I8: copied */
} cr_quantization;

/* Replaces the layer's parameter 0, of F32, by a parameter of `shape` with the same number of
 * values of how->type. They are rounded at their first use, in the requested format, and no other
 * copy of them remains. */
crema_status cr_graph_quantize_weights(cr_graph *graph, int layer, const crema_shape *shape,
                                       const cr_quantization *how) CREMA_MUST_USE;

#endif
