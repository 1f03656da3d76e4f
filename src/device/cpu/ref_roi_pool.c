/* Pooling over regions of interest: the largest value of each part of a region (Girshick, "Fast
 * R-CNN", 2015). Backward finds the largest values again, which takes less time than reading an
 * index for each of them. */
#include "device/cpu/ref_roi.h"

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

/* A part's columns: where the first one's line begins in a row of lines of the map, in values, and
 * the part's index. */
typedef struct strip {
  int32_t column, part;
} strip;

/* The parts of a region by their width, without those that have no columns: one column, two, three,
 * four, then wider ones. Parts whose columns may overlap do not follow each other where others of
 * their width can come between, as a line that has just been written is slow to read. end: of each
 * width, in the region's strips. ring: rows of the map that are kept, less 1: as many as a row of
 * parts has, up to a power of two; row k is at k & ring. */
enum { WIDTHS = CR_ROI_FOUR + 1 };
typedef struct outline {
  int64_t ring;
  int32_t end[WIDTHS];
} outline;

/* What all threads read. Per region: the sides of its parts, rows, then columns, its outline, and a
 * strip for each column of parts. */
typedef struct job {
  cr_roi_extents e;
  const cr_real *rois, *src;
  cr_real *dst;            /* forward */
  const cr_real *diff_dst; /* backward */
  cr_real *diff_src;
  cr_real least; /* infinity below 0: as a variable, so that compilers choose instructions for it */
  cr_roi_span *spans;
  outline *outlines;
  strip *strips;
} job;

static size_t table_bytes(const cr_roi_extents *e) {
  return (size_t)e->regions * ((size_t)(e->rows + e->columns) * sizeof(cr_roi_span) +
                               sizeof(outline) + (size_t)e->columns * sizeof(strip));
}

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

static int64_t length_of(const cr_roi_span *span) {
  return span->end > span->begin ? span->end - span->begin : 0;
}

static int64_t longest(const cr_roi_span *span, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (length_of(span + i) > most) most = length_of(span + i);
  }
  return most;
}

static int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

/* The most parts that a column is in. */
static int64_t most_parts(const cr_roi_span *x, int64_t parts) {
  int64_t most = 1;
  for (int64_t j = 0, first = 0; j < parts; ++j) {
    while (first < j && x[first].end <= x[j].begin) ++first;
    if (most < j - first + 1) most = j - first + 1;
  }
  return most;
}

static int width_of(const cr_roi_span *x) {
  const int64_t columns = length_of(x);
  return columns < WIDTHS ? (int)columns : WIDTHS;
}

static void fill_outline(const cr_roi_extents *e, const cr_roi_span *y, outline *o, strip *strips) {
  const cr_roi_span *x = y + e->rows;
  const int64_t apart = most_parts(x, e->columns);
  int32_t next[WIDTHS + 1] = {0};
  for (int64_t j = 0; j < e->columns; ++j) ++next[width_of(x + j)];
  for (int32_t w = 1, all = 0; w <= WIDTHS; ++w) {
    const int32_t count = next[w];
    next[w] = all;
    all += count;
    o->end[w - 1] = all;
  }
  for (int64_t first = 0; first < apart; ++first) {
    for (int64_t j = first; j < e->columns; j += apart) {
      const int width = width_of(x + j);
      if (width == 0) continue;
      strips[next[width]++] = (strip){(int32_t)(x[j].begin * CR_ROI_BLOCK), (int32_t)j};
    }
  }
  o->ring = power_of_two(longest(y, e->rows)) - 1;
}

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

static const cr_roi_span *spans_of(const job *j, int64_t region) {
  return j->spans + region * (j->e.rows + j->e.columns);
}

static void fill_table(job *j, double scale, void *memory) {
  const cr_roi_extents *e = &j->e;
  j->spans = memory;
  j->outlines = (outline *)(j->spans + e->regions * (e->rows + e->columns));
  j->strips = (strip *)(j->outlines + e->regions);
  fill_spans(e, scale, j->rois, j->spans);
  for (int64_t r = 0; r < e->regions; ++r) {
    fill_outline(e, spans_of(j, r), j->outlines + r, j->strips + r * e->columns);
  }
}

