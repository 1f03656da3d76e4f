/* Layers that move values. */
#include <stdint.h>

#include "onnx/export/layer.h"

/* ---- views ------------------------------------------------------------------------------ */

void cr_onnx_export_flatten(cr_onnx_layer *l) {
  const Caffe__FlattenParameter *p = l->param->flatten_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0), *to = cr_onnx_top_shape(l, 0);
  const int start = cr_onnx_axis(from, p == NULL ? 1 : p->axis);
  if (start == 1 && to->axes == 2) {
    CR_ONNX_NODE(l->g, "Flatten", l->out[0], l->in[0]);
    cr_onnx_int(l->g, "axis", 1);
  } else {
    cr_onnx_reshape_to(l->g, l->out[0], l->in[0], to);
  }
}

/* A symbolic batch stays axis 0, which is copied, or computed from the rest. */
void cr_onnx_export_reshape(cr_onnx_layer *l) {
  const Caffe__ReshapeParameter *p = l->param->reshape_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0), *to = cr_onnx_top_shape(l, 0);
  const int start = p->axis >= 0 ? p->axis : from->axes + p->axis + 1;
  const int end = p->num_axes == -1 ? from->axes : start + p->num_axes;
  int64_t dims[CREMA_MAX_AXES];
  for (int i = 0; i < to->axes; ++i) dims[i] = to->dim[i];
  if (l->g->any_batch) {
    const bool moves = start == 0 && (end == 0 || p->shape->n_dim == 0 || p->shape->dim[0] > 0);
    if (moves && cr_onnx_rejects_any_batch(l)) return;
    dims[0] = start > 0 ? 0 : p->shape->dim[0];
  }
  cr_onnx_reshape(l->g, l->out[0], l->in[0], dims, (size_t)to->axes);
}

/* ---- orders ------------------------------------------------------------------------------- */

/* Axes in the order of `list`, then all others. */
static void write_order(cr_onnx_layer *l, const char *out, const uint32_t *list, size_t count) {
  const int axes = cr_onnx_bottom_shape(l, 0)->axes;
  int64_t order[CREMA_MAX_AXES];
  uint32_t seen = 0;
  size_t n = 0;
  for (size_t i = 0; i < count; ++i) {
    order[n++] = list[i];
    seen |= 1u << list[i];
  }
  for (int i = 0; i < axes; ++i) {
    if (!(seen >> i & 1u)) order[n++] = i;
  }
  if (n > 0 && order[0] != 0 && cr_onnx_rejects_any_batch(l)) return;
  cr_onnx_transpose(l->g, out, l->in[0], order, n);
}

void cr_onnx_export_permute(cr_onnx_layer *l) {
  const Caffe__PermuteParameter *p = l->param->permute_param;
  write_order(l, l->out[0], p == NULL ? NULL : p->order, p == NULL ? 0 : p->n_order);
}

/* Without dim: the channels to the end, and one row for each position. */
void cr_onnx_export_transpose(cr_onnx_layer *l) {
  const Caffe__TransposeParameter *p = l->param->transpose_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  uint32_t order[CREMA_MAX_AXES] = {0};
  if (p != NULL && p->n_dim > 0) {
    write_order(l, l->out[0], p->dim, p->n_dim);
    return;
  }
  for (int i = 2; i < from->axes; ++i) order[i - 1] = (uint32_t)i;
  order[from->axes - 1] = 1;
  const char *last = cr_onnx_name(l->g, "channels_last");
  write_order(l, last, order, (size_t)from->axes);
  cr_onnx_reshape(l->g, l->out[0], last, (const int64_t[]){-1, from->dim[1]}, 2);
}

/* Axes of the bottom from their ends to their starts; bit i for axis i. */
static void write_flip(cr_onnx_layer *l, uint32_t flipped) {
  int64_t start[CREMA_MAX_AXES], end[CREMA_MAX_AXES], axis[CREMA_MAX_AXES], step[CREMA_MAX_AXES];
  cr_onnx_graph *g = l->g;
  size_t count = 0;
  for (int i = 0; i < cr_onnx_bottom_shape(l, 0)->axes; ++i) {
    if (!(flipped >> i & 1u)) continue;
    axis[count] = i;
    start[count] = step[count] = -1;
    end[count++] = INT64_MIN;
  }
  if (count == 0) {
    CR_ONNX_NODE(g, "Identity", l->out[0], l->in[0]);
    return;
  }
  const char *starts = cr_onnx_integers(g, "start", start, count);
  const char *ends = cr_onnx_integers(g, "end", end, count);
  const char *axes = cr_onnx_integers(g, "axis", axis, count);
  const char *steps = cr_onnx_integers(g, "step", step, count);
  CR_ONNX_NODE(g, "Slice", l->out[0], l->in[0], starts, ends, axes, steps);
}

