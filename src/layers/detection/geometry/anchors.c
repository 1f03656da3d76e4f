#include "layers/detection/geometry/anchors.h"

#include <math.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/rng.h"
#include "layers/common/layer_host.h"
#include "layers/common/python_fields.h"

/* ---- anchors ---- */

static cr_box anchor_of(double base, double ratio, double scale) {
  const double centre = (base - 1) / 2;
  const double width = rint(sqrt(base * base / ratio)), height = rint(width * ratio);
  return (cr_box){
      (float)(centre - (width * scale - 1) / 2), (float)(centre - (height * scale - 1) / 2),
      (float)(centre + (width * scale - 1) / 2), (float)(centre + (height * scale - 1) / 2)};
}

static crema_status make_boxes(const cr_layer *layer, const cr_anchor_fields *fields,
                               cr_anchors *out) {
  static const float ratios[] = {0.5f, 1, 2}, scales[] = {8, 16, 32};
  const size_t rows = fields->ratios ? fields->ratios : 3;
  const size_t columns = fields->scales ? fields->scales : 3;
  const float *ratio = fields->ratios ? fields->ratio : ratios;
  const float *scale = fields->scales ? fields->scale : scales;
  if (fields->stride <= 0 || fields->base <= 0 || rows * columns > CR_ANCHORS_MOST) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "feat_stride and base_size must be 1 or more, and %d anchors are the most",
                         CR_ANCHORS_MOST);
  }
  out->stride = fields->stride;
  out->count = 0;
  for (size_t i = 0; i < rows * columns; ++i) {
    const double r = (double)ratio[i / columns], f = (double)scale[i % columns];
    if (!(r > 1e-3 && r < 1e3 && f > 0 && f < 1e6)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "anchors of ratio %g and scale %g", r, f);
    }
    out->box[out->count++] = anchor_of((double)fields->base, r, f);
  }
  return CREMA_OK;
}

crema_status cr_anchors_make(const cr_layer *layer, const cr_anchor_fields *fields, double *border,
                             cr_anchors *out) {
  cr_anchor_fields all = *fields;
  float stride = 0, reach = 0, scale[CR_ANCHORS_MOST], ratio[CR_ANCHORS_MOST];
  cr_python_field python[] = {{"feat_stride", &stride, 1, 0},
                              {"scales", scale, CR_ANCHORS_MOST, 0},
                              {"ratios", ratio, CR_ANCHORS_MOST, 0},
                              {"allowed_border", &reach, 1, 0}};
  CR_TRY(cr_python_fields(layer, python, border != NULL ? 4 : 3));
  if (python[0].count > 0) all.stride = stride >= 1 && stride < 1e6f ? (int64_t)stride : 0;
  if (python[1].count > 0) {
    all.scale = scale;
    all.scales = python[1].count;
  }
  if (python[2].count > 0) {
    all.ratio = ratio;
    all.ratios = python[2].count;
  }
  if (python[3].count > 0) *border = (double)reach;
  return make_boxes(layer, &all, out);
}

cr_pixel_box cr_anchor_at(const cr_anchors *anchors, int64_t anchor, int64_t cell, int64_t width) {
  const cr_box a = anchors->box[anchor];
  const double x = (double)(cell % width * anchors->stride);
  const double y = (double)(cell / width * anchors->stride);
  return (cr_pixel_box){
      {(double)a.xmin + x, (double)a.ymin + y, (double)a.xmax + x, (double)a.ymax + y}};
}

/* ---- boxes ---- */

static double side(const cr_pixel_box *box, int axis) {
  return box->at[axis + 2] - box->at[axis] + 1;
}

void cr_pixel_offset(const cr_pixel_box *from, const cr_pixel_box *to, double out[4]) {
  for (int axis = 0; axis < 2; ++axis) {
    const double old = side(from, axis), new = side(to, axis);
    out[axis] = (to->at[axis] + new / 2 - from->at[axis] - old / 2) / old;
    out[axis + 2] = log(new / old);
  }
}

/* ---- objects ---- */

