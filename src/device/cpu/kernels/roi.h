/* What the pooling of regions of interest shares. A region is five numbers: the index of its image,
 * then left, top, right and bottom in pixels of the net's input, which u.roi.scale brings to the
 * map.
 *
 * But for parts with channels of their own, regions are pooled a block of channels at a time: the
 * block's planes of one image are brought into lines, one per position with a value of each
 * channel, all regions of the image are pooled from these, and their results brought back to
 * planes. Windows are found once per region, loops run over the values of a line, and a gradient is
 * summed by the thread that has the channel, so that sums have one order. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_H
#define CR_DEVICE_CPU_KERNELS_ROI_H

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/prefetch.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/transpose.h"
#include "device/cpu/threads/threads.h"

/* Channels of a block: a cache line. */
enum { CR_ROI_BLOCK = 64 / (int)sizeof(cr_real) };

/* One position of the channels of a block. */
typedef struct cr_roi_line {
  cr_real value[CR_ROI_BLOCK];
} cr_roi_line;

/* The map (N,C,H,W), the regions (R,5), the result (R,C',h,w). step: from a row of the map to the
 * next, in lines. */
typedef struct cr_roi_extents {
  int64_t images, channels, height, width, step;
  int64_t regions, results, rows, columns;
} cr_roi_extents;

static inline cr_roi_extents cr_roi_extents_of(const cr_op_desc *desc, int map, int rois,
                                               int result) {
  const int64_t *m = desc->arg[map].shape.dim, *r = desc->arg[result].shape.dim;
  return (cr_roi_extents){m[0], m[1], m[2], m[3], m[3], desc->arg[rois].shape.dim[0],
                          r[1], r[2], r[3]};
}

/* `per_result`: channels of the map for each of the result. */
static inline crema_status cr_roi_check(const cr_plan *plan, int map, int rois, int result,
                                        bool parts) {
  const cr_op_arg *arg = plan->desc->arg;
  const int64_t *to = arg[result].shape.dim;
  if (arg[map].shape.axes == 4 && arg[rois].shape.axes == 2 && arg[result].shape.axes == 4 &&
      arg[rois].shape.dim[1] == 5 && to[0] == arg[rois].shape.dim[0] &&
      arg[map].shape.dim[1] == (parts ? to[1] * to[2] * to[3] : to[1])) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: shapes of map, regions and result do not fit",
                 cr_op_kind_name(plan->desc->kind));
}

static inline crema_status cr_roi_check_images(const cr_roi_extents *e, const cr_real *rois) {
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = rois + 5 * r;
    if (!(roi[0] >= 0 && roi[0] < (cr_real)e->images)) {
      return cr_fail(CREMA_E_RANGE, "region %lld is of image %g, and there are %lld", (long long)r,
                     (double)roi[0], (long long)e->images);
    }
    for (int i = 1; i < 5; ++i) {
      if (fabs(roi[i]) <= 1e9) continue;
      return cr_fail(CREMA_E_RANGE, "region %lld has a side at %g", (long long)r, (double)roi[i]);
    }
  }
  return CREMA_OK;
}

/* ---- windows ------------------------------------------------------------- */

/* Half open; in rows or columns of the map. */
typedef struct cr_roi_span {
  int64_t begin, end;
} cr_roi_span;

typedef struct cr_roi_window {
  cr_roi_span y, x;
} cr_roi_window;

static inline bool cr_roi_is_empty(const cr_roi_window *w) {
  return w->y.end <= w->y.begin || w->x.end <= w->x.begin;
}

static inline int64_t cr_roi_cut(int64_t x, int64_t most) {
  return x < 0 ? 0 : x > most ? most : x;
}

/* The window with both in it. */
static inline cr_roi_window cr_roi_unite(cr_roi_window a, cr_roi_window b) {
  if (cr_roi_is_empty(&a) || cr_roi_is_empty(&b)) return cr_roi_is_empty(&a) ? b : a;
  return (cr_roi_window){
      {a.y.begin < b.y.begin ? a.y.begin : b.y.begin, a.y.end > b.y.end ? a.y.end : b.y.end},
      {a.x.begin < b.x.begin ? a.x.begin : b.x.begin, a.x.end > b.x.end ? a.x.end : b.x.end}};
}

