/* The overlap of two boxes: the common area over the area of either. */
#include "device/cpu/kernels/region_overlap.h"

enum { STRIP = 128 /* cells */ };

/* The edges of an object. */
typedef struct edges {
  cr_real left, right, top, bottom, area;
} edges;

/* Some cells' boxes, and their best overlaps so far: the area common over the area of either. */
typedef struct cell_strip {
  cr_real left[STRIP], right[STRIP], top[STRIP], bottom[STRIP], area[STRIP];
  cr_real common[STRIP], either[STRIP];
} cell_strip;

CR_INLINE void begin_strip(int64_t cells, int64_t count, const cr_real *box, cell_strip *s) {
  const cr_real *x = box, *y = x + cells, *w = y + cells, *h = w + cells;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    s->left[i] = x[i] - w[i] / 2;
    s->right[i] = x[i] + w[i] / 2;
    s->top[i] = y[i] - h[i] / 2;
    s->bottom[i] = y[i] + h[i] / 2;
    s->area[i] = w[i] * h[i];
    s->common[i] = 0;
    s->either[i] = 1;
  }
}

/* Ratios are compared without divisions. */
CR_INLINE void raise_overlaps(int64_t count, const edges *of, cell_strip *s) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const cr_real width = (s->right[i] < of->right ? s->right[i] : of->right) -
                          (s->left[i] > of->left ? s->left[i] : of->left);
    const cr_real height = (s->bottom[i] < of->bottom ? s->bottom[i] : of->bottom) -
                           (s->top[i] > of->top ? s->top[i] : of->top);
    const cr_real common = width * height, either = s->area[i] + of->area - common;
    const bool more = (width > 0) & (height > 0) & (common * s->either[i] > s->common[i] * either);
    s->common[i] = more ? common : s->common[i];
    s->either[i] = more ? either : s->either[i];
  }
}

CR_REF_CLONES void cr_region_overlaps(int64_t cells, const cr_real *box, const cr_real *object,
                                      cr_reach reach, cr_real image, cr_real *best) {
  cell_strip s;
  for (int64_t at = 0; at < cells; at += STRIP) {
    const int64_t count = cells - at < STRIP ? cells - at : STRIP;
    begin_strip(cells, count, box + at, &s);
    for (int64_t t = reach.begin; t < reach.end; ++t) {
      const cr_real *o = object + t * CR_REGION_NUMBERS, w = o[3], h = o[4];
      if (o[0] != image) continue;
      const edges of = {o[1] - w / 2, o[1] + w / 2, o[2] - h / 2, o[2] + h / 2, w * h};
      raise_overlaps(count, &of, &s);
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) best[at + i] = s.common[i] / s.either[i];
  }
}
