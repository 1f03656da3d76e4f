#include "layers/detection/geometry/anchors.h"

#include <math.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/rng.h"
#include "layers/common/python_fields.h"

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
    const double base = (double)fields->base, centre = (base - 1) / 2;
    const double width = rint(sqrt(base * base / r)), height = rint(width * r);
    out->box[out->count++] =
        (cr_box){(float)(centre - (width * f - 1) / 2), (float)(centre - (height * f - 1) / 2),
                 (float)(centre + (width * f + 1) / 2), (float)(centre + (height * f + 1) / 2)};
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

cr_box cr_anchor_at(const cr_anchors *anchors, int64_t anchor, int64_t cell, int64_t width) {
  const cr_box a = anchors->box[anchor];
  const float x = (float)(cell % width * anchors->stride);
  const float y = (float)(cell / width * anchors->stride);
  return (cr_box){a.xmin + x, a.ymin + y, a.xmax + x, a.ymax + y};
}

void cr_box_offset(cr_box from, cr_box to, double out[4]) {
  const double old[4] = {(double)from.xmin, (double)from.ymin, (double)from.xmax,
                         (double)from.ymax};
  const double new[4] = {(double)to.xmin, (double)to.ymin, (double)to.xmax, (double)to.ymax};
  for (int axis = 0; axis < 2; ++axis) {
    const double side = old[axis + 2] - old[axis], new_side = new[axis + 2] - new[axis];
    out[axis] = (new[axis] + new_side / 2 - old[axis] - side / 2) / side;
    out[axis + 2] = log(new_side / side);
  }
}

crema_status cr_matches_begin(cr_matches *m, size_t most) {
  CR_TRY(cr_box_columns_make(&m->columns, most, &m->box));
  CR_TRY(cr_buffer_reserve(&m->memory, (most + 1) * 2 * (sizeof(float) + sizeof(int32_t))));
  memset(m->memory.data, 0, most * 2 * (sizeof(float) + sizeof(int32_t)));
  m->overlap = (float *)(void *)m->memory.data;
  m->row = m->overlap + most;
  m->truth = (int32_t *)(void *)(m->row + most);
  m->is_best = m->truth + most;
  return CREMA_OK;
}

CR_CLONES static void mark_best(const cr_matches *m, float most) {
  const float *row = m->row;
  int32_t *is_best = m->is_best;
#pragma omp simd
  for (size_t i = 0; i < m->box.count; ++i) is_best[i] |= row[i] == most;
}

void cr_matches_find(cr_matches *m, const cr_truths *truths) {
  for (size_t g = 0; g < truths->count; ++g) {
    const float most = cr_box_columns_match(&m->box, truths->at[g].box, 0, (int32_t)g, g == 0,
                                            m->row, m->overlap, m->truth);
    if (most > 0) mark_best(m, most);
  }
}

void cr_matches_free(cr_matches *m) {
  cr_buffer_free(&m->columns);
  cr_buffer_free(&m->memory);
}

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
