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
  int64_t ring;             /* rows of the map that are kept, less 1: row k is at k & ring */
  int64_t columns;          /* that are read of each part: up to CR_ROI_FOUR or a multiple */
  bool has_nan;             /* the map has */
  const int32_t *offset;    /* in values: column k of part j has offset[j * columns + k] */
} region;

CR_INLINE int64_t longest(const cr_roi_span *span, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (span[i].end - span[i].begin > most) most = span[i].end - span[i].begin;
  }
  return most;
}

static inline int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

/* All parts are read as if they were as wide as the widest, which the processor can foresee: those
 * that are not have their last column several times, as what is read twice is the largest value
 * once. Those without columns have any one of the map, as nothing comes of it. */
CR_INLINE region region_of(const cr_roi_job *j, int64_t r, const cr_roi_line *map, bool has_nan,
                           int32_t *offset) {
  const cr_roi_extents *e = &j->e;
  const cr_roi_span *y = spans_of(j, r), *x = y + e->rows;
  const int64_t columns = cr_roi_fours(longest(x, e->columns));
  const int64_t ring = power_of_two(longest(y, e->rows)) - 1;
  int32_t *to = offset;
  for (int64_t i = 0; i < e->columns; ++i) {
    const int64_t last = x[i].end > 1 ? x[i].end - 1 : 0;
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t at = x[i].begin + k < last ? x[i].begin + k : last;
      *to++ = (int32_t)(at * CR_ROI_BLOCK);
    }
  }
  return (region){e, map, y, x, ring, columns, has_nan, offset};
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

/* The largest of `count` lines; `more`: and what there is. */
CR_INLINE void largest_of(int count, const cr_real *const *value, bool more, cr_real *to) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real best = more ? to[l] : LEAST;
    best = value[0][l] > best ? value[0][l] : best;
    if (count > 1) best = value[1][l] > best ? value[1][l] : best;
    if (count > 2) best = value[2][l] > best ? value[2][l] : best;
    if (count > 3) best = value[3][l] > best ? value[3][l] : best;
    to[l] = best;
  }
}

/* best: of `count` columns of each part in a row of the map, from column `first` on. */
CR_INLINE void largest_columns(int count, const region *g, const cr_real *row, int64_t first,
                               cr_roi_line *best) {
  const int32_t *offset = g->offset + first;
  for (int64_t j = 0; j < g->e->columns; ++j, offset += g->columns) {
    const cr_real *value[CR_ROI_FOUR];
    for (int k = 0; k < count; ++k) value[k] = row + offset[k];
    largest_of(count, value, first > 0, best[j].value);
  }
}

CR_INLINE void largest_in_row(const region *g, const cr_roi_line *row, cr_roi_line *best) {
  CR_ROI_BY_COUNT(g->columns, largest_columns, g, row->value, 0, best)
  for (int64_t k = CR_ROI_FOUR; k < g->columns; k += CR_ROI_FOUR) {
    largest_columns(CR_ROI_FOUR, g, row->value, k, best);
  }
}

/* best: of each part in the rows of the map, row k at (k & g->ring) * columns. */
CR_INLINE void largest_rows(int count, const region *g, const cr_roi_line *best, int64_t row,
                            bool more, cr_roi_line *out) {
  const int64_t columns = g->e->columns;
  const cr_real *value[CR_ROI_FOUR];
  for (int k = 0; k < count; ++k) value[k] = best[((row + k) & g->ring) * columns].value;
  for (int64_t j = 0; j < columns; ++j) {
    largest_of(count, value, more, out[j].value);
    for (int k = 0; k < count; ++k) value[k] += CR_ROI_BLOCK;
  }
}

/* Of the rows of the map in `y`. */
CR_INLINE void largest_of_rows(const region *g, cr_roi_span y, const cr_roi_line *best,
                               cr_roi_line *out) {
  CR_ROI_BY_COUNT(y.end - y.begin, largest_rows, g, best, y.begin, false, out)
  for (int64_t k = y.begin + CR_ROI_FOUR; k < y.end; ++k) largest_rows(1, g, best, k, true, out);
}

/* Results of row `i` of parts whose first value is NaN. */
CR_INLINE void take_nans(const region *g, int64_t i, cr_roi_line *out) {
  for (int64_t j = 0; j < g->e->columns; ++j) {
    const cr_real *first = g->map[g->y[i].begin * g->e->width].value + g->offset[j * g->columns];
    cr_real *to = out[j].value;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) to[l] = first[l] == first[l] ? to[l] : first[l];
  }
}

/* Row `i` of parts. best: for as many rows of the map as are kept. next: the row of which there are
 * no largest values yet. */
