/* Regions of interest. */
#include <math.h>

#include "onnx/export/compose.h"

/* The rows (R, 5) of the regions. */
static const char *region_rows(cr_onnx_layer *l) {
  static const int64_t rows[] = {-1, 5};
  return cr_onnx_reshaped(l->g, l->in[1], rows, 2);
}

/* The number of the image of each region (R). */
static const char *region_images(cr_onnx_graph *g, const char *rows) {
  static const int64_t flat[] = {-1};
  const char *column = cr_onnx_reshaped(g, cr_onnx_sliced(g, rows, 1, 0, 1), flat, 1);
  return cr_onnx_cast(g, column, CR_ONNX_INT64);
}

/* Whether a product with this factor is exact in single precision for coordinates of 24 bits. */
static bool is_power_of_two(float scale) {
  int exponent;
  return frexpf(scale, &exponent) == 0.5f;
}

/* ---- ROIPooling -------------------------------------------------------------------- */

/* The regions with `pad` of their sides added to both ends. */
static const char *pad_regions(cr_onnx_graph *g, const char *rows, float pad) {
  const char *image = cr_onnx_sliced(g, rows, 1, 0, 1);
  const char *low = cr_onnx_sliced(g, rows, 1, 1, 3), *high = cr_onnx_sliced(g, rows, 1, 3, 5);
  const char *side = cr_onnx_with(g, "Add", CR_ONNX_VALUE(g, "Sub", high, low), 1);
  const char *more = cr_onnx_with(g, "Mul", side, pad);
  const char *out = CR_ONNX_VALUE(g, "Concat", image, CR_ONNX_VALUE(g, "Sub", low, more),
                                  CR_ONNX_VALUE(g, "Add", high, more));
  cr_onnx_int(g, "axis", 1);
  return out;
}

/* The regions rounded to whole cells of the map. Products are rounded in double precision. */
static const char *round_regions(cr_onnx_graph *g, const char *rows, float scale) {
  const char *image = cr_onnx_sliced(g, rows, 1, 0, 1);
  const char *wide = cr_onnx_cast(g, cr_onnx_sliced(g, rows, 1, 1, 5), CR_ONNX_DOUBLE);
  const char *cells = CR_ONNX_VALUE(g, "Mul", wide, cr_onnx_double(g, "scale", (double)scale));
  const char *out =
      CR_ONNX_VALUE(g, "Concat", image, cr_onnx_cast(g, cr_onnx_round(g, cells), CR_ONNX_FLOAT));
  cr_onnx_int(g, "axis", 1);
  return out;
}

void cr_onnx_export_roi_pooling(cr_onnx_layer *l) {
  const Caffe__ROIPoolingParameter *param = l->param->roi_pooling_param;
  const int64_t *to = cr_onnx_top_shape(l, 0)->dim;
  const char *rows = region_rows(l);
  float scale = param->spatial_scale;
  if (param->pad_ratio > 0) rows = pad_regions(l->g, rows, param->pad_ratio);
  if (!is_power_of_two(scale)) {
    rows = round_regions(l->g, rows, scale);
    scale = 1;
  }
  CR_ONNX_NODE(l->g, "MaxRoiPool", l->out[0], l->in[0], rows);
  cr_onnx_ints(l->g, "pooled_shape", to + 2, 2);
  cr_onnx_float(l->g, "spatial_scale", scale);
}

/* ---- ROIAlign ---------------------------------------------------------------------- */

void cr_onnx_export_roi_align(cr_onnx_layer *l) {
  const Caffe__ROIAlignParameter *param = l->param->roi_align_param;
  const int64_t *to = cr_onnx_top_shape(l, 0)->dim;
  cr_onnx_graph *g = l->g;
  if (param->sampling_ratio == 0 && !is_power_of_two(param->spatial_scale)) {
    cr_onnx_reject(l, "a sampling_ratio of 1 or more, or a spatial_scale that is a power of 2",
                   "without sampling_ratio, the number of samples depends on rounding errors");
    return;
  }
  const char *rows = region_rows(l);
  CR_ONNX_NODE(g, "RoiAlign", l->out[0], l->in[0], cr_onnx_sliced(g, rows, 1, 1, 5),
               region_images(g, rows));
  cr_onnx_int(g, "output_height", to[2]);
  cr_onnx_int(g, "output_width", to[3]);
  cr_onnx_int(g, "sampling_ratio", param->sampling_ratio);
  cr_onnx_float(g, "spatial_scale", param->spatial_scale);
  cr_onnx_text(g, "mode", "avg");
  if (g->opset >= 16) cr_onnx_text(g, "coordinate_transformation_mode", "output_half_pixel");
}

/* ---- PSROIPooling ------------------------------------------------------------------ */

/* 0, 1, ... `count` - 1 in a tensor of one axis. */
static const char *count_up(cr_onnx_graph *g, int64_t count) {
  const crema_shape shape = {.axes = 1, .dim = {count}};
  float *value;
  const char *name = cr_onnx_new_floats(g, "positions", &shape, &value);
  for (int64_t i = 0; value != NULL && i < count; ++i) value[i] = (float)i;
  return name;
}

