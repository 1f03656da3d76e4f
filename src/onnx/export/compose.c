/* Nodes with new names, and functions that several layers share. */
#include "onnx/export/compose.h"

const char *cr_onnx_value(cr_onnx_graph *g, const char *op, const char *const *inputs) {
  const char *out = cr_onnx_name(g, op);
  cr_onnx_node(g, op, out, inputs);
  return out;
}

const char *cr_onnx_reshaped(cr_onnx_graph *g, const char *in, const int64_t *dims, size_t count) {
  const char *out = cr_onnx_name(g, "Reshape");
  cr_onnx_reshape(g, out, in, dims, count);
  return out;
}

const char *cr_onnx_transposed(cr_onnx_graph *g, const char *in, const int64_t *order,
                               size_t count) {
  const char *out = cr_onnx_name(g, "Transpose");
  cr_onnx_transpose(g, out, in, order, count);
  return out;
}

const char *cr_onnx_sliced(cr_onnx_graph *g, const char *in, int axis, int64_t start, int64_t end) {
  const char *out = cr_onnx_name(g, "Slice");
  cr_onnx_slice(g, out, in, axis, start, end);
  return out;
}

const char *cr_onnx_unsqueezed(cr_onnx_graph *g, const char *in, int64_t axis) {
  const char *out = cr_onnx_name(g, "Unsqueeze");
  cr_onnx_unsqueeze(g, out, in, &axis, 1);
  return out;
}

const char *cr_onnx_cast(cr_onnx_graph *g, const char *in, cr_onnx_type type) {
  const char *out = CR_ONNX_VALUE(g, "Cast", in);
  cr_onnx_int(g, "to", (int64_t)type);
  return out;
}

const char *cr_onnx_with(cr_onnx_graph *g, const char *op, const char *in, float number) {
  return CR_ONNX_VALUE(g, op, in, cr_onnx_scalar(g, "number", number));
}

const char *cr_onnx_integer(cr_onnx_graph *g, int64_t value) {
  return cr_onnx_integers(g, "integer", &value, 1);
}

const char *cr_onnx_gathered(cr_onnx_graph *g, const char *in, const char *index, int axis) {
  const char *out = CR_ONNX_VALUE(g, "Gather", in, index);
  cr_onnx_int(g, "axis", axis);
  return out;
}

const char *cr_onnx_extent(cr_onnx_graph *g, const char *in, int64_t axis) {
  const char *shape = CR_ONNX_VALUE(g, "Shape", in);
  return cr_onnx_gathered(g, shape, cr_onnx_integer(g, axis), 0);
}

const char *cr_onnx_round(cr_onnx_graph *g, const char *in) {
  const char *half =
      CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Abs", in), cr_onnx_double(g, "half", 0.5));
  return CR_ONNX_VALUE(g, "Mul", CR_ONNX_VALUE(g, "Sign", in), CR_ONNX_VALUE(g, "Floor", half));
}

/* ---- linear functions of rows and columns -------------------------------------- */

cr_onnx_matrix cr_onnx_new_matrix(cr_onnx_graph *g, int64_t to, int64_t from) {
  const size_t count = (size_t)(to * from);
  return (cr_onnx_matrix){to, from, cr_onnx_memory(g, (count > 0 ? count : 1) * sizeof(float))};
}

/* The matrix transposed, so that it multiplies from the right. */
static const char *write_matrix(cr_onnx_graph *g, const char *what, const cr_onnx_matrix *m) {
  const crema_shape shape = {.axes = 2, .dim = {m->from, m->to}};
  float *to;
  const char *name = cr_onnx_new_floats(g, what, &shape, &to);
  for (int64_t i = 0; to != NULL && m->weight != NULL && i < m->to * m->from; ++i) {
    to[i] = m->weight[i % m->to * m->from + i / m->to];
  }
  return name;
}

void cr_onnx_separable(cr_onnx_graph *g, const char *out, const char *in,
                       const cr_onnx_matrix *rows, const cr_onnx_matrix *columns) {
  static const int64_t order[] = {0, 1, 3, 2};
  const char *wide = CR_ONNX_VALUE(g, "MatMul", in, write_matrix(g, "columns", columns));
  const char *turned = cr_onnx_transposed(g, wide, order, 4);
  const char *all = CR_ONNX_VALUE(g, "MatMul", turned, write_matrix(g, "rows", rows));
  cr_onnx_transpose(g, out, all, order, 4);
}

/* ---- sampling -------------------------------------------------------------------- */