CR_INLINE void forward_row(const region *g, int64_t i, int64_t *next, cr_roi_line *best,
                           cr_roi_line *out) {
  const int64_t columns = g->e->columns;
  const cr_roi_span y = g->y[i];
  if (is_empty(&y) || g->columns == 0) {
    cr_roi_fill(columns, 0, out);
    return;
  }
  if (*next < y.begin) *next = y.begin;
  for (; *next < y.end; ++*next) {
    largest_in_row(g, g->map + *next * g->e->width, best + (*next & g->ring) * columns);
  }
  largest_of_rows(g, y, best, out);
  if (g->has_nan) take_nans(g, i, out);
  for (int64_t j = 0; j < columns; ++j) {
    if (is_empty(&g->x[j])) cr_roi_fill(1, 0, out + j);
  }
}

/* The channels from `first` on of an image. `lines`: for the map, a result, the rows. */
CR_CLONES static void forward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first), group = cr_roi_group(e);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *result = lines + plane, *rows = result + group * e->columns;
  int32_t *offset = (int32_t *)(rows + power_of_two(e->height) * e->columns);
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + (image * e->channels + first) * plane,
                  lines);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans, offset);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, e->rows, j->dst);
    cr_real *to = j->dst + (r * e->channels + first) * cells;
    for (int64_t i = 0, next = 0; i < e->rows; ++i) {
      cr_roi_ask(&later);
      forward_row(&g, i, &next, rows, result + i % group * e->columns);
      cr_roi_put_group(e, group, i, planes, result, to);
    }
  }
}

/* ---- backward ------------------------------------------------------------ */

/* Numbers of rows or columns. */
typedef struct numbers {
  number value[CR_ROI_BLOCK];
} numbers;

/* A line of each for a row of the map and a column of parts: the largest value, its column of the
 * map, and the gradient that it gets. Behind the last one a line of columns that there are not. */
typedef struct places {
  cr_roi_line *best, *given;
  numbers *which;
} places;

CR_INLINE places places_at(const places *p, int64_t at) {
  return (places){p->best + at, p->given + at, p->which + at};
}

/* Of row `row` of the map. */
CR_INLINE places row_at(const region *g, const places *p, int64_t row) {
  return places_at(p, (row & g->ring) * (g->e->columns + 1));
}

/* The largest of `count` lines and its number, of which the first one's is `first`; `more`: and of
 * what there is. */
CR_INLINE void number_of(int count, const cr_real *const *value, bool more, number first,
                         cr_real *best, number *which) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real top = more ? best[l] : LEAST;
    number n = more ? which[l] : first;
    for (int k = 0; k < count; ++k) {
      n = value[k][l] > top ? first + k : n;
      top = value[k][l] > top ? value[k][l] : top;
    }
    best[l] = top;
    which[l] = n;
  }
}

CR_INLINE void number_columns(int count, const region *g, const cr_real *row, int64_t first,
                              const places *p) {
  const int32_t *offset = g->offset + first;
  for (int64_t j = 0; j < g->e->columns; ++j, offset += g->columns) {
    const number column = (number)(g->x[j].begin + first);
    const cr_real *value[CR_ROI_FOUR];
    for (int k = 0; k < count; ++k) value[k] = row + offset[k];
    number_of(count, value, first > 0, column, p->best[j].value, p->which[j].value);
  }
}

CR_INLINE void number_in_row(const region *g, const cr_roi_line *row, const places *p) {
  CR_ROI_BY_COUNT(g->columns, number_columns, g, row->value, 0, p)
  for (int64_t k = CR_ROI_FOUR; k < g->columns; k += CR_ROI_FOUR) {
    number_columns(CR_ROI_FOUR, g, row->value, k, p);
  }
}

/* What belongs to parts whose first value is NaN goes to that. */
CR_INLINE void give_to_nans(const region *g, int64_t i, cr_roi_line *diff, cr_roi_line *sums) {
  for (int64_t j = 0; j < g->e->columns; ++j) {
    const int64_t row = g->y[i].begin * g->e->width;
    const int32_t offset = g->offset[j * g->columns];
    const cr_real *first = g->map[row].value + offset;
    cr_real *from = diff[j].value, *to = sums[row].value + offset;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      to[l] += first[l] == first[l] ? 0 : from[l];
      from[l] = first[l] == first[l] ? from[l] : 0;
    }
  }
}

/* What a row of parts gives to a row of the map, or to two, to the largest value of each part.
 * before: what these were given by other rows of parts. */
CR_INLINE void give_lines(int count, const cr_real *const *best, const cr_real *diff,
                          const cr_real *const *before, cr_real *const *given) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    const cr_real first = before[0][l], second = count > 1 ? before[1][l] : 0;
    const cr_real more = first + diff[l], more_second = second + diff[l];
    if (count == 1) {
      given[0][l] = more;
    } else {
      given[0][l] = best[1][l] > best[0][l] ? first : more;
      given[1][l] = best[1][l] > best[0][l] ? more_second : second;
    }
  }
}

