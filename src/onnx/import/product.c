/* Products with constant matrices. */
#include "core/fail.h"
#include "onnx/import/window.h"

/* A new parameter: a matrix times `alpha`. */
static crema_status add_matrix(cr_import_node *node, int64_t rows, int64_t columns,
                               cr_import_value *values, float alpha) {
  const crema_shape shape = {.axes = 2, .dim = {rows, columns}};
  float *to;
  if (alpha == 1) return cr_import_weights_from(node->import, &shape, values);
  CR_TRY(cr_import_load(node->import, values));
  CR_TRY(cr_import_weights(node->import, &shape, &to));
  for (int64_t i = 0; i < rows * columns; ++i) to[i] = alpha * values->floats[i];
  return CREMA_OK;
}

/* Exchanges the two axes of an activation. */
static crema_status transpose(cr_import_node *node, cr_import_value *from, cr_import_value *to) {
  static const int order[] = {1, 0};
  return cr_import_permute(node, from, order, &to);
}

/* ---- Gemm --------------------------------------------------------------------- */

typedef struct gemm {
  bool swaps; /* A is the constant: the transpose of the product is computed */
  bool flips; /* the activation is transposed first */
  cr_import_value *x, *weights, *c;
  int64_t rows, inputs, outputs; /* of x, transposed if need be, and of the layer */
  bool outputs_first;            /* the weights have an axis of outputs, then one of inputs */
  float alpha, beta;
} gemm;

static crema_status read_gemm(cr_import_node *node, gemm *g) {
  cr_import_value *a = node->input[0], *b = cr_import_input(node, 1);
  const bool trans_a = cr_import_int(node, "transA", 0) != 0;
  const bool trans_b = cr_import_int(node, "transB", 0) != 0;
  *g = (gemm){.c = cr_import_input(node, 2),
              .alpha = cr_import_float(node, "alpha", 1),
              .beta = cr_import_float(node, "beta", 1)};
  if (b == NULL || a->shape->axes != 2 || b->shape->axes != 2) {
    return cr_import_reject(node, "both matrices must have two axes");
  }
  g->swaps = b->floats == NULL;
  g->x = g->swaps ? b : a;
  g->weights = g->swaps ? a : b;
  if (g->weights->floats == NULL) return cr_import_reject(node, "a product of two activations");
  /* x (rows, inputs); with the swap x is the transpose of B. */
  g->flips = g->swaps ? !trans_b : trans_a;
  g->outputs_first = g->swaps ? !trans_a : trans_b;
  g->rows = g->x->shape->dim[g->flips ? 1 : 0];
  g->inputs = g->x->shape->dim[g->flips ? 0 : 1];
  g->outputs = g->weights->shape->dim[g->outputs_first ? 0 : 1];
  if (g->weights->shape->dim[g->outputs_first ? 1 : 0] != g->inputs) {
    return cr_import_reject(node, "the matrices do not fit");
  }
  return CREMA_OK;
}

/* A Bias layer adds beta C, which is repeated along axes in which it has one number. */
static crema_status add_bias(cr_import_node *node, const gemm *g, cr_import_value *from,
                             cr_import_value *to) {
  const crema_shape *shape = node->output[0]->shape, *c = g->c->shape;
  float *values;
  const int64_t rows = c->axes < 2 ? 1 : c->dim[0], columns = c->axes < 1 ? 1 : c->dim[c->axes - 1];
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  CR_TRY(cr_import_layer(node, &ends, "type: \"Bias\" bias_param { axis: %d num_axes: %d }",
                         rows == 1 ? 1 : 0, rows == 1 ? 1 : 2));
  const crema_shape vector = {.axes = 1, .dim = {shape->dim[1]}};
  CR_TRY(cr_import_weights(node->import, rows == 1 ? &vector : shape, &values));
  const int64_t width = shape->dim[1], count = (rows == 1 ? 1 : shape->dim[0]) * width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows == 1 ? 0 : i / width, column = columns == 1 ? 0 : i % width;
    values[i] = g->beta * g->c->floats[row * columns + column];
  }
  return CREMA_OK;
}

static crema_status check_addend(cr_import_node *node, const gemm *g) {
  const crema_shape *shape = node->output[0]->shape, *c = g->c->shape;
  if (g->c->floats == NULL) return cr_import_reject(node, "C must be constant");
  for (int i = 0; i < c->axes; ++i) {
    const int axis = i + 2 - c->axes;
    if (axis < 0 || (c->dim[i] != 1 && c->dim[i] != shape->dim[axis])) {
      return cr_import_reject(node, "C does not fit the product");
    }
  }
  return CREMA_OK;
}

/* The InnerProduct layer. It has the bias if C is one number for each output. */
static crema_status add_inner(cr_import_node *node, const gemm *g, cr_import_value *from,
                              cr_import_value *to, bool bias) {
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  const crema_shape *stored = g->weights->shape;
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"InnerProduct\" inner_product_param { num_output: %lld%s%s }",
                         (long long)g->outputs, bias ? "" : " bias_term: false",
                         g->outputs_first ? "" : " transpose: true"));
  CR_TRY(add_matrix(node, stored->dim[0], stored->dim[1], g->weights, g->alpha));
  if (!bias) return CREMA_OK;
  const crema_shape vector = {.axes = 1, .dim = {g->outputs}};
  float *values;
  CR_TRY(cr_import_weights(node->import, &vector, &values));
  for (int64_t i = 0; i < g->outputs; ++i) values[i] = g->beta * g->c->floats[i];
  return CREMA_OK;
}