void cr_onnx_export_flip(cr_onnx_layer *l) {
  static const Caffe__FlipParameter defaults = CAFFE__FLIP_PARAMETER__INIT;
  const Caffe__FlipParameter *p = l->param->flip_param ? l->param->flip_param : &defaults;
  write_flip(l, (p->flip_height ? 1u << 2 : 0) | (p->flip_width ? 1u << 3 : 0));
}

void cr_onnx_export_reverse(cr_onnx_layer *l) {
  const Caffe__ReverseParameter *p = l->param->reverse_param;
  uint32_t flipped = 0;
  if (l->bottoms > 1) {
    cr_onnx_reject(l, "Reverse with one bottom", "the marks of sequences are values of a blob");
    return;
  }
  if (p == NULL || p->n_axis == 0) flipped = 1;
  else
    for (size_t i = 0; i < p->n_axis; ++i) {
      flipped |= 1u << cr_onnx_axis(cr_onnx_bottom_shape(l, 0), p->axis[i]);
    }
  write_flip(l, flipped);
}

/* ---- parts --------------------------------------------------------------------------------- */

void cr_onnx_export_concat(cr_onnx_layer *l) {
  const Caffe__ConcatParameter *p = l->param->concat_param;
  const char **names = cr_onnx_memory(l->g, ((size_t)l->bottoms + 1) * sizeof *names);
  if (names == NULL) return;
  int axis = cr_onnx_axis(cr_onnx_bottom_shape(l, 0), p == NULL ? 1 : p->axis);
  if (p != NULL && p->has_concat_dim) axis = (int)p->concat_dim;
  for (int i = 0; i < l->bottoms; ++i) names[i] = l->in[i];
  cr_onnx_node(l->g, "Concat", l->out[0], names);
  cr_onnx_int(l->g, "axis", axis);
}

void cr_onnx_export_slice(cr_onnx_layer *l) {
  const Caffe__SliceParameter *p = l->param->slice_param;
  int axis = cr_onnx_axis(cr_onnx_bottom_shape(l, 0), p == NULL ? 1 : p->axis);
  if (p != NULL && p->has_slice_dim) axis = (int)p->slice_dim;
  if (l->tops == 1) {
    CR_ONNX_NODE(l->g, "Identity", l->out[0], l->in[0]);
    return;
  }
  if (axis == 0 && cr_onnx_rejects_any_batch(l)) return;
  int64_t *sizes = cr_onnx_memory(l->g, (size_t)l->tops * sizeof *sizes);
  if (sizes == NULL) return;
  for (int t = 0; t < l->tops; ++t) sizes[t] = cr_onnx_top_shape(l, t)->dim[axis];
  cr_onnx_split(l->g, l->out, l->in[0], axis, sizes, (size_t)l->tops);
}

void cr_onnx_export_crop(cr_onnx_layer *l) {
  static const Caffe__CropParameter defaults = CAFFE__CROP_PARAMETER__INIT;
  const Caffe__CropParameter *p = l->param->crop_param ? l->param->crop_param : &defaults;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0), *to = cr_onnx_top_shape(l, 0);
  const int first = cr_onnx_axis(from, p->axis);
  int64_t start[CREMA_MAX_AXES], end[CREMA_MAX_AXES], axis[CREMA_MAX_AXES];
  const size_t count = (size_t)(from->axes - first);
  cr_onnx_graph *g = l->g;
  if (first == 0 && cr_onnx_rejects_any_batch(l)) return;
  for (size_t i = 0; i < count; ++i) {
    const int a = first + (int)i;
    axis[i] = a;
    start[i] = p->n_offset == 0 ? 0 : p->offset[p->n_offset == 1 ? 0 : i];
    end[i] = start[i] + to->dim[a];
  }
  const char *starts = cr_onnx_integers(g, "start", start, count);
  const char *ends = cr_onnx_integers(g, "end", end, count);
  const char *axes = cr_onnx_integers(g, "axis", axis, count);
  CR_ONNX_NODE(g, "Slice", l->out[0], l->in[0], starts, ends, axes);
}

void cr_onnx_export_tile(cr_onnx_layer *l) {
  const Caffe__TileParameter *p = l->param->tile_param;
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  int64_t repeats[CREMA_MAX_AXES];
  for (int i = 0; i < from->axes; ++i) repeats[i] = 1;
  repeats[cr_onnx_axis(from, p->axis)] = p->tiles;
  CR_ONNX_NODE(l->g, "Tile", l->out[0], l->in[0],
               cr_onnx_integers(l->g, "repeats", repeats, (size_t)from->axes));
}

void cr_onnx_export_continuation_indicator(cr_onnx_layer *l) {
  const crema_shape *shape = cr_onnx_top_shape(l, 0);
  float *values;
  const char *name = cr_onnx_new_floats(l->g, "values", shape, &values);
  const int64_t count = crema_shape_count(shape, 0, shape->axes);
  for (int64_t i = 0; values != NULL && i < count; ++i) values[i] = i < shape->dim[1] ? 0 : 1;
  CR_ONNX_NODE(l->g, "Identity", l->out[0], name);
}