/* Rows of the map that a row of parts gives its gradient to. Rows from `fresh` on have not been
 * given anything: zeros, a line for each part, stand in their place. */
typedef struct receivers {
  cr_roi_span y;
  int64_t fresh;
  const cr_roi_line *zeros;
} receivers;

CR_INLINE const cr_real *before_of(const receivers *to, int64_t row, const places *at) {
  return row >= to->fresh ? to->zeros->value : at->given->value;
}

CR_INLINE void give_rows(int count, const region *g, const receivers *r, const cr_roi_line *diff,
                         const places *p) {
  const cr_real *best[2], *before[2];
  cr_real *given[2];
  for (int k = 0; k < count; ++k) {
    const places row = row_at(g, p, r->y.begin + k);
    best[k] = row.best->value;
    before[k] = before_of(r, r->y.begin + k, &row);
    given[k] = row.given->value;
  }
  for (int64_t j = 0; j < g->e->columns; ++j) {
    give_lines(count, best, diff[j].value, before, given);
    for (int k = 0; k < count; ++k) {
      best[k] += CR_ROI_BLOCK;
      before[k] += CR_ROI_BLOCK;
      given[k] += CR_ROI_BLOCK;
    }
  }
}

/* diff of the places where `which` is n. */
CR_INLINE void add_where(const numbers *which, number n, const cr_real *diff, const cr_real *before,
                         cr_real *given) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    const cr_real all = before[l], more = all + diff[l];
    given[l] = which->value[l] == n ? more : all;
  }
}

/* The same to any number of rows. own: for the largest values, and the row that each is in. */
CR_INLINE void give_many_rows(const region *g, const receivers *r, const cr_roi_line *diff,
                              const places *p, const places *own) {
  const int64_t columns = g->e->columns, first = r->y.begin, last = r->y.end - 1;
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t row = first; row <= last; row += CR_ROI_FOUR) {
      const cr_real *value[CR_ROI_FOUR];
      for (int64_t k = 0; k < CR_ROI_FOUR; ++k) {
        const int64_t at = row + k < last ? row + k : last;
        value[k] = row_at(g, p, at).best[j].value;
      }
      number_of(CR_ROI_FOUR, value, row > first, (number)(row - first), own->best[j].value,
                own->which[j].value);
    }
  }
  for (int64_t row = first; row <= last; ++row) {
    const places to = row_at(g, p, row);
    const cr_real *before = before_of(r, row, &to);
    for (int64_t j = 0; j < columns; ++j) {
      add_where(own->which + j, (number)(row - first), diff[j].value, before + j * CR_ROI_BLOCK,
                to.given[j].value);
    }
  }
}

/* From row `i` of parts to rows of the map. */
CR_INLINE void give_to_rows(const region *g, int64_t i, const receivers *r, cr_roi_line *diff,
                            const places *p, cr_roi_line *sums) {
  const places own = places_at(p, (g->ring + 1) * (g->e->columns + 1));
  for (int64_t j = 0; j < g->e->columns; ++j) {
    if (is_empty(&g->x[j])) cr_roi_fill(1, 0, diff + j);
  }
  if (g->has_nan) give_to_nans(g, i, diff, sums);
  switch (r->y.end - r->y.begin) {
    case 1: give_rows(1, g, r, diff, p); break;
    case 2: give_rows(2, g, r, diff, p); break;
    default: give_many_rows(g, r, diff, p, &own); break;
  }
}

/* From which parts a column of the map gets something: where their lines are, in values. Parts may
 * overlap, so that there are several for a column, the last one first; as many for each, of which
 * some may not have the column, and so do not have their largest value there. */
typedef struct givers {
  cr_roi_span x;
  int64_t count; /* up to CR_ROI_FOUR or a multiple */
  const int32_t *part;
} givers;

CR_INLINE givers givers_of(const region *g, int32_t *part) {
  const int64_t parts = g->e->columns;
  givers all = {{0, 0}, 0, part};
  for (int64_t j = 0, first = 0; j < parts; ++j) {
    if (is_empty(&g->x[j])) continue;
    if (all.count == 0) all.x.begin = g->x[j].begin;
    all.x.end = g->x[j].end;
    while (g->x[first].end <= g->x[j].begin) ++first;
    if (all.count < j - first + 1) all.count = j - first + 1;
  }
  all.count = cr_roi_fours(all.count);
  for (int64_t c = all.x.begin, last = 0; c < all.x.end; ++c) {
    while (last + 1 < parts && g->x[last + 1].begin <= c) ++last;
    for (int64_t j = last; j > last - all.count; --j) {
      *part++ = (int32_t)(j < 0 ? parts : j) * CR_ROI_BLOCK;
    }
  }
  return all;
}