crema_status cr_import_gemm(cr_import_node *node) {
  gemm g;
  cr_import_value *x, *to = node->output[0], *product = to;
  CR_TRY(read_gemm(node, &g));
  const crema_shape swapped = {.axes = 2, .dim = {g.rows, g.outputs}};
  const crema_shape shape = {.axes = 2,
                             .dim = {g.swaps ? g.outputs : g.rows, g.swaps ? g.rows : g.outputs}};
  CR_TRY(cr_import_set_shape(node->import, to, &shape));
  if (g.beta == 0) g.c = NULL;
  if (g.c != NULL) CR_TRY(check_addend(node, &g));
  if (g.c != NULL) CR_TRY(cr_import_load(node->import, g.c));
  const bool vector = g.c != NULL && !g.swaps && cr_import_count(g.c) == g.outputs &&
                      g.c->shape->dim[g.c->shape->axes - 1] == g.outputs;
  const bool adds = g.c != NULL && !vector;
  x = g.x;
  if (g.flips) {
    const crema_shape flipped = {.axes = 2, .dim = {g.rows, g.inputs}};
    CR_TRY(cr_import_between(node, "transposed", &flipped, &x));
    CR_TRY(transpose(node, g.x, x));
  }
  if (adds || g.swaps) {
    CR_TRY(cr_import_between(node, "product", g.swaps ? &swapped : &shape, &product));
  }
  CR_TRY(add_inner(node, &g, x, product, vector));
  if (g.swaps) {
    cr_import_value *turned = to;
    if (adds) CR_TRY(cr_import_between(node, "turned", &shape, &turned));
    CR_TRY(transpose(node, product, turned));
    product = turned;
  }
  return adds ? add_bias(node, &g, product, to) : CREMA_OK;
}

/* ---- MatMul --------------------------------------------------------------------- */

/* A constant matrix with axes of extent 1 before its last `kept`. */
static bool is_matrix(const cr_import_value *value, int kept) {
  return value->floats != NULL && value->shape->axes >= 1 &&
         crema_shape_count(value->shape, 0,
                           value->shape->axes > kept ? value->shape->axes - kept : 0) == 1;
}

/* Gives output 0 its shape. The layer's top may be another value, from which an axis is removed. */
static crema_status reshape_top(cr_import_node *node, const crema_shape *shape,
                                const crema_shape *made, cr_import_value **out) {
  CR_TRY(cr_import_set_shape(node->import, node->output[0], shape));
  *out = node->output[0];
  if (crema_shape_equal(shape, made)) return CREMA_OK;
  return cr_import_between(node, "product", made, out);
}

static crema_status finish(cr_import_node *node, cr_import_value *made) {
  if (made == node->output[0]) return CREMA_OK;
  return cr_import_view(node, made, node->output[0]->shape, &node->output[0]);
}

/* x (..., K) times a constant (K, N). */
static crema_status multiply_right(cr_import_node *node, cr_import_value *x, cr_import_value *b) {
  const int axes = x->shape->axes;
  const bool vector = b->shape->axes == 1;
  const int64_t inputs = b->shape->dim[vector ? 0 : b->shape->axes - 2];
  const int64_t outputs = vector ? 1 : b->shape->dim[b->shape->axes - 1];
  if (axes < 1 || x->shape->dim[axes - 1] != inputs || b->shape->axes > (axes > 2 ? axes : 2)) {
    return cr_import_reject(node, "the matrices do not fit");
  }
  crema_shape made = *x->shape, shape;
  cr_import_value *top;
  made.dim[axes - 1] = outputs;
  shape = made;
  if (vector) --shape.axes;
  CR_TRY(reshape_top(node, &shape, &made, &top));
  const cr_import_ends ends = {.bottom = {x}, .top = {top}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"InnerProduct\" inner_product_param { num_output: %lld axis: %d "
                         "bias_term: false transpose: true }",
                         (long long)outputs, axes - 1));
  CR_TRY(add_matrix(node, inputs, outputs, b, 1));
  return finish(node, top);
}

/* A constant (M, K) times x (..., K, N): a convolution whose channels are the axis of K. */
static crema_status multiply_left(cr_import_node *node, const cr_import_value *a,
                                  cr_import_value *x) {
  const int axes = x->shape->axes;
  const bool vector = a->shape->axes == 1;
  const int64_t inputs = a->shape->dim[a->shape->axes - 1];
  const int64_t outputs = vector ? 1 : a->shape->dim[a->shape->axes - 2];
  if (axes < 2 || x->shape->dim[axes - 2] != inputs || a->shape->axes > axes) {
    return cr_import_reject(node, "the matrices do not fit");
  }
  crema_shape made = *x->shape, shape;
  cr_import_value *top;
  made.dim[axes - 2] = outputs;
  shape = made;
  if (vector) shape.dim[--shape.axes - 1] = x->shape->dim[axes - 1];
  CR_TRY(reshape_top(node, &shape, &made, &top));
  const cr_import_ends ends = {.bottom = {x}, .top = {top}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"Convolution\" convolution_param { num_output: %lld axis: %d "
                         "kernel_size: 1 bias_term: false }",
                         (long long)outputs, axes - 2));
  const crema_shape weights = {.axes = 3, .dim = {outputs, inputs, 1}};
  CR_TRY(cr_import_weights_from(node->import, &weights, a));
  return finish(node, top);
}

crema_status cr_import_matmul(cr_import_node *node) {
  cr_import_value *a = node->input[0], *b = cr_import_input(node, 1);
  if (b == NULL) return cr_import_reject(node, "one input is missing");
  if (is_matrix(b, 2)) return multiply_right(node, a, b);
  if (is_matrix(a, 2)) return multiply_left(node, a, b);
  return cr_import_reject(node, "%s",
                          cr_import_is_constant(a) || cr_import_is_constant(b)
                              ? "a batch of constant matrices"
                              : "a product of two activations");
}