/* The borders (R, G) of the parts of each region along an axis, rounded to whole cells. */
static void part_borders(cr_onnx_graph *g, const char *sides, int axis, int64_t parts, float scale,
                         const char *border[2]) {
  const char *factor = cr_onnx_double(g, "scale", (double)scale), *end[2];
  for (int i = 0; i < 2; ++i) {
    const char *side = cr_onnx_sliced(g, sides, 1, axis + 2 * i, axis + 2 * i + 1);
    const char *whole = cr_onnx_round(g, cr_onnx_cast(g, side, CR_ONNX_DOUBLE));
    if (i == 1) whole = CR_ONNX_VALUE(g, "Add", whole, cr_onnx_double(g, "one", 1));
    end[i] = CR_ONNX_VALUE(g, "Mul", whole, factor);
  }
  const char *length = CR_ONNX_VALUE(g, "Max", CR_ONNX_VALUE(g, "Sub", end[1], end[0]),
                                     cr_onnx_double(g, "least", 0.1));
  const char *size = CR_ONNX_VALUE(g, "Div", length, cr_onnx_double(g, "parts", (double)parts));
  const char *number = cr_onnx_cast(g, count_up(g, parts), CR_ONNX_DOUBLE);
  for (int i = 0; i < 2; ++i) {
    if (i == 1) number = CR_ONNX_VALUE(g, "Add", number, cr_onnx_double(g, "one", 1));
    const char *at = CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Mul", number, size), end[0]);
    at = CR_ONNX_VALUE(g, i == 0 ? "Floor" : "Ceil", at);
    border[i] = cr_onnx_cast(g, at, CR_ONNX_FLOAT);
  }
}

/* The weights (R, G, extent) with which the cells along an axis take part in the means. */
static const char *part_weights(cr_onnx_graph *g, const char *sides, int axis, int64_t parts,
                                float scale, int64_t extent) {
  const char *border[2], *cell = count_up(g, extent), *count = cr_onnx_name(g, "count");
  part_borders(g, sides, axis, parts, scale, border);
  for (int i = 0; i < 2; ++i) {
    border[i] = CR_ONNX_VALUE(g, "Less", cell, cr_onnx_unsqueezed(g, border[i], 2));
  }
  const char *inside = CR_ONNX_VALUE(g, "And", CR_ONNX_VALUE(g, "Not", border[0]), border[1]);
  const char *cells = cr_onnx_cast(g, inside, CR_ONNX_FLOAT);
  cr_onnx_reduce(g, "ReduceSum", count, cells, (const int64_t[]){2}, 1, true);
  return CR_ONNX_VALUE(g, "Div", cells, cr_onnx_with(g, "Max", count, 1));
}

/* The place of each region among the results of all images for all regions. */
static const char *region_places(cr_onnx_graph *g, const char *rows) {
  const char *none = cr_onnx_reshaped(g, cr_onnx_integer(g, 0), NULL, 0);
  const char *step = cr_onnx_reshaped(g, cr_onnx_integer(g, 1), NULL, 0);
  const char *count = cr_onnx_extent(g, rows, 0);
  const char *number = CR_ONNX_VALUE(g, "Range", none, cr_onnx_reshaped(g, count, NULL, 0), step);
  const char *image = CR_ONNX_VALUE(g, "Mul", region_images(g, rows), count);
  return CR_ONNX_VALUE(g, "Add", image, number);
}

/* Means along both axes are products with weights. Each region takes the results of its image. */
void cr_onnx_export_psroi_pooling(cr_onnx_layer *l) {
  const Caffe__PSROIPoolingParameter *param = l->param->psroi_pooling_param;
  const int64_t *map = cr_onnx_bottom_shape(l, 0)->dim;
  const int64_t o = param->output_dim, n = param->group_size, h = map[2], w = map[3];
  const float scale = param->spatial_scale;
  cr_onnx_graph *g = l->g;
  const char *rows = region_rows(l), *sides = cr_onnx_sliced(g, rows, 1, 1, 5);
  const char *down = part_weights(g, sides, 1, n, scale, h);
  const char *across = part_weights(g, sides, 0, n, scale, w);
  const char *parts = cr_onnx_reshaped(g, l->in[0], (const int64_t[]){0, 1, o, n, n, h, w}, 7);
  across = cr_onnx_reshaped(g, across, (const int64_t[]){1, -1, 1, 1, n, w, 1}, 7);
  down = cr_onnx_reshaped(g, down, (const int64_t[]){1, -1, 1, n, 1, 1, h}, 7);
  const char *mean = CR_ONNX_VALUE(g, "MatMul", down, CR_ONNX_VALUE(g, "MatMul", parts, across));
  mean = cr_onnx_reshaped(g, mean, (const int64_t[]){-1, o, n, n}, 4);
  CR_ONNX_NODE(g, "Gather", l->out[0], mean, region_places(g, rows));
  cr_onnx_int(g, "axis", 0);
}
