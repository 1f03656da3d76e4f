/* Pooling over regions of interest: the largest value of each part of a region (Girshick, "Fast
 * R-CNN", 2015). Backward finds the largest values again, which takes less time than reading an
 * index for each of them. */
#include "device/cpu/ref_roi.h"

/* As wide as a value, so that vectors of both have as many elements. */
#ifdef CR_REF_F64
typedef int64_t number;
#else
typedef int32_t number;
#endif

static crema_status check_fwd(const cr_plan *plan) {
  return cr_roi_check(plan, 0, 1, 2, false);
}

static crema_status check_bwd(const cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  CR_TRY(cr_roi_check(plan, 3, 1, 0, false));
  if (cr_op_arg_count(plan->desc, 2) == cr_op_arg_count(plan->desc, 3)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: a map of %d axes and its gradient do not fit",
                 cr_op_kind_name(plan->desc->kind), arg[2].shape.axes);
}

/* ---- windows ------------------------------------------------------------- */

/* Part `index` of `parts` of the region's side from `low` to `high`, both included. */
CR_INLINE cr_roi_span span_of(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                              int64_t extent) {
  const double begin = round((double)low * scale), end = round((double)high * scale);
  const double length = end - begin + 1 < 1 ? 1 : end - begin + 1;
  /* In single precision, as the definition has it: parts of, say, 7 / 7 rows depend on it. */
  const float size = (float)length / (float)parts;
  const double from = floor((double)((float)index * size)),
               to = ceil((double)((float)(index + 1) * size));
  return (cr_roi_span){cr_roi_cut((int64_t)(from + begin), extent),
                       cr_roi_cut((int64_t)(to + begin), extent)};
}

/* The sides of each region's parts: rows, then columns. */
CR_CLONES static void fill_spans(const cr_roi_extents *e, double scale, const cr_real *rois,
                                 cr_roi_span *out) {
  for (int64_t r = 0; r < e->regions; ++r, rois += 5) {
    for (int64_t i = 0; i < e->rows; ++i) {
      *out++ = span_of(rois[2], rois[4], scale, e->rows, i, e->height);
    }
    for (int64_t j = 0; j < e->columns; ++j) {
      *out++ = span_of(rois[1], rois[3], scale, e->columns, j, e->width);
    }
  }
}

static const cr_roi_span *spans_of(const cr_roi_job *j, int64_t region) {
  return j->spans + region * (j->e.rows + j->e.columns);
}

static bool is_of(const cr_roi_job *j, int64_t region, int64_t image) {
  return (int64_t)j->rois[5 * region] == image;
}

/* What the regions of an image read. */
static cr_roi_window reach_of(const cr_roi_job *j, int64_t image) {
  cr_roi_window all = {{0, 0}, {0, 0}};
  for (int64_t r = 0; r < j->e.regions; ++r) {
    if (is_of(j, r, image)) all = cr_roi_unite(all, cr_roi_reach(&j->e, spans_of(j, r)));
  }
  return cr_roi_widen(all, j->e.width);
}

/* ---- rows of a region ---------------------------------------------------- */

/* A region is pooled in two steps: the largest value of each part in each row of the map, which
 * several rows of parts may share, and the largest of these. Where values are equal the first one
 * is taken in both, in the order of memory. NaN is passed over in both; where it is a part's first
 * value it is the result. */
typedef struct region {
  const cr_roi_extents *e;
  const cr_roi_line *map;
  const cr_roi_span *y, *x; /* of rows and columns of parts */
  int64_t rows, columns;    /* of the map in the largest part */
  bool has_nan;             /* the map has */
  const int32_t *offset;    /* in values: column k of part j has offset[k * e->columns + j] */
} region;

CR_INLINE int64_t longest(const cr_roi_span *span, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (span[i].end - span[i].begin > most) most = span[i].end - span[i].begin;
  }
  return most;
}

/* All parts are read as if they were as wide as the widest, which the processor can foresee: those
 * that are not have their last column several times, as what is read twice is the largest value
 * once. Those without columns have any one of the map, as nothing comes of it. */
CR_INLINE region region_of(const cr_roi_job *j, int64_t r, const cr_roi_line *map, bool has_nan,
                           int32_t *offset) {
  const cr_roi_extents *e = &j->e;
  const cr_roi_span *y = spans_of(j, r), *x = y + e->rows;
  const int64_t columns = longest(x, e->columns);
  for (int64_t k = 0; k < columns; ++k) {
    for (int64_t i = 0; i < e->columns; ++i) {
      const int64_t last = x[i].end > 1 ? x[i].end - 1 : 0;
      const int64_t at = x[i].begin + k < last ? x[i].begin + k : last;
      offset[k * e->columns + i] = (int32_t)(at * CR_ROI_BLOCK);
    }
  }
  return (region){e, map, y, x, longest(y, e->rows), columns, has_nan, offset};
}