static bool is_of(const job *j, int64_t region, int64_t image) {
  return (int64_t)j->rois[5 * region] == image;
}

/* What the regions of an image read. */
static cr_roi_window reach_of(const job *j, int64_t image) {
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
  const outline *o;
  const strip *strips;
  bool has_nan;  /* the map has */
  cr_real least; /* infinity below 0 */
} region;

CR_INLINE region region_of(const job *j, int64_t r, const cr_roi_line *map, bool has_nan) {
  const cr_roi_span *y = spans_of(j, r);
  return (region){&j->e,   map,     y, y + j->e.rows, j->outlines + r, j->strips + r * j->e.columns,
                  has_nan, j->least};
}

/* The parts that have columns. */
CR_INLINE int64_t strips_of(const region *g) {
  return g->o->end[WIDTHS - 1];
}

static bool has_nan(const cr_roi_window *w, int64_t width, const cr_roi_line *map) {
  int found = 0;
  for (int64_t i = w->y.begin; i < w->y.end; ++i) {
    const cr_real *row = map[i * width + w->x.begin].value;
    for (int64_t j = 0; j < (w->x.end - w->x.begin) * CR_ROI_BLOCK; ++j) found |= row[j] != row[j];
  }
  return found != 0;
}

/* `call` for the strips of each width, of which it gets the first one and the end. */
#define BY_WIDTH(g, call, ...)                                                      \
  call(1, (g)->strips, (g)->strips + (g)->o->end[0], __VA_ARGS__);                  \
  call(2, (g)->strips + (g)->o->end[0], (g)->strips + (g)->o->end[1], __VA_ARGS__); \
  call(3, (g)->strips + (g)->o->end[1], (g)->strips + (g)->o->end[2], __VA_ARGS__); \
  call(4, (g)->strips + (g)->o->end[2], (g)->strips + (g)->o->end[3], __VA_ARGS__);

/* The largest of `count` columns; `more`: and what there is. */
CR_INLINE void largest_in(int count, const cr_real *map, cr_real least, bool more, cr_real *best) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real top = more ? best[l] : least;
    for (int k = 0; k < count; ++k) {
      const cr_real value = map[k * CR_ROI_BLOCK + l];
      top = value > top ? value : top;
    }
    best[l] = top;
  }
}

CR_INLINE void largest_in_strips(int count, const strip *s, const strip *end, const cr_real *map,
                                 cr_real least, cr_roi_line *best) {
  for (; s < end; ++s) largest_in(count, map + s->column, least, false, best[s->part].value);
}

/* The last four columns may overlap those before. */
CR_INLINE void largest_in_wide(const region *g, const strip *s, const cr_real *map,
                               cr_roi_line *best) {
  const int64_t columns = length_of(g->x + s->part), last = columns - CR_ROI_FOUR;
  for (int64_t k = 0; k < columns; k += CR_ROI_FOUR) {
    const cr_real *at = map + s->column + (k < last ? k : last) * CR_ROI_BLOCK;
    largest_in(CR_ROI_FOUR, at, g->least, k > 0, best[s->part].value);
  }
}

/* best: of each part that has columns, in a row of the map. */
CR_INLINE void largest_in_row(const region *g, const cr_roi_line *row, cr_roi_line *best) {
  BY_WIDTH(g, largest_in_strips, row->value, g->least, best)
  for (int64_t i = g->o->end[WIDTHS - 2]; i < strips_of(g); ++i) {
    largest_in_wide(g, g->strips + i, row->value, best);
  }
}

/* The largest of `count` lines, none of which is NaN; `more`: and what there is. */
CR_INLINE void largest_of(int count, const cr_real *const *value, bool more, cr_real *to) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real best = more ? to[l] : value[0][l];
    for (int k = more ? 0 : 1; k < count; ++k) best = value[k][l] > best ? value[k][l] : best;
    to[l] = best;
  }
}

