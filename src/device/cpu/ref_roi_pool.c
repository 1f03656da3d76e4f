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
  /* Constants of which compilers should not know: infinity below 0, which they would make a choice
   * from, and 0, the distance of sums from where they are read, as they would not write those that
   * stay as they are, with a branch for it. */
  cr_real least;
  int64_t distance;
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
  bool has_nan;     /* the map has */
  cr_real least;    /* infinity below 0 */
  int64_t distance; /* 0 */
} region;

CR_INLINE region region_of(const job *j, int64_t r, const cr_roi_line *map, bool has_nan) {
  const cr_roi_span *y = spans_of(j, r);
  return (region){
      &j->e,   map,      y,          y + j->e.rows, j->outlines + r, j->strips + r * j->e.columns,
      has_nan, j->least, j->distance};
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

/* A line of each part for a row of the map. Gradients that the row gets: all of one and, where the
 * row has the largest value, all of another, of a part that has more rows, which then have none of
 * it. best, after: the largest values in the row and in these. */
typedef struct givers {
  const cr_roi_line *best, *after, *all;
  cr_roi_line *some;
  int64_t distance; /* 0: of the sums, before, from themselves, see job */
} givers;

/* left: what a part gives to the row. Which gradients there are is known when compiling. */
CR_INLINE void give_from(bool has_all, bool has_some, const givers *from, int64_t part,
                         const cr_real *best, cr_real *left) {
  const cr_real *all = has_all ? from->all[part].value : NULL;
  const cr_real *after = has_some ? from->after[part].value : NULL;
  cr_real *some = has_some ? from->some[part].value : NULL;
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    const cr_real mine = has_all ? all[l] : 0, other = has_some ? some[l] : 0;
    const cr_real both = has_all ? mine + other : other;
    const bool is_later = has_some && after[l] > best[l];
    if (has_some) some[l] = is_later ? other : 0;
    left[l] = has_some ? (is_later ? mine : both) : mine;
  }
}

/* left, what a part gives to the row, to its `count` columns: to the first one that has the largest
 * value. */
CR_INLINE void give_in(int count, const givers *from, const cr_real *best, const cr_real *given,
                       const cr_real *map, cr_real *sums) {
  const cr_real *before = sums + from->distance;
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real left = given[l];
    for (int k = 0; k < count - 1; ++k) {
      const cr_real sum = before[k * CR_ROI_BLOCK + l], more = sum + left;
      const bool is_here = map[k * CR_ROI_BLOCK + l] == best[l];
      sums[k * CR_ROI_BLOCK + l] = is_here ? more : sum;
      left = is_here ? 0 : left;
    }
    sums[(count - 1) * CR_ROI_BLOCK + l] += left;
  }
}

CR_INLINE void give_in_strips(int count, const strip *s, const strip *end, bool has_all,
                              bool has_some, const givers *from, const cr_real *map,
                              cr_real *sums) {
  for (; s < end; ++s) {
    cr_roi_line left;
    const cr_roi_line best = from->best[s->part];
    give_from(has_all, has_some, from, s->part, best.value, left.value);
    give_in(count, from, best.value, left.value, map + s->column, sums + s->column);
  }
}

/* The last four columns may overlap those before. */
CR_INLINE void give_in_wide(const region *g, const strip *s, bool has_all, bool has_some,
                            const givers *from, const cr_real *map, cr_real *sums) {
  const int64_t columns = length_of(g->x + s->part), last = columns - CR_ROI_FOUR;
  const cr_real *best = from->best[s->part].value;
  cr_roi_line left;
  give_from(has_all, has_some, from, s->part, best, left.value);
  for (int64_t k = 0; k < columns; k += CR_ROI_FOUR) {
    const int64_t first = s->column + (k < last ? k : last) * CR_ROI_BLOCK;
    const cr_real *value = map + first, *before = sums + first + from->distance;
    cr_real *to = sums + first;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      cr_real rest = left.value[l];
      for (int i = 0; i < CR_ROI_FOUR; ++i) {
        const cr_real sum = before[i * CR_ROI_BLOCK + l], more = sum + rest;
        const bool is_here = value[i * CR_ROI_BLOCK + l] == best[l];
        to[i * CR_ROI_BLOCK + l] = is_here ? more : sum;
        rest = is_here ? 0 : rest;
      }
      left.value[l] = rest;
    }
  }
}

CR_INLINE void give_in_row(const region *g, bool has_all, bool has_some, const givers *from,
                           const cr_real *map, cr_real *sums) {
  BY_WIDTH(g, give_in_strips, has_all, has_some, from, map, sums)
  for (int64_t i = g->o->end[WIDTHS - 2]; i < strips_of(g); ++i) {
    give_in_wide(g, g->strips + i, has_all, has_some, from, map, sums);
  }
}

CR_INLINE void give_to_row(const region *g, const givers *from, int64_t row, cr_roi_line *sums) {
  const cr_real *map = g->map[row * g->e->width].value;
  cr_real *to = sums[row * g->e->width].value;
  if (from->all == NULL) give_in_row(g, false, true, from, map, to);
  else if (from->some == NULL) give_in_row(g, true, false, from, map, to);
  else give_in_row(g, true, true, from, map, to);
}

