/* Maps of another size. */
#include <math.h>
#include <string.h>

#include "onnx/export/compose.h"

/* ---- Interp, Upsample -------------------------------------------------------------- */

/* The shape of the result of a Resize: a symbolic batch is taken from the map. */
static const char *resized_shape(cr_onnx_layer *l, const char *map) {
  const int64_t *to = cr_onnx_top_shape(l, 0)->dim;
  cr_onnx_graph *g = l->g;
  if (!g->any_batch) return cr_onnx_integers(g, "sizes", to, 4);
  const char *shape =
      CR_ONNX_VALUE(g, "Concat", cr_onnx_sliced(g, CR_ONNX_VALUE(g, "Shape", map), 0, 0, 2),
                    cr_onnx_integers(g, "sizes", to + 2, 2));
  cr_onnx_int(g, "axis", 0);
  return shape;
}

/* The regions and scales of a Resize that has neither. */
static const char *no_numbers(cr_onnx_graph *g) {
  const crema_shape none = {.axes = 1, .dim = {0}};
  float *values;
  return g->opset >= 13 ? "" : cr_onnx_new_floats(g, "none", &none, &values);
}

void cr_onnx_export_interp(cr_onnx_layer *l) {
  const Caffe__InterpParameter *p = l->param->interp_param;
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim;
  cr_onnx_graph *g = l->g;
  const char *map = l->in[0], *none = no_numbers(g);
  for (int i = 2; i < 4 && p != NULL && p->pad_beg + p->pad_end < 0; ++i) {
    map = cr_onnx_sliced(g, map, i, -p->pad_beg, from[i] + p->pad_end);
  }
  const char *sizes = resized_shape(l, map);
  CR_ONNX_NODE(g, "Resize", l->out[0], map, none, none, sizes);
  cr_onnx_text(g, "mode", "linear");
  cr_onnx_text(g, "coordinate_transformation_mode", "align_corners");
}

/* Puts each value of a map at the position that an index (N, C, H W) of INT64 names. */
static void write_scatter(cr_onnx_layer *l, const char *index) {
  const int64_t *to = cr_onnx_top_shape(l, 0)->dim;
  const int64_t planes[] = {0, to[1], -1};
  cr_onnx_graph *g = l->g;
  const char *values = cr_onnx_reshaped(g, l->in[0], planes, 3);
  const char *shape =
      CR_ONNX_VALUE(g, "Concat", cr_onnx_extent(g, l->in[0], 0),
                    cr_onnx_integers(g, "plane", (const int64_t[]){to[1], to[2] * to[3]}, 2));
  cr_onnx_int(g, "axis", 0);
  const char *zeros = CR_ONNX_VALUE(g, "ConstantOfShape", shape);
  const char *all = CR_ONNX_VALUE(g, "ScatterElements", zeros, index, values);
  cr_onnx_int(g, "axis", 2);
  cr_onnx_reshape_to(g, l->out[0], all, cr_onnx_top_shape(l, 0));
}

static void write_unpool(cr_onnx_layer *l) {
  const int64_t planes[] = {0, cr_onnx_bottom_shape(l, 1)->dim[1], -1};
  write_scatter(l, cr_onnx_cast(l->g, cr_onnx_reshaped(l->g, l->in[1], planes, 3), CR_ONNX_INT64));
}

void cr_onnx_export_upsample(cr_onnx_layer *l) {
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim, *to = cr_onnx_top_shape(l, 0)->dim;
  const crema_shape four = {.axes = 1, .dim = {4}};
  cr_onnx_graph *g = l->g;
  if (l->bottoms > 1) {
    write_unpool(l);
    return;
  }
  if (from[2] == 0 || from[3] == 0) {
    cr_onnx_reject(l, NULL, "the map has no values");
    return;
  }
  const float scale[4] = {1, 1, (float)(to[2] / from[2]), (float)(to[3] / from[3])};
  const char *none = no_numbers(g);
  CR_ONNX_NODE(g, "Resize", l->out[0], l->in[0], none, cr_onnx_floats(g, "scales", &four, scale));
  cr_onnx_text(g, "mode", "nearest");
  cr_onnx_text(g, "coordinate_transformation_mode", "asymmetric");
  cr_onnx_text(g, "nearest_mode", "floor");
}

/* ---- Unpooling --------------------------------------------------------------------- */

/* Windows of window[0] positions, window[1] apart. Each value of the map goes to its window or, for
 * MAX, to the window's first position. Of several values for a position, MAX keeps the last. */
static cr_onnx_matrix windows_of(cr_onnx_graph *g, Caffe__UnpoolingParameter__UnpoolMethod method,
                                 int64_t from, int64_t to, const int64_t window[2]) {
  cr_onnx_matrix m = cr_onnx_new_matrix(g, to, from);
  const bool max = method == CAFFE__UNPOOLING_PARAMETER__UNPOOL_METHOD__MAX;
  for (int64_t i = 0; m.weight != NULL && i < from; ++i) {
    const int64_t begin = max && i * window[1] > to - 1 ? to - 1 : i * window[1];
    const int64_t end = max ? begin + 1 : begin + window[0] < to ? begin + window[0] : to;
    const bool average = method == CAFFE__UNPOOLING_PARAMETER__UNPOOL_METHOD__AVE;
    for (int64_t k = begin; k < end; ++k) {
      if (max) memset(m.weight + k * from, 0, (size_t)from * sizeof(float));
      m.weight[k * from + i] = average ? 1 / (float)(end - begin) : 1;
    }
  }
  return m;
}