static bool is_empty(const cr_roi_span *span) {
  return span->end <= span->begin;
}

static bool has_nan(const cr_roi_window *w, int64_t width, const cr_roi_line *map) {
  int found = 0;
  for (int64_t i = w->y.begin; i < w->y.end; ++i) {
    const cr_real *row = map[i * width + w->x.begin].value;
    for (int64_t j = 0; j < (w->x.end - w->x.begin) * CR_ROI_BLOCK; ++j) found |= row[j] != row[j];
  }
  return found != 0;
}

#define LEAST (-(cr_real)INFINITY)

/* ---- forward ------------------------------------------------------------- */

/* best: of each part's columns in one row of the map. */
CR_INLINE void largest_in_row(const region *g, const cr_roi_line *row, cr_roi_line *best) {
  const int32_t *offset = g->offset;
  for (int64_t k = 0; k < g->columns; ++k) {
    for (int64_t j = 0; j < g->e->columns; ++j) {
      const cr_real *value = row->value + *offset++;
      cr_real *to = best[j].value;
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) {
        const cr_real before = k == 0 ? LEAST : to[l];
        to[l] = value[l] > before ? value[l] : before;
      }
    }
  }
}

CR_INLINE void take_larger(int64_t count, const cr_roi_line *value, cr_roi_line *best) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) {
    best->value[i] = value->value[i] > best->value[i] ? value->value[i] : best->value[i];
  }
}

/* Results of row `i` of parts whose first value is NaN. */
CR_INLINE void take_nans(const region *g, int64_t i, cr_roi_line *out) {
  for (int64_t j = 0; j < g->e->columns; ++j) {
    const cr_real *first = g->map[g->y[i].begin * g->e->width].value + g->offset[j];
    cr_real *to = out[j].value;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) to[l] = first[l] == first[l] ? to[l] : first[l];
  }
}

/* best: for as many rows of the map as a part has, by their number modulo this one. */
CR_INLINE void forward_region(const region *g, const cr_roi_next *later, cr_roi_line *best,
                              cr_roi_line *out) {
  const int64_t columns = g->e->columns;
  int64_t next = 0; /* row of the map of which there are no largest values yet */
  for (int64_t i = 0; i < g->e->rows; ++i, out += columns) {
    const cr_roi_span y = g->y[i];
    cr_roi_ask(later, i, g->e->rows);
    cr_roi_fill(columns, is_empty(&y) ? 0 : LEAST, out);
    if (next < y.begin) next = y.begin;
    for (; next < y.end; ++next) {
      largest_in_row(g, g->map + next * g->e->width, best + next % g->rows * columns);
    }
    for (int64_t k = y.begin; k < y.end; ++k) {
      take_larger(columns, best + k % g->rows * columns, out);
    }
    if (g->has_nan && !is_empty(&y)) take_nans(g, i, out);
    for (int64_t j = 0; j < columns; ++j) {
      if (is_empty(&g->x[j])) cr_roi_fill(1, 0, out + j);
    }
  }
}

/* The channels from `first` on of an image. `lines`: for the map, a result, the rows. */
CR_CLONES static void forward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *result = lines + plane, *rows = result + cells;
  int32_t *offset = (int32_t *)(rows + e->height * e->columns);
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + (image * e->channels + first) * plane,
                  lines);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans, offset);
    const cr_roi_next later = cr_roi_next_of(e, r, first, planes, j->dst);
    forward_region(&g, &later, rows, result);
    cr_roi_transpose(cells, planes, result->value, CR_ROI_BLOCK,
                     j->dst + (r * e->channels + first) * cells, cells);
  }
}

/* ---- backward ------------------------------------------------------------ */

/* Numbers of rows or columns in a part. */
typedef struct numbers {
  number value[CR_ROI_BLOCK];
} numbers;

/* A line of each for a row of the map and a column of parts: the largest value, its column, and the
 * gradient that it gets. */
typedef struct places {
  cr_roi_line *best, *given;
  numbers *which;
} places;

CR_INLINE places places_at(const places *p, int64_t at) {
  return (places){p->best + at, p->given + at, p->which + at};
}

/* All bits where value is larger than best, else none. */
CR_INLINE number is_larger(cr_real value, cr_real best) {
  return -(number)(value > best);
}