/* Whole rows in place of most of each: positions then follow each other. */
static inline cr_roi_window cr_roi_widen(cr_roi_window w, int64_t width) {
  if (!cr_roi_is_empty(&w) && 2 * (w.x.end - w.x.begin) > width) w.x = (cr_roi_span){0, width};
  return w;
}

/* All that a region whose parts have these sides reads. */
static inline cr_roi_window cr_roi_reach(const cr_roi_extents *e, const cr_roi_span *spans) {
  const cr_roi_span *x = spans + e->rows;
  return (cr_roi_window){{spans[0].begin, spans[e->rows - 1].end},
                         {x[0].begin, x[e->columns - 1].end}};
}

/* ---- lines --------------------------------------------------------------- */

/* 4 rows of 4 values to 4 columns of them. */
CR_INLINE void cr_roi_turn_quads(cr_quad *q) {
  const cr_quad ab = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5),
                cd = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5),
                ab_rest = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7),
                cd_rest = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
  q[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  q[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  q[2] = __builtin_shufflevector(ab_rest, cd_rest, 0, 1, 4, 5);
  q[3] = __builtin_shufflevector(ab_rest, cd_rest, 2, 3, 6, 7);
}

/* The same of rows that are `from_step` apart. */
CR_INLINE void cr_roi_turn(const cr_real *from, int64_t from_step, cr_real *to, int64_t to_step) {
  cr_quad q[CR_QUAD];
  for (int i = 0; i < CR_QUAD; ++i) q[i] = *(const cr_quad *)(from + i * from_step);
  cr_roi_turn_quads(q);
  for (int i = 0; i < CR_QUAD; ++i) *(cr_quad *)(to + i * to_step) = q[i];
}

/* The same of 8 rows of 4 values. */
CR_INLINE void cr_roi_turn_eight(const cr_real *from, int64_t from_step, cr_real *to,
                                 int64_t to_step) {
  cr_eight v[CR_QUAD];
  for (int i = 0; i < CR_QUAD; ++i) {
    cr_get_quads(from + i * from_step, from + (i + CR_QUAD) * from_step, &v[i]);
  }
  cr_turn_eights(v);
  for (int i = 0; i < CR_QUAD; ++i) *(cr_eight *)(to + i * to_step) = v[i];
}

/* Rows of `width` values at `from` become columns of `height` values at `to`. Whole blocks of both
 * are worked on before the next, as their cache lines may displace each other. */
CR_INLINE void cr_roi_transpose(int64_t height, int64_t width, const cr_real *from,
                                int64_t from_step, cr_real *to, int64_t to_step) {
  for (int64_t j = 0; j < width; j += CR_ROI_BLOCK) {
    const int64_t end = width - j < CR_ROI_BLOCK ? width : j + CR_ROI_BLOCK;
    const int64_t whole = end - (end - j) % CR_QUAD;
    for (int64_t i = 0; i < height;) {
      const int64_t rows = i + CR_EIGHT <= height ? CR_EIGHT : CR_QUAD;
      const cr_real *row = from + i * from_step;
      int64_t k = j;
      if (rows == CR_EIGHT) {
        for (; k < whole; k += CR_QUAD) {
          cr_roi_turn_eight(row + k, from_step, to + k * to_step + i, to_step);
        }
      } else if (i + CR_QUAD <= height) {
        for (; k < whole; k += CR_QUAD) {
          cr_roi_turn(row + k, from_step, to + k * to_step + i, to_step);
        }
      }
      for (; k < end; ++k) {
        for (int64_t l = i; l < height && l < i + rows; ++l) {
          to[k * to_step + l] = from[l * from_step + k];
        }
      }
      i += rows;
    }
  }
}

CR_INLINE void cr_roi_fill(int64_t count, cr_real value, cr_roi_line *to) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) to->value[i] = value;
}

/* Lines that are worked on in one go: so many stay in registers. Loops over constant numbers of
 * them: up to four, or four at a time. */
enum { CR_ROI_FOUR = 4 };

static inline int64_t cr_roi_fours(int64_t count) {
  return count <= CR_ROI_FOUR ? count : (count + CR_ROI_FOUR - 1) / CR_ROI_FOUR * CR_ROI_FOUR;
}