void cr_onnx_export_unpooling(cr_onnx_layer *l) {
  const Caffe__UnpoolingParameter *p = l->param->unpooling_param;
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim, *to = cr_onnx_top_shape(l, 0)->dim;
  const int64_t rows[2] = {p->has_kernel_h ? p->kernel_h : p->kernel_size,
                           p->has_stride_h ? p->stride_h : p->stride};
  const int64_t columns[2] = {p->has_kernel_h ? p->kernel_w : p->kernel_size,
                              p->has_stride_h ? p->stride_w : p->stride};
  if (l->bottoms > 1) {
    write_unpool(l);
    return;
  }
  const cr_onnx_matrix down = windows_of(l->g, p->unpool, from[2], to[2], rows);
  const cr_onnx_matrix across = windows_of(l->g, p->unpool, from[3], to[3], columns);
  cr_onnx_separable(l->g, l->out[0], l->in[0], &down, &across);
}

/* ---- Resample ---------------------------------------------------------------------- */

/* The weight of a value at a distance in positions of the map. */
static double kernel_at(bool cubic, double distance) {
  const double x = fabs(distance);
  if (!cubic) return fmax(0, 1 - x);
  if (x >= 2) return 0;
  return x > 1 ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
}

/* The weights of one axis, which shrinks by `ratio`; `other`: the ratio of the other axis. */
static cr_onnx_matrix resampling_of(cr_onnx_graph *g, const Caffe__ResampleParameter *p,
                                    const int64_t size[2], double other, bool smooth) {
  cr_onnx_matrix m = cr_onnx_new_matrix(g, size[1], size[0]);
  const double ratio = (double)size[0] / (double)size[1], factor = smooth ? 1 / ratio : 1;
  const bool cubic = p->type == CAFFE__RESAMPLE_PARAMETER__RESAMPLE_TYPE__CUBIC;
  const int64_t reach = ratio < 1 ? 2 : (int64_t)ceil((cubic ? 4 : 2) / factor);
  for (int64_t i = 0; m.weight != NULL && i < size[1]; ++i) {
    const double source = (double)i * ratio + other / 2 - 0.5;
    const int64_t nearest = (int64_t)round(source);
    double sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = nearest - reach; k <= nearest + reach; ++k) {
        if (k < 0 || k >= size[0]) continue;
        const double weight = kernel_at(cubic, factor * (source - (double)k));
        if (pass == 0) sum += weight;
        else if (sum != 0) m.weight[i * size[0] + k] = (float)(weight / sum);
      }
    }
  }
  return m;
}

/* The nearest position of each result of one axis. */
static const char *nearest_of(cr_onnx_graph *g, const int64_t size[2], double other) {
  int64_t *at = cr_onnx_memory(g, (size_t)size[1] * sizeof *at);
  for (int64_t i = 0; at != NULL && i < size[1]; ++i) {
    const double source = (double)i * (double)size[0] / (double)size[1] + other / 2 - 0.5;
    const int64_t nearest = (int64_t)round(source);
    at[i] = nearest < 0 ? 0 : nearest < size[0] ? nearest : size[0] - 1;
  }
  return at == NULL ? "" : cr_onnx_integers(g, "nearest", at, (size_t)size[1]);
}

void cr_onnx_export_resample(cr_onnx_layer *l) {
  static const Caffe__ResampleParameter defaults = CAFFE__RESAMPLE_PARAMETER__INIT;
  const Caffe__ResampleParameter *p =
      l->param->resample_param ? l->param->resample_param : &defaults;
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim, *to = cr_onnx_top_shape(l, 0)->dim;
  const int64_t rows[2] = {from[2], to[2]}, columns[2] = {from[3], to[3]};
  const double down = (double)from[2] / (double)to[2], across = (double)from[3] / (double)to[3];
  const bool smooth = p->antialias && (down > 1 || across > 1);
  if (p->type == CAFFE__RESAMPLE_PARAMETER__RESAMPLE_TYPE__NEAREST) {
    const char *wide = cr_onnx_gathered(l->g, l->in[0], nearest_of(l->g, columns, down), 3);
    CR_ONNX_NODE(l->g, "Gather", l->out[0], wide, nearest_of(l->g, rows, across));
    cr_onnx_int(l->g, "axis", 2);
    return;
  }
  const cr_onnx_matrix of_rows = resampling_of(l->g, p, rows, across, smooth);
  const cr_onnx_matrix of_columns = resampling_of(l->g, p, columns, down, smooth);
  cr_onnx_separable(l->g, l->out[0], l->in[0], &of_rows, &of_columns);
}