crema_status cr_read_pixel_truth(const cr_layer *layer, const crema_blob *blob, cr_buffer *out) {
  const crema_shape *shape = &blob->shape;
  cr_host_values values;
  char text[128];
  if (shape->axes != 2 || shape->dim[1] != 5) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "objects must have 5 numbers each, found shape %s",
                         crema_shape_text(shape, text, sizeof text));
  }
  if (shape->dim[0] == 0) return CREMA_OK;
  CR_TRY(cr_host_read(blob->data, &values));
  for (int64_t i = 0; i < shape->dim[0]; ++i) {
    cr_pixel_truth one;
    for (int k = 0; k < 4; ++k) one.box.at[k] = cr_host_get(&values, 5 * i + k);
    one.label = cr_host_get(&values, 5 * i + 4);
    const double width = side(&one.box, 0), height = side(&one.box, 1);
    if (!(width > 0 && height > 0 && width < 1e7 && height < 1e7)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is %g x %g pixels large",
                           (long long)i, width, height);
    }
    CR_TRY(cr_buffer_append(out, &one, sizeof one));
  }
  return CREMA_OK;
}

/* ---- matches ---- */

crema_status cr_pixel_matches_begin(cr_pixel_matches *m, size_t most) {
  const size_t bytes = 7 * sizeof(double) + 2 * sizeof(int32_t);
  if (most > SIZE_MAX / bytes - 1) return cr_fail_memory(SIZE_MAX, "boxes");
  CR_TRY(cr_buffer_reserve(&m->memory, (most + 1) * bytes));
  double *next = (double *)(void *)m->memory.data;
  double **array[] = {&m->at[0], &m->at[1], &m->at[2], &m->at[3], &m->area, &m->overlap, &m->row};
  for (size_t i = 0; i < sizeof array / sizeof array[0]; ++i, next += most) *array[i] = next;
  m->truth = (int32_t *)(void *)next;
  m->is_best = m->truth + most;
  m->count = 0;
  return CREMA_OK;
}

void cr_pixel_matches_add(cr_pixel_matches *m, const cr_pixel_box *box) {
  const size_t i = m->count++;
  for (int k = 0; k < 4; ++k) m->at[k][i] = box->at[k];
  m->area[i] = side(box, 0) * side(box, 1);
  m->overlap[i] = 0;
  m->truth[i] = -1;
  m->is_best[i] = 0;
}

/* row: the overlaps with an object, whose largest is returned. */
CR_CLONES static double overlap_row(const cr_pixel_matches *m, const cr_pixel_box *with) {
  const double *xmin = m->at[0], *ymin = m->at[1], *xmax = m->at[2], *ymax = m->at[3];
  const double *area = m->area, own = side(with, 0) * side(with, 1);
  const cr_pixel_box box = *with;
  double *row = m->row, most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < m->count; ++i) {
    const double right = xmax[i] < box.at[2] ? xmax[i] : box.at[2];
    const double bottom = ymax[i] < box.at[3] ? ymax[i] : box.at[3];
    const double width = right - (xmin[i] > box.at[0] ? xmin[i] : box.at[0]) + 1;
    const double height = bottom - (ymin[i] > box.at[1] ? ymin[i] : box.at[1]) + 1;
    const double shared = width * height, share = shared / (area[i] + own - shared);
    row[i] = ((width > 0) & (height > 0)) ? share : 0;
    most = row[i] > most ? row[i] : most;
  }
  return most;
}

CR_CLONES static void take_row(const cr_pixel_matches *m, int32_t object, double most) {
  const double *row = m->row;
  double *overlap = m->overlap;
  int32_t *truth = m->truth, *is_best = m->is_best;
#pragma omp simd
  for (size_t i = 0; i < m->count; ++i) {
    const bool more = row[i] > overlap[i];
    is_best[i] |= (most > 0) & (row[i] == most);
    overlap[i] = more ? row[i] : overlap[i];
    truth[i] = more ? object : truth[i];
  }
}

void cr_pixel_matches_find(cr_pixel_matches *m, const cr_pixel_truth *truth, size_t truths) {
  for (size_t g = 0; g < truths; ++g) take_row(m, (int32_t)g, overlap_row(m, &truth[g].box));
}

cr_pixel_box cr_pixel_matches_box(const cr_pixel_matches *m, size_t i) {
  return (cr_pixel_box){{m->at[0][i], m->at[1][i], m->at[2][i], m->at[3][i]}};
}

void cr_pixel_matches_free(cr_pixel_matches *m) {
  cr_buffer_free(&m->memory);
}

/* ---- drawing ---- */

void cr_draw_some(uint64_t key, uint64_t counter, int32_t *index, size_t count, size_t wanted) {
  for (size_t i = 0; i < wanted && i < count; ++i) {
    uint32_t draw[4];
    cr_philox(key, counter, i, draw);
    const size_t other = i + (size_t)(((uint64_t)draw[0] * (uint64_t)(count - i)) >> 32);
    const int32_t held = index[i];
    index[i] = index[other];
    index[other] = held;
  }
}
