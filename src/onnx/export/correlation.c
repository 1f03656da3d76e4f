/* Maps compared at displacements. */
#include "onnx/export/compose.h"

/* Positions of one axis that a correlation reads. */
typedef struct reach {
  int64_t first;              /* of the patches of the first map */
  int64_t length;             /* of all patches */
  int64_t shift, step, count; /* displacements: the first, steps, their number */
} reach;

static reach reach_of(const cr_onnx_layer *l, int axis, bool in_rows) {
  const Caffe__CorrelationParameter *p = l->param->correlation_param;
  const int64_t radius = p->max_displacement / p->stride_2, step = p->stride_2;
  const int direction = in_rows ? p->single_direction : 0;
  reach r = {.length = (cr_onnx_top_shape(l, 0)->dim[axis] - 1) * p->stride_1 + p->kernel_size,
             .step = step,
             .count = 1};
  if (in_rows && axis == 2) return r;
  r.first = (int64_t)p->max_displacement - p->pad;
  r.count = direction == 0 ? 2 * radius + 1 : radius + 1;
  r.shift = direction == 0 ? -radius * step : direction > 0 ? 0 : -(radius + 1) * step;
  return r;
}

/* A map with zeros around it, so that both maps have all positions; `begin` gets its paddings. */
static const char *pad_map(cr_onnx_layer *l, int bottom, const reach r[2], int64_t begin[2]) {
  int64_t pads[8] = {0};
  for (int i = 0; i < 2; ++i) {
    const int64_t last_shift = r[i].shift + (r[i].count - 1) * r[i].step;
    const int64_t low = r[i].first + (r[i].shift < 0 ? r[i].shift : 0);
    const int64_t high = r[i].first + r[i].length + (last_shift > 0 ? last_shift : 0);
    const int64_t over = high - cr_onnx_bottom_shape(l, bottom)->dim[2 + i];
    begin[i] = pads[2 + i] = low < 0 ? -low : 0;
    pads[6 + i] = over > 0 ? over : 0;
  }
  const char *out = cr_onnx_name(l->g, "Pad");
  cr_onnx_pad(l->g, out, l->in[bottom], pads, 8, 0);
  return out;
}

/* The part of a padded map that displacement (down, across) reads. */
static const char *part_at(cr_onnx_graph *g, const char *map, const reach r[2],
                           const int64_t begin[2], const int64_t shift[2]) {
  int64_t start[2], end[2];
  for (int i = 0; i < 2; ++i) {
    start[i] = begin[i] + r[i].first + shift[i];
    end[i] = start[i] + r[i].length;
  }
  const char *from = cr_onnx_integers(g, "start", start, 2),
             *to = cr_onnx_integers(g, "end", end, 2);
  return CR_ONNX_VALUE(g, "Slice", map, from, to,
                       cr_onnx_integers(g, "axes", (const int64_t[]){2, 3}, 2));
}

/* Each displacement is a product of the maps; patches are means over windows of the products. */
static void write_correlation(cr_onnx_layer *l, bool in_rows) {
  const Caffe__CorrelationParameter *p = l->param->correlation_param;
  const bool subtract =
      p->correlation_type == CAFFE__CORRELATION_PARAMETER__CORRELATION_TYPE__SUBTRACT;
  const reach r[2] = {reach_of(l, 2, in_rows), reach_of(l, 3, in_rows)};
  const int64_t count = r[0].count * r[1].count, kernel = p->kernel_size, stride = p->stride_1;
  int64_t begin[2];
  cr_onnx_graph *g = l->g;
  const char **part = cr_onnx_memory(g, ((size_t)count + 1) * sizeof *part);
  const char *a = pad_map(l, 0, r, begin), *b = pad_map(l, 1, r, begin);
  if (part == NULL) return;
  a = part_at(g, a, r, begin, (const int64_t[]){0, 0});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t shift[] = {r[0].shift + i / r[1].count * r[0].step,
                             r[1].shift + i % r[1].count * r[1].step};
    const char *other = part_at(g, b, r, begin, shift);
    const char *pair = CR_ONNX_VALUE(g, subtract ? "Sub" : "Mul", a, other);
    if (subtract) pair = CR_ONNX_VALUE(g, "Abs", pair);
    part[i] = cr_onnx_name(g, "mean");
    cr_onnx_reduce(g, "ReduceMean", part[i], pair, (const int64_t[]){1}, 1, true);
  }
  const char *all = cr_onnx_value(g, "Concat", part);
  cr_onnx_int(g, "axis", 1);
  CR_ONNX_NODE(g, "AveragePool", l->out[0], all);
  cr_onnx_ints(g, "kernel_shape", (const int64_t[]){kernel, kernel}, 2);
  cr_onnx_ints(g, "strides", (const int64_t[]){stride, stride}, 2);
}

void cr_onnx_export_correlation(cr_onnx_layer *l) {
  write_correlation(l, false);
}

void cr_onnx_export_correlation_1d(cr_onnx_layer *l) {
  write_correlation(l, true);
}