/* best: of each part in the rows of the map, row k at (k & g->o->ring) * columns. */
CR_INLINE void largest_rows(int count, const region *g, const cr_roi_line *best, int64_t row,
                            bool more, cr_roi_line *out) {
  const int64_t columns = g->e->columns;
  const cr_real *value[CR_ROI_FOUR];
  for (int k = 0; k < count; ++k) value[k] = best[((row + k) & g->o->ring) * columns].value;
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

/* ---- forward ------------------------------------------------------------- */

/* Results of row `i` of parts whose first value is NaN. */
CR_INLINE void take_nans(const region *g, int64_t i, cr_roi_line *out) {
  const cr_real *row = g->map[g->y[i].begin * g->e->width].value;
  for (const strip *s = g->strips; s < g->strips + strips_of(g); ++s) {
    const cr_real *first = row + s->column;
    cr_real *to = out[s->part].value;
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
  if (length_of(&y) == 0) {
    cr_roi_fill(columns, 0, out);
    return;
  }
  if (*next < y.begin) *next = y.begin;
  for (; *next < y.end; ++*next) {
    largest_in_row(g, g->map + *next * g->e->width, best + (*next & g->o->ring) * columns);
  }
  largest_of_rows(g, y, best, out);
  if (g->has_nan) take_nans(g, i, out);
  for (int64_t j = 0; j < columns; ++j) {
    if (length_of(g->x + j) == 0) cr_roi_fill(1, 0, out + j);
  }
}

/* The channels from `first` on of an image. `lines`: for the map, a result, the rows. */
CR_CLONES static void forward_block(const job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first), group = cr_roi_group(e);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *result = lines + plane, *rows = result + group * e->columns;
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + (image * e->channels + first) * plane,
                  lines);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans);
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

/* A line for each row of the map that is kept and each part: the largest value, and the gradient
 * that it gets. top: of a row of parts. */
typedef struct rows {
  cr_roi_line *best, *given, *top;
} rows;

/* Where row `row` of the map is. */
CR_INLINE int64_t kept_at(const region *g, int64_t row) {
  return (row & g->o->ring) * g->e->columns;
}

/* What belongs to parts whose first value is NaN goes to that. */
CR_INLINE void give_to_nans(const region *g, int64_t i, cr_roi_line *diff, cr_roi_line *sums) {
  const int64_t row = g->y[i].begin * g->e->width;
  for (const strip *s = g->strips; s < g->strips + strips_of(g); ++s) {
    const cr_real *first = g->map[row].value + s->column;
    cr_real *from = diff[s->part].value, *to = sums[row].value + s->column;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      to[l] += first[l] == first[l] ? 0 : from[l];
      from[l] = first[l] == first[l] ? from[l] : 0;
    }
  }
}

/* diff to the rows of the map that have the largest values: one row or two, of which the first one
 * may be `shared`, which has been given something. */
CR_INLINE void give_rows(int count, bool shared, const region *g, int64_t row,
                         const cr_roi_line *diff, const rows *kept) {
  const int64_t first = kept_at(g, row), second = count > 1 ? kept_at(g, row + 1) : 0;
  const cr_roi_line *best = kept->best + first, *other = kept->best + second;
  cr_roi_line *given = kept->given + first, *next = kept->given + second;
  for (int64_t j = 0; j < g->e->columns; ++j) {
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      const cr_real all = diff[j].value[l], before = shared ? given[j].value[l] : 0;
      if (count == 1) {
        given[j].value[l] = before + all;
      } else {
        const bool is_other = other[j].value[l] > best[j].value[l];
        const cr_real more = before + all;
        given[j].value[l] = is_other ? before : more;
        next[j].value[l] = is_other ? all : 0;
      }
    }
  }
}

