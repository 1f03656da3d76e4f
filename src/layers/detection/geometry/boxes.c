#include "layers/detection/geometry/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"

cr_box cr_box_around(double x, double y, double width, double height) {
  return (cr_box){(float)(x - width / 2), (float)(y - height / 2), (float)(x + width / 2),
                  (float)(y + height / 2)};
}

cr_box cr_box_of_pixels(const cr_host_values *pixel, int64_t first) {
  return (cr_box){(float)cr_host_get(pixel, first), (float)cr_host_get(pixel, first + 1),
                  (float)(cr_host_get(pixel, first + 2) + 1),
                  (float)(cr_host_get(pixel, first + 3) + 1)};
}

bool cr_box_crosses(cr_box b) {
  return b.xmin < 0 || b.xmin > 1 || b.ymin < 0 || b.ymin > 1 || b.xmax < 0 || b.xmax > 1 ||
         b.ymax < 0 || b.ymax > 1;
}

cr_prior cr_prior_at(const float *blob, int64_t priors, int64_t index) {
  const float *box = blob + 4 * index, *variance = blob + 4 * (priors + index);
  return (cr_prior){{box[0], box[1], box[2], box[3]},
                    {variance[0], variance[1], variance[2], variance[3]}};
}

crema_status cr_priors_check(const cr_layer *layer, crema_blob *const *bottom, int64_t classes,
                             int64_t loc_classes, int64_t *images, int64_t *priors) {
  const crema_shape *loc = &bottom[0]->shape, *prior = &bottom[2]->shape;
  char text[3][128];
  *images = loc->axes > 0 ? loc->dim[0] : 0;
  *priors = prior->axes == 3 ? prior->dim[2] / 4 : -1;
  if (loc->axes > 0 && prior->axes == 3 && prior->dim[0] == 1 && prior->dim[1] == 2 &&
      prior->dim[2] % 4 == 0 && *priors <= INT32_MAX &&
      crema_blob_count(bottom[0]) == *images * *priors * loc_classes * 4 &&
      crema_blob_count(bottom[1]) == *images * *priors * classes) {
    return CREMA_OK;
  }
  return cr_layer_fail(
      layer, CREMA_E_SHAPE,
      "locations %s, scores %s and prior boxes %s do not fit each other and %lld classes",
      crema_shape_text(loc, text[0], sizeof text[0]),
      crema_shape_text(&bottom[1]->shape, text[1], sizeof text[1]),
      crema_shape_text(prior, text[2], sizeof text[2]), (long long)classes);
}

cr_box cr_box_decode(cr_box_code code, bool learned, const cr_prior *prior, const float *offset) {
  const cr_box p = prior->box;
  const float width = p.xmax - p.xmin, height = p.ymax - p.ymin;
  float d[4];
  for (int k = 0; k < 4; ++k) d[k] = learned ? offset[k] : prior->variance[k] * offset[k];
  if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER) {
    return (cr_box){p.xmin + d[0], p.ymin + d[1], p.xmax + d[2], p.ymax + d[3]};
  }
  if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER_SIZE) {
    return (cr_box){p.xmin + d[0] * width, p.ymin + d[1] * height, p.xmax + d[2] * width,
                    p.ymax + d[3] * height};
  }
  const float x = d[0] * width + (p.xmin + p.xmax) / 2, y = d[1] * height + (p.ymin + p.ymax) / 2;
  const float w = expf(d[2]) * width, h = expf(d[3]) * height;
  return (cr_box){x - w / 2, y - h / 2, x + w / 2, y + h / 2};
}

void cr_box_pairs_put(cr_box_pairs *pairs, int at, const float *blob, int64_t priors, int64_t index,
                      cr_box box) {
  const float *prior = blob + 4 * index, *variance = prior + 4 * priors;
  const float sides[4] = {box.xmin, box.ymin, box.xmax, box.ymax};
  for (int k = 0; k < 4; ++k) {
    pairs->prior[k][at] = (double)prior[k];
    pairs->variance[k][at] = (double)variance[k];
    pairs->box[k][at] = (double)sides[k];
  }
}

