/* Pooling over regions of interest: what its gradient (kernels/roi_pool_bwd.c) shares with the rest
 * (kernels/roi_pool.c). Where values are equal the first one is the largest, in the order of
 * memory. NaN is passed over; where it is a part's first value it is the result. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_POOL_H
#define CR_DEVICE_CPU_KERNELS_ROI_POOL_H

#include "device/cpu/kernels/roi.h"

/* A part's columns, which are the same in all rows of parts: where the first one's line begins in a
 * row of lines of the map, in values, and the index of the column of parts. */
typedef struct cr_roi_strip {
  int32_t column, part;
} cr_roi_strip;

/* The strips of a region go by their width: one column, two, three, four, then wider ones. Parts
 * without columns of the map have none. end: of each width. */
enum { CR_ROI_WIDTHS = CR_ROI_FOUR + 1 };
typedef struct cr_roi_outline {
  int32_t end[CR_ROI_WIDTHS];
} cr_roi_outline;

/* A row of the map in a region. Rows of parts that give to it: `whole`, which has no other row, and
 * `begin`, which goes on below and has `height` rows; as the distance of the first part's gradients
 * from those of the region, in values. Where there is none it is that of a row of zeros, which
 * follows the region's, and height 0. run: how many rows there are from here on before one of a
 * part of more than two rows, other than its last one. */
typedef struct cr_roi_row {
  int64_t whole, begin;
  int32_t height, run;
} cr_roi_row;

/* What all threads read. Per region: the sides of its parts, rows, then columns, its outline, a
 * strip for each column of parts and, backward, the rows of the map. */
typedef struct cr_roi_pool {
  cr_roi_extents e;
  const cr_real *rois, *src;
  cr_real *dst;            /* forward */
  const cr_real *diff_dst; /* backward */
  cr_real *diff_src;
  /* Constants of which compilers should not know: infinity below 0, which they would make a choice
   * from; 0, for which they would compare once more; and 0, the distance of sums from where they
   * are read, as they would not write those that stay as they are, with a branch for it. */
  cr_real least, zero;
  int64_t distance;
  cr_roi_span *spans;
  cr_roi_row *rows;
  cr_roi_outline *outlines;
  cr_roi_strip *strips;
} cr_roi_pool;

static inline int64_t cr_roi_length(const cr_roi_span *span) {
  return span->end > span->begin ? span->end - span->begin : 0;
}

static inline const cr_roi_span *cr_roi_pool_spans(const cr_roi_pool *p, int64_t region) {
  return p->spans + region * (p->e.rows + p->e.columns);
}

static inline bool cr_roi_pool_is_of(const cr_roi_pool *p, int64_t region, int64_t image) {
  return (int64_t)p->rois[5 * region] == image;
}

/* What the regions of an image read. */
static inline cr_roi_window cr_roi_pool_reach(const cr_roi_pool *p, int64_t image) {
  cr_roi_window all = {{0, 0}, {0, 0}};
  for (int64_t r = 0; r < p->e.regions; ++r) {
    if (!cr_roi_pool_is_of(p, r, image)) continue;
    all = cr_roi_unite(all, cr_roi_reach(&p->e, cr_roi_pool_spans(p, r)));
  }
  return cr_roi_widen(all, p->e.width);
}

/* A region of a block of channels. */
typedef struct cr_roi_region {
  const cr_roi_pool *p;
  const cr_roi_line *map;
  const cr_roi_span *y, *x; /* of rows and columns of parts */
  const cr_roi_outline *o;
  const cr_roi_strip *strips;
  bool has_nan; /* the map has */
} cr_roi_region;

CR_INLINE cr_roi_region cr_roi_region_of(const cr_roi_pool *p, int64_t r, const cr_roi_line *map,
                                         bool has_nan) {
  const cr_roi_span *y = cr_roi_pool_spans(p, r);
  return (cr_roi_region){
      p, map, y, y + p->e.rows, p->outlines + r, p->strips + r * p->e.columns, has_nan};
}

/* The parts that have columns. */
CR_INLINE int64_t cr_roi_strips(const cr_roi_region *g) {
  return g->o->end[CR_ROI_WIDTHS - 1];
}