#define CR_ROI_BY_COUNT(count, call, ...) \
  switch (count) {                        \
    case 1: call(1, __VA_ARGS__); break;  \
    case 2: call(2, __VA_ARGS__); break;  \
    case 3: call(3, __VA_ARGS__); break;  \
    default: call(4, __VA_ARGS__); break; \
  }

/* A window of a map as runs of `length` positions that follow each other, both in a plane and in
 * lines: where the first one is there, and how far the next one is from it. */
typedef struct cr_roi_runs {
  int64_t count, length, plane, plane_step, line, line_step;
} cr_roi_runs;

static inline cr_roi_runs cr_roi_runs_of(const cr_roi_extents *e, const cr_roi_window *w) {
  if (cr_roi_is_empty(w)) return (cr_roi_runs){0, 0, 0, 0, 0, 0};
  const int64_t rows = w->y.end - w->y.begin, columns = w->x.end - w->x.begin;
  const bool follow = columns == e->step;
  return (cr_roi_runs){
      follow ? 1 : rows, follow ? rows * columns : columns, w->y.begin * e->width + w->x.begin,
      e->width,          w->y.begin * e->step + w->x.begin, e->step};
}

/* The window of `planes` planes to lines. There may be fewer planes than a line has values: others
 * stay as they are (cr_roi_begin). */
CR_INLINE void cr_roi_to_lines(const cr_roi_extents *e, const cr_roi_window *w, int64_t planes,
                               const cr_real *from, cr_roi_line *to) {
  const cr_roi_runs runs = cr_roi_runs_of(e, w);
  for (int64_t i = 0; i < runs.count; ++i) {
    cr_roi_transpose(planes, runs.length, from + runs.plane + i * runs.plane_step,
                     e->height * e->width, to[runs.line + i * runs.line_step].value, CR_ROI_BLOCK);
  }
}

static inline void cr_roi_zero_lines(const cr_roi_extents *e, const cr_roi_window *w,
                                     cr_roi_line *to) {
  const cr_roi_runs runs = cr_roi_runs_of(e, w);
  for (int64_t i = 0; i < runs.count; ++i) {
    memset(to + runs.line + i * runs.line_step, 0, (size_t)runs.length * sizeof *to);
  }
}

/* The window's lines to `planes` planes; 0 outside of the window. */
CR_INLINE void cr_roi_to_planes(const cr_roi_extents *e, const cr_roi_window *w, int64_t planes,
                                const cr_roi_line *from, cr_real *to) {
  const cr_roi_runs runs = cr_roi_runs_of(e, w);
  const int64_t plane = e->height * e->width;
  const bool whole_rows = !cr_roi_is_empty(w) && w->x.end - w->x.begin == e->width;
  const int64_t begin = whole_rows ? w->y.begin * e->width : plane;
  const int64_t end = whole_rows ? w->y.end * e->width : plane;
  for (int64_t c = 0; c < planes; ++c) {
    memset(to + c * plane, 0, (size_t)begin * sizeof *to);
    memset(to + c * plane + end, 0, (size_t)(plane - end) * sizeof *to);
  }
  for (int64_t i = 0; i < runs.count; ++i) {
    cr_roi_transpose(runs.length, planes, from[runs.line + i * runs.line_step].value, CR_ROI_BLOCK,
                     to + runs.plane + i * runs.plane_step, plane);
  }
}

/* Rows of parts whose values are turned together: few, so that they stay in the nearest cache, but
 * whole blocks of values. */
static inline int64_t cr_roi_group(const cr_roi_extents *e) {
  int64_t rows = 1;
  while (rows * e->columns % CR_EIGHT != 0) rows *= 2;
  return rows < e->rows ? rows : e->rows;
}

/* Of the group of row `row`, where that is the last one of it, the values in lines to `planes`
 * planes of `results`. */
CR_INLINE void cr_roi_put_group(const cr_roi_extents *e, int64_t group, int64_t row, int64_t planes,
                                const cr_roi_line *lines, cr_real *results) {
  const int64_t first = row / group * group, cells = e->rows * e->columns;
  if (row + 1 < e->rows && row + 1 < first + group) return;
  cr_roi_transpose((row + 1 - first) * e->columns, planes, lines->value, CR_ROI_BLOCK,
                   results + first * e->columns, cells);
}

