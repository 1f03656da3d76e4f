/* The rows and columns that the cells of a region take values from in ROIAlign, with their weights.
 *
 * The samples of a cell lie on a grid, so a mean over them is a sum over positions (y, x) of the
 * map with weights wy wx. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_TAPS_H
#define CR_DEVICE_CPU_KERNELS_ROI_TAPS_H

#include "device/cpu/kernels/roi.h"

/* The weight that a row or column of the map has in a cell. */
typedef struct cr_roi_weight {
  int64_t at;
  cr_real weight;
} cr_roi_weight;

/* One side of a region: cell i has the taps first[i] to first[i + 1] - 1, in rising order. */
typedef struct cr_roi_side {
  cr_roi_weight *taps;
  int64_t *first;
} cr_roi_side;

/* Along one side, cells take `count` samples each. */
typedef struct cr_roi_samples {
  double begin, size; /* of the region; of a cell */
  int64_t count;
} cr_roi_samples;

static inline cr_roi_samples cr_roi_samples_of(cr_real low, cr_real high, double scale,
                                               int64_t cells, int ratio) {
  const double begin = (double)low * scale, length = (double)high * scale - begin;
  const double size = (length < 1 ? 1 : length) / (double)cells;
  return (cr_roi_samples){begin, size, ratio > 0 ? ratio : (int64_t)ceil(size)};
}

/* The most taps of a side: two per sample; and as positions rise, neighbouring cells have at most
 * two rows or columns in common. */
static inline int64_t cr_roi_most_taps(int64_t extent, int64_t cells, int ratio) {
  const int64_t most = extent + 2 * cells;
  return ratio > 0 && 2 * ratio * cells < most ? 2 * ratio * cells : most;
}

/* Samples rise: only the last two taps of a cell can be at the same place. */
static inline void cr_roi_add_tap(cr_roi_side *s, int64_t cell, int64_t at, cr_real weight) {
  int64_t *count = &s->first[cell + 1];
  for (int64_t i = *count - 1; i >= s->first[cell] && i >= *count - 2; --i) {
    if (s->taps[i].at != at) continue;
    s->taps[i].weight += weight;
    return;
  }
  s->taps[(*count)++] = (cr_roi_weight){at, weight};
}

/* Samples more than a position outside of the map count as 0. */
static inline void cr_roi_fill_side(cr_roi_samples s, int64_t cells, int64_t extent,
                                    cr_roi_side *to) {
  to->first[0] = 0;
  for (int64_t i = 0; i < cells; ++i) {
    to->first[i + 1] = to->first[i];
    for (int64_t k = 0; k < s.count; ++k) {
      const double where = s.begin + s.size * ((double)i + ((double)k + 0.5) / (double)s.count);
      if (extent == 0 || where < -1 || where > (double)extent) continue;
      const double at = where <= 0                     ? 0
                        : where > (double)(extent - 1) ? (double)(extent - 1)
                                                       : where;
      const int64_t low = (int64_t)at, high = low + 1 < extent ? low + 1 : low;
      const double weight = (at - (double)low) / (double)s.count;
      cr_roi_add_tap(to, i, low, (cr_real)(1 / (double)s.count - weight));
      cr_roi_add_tap(to, i, high, (cr_real)weight);
    }
  }
}

#endif
