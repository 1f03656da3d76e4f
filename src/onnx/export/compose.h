/* Layers as several operators: nodes whose outputs get new names. */
#ifndef CR_ONNX_EXPORT_COMPOSE_H
#define CR_ONNX_EXPORT_COMPOSE_H

#include "onnx/export/layer.h"

/* Adds a node with one output and returns its new name, which begins with the operator. */
const char *cr_onnx_value(cr_onnx_graph *g, const char *op, const char *const *inputs);
#define CR_ONNX_VALUE(g, op, ...) cr_onnx_value(g, op, (const char *const[]){__VA_ARGS__, NULL})

/* The functions of graph.h with a new name for the output. */
const char *cr_onnx_reshaped(cr_onnx_graph *g, const char *in, const int64_t *dims, size_t count);
const char *cr_onnx_transposed(cr_onnx_graph *g, const char *in, const int64_t *order,
                               size_t count);
const char *cr_onnx_sliced(cr_onnx_graph *g, const char *in, int axis, int64_t start, int64_t end);
const char *cr_onnx_unsqueezed(cr_onnx_graph *g, const char *in, int64_t axis);
const char *cr_onnx_cast(cr_onnx_graph *g, const char *in, cr_onnx_type type);

/* `in` plus, times or compared with a number: the other operand of `op` is a constant. */
const char *cr_onnx_with(cr_onnx_graph *g, const char *op, const char *in, float number);
/* An integer as a tensor of one element. */
const char *cr_onnx_integer(cr_onnx_graph *g, int64_t value);
/* The extent of an axis as a tensor of one element. */
const char *cr_onnx_extent(cr_onnx_graph *g, const char *in, int64_t axis);
/* The elements of an axis that `index` (INT64) names. */
const char *cr_onnx_gathered(cr_onnx_graph *g, const char *in, const char *index, int axis);
/* The matrix of a linear function of one axis of a map: row i has the weights of the `from`
 * positions in result i. */
typedef struct cr_onnx_matrix {
  int64_t to, from;
  float *weight;
} cr_onnx_matrix;

/* A matrix of zeros; its `weight` is NULL after a failure. */
cr_onnx_matrix cr_onnx_new_matrix(cr_onnx_graph *g, int64_t to, int64_t from);
/* Applies a matrix to the rows (axis 2) and one to the columns (axis 3) of a map. */
void cr_onnx_separable(cr_onnx_graph *g, const char *out, const char *in,
                       const cr_onnx_matrix *rows, const cr_onnx_matrix *columns);

/* Bilinear sampling of a map (N, C, H, W) at positions y and x (N, P) in pixels, to (N, C, P).
 * Pixels outside the map count as 0. With `clamped` they count as the last row or column, and
 * positions outside [0, H) x [0, W) have the value `fill`. */
typedef struct cr_onnx_sampling {
  const char *map, *y, *x;
  int64_t channels, height, width;
  bool clamped;
  float fill;
} cr_onnx_sampling;
const char *cr_onnx_sample(cr_onnx_graph *g, const cr_onnx_sampling *of);

/* Rounds numbers to integers, halves away from 0. */
const char *cr_onnx_round(cr_onnx_graph *g, const char *in);

#endif
