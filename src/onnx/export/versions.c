/* Operators whose form depends on the operator set. */
#include <math.h>
#include <string.h>

#include "onnx/export/graph.h"

/* A list of axes is an attribute up to an operator set, and an input from it on. */
static void node_with_axes(cr_onnx_graph *g, const char *op, const char *out, const char *in,
                           const int64_t *axes, size_t count, int input_since) {
  if (g->opset >= input_since) {
    CR_ONNX_NODE(g, op, out, in, cr_onnx_integers(g, "axes", axes, count));
  } else {
    CR_ONNX_NODE(g, op, out, in);
    cr_onnx_ints(g, "axes", axes, count);
  }
}

void cr_onnx_unsqueeze(cr_onnx_graph *g, const char *out, const char *in, const int64_t *axes,
                       size_t count) {
  node_with_axes(g, "Unsqueeze", out, in, axes, count, 13);
}

void cr_onnx_reduce(cr_onnx_graph *g, const char *op, const char *out, const char *in,
                    const int64_t *axes, size_t count, bool keep) {
  node_with_axes(g, op, out, in, axes, count, strcmp(op, "ReduceSum") == 0 ? 13 : 18);
  cr_onnx_int(g, "keepdims", keep);
}

/* Before operator set 13 Softmax joins all axes from `axis` on. */
void cr_onnx_softmax(cr_onnx_graph *g, const char *out, const char *in, int axis, int axes) {
  if (g->opset >= 13 || axis == axes - 1) {
    CR_ONNX_NODE(g, "Softmax", out, in);
    cr_onnx_int(g, "axis", axis);
    return;
  }
  int64_t order[CREMA_MAX_AXES];
  for (int i = 0; i < axes; ++i) order[i] = i;
  order[axis] = axes - 1;
  order[axes - 1] = axis;
  const char *last = cr_onnx_name(g, "last"), *soft = cr_onnx_name(g, "softmax");
  cr_onnx_transpose(g, last, in, order, (size_t)axes);
  CR_ONNX_NODE(g, "Softmax", soft, last);
  cr_onnx_int(g, "axis", axes - 1);
  cr_onnx_transpose(g, out, soft, order, (size_t)axes);
}

void cr_onnx_slice(cr_onnx_graph *g, const char *out, const char *in, int axis, int64_t start,
                   int64_t end) {
  const char *from = cr_onnx_integers(g, "start", &start, 1);
  const char *to = cr_onnx_integers(g, "end", &end, 1);
  const char *axes = cr_onnx_integers(g, "axis", &(int64_t){axis}, 1);
  CR_ONNX_NODE(g, "Slice", out, in, from, to, axes);
}

void cr_onnx_reshape(cr_onnx_graph *g, const char *out, const char *in, const int64_t *dims,
                     size_t count) {
  CR_ONNX_NODE(g, "Reshape", out, in, cr_onnx_integers(g, "shape", dims, count));
}

void cr_onnx_reshape_to(cr_onnx_graph *g, const char *out, const char *in,
                        const crema_shape *shape) {
  int64_t dims[CREMA_MAX_AXES];
  for (int i = 0; i < shape->axes; ++i) dims[i] = shape->dim[i];
  if (g->any_batch && shape->axes > 0) dims[0] = -1;
  cr_onnx_reshape(g, out, in, dims, (size_t)shape->axes);
}

void cr_onnx_pad(cr_onnx_graph *g, const char *out, const char *in, const int64_t *pads,
                 size_t count, float value) {
  const char *sizes = cr_onnx_integers(g, "pads", pads, count);
  CR_ONNX_NODE(g, "Pad", out, in, sizes, cr_onnx_scalar(g, "pad_value", value));
}

void cr_onnx_clip(cr_onnx_graph *g, const char *out, const char *in, float low, float high) {
  const char *least = isnan(low) ? "" : cr_onnx_scalar(g, "low", low);
  if (isnan(high)) {
    CR_ONNX_NODE(g, "Clip", out, in, least);
  } else {
    CR_ONNX_NODE(g, "Clip", out, in, least, cr_onnx_scalar(g, "high", high));
  }
}

void cr_onnx_transpose(cr_onnx_graph *g, const char *out, const char *in, const int64_t *order,
                       size_t count) {
  CR_ONNX_NODE(g, "Transpose", out, in);
  cr_onnx_ints(g, "perm", order, count);
}

void cr_onnx_split(cr_onnx_graph *g, const char *const *out, const char *in, int axis,
                   const int64_t *sizes, size_t count) {
  if (g->opset >= 13) {
    CR_ONNX_NODE(g, "Split", out[0], in, cr_onnx_integers(g, "sizes", sizes, count));
  } else {
    CR_ONNX_NODE(g, "Split", out[0], in);
    cr_onnx_ints(g, "split", sizes, count);
  }
  for (size_t i = 1; i < count; ++i) cr_onnx_output(g, out[i]);
  cr_onnx_int(g, "axis", axis);
}
