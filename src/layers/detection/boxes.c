#include "layers/detection/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

cr_prior cr_prior_at(const float *blob, int64_t priors, int64_t index) {
  const float *box = blob + 4 * index, *variance = blob + 4 * (priors + index);
  return (cr_prior){{box[0], box[1], box[2], box[3]},
                    {variance[0], variance[1], variance[2], variance[3]}};
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

void cr_box_encode(cr_box_code code, bool learned, const cr_prior *prior, cr_box box,
                   double offset[4]) {
  const double p[4] = {(double)prior->box.xmin, (double)prior->box.ymin, (double)prior->box.xmax,
                       (double)prior->box.ymax};
  const double b[4] = {(double)box.xmin, (double)box.ymin, (double)box.xmax, (double)box.ymax};
  for (int k = 0; k < 4; ++k) {
    const int axis = k % 2;
    const double size = p[axis + 2] - p[axis];
    offset[k] = b[k] - p[k];
    if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER_SIZE) offset[k] /= size;
    if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE) {
      const double centres = (b[axis] + b[axis + 2] - p[axis] - p[axis + 2]) / 2;
      offset[k] = k < 2 ? centres / size : log((b[axis + 2] - b[axis]) / size);
    }
    if (!learned) offset[k] /= (double)prior->variance[k];
  }
}

bool cr_box_crosses(cr_box b) {
  return b.xmin < 0 || b.xmin > 1 || b.ymin < 0 || b.ymin > 1 || b.xmax < 0 || b.xmax > 1 ||
         b.ymax < 0 || b.ymax > 1;
}

/* ---- ranks --------------------------------------------------------------- */

static bool comes_before(const cr_ranked *a, const cr_ranked *b) {
  if (isnan(a->score) != isnan(b->score)) return isnan(b->score);
  if (a->score != b->score && !isnan(a->score)) return a->score > b->score;
  return a->label != b->label ? a->label < b->label : a->index < b->index;
}

/* Shell's sort, which needs no memory. */
void cr_rank(cr_ranked *candidate, size_t count) {
  static const size_t gaps[] = {44842, 19930, 8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; ++g) {
    for (size_t i = gaps[g]; i < count; ++i) {
      const cr_ranked held = candidate[i];
      size_t k = i;
      for (; k >= gaps[g] && comes_before(&held, &candidate[k - gaps[g]]); k -= gaps[g]) {
        candidate[k] = candidate[k - gaps[g]];
      }
      candidate[k] = held;
    }
  }
}

size_t cr_suppress(const cr_box *box, cr_ranked *candidate, size_t count, float threshold,
                   float eta, int64_t most) {
  size_t kept = 0;
  for (size_t i = 0; i < count && (most < 0 || (int64_t)kept < most); ++i) {
    bool keep = true;
    for (size_t k = 0; k < kept && keep; ++k) {
      keep = cr_box_overlap(box[candidate[i].index], box[candidate[k].index]) <= threshold;
    }
    if (!keep) continue;
    candidate[kept++] = candidate[i];
    if (eta < 1 && threshold > 0.5f) threshold *= eta;
  }
  return kept;
}

/* ---- objects ------------------------------------------------------------- */

crema_status cr_check_rows(const cr_layer *layer, const char *what, const crema_shape *shape,
                           int64_t width) {
  char text[128];
  if (shape->axes == 4 && shape->dim[0] == 1 && shape->dim[1] == 1 && shape->dim[3] == width) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have shape 1 1 rows %lld, found %s", what,
                       (long long)width, crema_shape_text(shape, text, sizeof text));
}

/* Moves the last object in front of those of higher items. */
static void sort_last(cr_buffer *buffer) {
  cr_truth *all = (cr_truth *)(void *)buffer->data;
  size_t at = buffer->size / sizeof *all - 1;
  const cr_truth last = all[at];
  for (; at > 0 && all[at - 1].item > last.item; --at) all[at] = all[at - 1];
  all[at] = last;
}

crema_status cr_read_truth(const cr_layer *layer, const float *row, int64_t rows, int64_t classes,
                           int64_t background, bool difficult, cr_buffer *out) {
  cr_buffer_clear(out);
  for (int64_t i = 0; i < rows; ++i, row += 8) {
    if (row[0] == -1 || (row[7] != 0 && !difficult)) continue;
    if (!(row[0] >= 0 && row[0] < 1e9f)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "object %lld is of item %g", (long long)i,
                           (double)row[0]);
    }
    if (!(row[1] >= 0 && row[1] < (float)classes) || (int64_t)row[1] == background) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "object %lld has label %g, which is not one of %lld classes or is the "
                           "background, %lld",
                           (long long)i, (double)row[1], (long long)classes, (long long)background);
    }
    const cr_truth truth = {
        (int32_t)row[0], (int32_t)row[1], row[7] != 0, {row[3], row[4], row[5], row[6]}};
    CR_TRY(cr_buffer_append(out, &truth, sizeof truth));
    sort_last(out);
  }
  return CREMA_OK;
}