/* A result that is read or written next. Its cache lines are asked for a piece at a time while
 * another one is worked on: those of several planes at once, none of which the processor has seen,
 * it does not foresee. */
typedef struct cr_roi_next {
  const cr_real *at, *end; /* what has not been asked for */
  int64_t piece;           /* values */
} cr_roi_next;

CR_INLINE void cr_roi_ask(cr_roi_next *next) {
  const cr_real *end = next->end - next->at < next->piece ? next->end : next->at + next->piece;
  for (; next->at < end; next->at += CR_ROI_BLOCK) __builtin_prefetch(next->at, 0, CR_SECOND_CACHE);
}

/* Of region r's successor, in an array of results. */
CR_INLINE cr_roi_next cr_roi_next_of(const cr_roi_extents *e, int64_t r, int64_t first,
                                     int64_t planes, int64_t pieces, const cr_real *results) {
  const int64_t cells = e->rows * e->columns, lines = planes * cells / CR_ROI_BLOCK + 1;
  if (r + 1 == e->regions) return (cr_roi_next){results, results, 0};
  const cr_real *at = results + ((r + 1) * e->channels + first) * cells;
  return (cr_roi_next){at, at + planes * cells, (lines / pieces + 1) * CR_ROI_BLOCK};
}

/* All of a region's values in planes to lines, pieces of so many while pieces of the next region
 * are asked for: in fewer and larger ones some of those are lost. */
enum { CR_ROI_PIECE = 32 };

static inline int64_t cr_roi_pieces(int64_t cells) {
  return (cells + CR_ROI_PIECE - 1) / CR_ROI_PIECE;
}

CR_INLINE void cr_roi_get(int64_t cells, int64_t planes, const cr_real *from, cr_roi_line *to,
                          cr_roi_next *later) {
  for (int64_t i = 0; i < cells; i += CR_ROI_PIECE) {
    cr_roi_ask(later);
    cr_roi_transpose(planes, cells - i < CR_ROI_PIECE ? cells - i : CR_ROI_PIECE, from + i, cells,
                     to[i].value, CR_ROI_BLOCK);
  }
}

/* ---- tasks --------------------------------------------------------------- */

static inline int64_t cr_roi_blocks(int64_t channels) {
  return (channels + CR_ROI_BLOCK - 1) / CR_ROI_BLOCK;
}

/* Channels of the block that begins with channel `first`. */
static inline int64_t cr_roi_planes(int64_t channels, int64_t first) {
  return channels - first < CR_ROI_BLOCK ? channels - first : CR_ROI_BLOCK;
}

/* The workspace: a table, then `lines` lines for each thread, which work on `tasks` tasks. */
static inline size_t cr_roi_table_bytes(size_t bytes) {
  return (bytes + sizeof(cr_roi_line) - 1) / sizeof(cr_roi_line) * sizeof(cr_roi_line);
}

static inline void cr_roi_need(cr_plan *plan, size_t table, int64_t lines, int64_t tasks) {
  const int64_t threads = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  plan->workspace_bytes =
      cr_roi_table_bytes(table) +
      (size_t)lines * sizeof(cr_roi_line) * (size_t)(tasks < threads ? tasks : threads);
}

/* What has been planned: the lines of `slots` threads. */
typedef struct cr_roi_slots {
  int64_t slots, lines;
  cr_roi_line *line;
} cr_roi_slots;

static inline cr_roi_slots cr_roi_slots_of(const cr_call *call, size_t table, int64_t lines) {
  const size_t before = cr_roi_table_bytes(table);
  cr_roi_slots s = {.lines = lines, .line = (cr_roi_line *)(call->workspace.address + before)};
  if (lines > 0) {
    s.slots = (int64_t)((call->plan->workspace_bytes - before) / (size_t)lines / sizeof *s.line);
  }
  return s;
}

/* The lines of a slot. Where the last block has fewer channels than a line, all are set to 0 once:
 * loops run over whole lines, and are slow where there happen to be tiny numbers. */
static inline cr_roi_line *cr_roi_begin(const cr_roi_slots *s, int64_t slot, int64_t channels) {
  cr_roi_line *lines = s->line + slot * s->lines;
  if (channels % CR_ROI_BLOCK != 0) memset(lines, 0, (size_t)s->lines * sizeof *lines);
  return lines;
}

#endif