static inline bool cr_roi_has_nan(const cr_roi_extents *e, const cr_roi_window *w,
                                  const cr_roi_line *map) {
  int found = 0;
  for (int64_t i = w->y.begin; i < w->y.end; ++i) {
    const cr_real *row = map[i * e->step + w->x.begin].value;
    for (int64_t j = 0; j < (w->x.end - w->x.begin) * CR_ROI_BLOCK; ++j) found |= row[j] != row[j];
  }
  return found != 0;
}

/* `call` for the strips of each width of up to four columns, of which it gets the first one and the
 * end. */
#define CR_ROI_BY_WIDTH(g, call, ...)                                               \
  call(1, (g)->strips, (g)->strips + (g)->o->end[0], __VA_ARGS__);                  \
  call(2, (g)->strips + (g)->o->end[0], (g)->strips + (g)->o->end[1], __VA_ARGS__); \
  call(3, (g)->strips + (g)->o->end[1], (g)->strips + (g)->o->end[2], __VA_ARGS__); \
  call(4, (g)->strips + (g)->o->end[2], (g)->strips + (g)->o->end[3], __VA_ARGS__);

/* Of one value of a line: the largest of `count` columns and of what there is. */
CR_INLINE cr_real cr_roi_largest(int count, const cr_real *map, cr_real there_is) {
  cr_real top = map[0] > there_is ? map[0] : there_is;
  if (count > 1) top = map[CR_ROI_BLOCK] > top ? map[CR_ROI_BLOCK] : top;
  if (count > 2) top = map[2 * CR_ROI_BLOCK] > top ? map[2 * CR_ROI_BLOCK] : top;
  if (count > 3) top = map[3 * CR_ROI_BLOCK] > top ? map[3 * CR_ROI_BLOCK] : top;
  return top;
}

/* Where four columns of `columns`, more than four, begin: those from `first` on, or the last four.
 */
CR_INLINE int64_t cr_roi_four_at(int64_t columns, int64_t first) {
  return (first < columns - CR_ROI_FOUR ? first : columns - CR_ROI_FOUR) * CR_ROI_BLOCK;
}

CR_INLINE void cr_roi_largest_four(const cr_real *map, cr_real least, bool more, cr_real *top) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    top[l] = cr_roi_largest(CR_ROI_FOUR, map + l, more ? top[l] : least);
  }
}

/* Of a part of more than four columns: the largest in a row of the map; `more`: and what there is.
 */
CR_INLINE void cr_roi_largest_wide(int64_t columns, const cr_real *map, cr_real least, bool more,
                                   cr_real *top) {
  cr_roi_largest_four(map, least, more, top);
  for (int64_t k = CR_ROI_FOUR; k < columns; k += CR_ROI_FOUR) {
    cr_roi_largest_four(map + cr_roi_four_at(columns, k), least, true, top);
  }
}

/* ---- backward (kernels/roi_pool_bwd.c) -------------------------------------- */

#define cr_roi_pool_fill_rows CR_REF_NAME(cr_roi_pool_fill_rows)
#define cr_roi_pool_back CR_REF_NAME(cr_roi_pool_back)
#define cr_roi_pool_back_lines CR_REF_NAME(cr_roi_pool_back_lines)

/* It goes down the columns of lines. Where rows are a multiple of 16 lines apart, few of a column
 * would have a place in the nearest cache at a time. */
static inline cr_roi_extents cr_roi_pool_back_extents(const cr_op_desc *desc) {
  cr_roi_extents e = cr_roi_extents_of(desc, 3, 1, 0);
  e.step = e.width % 16 == 0 ? e.width + 1 : e.width;
  return e;
}

/* The rows of each region, from its spans. */
void cr_roi_pool_fill_rows(const cr_roi_pool *p);

/* Lines that it needs. */
int64_t cr_roi_pool_back_lines(const cr_roi_extents *e);

/* The gradient of the channels from `first` on of an image. */
void cr_roi_pool_back(const cr_roi_pool *p, int64_t image, int64_t first, cr_roi_line *lines);

#endif