/* Offsets before the division by variances; for CENTER_SIZE, before the logarithm of the sizes. */
CR_CLONES static void differences(cr_box_code code, cr_box_pairs *pairs) {
  const bool corners = code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER;
  const bool centres = code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE;
  for (int axis = 0; axis < 2; ++axis) {
    const double *low = pairs->prior[axis], *high = pairs->prior[axis + 2];
    const double *b_low = pairs->box[axis], *b_high = pairs->box[axis + 2];
    double *first = pairs->offset[axis], *second = pairs->offset[axis + 2];
#pragma omp simd
    for (int i = 0; i < CR_BOX_PAIRS; ++i) {
      const double size = corners ? 1 : high[i] - low[i];
      const double centre = (b_low[i] + b_high[i] - low[i] - high[i]) / 2;
      first[i] = (centres ? centre : b_low[i] - low[i]) / size;
      second[i] = (b_high[i] - (centres ? b_low[i] : high[i])) / size;
    }
  }
}

CR_CLONES static void divide_by_variances(cr_box_pairs *pairs) {
  for (int k = 0; k < 4; ++k) {
#pragma omp simd
    for (int i = 0; i < CR_BOX_PAIRS; ++i) pairs->offset[k][i] /= pairs->variance[k][i];
  }
}

void cr_box_encode(cr_box_code code, bool learned, cr_box_pairs *pairs, int count) {
  differences(code, pairs);
  for (int k = 2; k < 4 && code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE; ++k) {
    for (int i = 0; i < count; ++i) pairs->offset[k][i] = log(pairs->offset[k][i]);
  }
  if (!learned) divide_by_variances(pairs);
}

crema_status cr_four_numbers(const cr_layer *layer, const char *name, const float *given,
                             size_t count, const double usual[4], double out[4]) {
  if (count != 0 && count != 4) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s has %zu numbers, needs 4 or none", name,
                         count);
  }
  for (int k = 0; k < 4; ++k) out[k] = count ? (double)given[k] : usual[k];
  return CREMA_OK;
}

crema_status cr_box_columns_make(cr_buffer *memory, size_t most, cr_box_columns *out) {
  if (most > SIZE_MAX / (5 * sizeof(float))) return cr_fail_memory(SIZE_MAX, "boxes");
  CR_TRY(cr_buffer_reserve(memory, 5 * most * sizeof(float)));
  float *at = (float *)(void *)memory->data;
  *out = (cr_box_columns){at, at + most, at + 2 * most, at + 3 * most, at + 4 * most, 0};
  return CREMA_OK;
}

void cr_box_columns_add(cr_box_columns *columns, cr_box box) {
  const size_t i = columns->count++;
  columns->xmin[i] = box.xmin;
  columns->ymin[i] = box.ymin;
  columns->xmax[i] = box.xmax;
  columns->ymax[i] = box.ymax;
  columns->size[i] = cr_box_size(box);
}

cr_box cr_box_columns_at(const cr_box_columns *of, size_t i) {
  return (cr_box){of->xmin[i], of->ymin[i], of->xmax[i], of->ymax[i]};
}

/* The area common to two boxes. */
CR_INLINE float shared_by(float xmin, float ymin, float xmax, float ymax, cr_box box) {
  const float left = xmin > box.xmin ? xmin : box.xmin, top = ymin > box.ymin ? ymin : box.ymin;
  const float right = xmax < box.xmax ? xmax : box.xmax, bottom = ymax < box.ymax ? ymax : box.ymax;
  const float width = right > left ? right - left : 0, height = bottom > top ? bottom - top : 0;
  return width * height;
}

/* cr_box_columns_match without branches; `own` is the size of `box`. */
CR_INLINE float match_with(const cr_box_columns *of, cr_box box, float own, float least,
                           int32_t number, bool first, float *out, float *most, int32_t *best) {
  float top = 0;
  const float *xmin = of->xmin, *ymin = of->ymin, *xmax = of->xmax, *ymax = of->ymax,
              *size = of->size;
#pragma omp simd reduction(max : top)
  for (size_t k = 0; k < of->count; ++k) {
    const float shared = shared_by(xmin[k], ymin[k], xmax[k], ymax[k], box);
    const float share = shared / (own + size[k] - shared);
    const float found = share > least ? share : 0; /* also false for NaN */
    const float before = first ? 0 : most[k];
    const int32_t of_before = first ? number : best[k];
    out[k] = found;
    most[k] = found > before ? found : before;
    best[k] = found > before ? number : of_before;
    top = found > top ? found : top;
  }
  return top;
}

