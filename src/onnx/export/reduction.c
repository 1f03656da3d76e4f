/* Layers that reduce axes. */
#include "onnx/export/layer.h"

static const char *operator_of(Caffe__ReductionParameter__ReductionOp operation) {
  switch (operation) {
    case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM: return "ReduceL1";
    case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ: return "ReduceSumSquare";
    case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN: return "ReduceMean";
    default: return "ReduceSum";
  }
}

void cr_onnx_export_reduction(cr_onnx_layer *l) {
  static const Caffe__ReductionParameter defaults = CAFFE__REDUCTION_PARAMETER__INIT;
  const Caffe__ReductionParameter *p =
      l->param->reduction_param ? l->param->reduction_param : &defaults;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int first = cr_onnx_axis(from, p->axis);
  const char *out = p->coeff == 1 ? l->out[0] : cr_onnx_name(l->g, "reduced");
  int64_t axes[CREMA_MAX_AXES];
  if (from->axes == 0) {
    cr_onnx_reject(l, "Power", "its bottom is a scalar");
    return;
  }
  for (int i = first; i < from->axes; ++i) axes[i - first] = i;
  cr_onnx_reduce(l->g, operator_of(p->operation), out, l->in[0], axes, (size_t)(from->axes - first),
                 false);
  if (p->coeff == 1) return;
  CR_ONNX_NODE(l->g, "Mul", l->out[0], out, cr_onnx_scalar(l->g, "coeff", p->coeff));
}

/* ---- ArgMax ------------------------------------------------------------------------------ */

/* The axis in reverse order: ONNX prefers the first of equal values, Caffe the last. */
static const char *reverse(cr_onnx_graph *g, const char *in, int64_t axis) {
  const int64_t one = -1, end = INT64_MIN;
  const char *out = cr_onnx_name(g, "reversed");
  const char *start = cr_onnx_integers(g, "start", &one, 1);
  const char *ends = cr_onnx_integers(g, "end", &end, 1);
  const char *axes = cr_onnx_integers(g, "axis", &axis, 1);
  CR_ONNX_NODE(g, "Slice", out, in, start, ends, axes, start);
  return out;
}

/* The names of the largest values along an axis of `extent` and of their positions, as floats. */
typedef struct ranks {
  const char *values, *places;
} ranks;

static ranks write_ranks(cr_onnx_layer *l, const char *in, int axis, int64_t extent, int64_t k) {
  cr_onnx_graph *g = l->g;
  const ranks out = {cr_onnx_name(g, "values"), cr_onnx_name(g, "places")};
  const char *index = cr_onnx_name(g, "index"), *back = cr_onnx_name(g, "back");
  l->kept = true;
  CR_ONNX_NODE(g, "TopK", out.values, reverse(g, in, axis), cr_onnx_integers(g, "k", &k, 1));
  cr_onnx_output(g, index);
  cr_onnx_int(g, "axis", axis);
  CR_ONNX_NODE(g, "Cast", back, index);
  cr_onnx_int(g, "to", CR_ONNX_FLOAT);
  CR_ONNX_NODE(g, "Sub", out.places, cr_onnx_scalar(g, "last", (float)(extent - 1)), back);
  return out;
}

/* The position of the largest value. */
static void write_best(cr_onnx_layer *l, int axis) {
  const char *index = cr_onnx_name(l->g, "index");
  CR_ONNX_NODE(l->g, "ArgMax", index, l->in[0]);
  cr_onnx_int(l->g, "axis", axis);
  cr_onnx_int(l->g, "select_last_index", 1);
  CR_ONNX_NODE(l->g, "Cast", l->out[0], index);
  cr_onnx_int(l->g, "to", CR_ONNX_FLOAT);
}

static void write_along(cr_onnx_layer *l, const Caffe__ArgMaxParameter *p) {
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int axis = cr_onnx_axis(from, p->axis);
  if (p->top_k == 1 && !p->out_max_val && l->g->opset >= 12) {
    write_best(l, axis);
    return;
  }
  if (axis == 0 && cr_onnx_rejects_any_batch(l)) return;
  const ranks found = write_ranks(l, l->in[0], axis, from->dim[axis], p->top_k);
  CR_ONNX_NODE(l->g, "Identity", l->out[0], p->out_max_val ? found.values : found.places);
}

/* Without an axis: over all values of a sample, (N, 1 or 2, k, 1...). */
static void write_samples(cr_onnx_layer *l, const Caffe__ArgMaxParameter *p) {
  const crema_shape *from = cr_onnx_bottom_shape(l, 0), *to = cr_onnx_top_shape(l, 0);
  const int64_t extent = crema_shape_count(from, 1, from->axes);
  cr_onnx_graph *g = l->g;
  const char *rows = cr_onnx_name(g, "rows");
  cr_onnx_reshape(g, rows, l->in[0], (const int64_t[]){-1, extent}, 2);
  const ranks found = write_ranks(l, rows, 1, extent, p->top_k);
  const char *all = found.places;
  if (p->out_max_val) {
    all = cr_onnx_name(g, "both");
    CR_ONNX_NODE(g, "Concat", all, found.places, found.values);
    cr_onnx_int(g, "axis", 1);
  }
  cr_onnx_reshape_to(g, l->out[0], all, to);
}

void cr_onnx_export_arg_max(cr_onnx_layer *l) {
  static const Caffe__ArgMaxParameter defaults = CAFFE__ARG_MAX_PARAMETER__INIT;
  const Caffe__ArgMaxParameter *p = l->param->argmax_param ? l->param->argmax_param : &defaults;
  if (p->has_axis) write_along(l, p);
  else write_samples(l, p);
}