/* The same to any number of rows. What has been given is taken from diff. */
CR_INLINE void give_many_rows(bool shared, const region *g, cr_roi_span y, cr_roi_line *diff,
                              const rows *kept) {
  largest_of_rows(g, y, kept->best, kept->top);
  for (int64_t row = y.begin; row < y.end; ++row) {
    const cr_roi_line *best = kept->best + kept_at(g, row);
    cr_roi_line *given = kept->given + kept_at(g, row);
    const bool is_shared = shared && row == y.begin;
    for (int64_t j = 0; j < g->e->columns; ++j) {
      const cr_real *top = kept->top[j].value;
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) {
        const cr_real left = diff[j].value[l], before = is_shared ? given[j].value[l] : 0;
        const bool is_here = best[j].value[l] == top[l];
        const cr_real more = before + left;
        given[j].value[l] = is_here ? more : before;
        diff[j].value[l] = is_here ? 0 : left;
      }
    }
  }
}

/* Only its first row may be one of the row of parts before, too. */
CR_INLINE void give_to_rows(const region *g, cr_roi_span y, bool shared, cr_roi_line *diff,
                            const rows *kept) {
  const int64_t count = y.end - y.begin;
  if (count == 1) {
    if (shared) give_rows(1, true, g, y.begin, diff, kept);
    else give_rows(1, false, g, y.begin, diff, kept);
  } else if (count == 2) {
    if (shared) give_rows(2, true, g, y.begin, diff, kept);
    else give_rows(2, false, g, y.begin, diff, kept);
  } else {
    give_many_rows(shared, g, y, diff, kept);
  }
}

/* A row of the map, its sums, and the row's lines of parts. */
typedef struct receivers {
  const cr_real *map;
  cr_real *sums;
  const cr_roi_line *best;
  cr_roi_line *given;
} receivers;

/* given to the first of `count` columns that has the largest value. Of the last columns of a part
 * the last one has it where none before has; otherwise what is left stays in given. */
CR_INLINE void give_in(int count, bool last, const cr_real *map, const cr_real *best,
                       cr_real *given, cr_real *sums) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real left = given[l];
    for (int k = 0; k < count; ++k) {
      const int at = k * CR_ROI_BLOCK + l;
      if (last && k == count - 1) {
        sums[at] += left;
      } else {
        const bool is_here = map[at] == best[l];
        const cr_real more = sums[at] + left;
        sums[at] = is_here ? more : sums[at];
        left = is_here ? 0 : left;
      }
    }
    if (!last) given[l] = left;
  }
}

CR_INLINE void give_in_strips(int count, const strip *s, const strip *end, const receivers *to) {
  for (; s < end; ++s) {
    give_in(count, true, to->map + s->column, to->best[s->part].value, to->given[s->part].value,
            to->sums + s->column);
  }
}

CR_INLINE void give_in_wide(const region *g, const strip *s, const receivers *to) {
  const int64_t last = length_of(g->x + s->part) - CR_ROI_FOUR;
  const cr_real *best = to->best[s->part].value;
  cr_real *given = to->given[s->part].value;
  for (int64_t k = 0; k < last; k += CR_ROI_FOUR) {
    const int64_t at = s->column + k * CR_ROI_BLOCK;
    give_in(CR_ROI_FOUR, false, to->map + at, best, given, to->sums + at);
  }
  const int64_t at = s->column + last * CR_ROI_BLOCK;
  give_in(CR_ROI_FOUR, true, to->map + at, best, given, to->sums + at);
}

/* From row `row` of the map, what its largest values were given to their columns. */
CR_INLINE void give_to_columns(const region *g, int64_t row, const rows *kept, cr_roi_line *sums) {
  const int64_t line = row * g->e->width, at = kept_at(g, row);
  const receivers to = {g->map[line].value, sums[line].value, kept->best + at, kept->given + at};
  BY_WIDTH(g, give_in_strips, &to)
  for (int64_t i = g->o->end[WIDTHS - 2]; i < strips_of(g); ++i) {
    give_in_wide(g, g->strips + i, &to);
  }
}