CR_INLINE void number_in_row(const region *g, const cr_roi_line *row, const places *p) {
  const int32_t *offset = g->offset;
  for (int64_t j = 0; j < g->e->columns && g->columns > 0; ++j) {
    const cr_real *value = row->value + *offset++;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      p->best[j].value[l] = value[l] > LEAST ? value[l] : LEAST;
      p->which[j].value[l] = 0;
      p->given[j].value[l] = 0;
    }
  }
  for (int64_t k = 1; k < g->columns; ++k) {
    for (int64_t j = 0; j < g->e->columns; ++j) {
      const cr_real *value = row->value + *offset++;
      cr_real *best = p->best[j].value;
      number *n = p->which[j].value;
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) {
        const number more = is_larger(value[l], best[l]);
        n[l] = ((number)k & more) | (n[l] & ~more);
        best[l] = value[l] > best[l] ? value[l] : best[l];
      }
    }
  }
}

/* The larger values of two rows, and from which they are. */
CR_INLINE void number_two(int64_t count, const cr_roi_line *first, const cr_roi_line *second,
                          cr_roi_line *best, numbers *which) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) {
    const cr_real a = first->value[i], b = second->value[i];
    which->value[i] = b > a;
    best->value[i] = b > a ? b : a;
  }
}

CR_INLINE void number_larger(int64_t count, const cr_roi_line *value, number n, cr_roi_line *best,
                             numbers *which) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) {
    const number more = is_larger(value->value[i], best->value[i]);
    which->value[i] = (n & more) | (which->value[i] & ~more);
    best->value[i] = value->value[i] > best->value[i] ? value->value[i] : best->value[i];
  }
}

/* What belongs to parts whose first value is NaN goes to that. */
CR_INLINE void give_to_nans(const region *g, int64_t i, cr_roi_line *diff, cr_roi_line *sums) {
  for (int64_t j = 0; j < g->e->columns; ++j) {
    const int64_t row = g->y[i].begin * g->e->width;
    const cr_real *first = g->map[row].value + g->offset[j];
    cr_real *from = diff[j].value, *to = sums[row].value + g->offset[j];
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      to[l] += first[l] == first[l] ? 0 : from[l];
      from[l] = first[l] == first[l] ? from[l] : 0;
    }
  }
}

/* diff of the places where `which` is n. */
CR_INLINE void add_where(int64_t count, const numbers *which, number n, const cr_roi_line *diff,
                         cr_roi_line *sum) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) {
    const cr_real more = sum->value[i] + diff->value[i];
    sum->value[i] = which->value[i] == n ? more : sum->value[i];
  }
}

CR_INLINE void add_all(int64_t count, const cr_roi_line *diff, cr_roi_line *sum) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) sum->value[i] += diff->value[i];
}

/* From row `i` of parts to the rows of the map. `own`: the row's largest values, and the row of the
 * map that each is in. */
CR_INLINE void give_to_rows(const region *g, int64_t i, cr_roi_line *diff, const places *p,
                            const places *own, cr_roi_line *sums) {
  const int64_t columns = g->e->columns;
  const cr_roi_span y = g->y[i];
  for (int64_t j = 0; j < columns; ++j) {
    if (is_empty(&g->x[j])) cr_roi_fill(1, 0, diff + j);
  }
  if (g->has_nan) give_to_nans(g, i, diff, sums);
  const int64_t first = y.begin % g->rows * columns;
  if (y.end - y.begin == 1) {
    add_all(columns, diff, p->given + first);
    return;
  }
  number_two(columns, p->best + first, p->best + (y.begin + 1) % g->rows * columns, own->best,
             own->which);
  for (int64_t k = y.begin + 2; k < y.end; ++k) {
    number_larger(columns, p->best + k % g->rows * columns, (number)(k - y.begin), own->best,
                  own->which);
  }
  for (int64_t k = y.begin; k < y.end; ++k) {
    add_where(columns, own->which, (number)(k - y.begin), diff, p->given + k % g->rows * columns);
  }
}

CR_INLINE void give_to_columns(const region *g, const places *p, cr_roi_line *row) {
  const int32_t *offset = g->offset;
  for (int64_t k = 0; k < g->columns; ++k) {
    for (int64_t j = 0; j < g->e->columns; ++j) {
      const cr_real *given = p->given[j].value;
      const number *which = p->which[j].value;
      cr_real *sum = row->value + *offset++;
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) sum[l] += which[l] == (number)k ? given[l] : 0;
    }
  }
}

