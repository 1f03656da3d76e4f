/* Boxes of detectors: decoding and suppression. */
#ifndef CR_ONNX_EXPORT_BOXES_H
#define CR_ONNX_EXPORT_BOXES_H

#include "onnx/export/compose.h"

/* Joins two values along an axis. */
const char *cr_onnx_joined(cr_onnx_graph *g, const char *a, const char *b, int axis);

/* Non-maximum suppression. Overlaps are intersections over unions. */
typedef struct cr_onnx_suppression {
  const char *boxes, *scores; /* (S, P, 4), left, top, right, bottom; (S, C, P) */
  int64_t boxes_count;        /* P */
  int64_t top_k;              /* the most boxes of a class that take part; below 0: all */
  int64_t most;               /* to keep of each class; below 0: all */
  float overlap;              /* a box that overlaps a better one by more is dropped */
  float threshold;            /* boxes with a score above take part */
} cr_onnx_suppression;

/* The kept boxes: rows (M, 3) of sample, class and box, in this order of samples and classes, by
 * descending score. */
const char *cr_onnx_suppress(cr_onnx_graph *g, const cr_onnx_suppression *of);

/* Scores (1, 1, P), or -infinity where `unwanted` is true. */
const char *cr_onnx_hide(cr_onnx_graph *g, const char *unwanted, const char *scores);

/* Column `index` of rows of INT64, as a tensor of one axis. */
const char *cr_onnx_column(cr_onnx_graph *g, const char *rows, int64_t index);

/* A column (M, 1) of FLOAT with the number `value`, for as many rows as `like`, another column. */
const char *cr_onnx_constant_column(cr_onnx_graph *g, const char *like, float value);

/* Makes top 0 (1, 1, rows, 7) of rows of image, class, score and box for each image (NULL ends
 * them); without any row, one row for each image, with -1 after its number. */
void cr_onnx_write_detections(cr_onnx_layer *l, const char *const *rows, int64_t images);

/* The rows of all images or, if there are none, `fallback` (a constant with `count` rows). */
const char *cr_onnx_rows_or(cr_onnx_graph *g, const char *const *rows, const char *fallback,
                            int64_t count);

#endif