CR_CLONES static float match_all(const cr_box_columns *columns, cr_box box, float least,
                                 int32_t number, bool first, float *out, float *most,
                                 int32_t *best) {
  const float own = cr_box_size(box);
  return first ? match_with(columns, box, own, least, number, true, out, most, best)
               : match_with(columns, box, own, least, number, false, out, most, best);
}

float cr_box_columns_match(const cr_box_columns *columns, cr_box box, float least, int32_t number,
                           bool first, float *out, float *most, int32_t *best) {
  return match_all(columns, box, least, number, first, out, most, best);
}

enum { BLOCK = 32 };

/* Whether one of BLOCK boxes from `first` on may overlap `box` by more than `threshold`. Saves the
 * division, which takes the time of all other steps together. Rounding does not hide an overlap. If
 * the rounded quotient is above the threshold, the exact quotient is too, and this product is not
 * above `shared`. */
CR_INLINE bool may_overlap(const cr_box_columns *of, size_t first, cr_box box, float own,
                           float threshold) {
  const float *xmin = of->xmin + first, *ymin = of->ymin + first, *xmax = of->xmax + first,
              *ymax = of->ymax + first, *size = of->size + first;
  int found = 0;
#pragma omp simd reduction(| : found)
  for (size_t k = 0; k < BLOCK; ++k) {
    const float shared = shared_by(xmin[k], ymin[k], xmax[k], ymax[k], box);
    found |= (shared > 0) & (shared >= threshold * (own + size[k] - shared));
  }
  return found != 0;
}

/* Whether `box` overlaps one of the boxes by more than `threshold`. The last block is full. */
CR_CLONES static bool overlaps_one(const cr_box_columns *kept, cr_box box, float own,
                                   float threshold) {
  for (size_t i = 0; i < kept->count; i += BLOCK) {
    int found = 0;
    if (!may_overlap(kept, i, box, own, threshold)) continue;
#pragma omp simd reduction(| : found)
    for (size_t k = i; k < i + BLOCK; ++k) {
      const float shared =
          shared_by(kept->xmin[k], kept->ymin[k], kept->xmax[k], kept->ymax[k], box);
      found |= (shared > 0) & (shared / (own + kept->size[k] - shared) > threshold);
    }
    if (found) return true;
  }
  return false;
}

crema_status cr_suppress(const cr_box *box, cr_ranked *candidate, size_t *count, float threshold,
                         float eta, int64_t most, cr_buffer *memory) {
  cr_box_columns kept = {0};
  const size_t end = most >= 0 && (uint64_t)most < *count ? (size_t)most : *count;
  CR_TRY(cr_box_columns_make(memory, (end + BLOCK - 1) / BLOCK * BLOCK, &kept));
  for (size_t i = 0; i < *count && kept.count < end; ++i) {
    const cr_box one = box[candidate[i].index];
    if (overlaps_one(&kept, one, cr_box_size(one), threshold < 0 ? 0 : threshold)) continue;
    candidate[kept.count] = candidate[i];
    /* The first box of a block fills the block with boxes that do not overlap. */
    for (size_t k = kept.count; kept.count % BLOCK == 0 && k < kept.count + BLOCK; ++k) {
      kept.xmin[k] = kept.ymin[k] = kept.size[k] = 0;
      kept.xmax[k] = kept.ymax[k] = -1;
    }
    cr_box_columns_add(&kept, one);
    if (eta < 1 && threshold > 0.5f) threshold *= eta;
  }
  *count = kept.count;
  return CREMA_OK;
}

crema_status cr_write_detections(cr_buffer *row, int64_t images, crema_blob *top) {
  enum { WIDTH = 7 };
  const bool none = row->size == 0;
  cr_host_results to;
  for (int64_t i = 0; i < images && none; ++i) {
    const float empty[WIDTH] = {(float)i, -1, -1, -1, -1, -1, -1};
    CR_TRY(cr_buffer_append(row, empty, sizeof empty));
  }
  const int64_t rows = (int64_t)(row->size / (WIDTH * sizeof(float)));
  const float *values = (const float *)(const void *)row->data;
  CR_TRY(crema_blob_reshape(top, &(crema_shape){.axes = 4, .dim = {1, 1, rows, WIDTH}}));
  CR_TRY(cr_host_write(top->data, &to));
  for (int64_t i = 0; i < rows * WIDTH; ++i) cr_host_put(&to, i, (double)values[i]);
  return CREMA_OK;
}