/* What belongs to parts whose first value is NaN goes to that. */
CR_INLINE void give_to_nans(const region *g, int64_t i, cr_roi_line *diff, cr_roi_line *sums) {
  const int64_t row = g->y[i].begin * g->e->width;
  if (length_of(g->y + i) == 0) return;
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

/* The rows of the map that are kept: the largest values in each, and in it and the further rows of
 * the part that it is in. */
typedef struct rows {
  cr_roi_line *best, *rest;
} rows;

CR_INLINE int64_t kept_at(const region *g, int64_t row) {
  return (row & g->o->ring) * g->e->columns;
}

/* Of parts that begin with row y.begin and have more than two. */
CR_INLINE void find_rest(const region *g, cr_roi_span y, const rows *kept) {
  const cr_roi_line *below = kept->best + kept_at(g, y.end - 1);
  for (int64_t row = y.end - 2; row > y.begin; --row) {
    const cr_roi_line *best = kept->best + kept_at(g, row);
    cr_roi_line *rest = kept->rest + kept_at(g, row);
    for (int64_t j = 0; j < g->e->columns; ++j) {
      const cr_real *value[] = {best[j].value, below[j].value};
      largest_of(2, value, false, rest[j].value);
    }
    below = rest;
  }
}

CR_INLINE void add_lines(int64_t count, const cr_roi_line *from, cr_roi_line *to) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) to->value[i] += from->value[i];
}

/* The gradients of a region's rows of parts, which are read in order, a group of rows at a time.
 * Those of a row are used until those of the next one have been read, so that two groups are kept.
 */
typedef struct gradients {
  const cr_real *from;
  int64_t planes, group, got; /* got: rows */
  cr_roi_line *lines, *last;  /* last: of the row that was got last */
  cr_roi_next later;
} gradients;

/* Of row `i`: the last one that was got, or the next one. */
CR_INLINE cr_roi_line *gradient_of(const region *g, int64_t i, gradients *d, cr_roi_line *sums) {
  const int64_t columns = g->e->columns;
  if (i < d->got) return d->last;
  cr_roi_line *lines = d->lines + i / d->group % 2 * d->group * columns;
  cr_roi_ask(&d->later);
  cr_roi_get_group(g->e, d->group, i, d->planes, d->from, lines);
  d->got = i + 1;
  d->last = lines + i % d->group * columns;
  if (g->has_nan) give_to_nans(g, i, d->last, sums);
  return d->last;
}

/* Row `row` of the map. part: the first row of parts that ends in it or later; next: the row of
 * which there are no largest values yet. A row of the map that ends parts gets all that they have
 * not given; one row of parts at most goes on. */
CR_INLINE void backward_row(const region *g, int64_t row, int64_t *part, int64_t *next,
                            const rows *kept, gradients *d, cr_roi_line *sums) {
  const int64_t columns = g->e->columns;
  cr_roi_line *all = NULL;
  for (; *part < g->e->rows && g->y[*part].end <= row + 1; ++*part) {
    cr_roi_line *more = gradient_of(g, *part, d, sums);
    if (length_of(g->y + *part) == 0) continue;
    if (all != NULL) add_lines(columns, all, more);
    all = more;
  }
  givers from = {.best = kept->best + kept_at(g, row), .all = all, .distance = g->distance};
  int64_t end = row + 1;
  if (*part < g->e->rows && g->y[*part].begin <= row) {
    end = g->y[*part].end;
    from.some = gradient_of(g, *part, d, sums);
    from.after = (row + 2 < end ? kept->rest : kept->best) + kept_at(g, row + 1);
  }
  if (*next < row) *next = row;
  for (; *next < end; ++*next) {
    largest_in_row(g, g->map + *next * g->e->width, kept->best + kept_at(g, *next));
  }
  if (row + 2 < end && g->y[*part].begin == row) find_rest(g, g->y[*part], kept);
  if (from.all != NULL || from.some != NULL) give_to_row(g, &from, row, sums);
}

/* `lines`: for the map, its gradient, a result's, the rows. */
CR_CLONES static void backward_block(const job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane;
  const cr_roi_window reach = reach_of(j, image);
  const int64_t group = cr_roi_group(e);
  cr_roi_line *sums = lines + plane, *diff = sums + plane, *best = diff + 2 * group * e->columns;
  const rows kept = {best, best + power_of_two(e->height) * e->columns};
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + at, lines);
  cr_roi_zero_lines(&reach, e->width, sums);
  const bool nans = has_nan(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const region g = region_of(j, r, lines, nans);
    gradients d = {.from = j->diff_dst + (r * e->channels + first) * cells,
                   .planes = planes,
                   .group = group,
                   .lines = diff,
                   .later = cr_roi_next_of(e, r, first, planes, e->rows, j->diff_dst)};
    const int64_t end = g.y[e->rows - 1].end;
    for (int64_t row = g.y[0].begin, part = 0, next = 0; row < end; ++row) {
      backward_row(&g, row, &part, &next, &kept, &d, sums);
    }
  }
  cr_roi_to_planes(&reach, e->height, e->width, planes, plane, sums, j->diff_src + at);
}

/* ---- kernels ------------------------------------------------------------- */

/* Lines of a thread. */
static int64_t lines_of(const cr_roi_extents *e, bool forward) {
  const int64_t map = e->height * e->width, kept = power_of_two(e->height) * e->columns;
  const int64_t group = cr_roi_group(e) * e->columns;
  return forward ? map + group + kept : 2 * (map + group + kept);
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
