#include "layers/common/layer_ctc.h"

#include "core/fail.h"

/* Shape (A, B, ...), whose last axes together have `width` values. */
static crema_status read_rows(const cr_layer *layer, const char *what, crema_blob *blob, int axes,
                              bool by_sequence, cr_ctc_rows *out) {
  const crema_shape *shape = &blob->shape;
  char text[128];
  if (shape->axes < axes || crema_shape_count(shape, axes, shape->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have %d axes, found shape %s", what, axes,
                         crema_shape_text(shape, text, sizeof text));
  }
  const int64_t width = axes > 2 ? shape->dim[2] : 1, a = shape->dim[0], b = shape->dim[1];
  *out = (cr_ctc_rows){.sequences = by_sequence ? a : b,
                       .length = by_sequence ? b : a,
                       .apart = by_sequence ? b * width : width,
                       .step = by_sequence ? width : b * width};
  return cr_host_read(blob->data, &out->from);
}

crema_status cr_ctc_read_rows(const cr_layer *layer, const char *what, crema_blob *blob,
                              bool by_sequence, cr_ctc_rows *out) {
  return read_rows(layer, what, blob, 2, by_sequence, out);
}

crema_status cr_ctc_read_scores(const cr_layer *layer, crema_blob *blob, bool by_sequence,
                                cr_ctc_scores *out) {
  CR_TRY(read_rows(layer, "bottom 0", blob, 3, by_sequence, &out->rows));
  out->classes = blob->shape.dim[2];
  out->class_step = 1;
  return CREMA_OK;
}

crema_status cr_ctc_find_axes(const cr_layer *layer, const crema_shape *scores, cr_ctc_axes *out) {
  const Caffe__CTCParameter *param = layer->param->ctc_param;
  const bool given = param != NULL && param->n_nct_axis > 0;
  char text[128];
  *out = (cr_ctc_axes){.sequences = 0, .classes = 1, .steps = -1};
  if (given && param->n_nct_axis != 2) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "ctc_param has %zu nct_axis, must have none or two: the axes of "
                         "sequences and classes",
                         param->n_nct_axis);
  }
  if (given) {
    const uint32_t n = param->nct_axis[0], c = param->nct_axis[1];
    if (n == c || n >= (uint32_t)scores->axes || c >= (uint32_t)scores->axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "nct_axis %u and %u are not two axes of shape %s",
                           n, c, crema_shape_text(scores, text, sizeof text));
    }
    *out = (cr_ctc_axes){.sequences = (int)n, .classes = (int)c, .steps = -1};
  }
  int others = 0;
  for (int i = 0; i < scores->axes; ++i) {
    if (i == out->sequences || i == out->classes) continue;
    if (out->steps < 0 || scores->dim[out->steps] == 1) out->steps = i;
    others += scores->dim[i] != 1;
  }
  if (out->steps >= 0 && others <= 1) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "scores need axes of sequences, classes and steps, and extents of 1 on "
                       "further axes, found shape %s",
                       crema_shape_text(scores, text, sizeof text));
}

static int64_t stride_of(const crema_shape *shape, int axis) {
  return crema_shape_count(shape, axis + 1, shape->axes);
}

crema_status cr_ctc_read_axes(crema_blob *blob, const cr_ctc_axes *axes, cr_ctc_scores *out) {
  const crema_shape *shape = &blob->shape;
  *out = (cr_ctc_scores){.rows = {.sequences = shape->dim[axes->sequences],
                                  .length = shape->dim[axes->steps],
                                  .apart = stride_of(shape, axes->sequences),
                                  .step = stride_of(shape, axes->steps)},
                         .classes = shape->dim[axes->classes],
                         .class_step = stride_of(shape, axes->classes)};
  return cr_host_read(blob->data, &out->rows.from);
}

static double value_at(const cr_ctc_rows *rows, int64_t n, int64_t at) {
  return cr_host_get(&rows->from, n * rows->apart + at * rows->step);
}

double cr_ctc_score(const cr_ctc_scores *scores, int64_t sequence, int64_t step, int64_t class) {
  const cr_ctc_rows *rows = &scores->rows;
  return cr_host_get(&rows->from,
                     sequence * rows->apart + step * rows->step + class * scores->class_step);
}

int64_t cr_ctc_steps(const cr_ctc_rows *indicators, int64_t n, int64_t most) {
  int64_t steps = most > 0 ? 1 : 0;
  if (indicators == NULL) return most;
  while (steps < most && value_at(indicators, n, steps) >= 0.5) ++steps;
  return steps;
}

crema_status cr_ctc_labels(const cr_layer *layer, const cr_ctc_rows *labels, int64_t n,
                           int64_t classes, int64_t blank, int32_t *to, int64_t *count) {
  *count = 0;
  for (int64_t i = 0; i < labels->length; ++i) {
    const double label = value_at(labels, n, i);
    if (label < 0) break;
    if (!(label < (double)classes)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "label %g of sequence %lld is outside 0..%lld",
                           label, (long long)n, (long long)classes - 1);
    }
    if ((int64_t)label != blank) to[(*count)++] = (int32_t)label;
  }
  return CREMA_OK;
}

int64_t cr_ctc_decode(const cr_ctc_scores *scores, int64_t n, int64_t steps, int64_t blank,
                      bool merge, int32_t *to, double *score) {
  int64_t count = 0, last = -1;
  double sum = 0;
  for (int64_t t = 0; t < steps && scores->classes > 0; ++t) {
    int64_t best = 0;
    for (int64_t c = 1; c < scores->classes; ++c) {
      if (cr_ctc_score(scores, n, t, c) > cr_ctc_score(scores, n, t, best)) best = c;
    }
    sum -= cr_ctc_score(scores, n, t, best);
    if (best != blank && !(merge && best == last)) to[count++] = (int32_t)best;
    last = best;
  }
  if (score != NULL) *score = sum;
  return count;
}

int32_t cr_ctc_edit_distance(const int32_t *a, int64_t a_count, const int32_t *b, int64_t b_count,
                             int32_t *row) {
  for (int64_t k = 0; k <= b_count; ++k) row[k] = (int32_t)k;
  for (int64_t i = 0; i < a_count; ++i) {
    int32_t corner = row[0];
    row[0] = (int32_t)i + 1;
    for (int64_t k = 0; k < b_count; ++k) {
      const int32_t above = row[k + 1], left = row[k], least = above < left ? above : left;
      const int32_t changed = corner + (a[i] != b[k]);
      row[k + 1] = changed <= least ? changed : least + 1;
      corner = above;
    }
  }
  return row[b_count];
}

crema_status cr_ctc_blank(const cr_layer *layer, int64_t given, int64_t classes, int64_t *out) {
  *out = given < 0 ? classes + given : given;
  if (*out >= 0 && *out < classes) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE, "the blank is class %lld, and there are %lld",
                       (long long)given, (long long)classes);
}