/* What `count` parts from `first` on give to each column. */
CR_INLINE void give_columns(int count, const givers *from, const places *p, int64_t first,
                            cr_roi_line *row) {
  const int32_t *part = from->part + first;
  for (int64_t c = from->x.begin; c < from->x.end; ++c, part += from->count) {
    const cr_real *given[CR_ROI_FOUR];
    const number *which[CR_ROI_FOUR], column = (number)c;
    cr_real *sum = row[c].value;
    for (int k = 0; k < count; ++k) {
      given[k] = p->given->value + part[k];
      which[k] = p->which->value + part[k];
    }
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      cr_real all = sum[l];
      for (int k = 0; k < count; ++k) {
        const cr_real more = all + given[k][l];
        all = which[k][l] == column ? more : all;
      }
      sum[l] = all;
    }
  }
}

CR_INLINE void give_to_columns(const givers *from, const places *p, cr_roi_line *row) {
  CR_ROI_BY_COUNT(from->count, give_columns, from, p, 0, row)
  for (int64_t k = CR_ROI_FOUR; k < from->count; k += CR_ROI_FOUR) {
    give_columns(CR_ROI_FOUR, from, p, k, row);
  }
}

/* p: for as many rows of the map as are kept, and one more. */
CR_INLINE void backward_region(const region *g, const givers *from, cr_roi_next *later,
                               const places *p, const cr_roi_line *zeros, const cr_real *diff_dst,
                               int64_t planes, cr_roi_line *diff, cr_roi_line *sums) {
  const int64_t group = cr_roi_group(g->e), columns = g->e->columns, width = g->e->width;
  int64_t next = 0, done = 0; /* rows that have not been numbered, and not been given all */
  if (g->columns == 0) return;
  for (int64_t i = 0; i <= g->e->rows; ++i) {
    receivers r = {i < g->e->rows ? g->y[i] : (cr_roi_span){next, next}, next, zeros};
    for (; done < r.y.begin && done < next; ++done) {
      const places row = row_at(g, p, done);
      give_to_columns(from, &row, sums + done * width);
    }
    cr_roi_ask(later);
    if (i < g->e->rows) cr_roi_get_group(g->e, group, i, planes, diff_dst, diff);
    if (is_empty(&r.y)) continue;
    if (next < r.y.begin) done = next = r.y.begin;
    for (; next < r.y.end; ++next) {
      const places row = row_at(g, p, next);
      number_in_row(g, g->map + next * width, &row);
    }
    give_to_rows(g, i, &r, diff + i % group * columns, p, sums);
  }
}

/* `lines`: for the map, its gradient, a result's, the rows. */
CR_CLONES static void backward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane;
  const int64_t rows = (power_of_two(e->height) + 1) * (e->columns + 1);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *sums = lines + plane, *diff = sums + plane,
              *rest = diff + cr_roi_group(e) * e->columns;
  const places p = {rest, rest + rows, (numbers *)(rest + 2 * rows)};
  cr_roi_line *zeros = rest + 3 * rows;
  int32_t *offset = (int32_t *)(zeros + e->columns);
  int32_t *parts = offset + cr_roi_fours(e->width) * e->columns;
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + at, lines);
  cr_roi_zero_lines(&reach, e->width, sums);
  memset(zeros, 0, (size_t)e->columns * sizeof *zeros);
  for (int64_t row = e->columns; row < rows; row += e->columns + 1) {
    memset(p.which + row, 0xff, sizeof *p.which);
    memset(p.given + row, 0, sizeof *p.given);
  }
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans, offset);
    const givers from = givers_of(&g, parts);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, e->rows, j->diff_dst);
    backward_region(&g, &from, &later, &p, zeros, j->diff_dst + (r * e->channels + first) * cells,
                    planes, diff, sums);
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
  const int64_t rows = power_of_two(e->height), group = cr_roi_group(e) * e->columns;
  const int64_t offsets = cr_roi_fours(e->width) * e->columns;
  const int64_t parts = forward ? 0 : e->width * cr_roi_fours(e->columns);
  const int64_t bytes = (offsets + parts) * (int64_t)sizeof(int32_t);
  const int64_t kept = forward ? rows * e->columns : 3 * (rows + 1) * (e->columns + 1) + e->columns;
  return (needs){(size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span),
                 (forward ? 1 : 2) * e->height * e->width + group + kept +
                     bytes / (int64_t)sizeof(cr_roi_line) + 1,
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
