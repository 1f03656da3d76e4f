#include "onnx/export/boxes.h"

#include <math.h>

const char *cr_onnx_joined(cr_onnx_graph *g, const char *a, const char *b, int axis) {
  const char *out = CR_ONNX_VALUE(g, "Concat", a, b);
  cr_onnx_int(g, "axis", axis);
  return out;
}

/* Scores with -infinity for all but the best `count` of each class. */
static const char *keep_best(cr_onnx_graph *g, const char *scores, int64_t count) {
  const char *best = CR_ONNX_VALUE(g, "TopK", scores, cr_onnx_integer(g, count));
  const char *index = cr_onnx_name(g, "index");
  cr_onnx_output(g, index);
  cr_onnx_int(g, "axis", 2);
  const char *none = CR_ONNX_VALUE(g, "Expand", cr_onnx_scalar(g, "hidden", -INFINITY),
                                   CR_ONNX_VALUE(g, "Shape", scores));
  const char *out = CR_ONNX_VALUE(g, "ScatterElements", none, index, best);
  cr_onnx_int(g, "axis", 2);
  return out;
}

const char *cr_onnx_suppress(cr_onnx_graph *g, const cr_onnx_suppression *of) {
  const int64_t most = of->most < 0 || of->most > of->boxes_count ? of->boxes_count : of->most;
  const char *scores = of->scores;
  if (of->top_k >= 0 && of->top_k < of->boxes_count) scores = keep_best(g, scores, of->top_k);
  const char *overlap = cr_onnx_scalar(g, "overlap", fminf(of->overlap, 1));
  const char *threshold = cr_onnx_scalar(g, "threshold", of->threshold);
  return CR_ONNX_VALUE(g, "NonMaxSuppression", of->boxes, scores, cr_onnx_integer(g, most), overlap,
                       threshold);
}

const char *cr_onnx_hide(cr_onnx_graph *g, const char *unwanted, const char *scores) {
  return CR_ONNX_VALUE(g, "Where", unwanted, cr_onnx_scalar(g, "hidden", -INFINITY), scores);
}

const char *cr_onnx_column(cr_onnx_graph *g, const char *rows, int64_t index) {
  static const int64_t flat[] = {-1};
  return cr_onnx_reshaped(g, cr_onnx_sliced(g, rows, 1, index, index + 1), flat, 1);
}

const char *cr_onnx_constant_column(cr_onnx_graph *g, const char *like, float value) {
  return CR_ONNX_VALUE(g, "Expand", cr_onnx_scalar(g, "value", value),
                       CR_ONNX_VALUE(g, "Shape", like));
}

const char *cr_onnx_rows_or(cr_onnx_graph *g, const char *const *rows, const char *fallback,
                            int64_t count) {
  const char *found = cr_onnx_value(g, "Concat", rows);
  cr_onnx_int(g, "axis", 0);
  const char *number = cr_onnx_extent(g, found, 0);
  const char *none = CR_ONNX_VALUE(g, "Equal", number, cr_onnx_integer(g, 0));
  const char *end = CR_ONNX_VALUE(g, "Where", none, cr_onnx_integer(g, count), number);
  const char *all = cr_onnx_joined(g, found, fallback, 0);
  return CR_ONNX_VALUE(g, "Slice", all, cr_onnx_integer(g, 0), end, cr_onnx_integer(g, 0));
}
