/* Weights in a shorter type than they are stored in. */
#ifndef CR_INFER_QUANTIZED_WEIGHTS_H
#define CR_INFER_QUANTIZED_WEIGHTS_H

#include "infer/graph.h"

/* The target of F32 weights: BF16; or I8, where 1 stands for scale[r] in row r, the weights of an
 * output channel. */
typedef struct cr_quantization {
  crema_dtype type;
  int64_t rows, length; /* I8: they are stored row by row */
  int64_t step, next; /* I8: in F32, from one weight of a row to the next, from a row to the next */
  const float *scale; /* I8: copied */
} cr_quantization;

/* Makes the layer's parameter 0, of F32, one of `shape` with as many values of how->type. They are
 * rounded when they are first wanted, in the format that is wanted: no other copy of them stays. */
crema_status cr_graph_quantize_weights(cr_graph *graph, int layer, const crema_shape *shape,
                                       const cr_quantization *how) CREMA_MUST_USE;

#endif