/* p: for as many rows of the map as a part has, by their number modulo this one, and one more. */
CR_INLINE void backward_region(const region *g, const cr_roi_next *later, const places *p,
                               cr_roi_line *diff, cr_roi_line *sums) {
  const int64_t columns = g->e->columns, width = g->e->width;
  const places own = places_at(p, g->rows * columns);
  int64_t next = 0, done = 0; /* rows that have not been numbered, and not been given all */
  for (int64_t i = 0; i <= g->e->rows; ++i, diff += columns) {
    const cr_roi_span y = i < g->e->rows ? g->y[i] : (cr_roi_span){next, next};
    for (; done < y.begin && done < next; ++done) {
      const places row = places_at(p, done % g->rows * columns);
      give_to_columns(g, &row, sums + done * width);
    }
    if (i < g->e->rows) cr_roi_ask(later, i, g->e->rows);
    if (is_empty(&y)) continue;
    if (next < y.begin) done = next = y.begin;
    for (; next < y.end; ++next) {
      const places row = places_at(p, next % g->rows * columns);
      number_in_row(g, g->map + next * width, &row);
    }
    give_to_rows(g, i, diff, p, &own, sums);
  }
}

/* `lines`: for the map, its gradient, a result's, the rows. */
CR_CLONES static void backward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane, rows = (e->height + 1) * e->columns;
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *sums = lines + plane, *diff = sums + plane, *rest = diff + cells;
  const places p = {rest, rest + rows, (numbers *)(rest + 2 * rows)};
  int32_t *offset = (int32_t *)(rest + 3 * rows);
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + at, lines);
  cr_roi_zero_lines(&reach, e->width, sums);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans, offset);
    cr_roi_transpose(planes, cells, j->diff_dst + (r * e->channels + first) * cells, cells,
                     diff->value, CR_ROI_BLOCK);
    const cr_roi_next later = cr_roi_next_of(e, r, first, planes, j->diff_dst);
    backward_region(&g, &later, &p, diff, sums);
  }
  cr_roi_to_planes(&reach, e->height, e->width, planes, plane, sums, j->diff_src + at);
}

/* ---- kernels ------------------------------------------------------------- */

/* Of the workspace. */
typedef struct needs {
  size_t table;
  int64_t lines, tasks;
} needs;

static needs needs_of(const cr_roi_extents *e, bool forward) {
  return (needs){(size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span),
                 (forward ? 1 : 2) * e->height * e->width + e->rows * e->columns +
                     e->width * e->columns / (int64_t)(sizeof(cr_roi_line) / sizeof(int32_t)) + 1 +
                     (forward ? e->height : 3 * (e->height + 1)) * e->columns,
                 e->images * cr_roi_blocks(e->channels)};
}

static crema_status roi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(check_fwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 1, 2);
  const needs n = needs_of(&e, true);
  cr_roi_need(plan, n.table, n.lines, n.tasks);
  return CREMA_OK;
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(check_bwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 3, 1, 0);
  const needs n = needs_of(&e, false);
  cr_roi_need(plan, n.table, n.lines, n.tasks);
  return CREMA_OK;
}

static void run_tasks(const cr_call *call, cr_roi_job *j, const needs *n, bool forward) {
  const cr_roi_slots s = cr_roi_slots_of(call, n->table, n->lines);
  const int64_t blocks = cr_roi_blocks(j->e.channels);
  j->spans = (cr_roi_span *)call->workspace.address;
  fill_spans(&j->e, (double)call->desc->u.roi.scale, j->rois, j->spans);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_roi_line *lines = cr_roi_begin(&s, slot, j->e.channels);
    for (int64_t t = n->tasks * slot / s.slots; t < n->tasks * (slot + 1) / s.slots; ++t) {
      (forward ? forward_block : backward_block)(j, t / blocks, t % blocks * CR_ROI_BLOCK, lines);
    }
  }
}

/* src, rois, dst. */
static crema_status roi_pool_fwd(const cr_call *call) {
  cr_roi_job j = {.e = cr_roi_extents_of(call->desc, 0, 1, 2),
                  .src = cr_as_reals(call->buffer, 0),
                  .rois = cr_as_reals(call->buffer, 1),
                  .dst = cr_as_reals(call->buffer, 2)};
  const needs n = needs_of(&j.e, true);
  CR_TRY(cr_roi_check_images(&j.e, j.rois));
  run_tasks(call, &j, &n, true);
  return CREMA_OK;
}

/* diff_dst, rois, src, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  cr_roi_job j = {.e = cr_roi_extents_of(call->desc, 3, 1, 0),
                  .diff_dst = cr_as_reals(call->buffer, 0),
                  .rois = cr_as_reals(call->buffer, 1),
                  .src = cr_as_reals(call->buffer, 2),
                  .diff_src = cr_as_reals(call->buffer, 3)};
  const needs n = needs_of(&j.e, false);
  CR_TRY(cr_roi_check_images(&j.e, j.rois));
  run_tasks(call, &j, &n, false);
  return CREMA_OK;
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = roi_pool_fwd_plan, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