/* One side: the two neighbours of each position, and whether they count. */
typedef struct side {
  const char *at[2], *weight[2], *inside;
  float last;
} side;

/* 1 for positions from `low` to `high`, with `open` below it; else 0. */
static const char *is_between(cr_onnx_graph *g, const char *in, float high, bool open) {
  const char *below = cr_onnx_with(g, "Less", in, 0);
  const char *above = cr_onnx_with(g, open ? "Less" : "Greater", in, high);
  if (!open) return CR_ONNX_VALUE(g, "Not", CR_ONNX_VALUE(g, "Or", below, above));
  return CR_ONNX_VALUE(g, "And", CR_ONNX_VALUE(g, "Not", below), above);
}

static side split_side(cr_onnx_graph *g, const char *position, int64_t size, bool clamped) {
  side s = {.last = (float)(size - 1)};
  const char *low = CR_ONNX_VALUE(g, "Floor", position);
  s.at[0] = low;
  s.at[1] = cr_onnx_with(g, "Add", low, 1);
  s.weight[1] = CR_ONNX_VALUE(g, "Sub", position, low);
  s.weight[0] = CR_ONNX_VALUE(g, "Sub", cr_onnx_scalar(g, "one", 1), s.weight[1]);
  if (clamped) s.inside = is_between(g, position, (float)size, true);
  for (int i = 0; i < 2 && !clamped; ++i) {
    const char *counts = is_between(g, s.at[i], s.last, false);
    s.weight[i] = CR_ONNX_VALUE(g, "Mul", s.weight[i], cr_onnx_cast(g, counts, CR_ONNX_FLOAT));
  }
  for (int i = 0; i < 2; ++i) {
    const char *cut = cr_onnx_name(g, "Clip");
    cr_onnx_clip(g, cut, s.at[i], 0, s.last);
    s.at[i] = cr_onnx_cast(g, cut, CR_ONNX_INT64);
  }
  return s;
}

/* The index of the first pixel of each sample (N, 1), if pixels are the rows of a matrix. */
static const char *first_pixels(cr_onnx_graph *g, const char *map, int64_t pixels) {
  const int64_t column[] = {-1, 1};
  const char *none = cr_onnx_reshaped(g, cr_onnx_integer(g, 0), NULL, 0);
  const char *step = cr_onnx_reshaped(g, cr_onnx_integer(g, 1), NULL, 0);
  const char *samples = cr_onnx_reshaped(g, cr_onnx_extent(g, map, 0), NULL, 0);
  const char *number = CR_ONNX_VALUE(g, "Range", none, samples, step);
  const char *first = CR_ONNX_VALUE(g, "Mul", number, cr_onnx_integer(g, pixels));
  return cr_onnx_reshaped(g, first, column, 2);
}

const char *cr_onnx_sample(cr_onnx_graph *g, const cr_onnx_sampling *of) {
  const int64_t planes[] = {0, of->channels, -1}, pixels[] = {-1, of->channels};
  static const int64_t order[] = {0, 2, 1};
  const side y = split_side(g, of->y, of->height, of->clamped);
  const side x = split_side(g, of->x, of->width, of->clamped);
  const char *first = first_pixels(g, of->map, of->height * of->width), *sum = NULL;
  const char *flat = cr_onnx_transposed(g, cr_onnx_reshaped(g, of->map, planes, 3), order, 3);
  const char *rows = cr_onnx_reshaped(g, flat, pixels, 2);
  for (int k = 0; k < 4; ++k) {
    const char *row = CR_ONNX_VALUE(g, "Mul", y.at[k / 2], cr_onnx_integer(g, of->width));
    const char *index = CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Add", row, x.at[k % 2]), first);
    const char *weight = CR_ONNX_VALUE(g, "Mul", y.weight[k / 2], x.weight[k % 2]);
    const char *part = CR_ONNX_VALUE(g, "Mul", cr_onnx_gathered(g, rows, index, 0),
                                     cr_onnx_unsqueezed(g, weight, 2));
    sum = sum == NULL ? part : CR_ONNX_VALUE(g, "Add", sum, part);
  }
  if (of->clamped) {
    const char *inside = CR_ONNX_VALUE(g, "And", y.inside, x.inside);
    sum = CR_ONNX_VALUE(g, "Where", cr_onnx_unsqueezed(g, inside, 2), sum,
                        cr_onnx_scalar(g, "fill", of->fill));
  }
  return cr_onnx_transposed(g, sum, order, 3);
}