CR_INLINE void backward_region(const region *g, cr_roi_next *later, const rows *kept,
                               const cr_real *diff_dst, int64_t planes, cr_roi_line *diff,
                               cr_roi_line *sums) {
  const int64_t group = cr_roi_group(g->e), columns = g->e->columns, width = g->e->width;
  int64_t next = 0, done = 0; /* rows without largest values, and that have not given theirs */
  for (int64_t i = 0; i < g->e->rows; ++i) {
    const cr_roi_span y = g->y[i];
    cr_roi_line *from = diff + i % group * columns;
    cr_roi_ask(later);
    cr_roi_get_group(g->e, group, i, planes, diff_dst, diff);
    if (length_of(&y) == 0) continue;
    for (; done < y.begin && done < next; ++done) give_to_columns(g, done, kept, sums);
    const bool shared = y.begin < next;
    if (!shared) done = next = y.begin;
    for (; next < y.end; ++next) {
      largest_in_row(g, g->map + next * width, kept->best + kept_at(g, next));
    }
    if (g->has_nan) give_to_nans(g, i, from, sums);
    give_to_rows(g, y, shared, from, kept);
  }
  for (; done < next; ++done) give_to_columns(g, done, kept, sums);
}

/* `lines`: for the map, its gradient, a result's, the rows. */
CR_CLONES static void backward_block(const job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane;
  const int64_t most = power_of_two(e->height) * e->columns;
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *sums = lines + plane, *diff = sums + plane,
              *rest = diff + cr_roi_group(e) * e->columns;
  const rows kept = {rest, rest + most, rest + 2 * most};
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + at, lines);
  cr_roi_zero_lines(&reach, e->width, sums);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, e->rows, j->diff_dst);
    backward_region(&g, &later, &kept, j->diff_dst + (r * e->channels + first) * cells, planes,
                    diff, sums);
  }
  cr_roi_to_planes(&reach, e->height, e->width, planes, plane, sums, j->diff_src + at);
}

/* ---- kernels ------------------------------------------------------------- */

/* Lines of a thread. */
static int64_t lines_of(const cr_roi_extents *e, bool forward) {
  const int64_t map = e->height * e->width, kept = power_of_two(e->height) * e->columns;
  const int64_t group = cr_roi_group(e) * e->columns;
  return forward ? map + group + kept : 2 * map + group + 2 * kept + e->columns;
}

static int64_t tasks_of(const cr_roi_extents *e) {
  return e->images * cr_roi_blocks(e->channels);
}

static crema_status roi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(check_fwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 1, 2);
  cr_roi_need(plan, table_bytes(&e), lines_of(&e, true), tasks_of(&e));
  return CREMA_OK;
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(check_bwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 3, 1, 0);
  cr_roi_need(plan, table_bytes(&e), lines_of(&e, false), tasks_of(&e));
  return CREMA_OK;
}

static crema_status run_tasks(const cr_call *call, job *j, bool forward) {
  const cr_roi_extents *e = &j->e;
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(e), lines_of(e, forward));
  const int64_t blocks = cr_roi_blocks(e->channels), tasks = tasks_of(e);
  CR_TRY(cr_roi_check_images(e, j->rois));
  fill_table(j, (double)call->desc->u.roi.scale,
             (void *)call->workspace.address); /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_roi_line *lines = cr_roi_begin(&s, slot, e->channels);
    for (int64_t t = tasks * slot / s.slots; t < tasks * (slot + 1) / s.slots; ++t) {
      (forward ? forward_block : backward_block)(j, t / blocks, t % blocks * CR_ROI_BLOCK, lines);
    }
  }
  return CREMA_OK;
}

/* src, rois, dst. */
static crema_status roi_pool_fwd(const cr_call *call) {
  job j = {.least = -(cr_real)INFINITY,
           .e = cr_roi_extents_of(call->desc, 0, 1, 2),
           .src = cr_as_reals(call->buffer, 0),
           .rois = cr_as_reals(call->buffer, 1),
           .dst = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &j, true);
}

/* diff_dst, rois, src, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  job j = {.least = -(cr_real)INFINITY,
           .e = cr_roi_extents_of(call->desc, 3, 1, 0),
           .diff_dst = cr_as_reals(call->buffer, 0),
           .rois = cr_as_reals(call->buffer, 1),
           .src = cr_as_reals(call->buffer, 2),
           .diff_src = cr_as_reals(call->buffer, 3)};
  return run_tasks(call, &j, false);
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = roi_pool_fwd_plan, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