crema_status cr_check_rows(const cr_layer *layer, const char *what, const crema_shape *shape,
                           int64_t width) {
  char text[128];
  if (shape->axes == 4 && shape->dim[0] == 1 && shape->dim[1] == 1 && shape->dim[3] == width) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have shape 1 1 rows %lld, found %s", what,
                       (long long)width, crema_shape_text(shape, text, sizeof text));
}

crema_status cr_truths_read(const cr_layer *layer, const cr_host_values *from, int64_t rows,
                            const cr_truth_rule *rule, cr_truths *out) {
  out->count = 0;
  CR_TRY(cr_buffer_reserve(&out->memory, (size_t)(rows + 1) * sizeof(cr_truth)));
  out->at = (cr_truth *)(void *)out->memory.data;
  for (int64_t i = 0; i < rows; ++i) {
    double v[8];
    for (int k = 0; k < 8; ++k) v[k] = cr_host_get(from, 8 * i + k);
    if (v[0] == -1 || (rule->omits_difficult && v[7] != 0)) continue;
    if (rule->omits_empty && !(v[5] > v[3] && v[6] > v[4])) continue;
    if (!(v[0] >= 0 && v[0] < (double)rule->items)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is of image %g, of %lld",
                           (long long)i, v[0], (long long)rule->items);
    }
    if (!(v[1] >= 0 && v[1] < (double)rule->classes) || (int64_t)v[1] == rule->background) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "object %lld has label %g, must be a class of %lld and not the "
                           "background, %lld",
                           (long long)i, v[1], (long long)rule->classes,
                           (long long)rule->background);
    }
    const cr_truth truth = {(int32_t)v[0],
                            (int32_t)v[1],
                            (int32_t)i,
                            v[7] != 0,
                            {(float)v[3], (float)v[4], (float)v[5], (float)v[6]}};
    size_t at = out->count++;
    for (; at > 0 && out->at[at - 1].item > truth.item; --at) out->at[at] = out->at[at - 1];
    out->at[at] = truth;
  }
  return CREMA_OK;
}

crema_status cr_truths_read_pixels(const cr_layer *layer, const crema_blob *blob, int64_t classes,
                                   cr_truths *out) {
  const crema_shape *shape = &blob->shape;
  cr_host_values values;
  char text[128];
  out->count = 0;
  if (shape->axes != 2 || shape->dim[1] != 5) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "objects must have 5 numbers each, found shape %s",
                         crema_shape_text(shape, text, sizeof text));
  }
  if (shape->dim[0] == 0) return CREMA_OK;
  CR_TRY(cr_host_read(blob->data, &values));
  CR_TRY(cr_buffer_reserve(&out->memory, (size_t)shape->dim[0] * sizeof(cr_truth)));
  out->at = (cr_truth *)(void *)out->memory.data;
  for (int64_t i = 0; i < shape->dim[0]; ++i) {
    cr_truth one = {.row = (int32_t)i, .box = cr_box_of_pixels(&values, 5 * i)};
    const float width = one.box.xmax - one.box.xmin, height = one.box.ymax - one.box.ymin;
    const double label = classes > 0 ? cr_host_get(&values, 5 * i + 4) : 0;
    if (!(width > 0 && height > 0 && width < 1e7f && height < 1e7f)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is %g x %g pixels large",
                           (long long)i, (double)width, (double)height);
    }
    if (classes > 0 && !(label >= 0 && label < (double)classes)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld has label %g, must be 0 to %lld",
                           (long long)i, label, (long long)classes - 1);
    }
    one.label = (int32_t)label;
    out->at[out->count++] = one;
  }
  return CREMA_OK;
}

size_t cr_truths_of(const cr_truths *truths, int64_t item, size_t *first) {
  size_t end = *first;
  while (end < truths->count && truths->at[end].item < item) ++end;
  *first = end;
  while (end < truths->count && truths->at[end].item == item) ++end;
  return end - *first;
}
