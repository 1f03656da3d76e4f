/* The rows and columns that the cells of a region take values from in ROIAlign, with their weights.
 *
 * The samples of a cell lie on a grid, so a mean over them is a sum over positions (y, x) of the
 * map with weights wy wx. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_TAPS_FAST_H
#define CR_DEVICE_CPU_KERNELS_ROI_TAPS_FAST_H

#include "device/cpu/kernels/roi_fast.h"

/* The weight that a row or column of the map has in a cell. */
typedef struct cr_roi_weight {
  int64_t at;
  float weight;
} cr_roi_weight;

/* One side of a region: cell i has the taps first[i] to first[i + 1] - 1, in rising order. */
typedef struct cr_roi_side {
  cr_roi_weight *taps;
  int64_t *first;
} cr_roi_side;

/* The most taps of a side: two per sample; and as positions rise, neighbouring cells have at most
 * two rows or columns in common. */
static inline int64_t cr_roi_most_taps(int64_t extent, int64_t cells, int ratio) {
  const int64_t most = extent + 2 * cells;
  return ratio > 0 && 2 * ratio * cells < most ? 2 * ratio * cells : most;
}

/* Samples rise: only the last two taps of a cell can be at the same place. */
static inline void cr_roi_add_tap(cr_roi_side *s, int64_t cell, int64_t at, float weight) {
  int64_t *count = &s->first[cell + 1];
  for (int64_t i = *count - 1; i >= s->first[cell] && i >= *count - 2; --i) {
    if (s->taps[i].at != at) continue;
    s->taps[i].weight += weight;
    return;
  }
  s->taps[(*count)++] = (cr_roi_weight){at, weight};
}

static inline void cr_roi_fill_side(cr_roi_samples s, int64_t cells, int64_t extent,
                                    cr_roi_side *to) {
  to->first[0] = 0;
  for (int64_t i = 0; i < cells; ++i) {
    to->first[i + 1] = to->first[i];
    for (int64_t k = 0; k < s.count; ++k) {
      cr_roi_neighbours n;
      if (!cr_roi_neighbours_of(cr_roi_sample(&s, i, k), extent, &n)) continue;
      const double weight = n.rest / (double)s.count;
      cr_roi_add_tap(to, i, n.low, (float)(1 / (double)s.count - weight));
      cr_roi_add_tap(to, i, n.high, (float)weight);
    }
  }
}

#endif
