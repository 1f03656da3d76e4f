/* Means of parts of regions of interest that have channels of their own (Dai et al., "R-FCN",
 * 2016).
 *
 * A plane of the map belongs to one part of one result, and that part of all regions of the image
 * is pooled while the plane is in the nearest cache. Where the parts lie in a plane is the same for
 * all results and found once. Eight columns of a part are summed side by side, then across. */
#include "device/cpu/kernels/roi.h"

/* PAIR: results whose gradients are made side by side. */
enum { EIGHT = 8, PAIR = 2 };

typedef cr_real eight
    __attribute__((vector_size(EIGHT * sizeof(cr_real)), aligned(sizeof(cr_real)), may_alias));

/* As wide as a value. */
#ifdef CR_REF_F64
typedef int64_t number;
#else
typedef int32_t number;
#endif
typedef number eight_numbers
    __attribute__((vector_size(EIGHT * sizeof(number)), aligned(sizeof(number)), may_alias));

/* ---- where parts lie ------------------------------------------------------ */

/* A row of parts of a region. */
typedef struct band {
  int64_t region, rows; /* rows of the map in each part */
} band;

/* Where a part's first position is in a plane, and its columns of the map. Of a narrow part: where
 * eight values are read in its first row, and the index in `masks` of which of them count. */
typedef struct part {
  int64_t at;
  int32_t columns;
} part;

/* Eight parts: all of them narrow and with as many rows, or narrow, or any. */
enum { ROWS_MOST = 4, NARROW = -1, WIDE = -2 };

/* For each row of parts, `entries` bands: those of image n, ordered by their rows, are
 * first[n] to first[n + 1] - 1, of which the last ones may be none, so that there are a multiple of
 * eight. For each part as many places and shares that a value has in the mean, 0 if there are none,
 * and for each eight parts their rows, at most ROWS_MOST, or their kind. */
typedef struct table {
  int64_t entries;
  int64_t *first, *regions; /* per image; regions: bands that are not none */
  band *bands;
  part *parts;
  cr_real *shares;
  int32_t *kinds;
} table;

typedef struct job {
  cr_roi_extents e;
  const cr_real *rois, *src;
  cr_real *dst;            /* forward */
  const cr_real *diff_dst; /* backward */
  cr_real *diff_src;
  cr_roi_span *spans; /* the sides of each region's parts: rows, then columns */
  table t;
} job;

static int64_t up_to_eights(int64_t count) {
  return (count + EIGHT - 1) / EIGHT * EIGHT;
}

static int64_t entries_of(const cr_roi_extents *e) {
  const int64_t images = e->images < e->regions ? e->images : e->regions;
  return up_to_eights(e->regions + images * (EIGHT - 1));
}

static size_t table_bytes(const cr_roi_extents *e) {
  const size_t bands = (size_t)(e->rows * entries_of(e)), parts = bands * (size_t)e->columns;
  return (size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span) +
         (size_t)(2 * e->images + 1 + e->images * (e->height + 1)) * sizeof(int64_t) +
         bands * sizeof(band) + parts * (sizeof(part) + sizeof(cr_real)) +
         parts / EIGHT * sizeof(int32_t);
}

CR_INLINE cr_roi_span span_of(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                              int64_t extent) {
  const double begin = round((double)low) * scale, end = (round((double)high) + 1) * scale;
  const double length = end - begin < 0.1 ? 0.1 : end - begin, size = length / (double)parts;
  const double from = floor((double)index * size + begin);
  const double to = ceil((double)(index + 1) * size + begin);
  return (cr_roi_span){cr_roi_cut((int64_t)from, extent), cr_roi_cut((int64_t)to, extent)};
}

CR_CLONES static void fill_spans(const job *j, double scale) {
  const cr_roi_extents *e = &j->e;
  const cr_real *roi = j->rois;
  cr_roi_span *out = j->spans;
  for (int64_t r = 0; r < e->regions; ++r, roi += 5) {
    for (int64_t i = 0; i < e->rows; ++i) {
      *out++ = span_of(roi[2], roi[4], scale, e->rows, i, e->height);
    }
    for (int64_t i = 0; i < e->columns; ++i) {
      *out++ = span_of(roi[1], roi[3], scale, e->columns, i, e->width);
    }
  }
}

static void count_regions(const job *j) {
  const table *t = &j->t;
  memset(t->regions, 0, (size_t)j->e.images * sizeof *t->regions);
  for (int64_t r = 0; r < j->e.regions; ++r) ++t->regions[(int64_t)j->rois[5 * r]];
  t->first[0] = 0;
  for (int64_t n = 0; n < j->e.images; ++n) {
    t->first[n + 1] = t->first[n] + up_to_eights(t->regions[n]);
  }
}

static int64_t rows_of(const job *j, int64_t region, int64_t row) {
  const cr_roi_span *y = j->spans + region * (j->e.rows + j->e.columns) + row;
  return y->end > y->begin ? y->end - y->begin : 0;
}

/* Row `row` of parts of all regions. next: of images times height + 1, for where the next band of
 * an image with so many rows belongs. */
static void fill_bands(const job *j, int64_t row, int64_t *next, band *to) {
  const cr_roi_extents *e = &j->e;
  const int64_t heights = e->height + 1;
  memset(to, 0, (size_t)j->t.entries * sizeof *to);
  memset(next, 0, (size_t)(e->images * heights) * sizeof *next);
  for (int64_t r = 0; r < e->regions; ++r) {
    ++next[(int64_t)j->rois[5 * r] * heights + rows_of(j, r, row)];
  }
  for (int64_t n = 0; n < e->images; ++n) {
    int64_t at = j->t.first[n];
    for (int64_t *k = next + n * heights; k < next + (n + 1) * heights; ++k) {
      const int64_t count = *k;
      *k = at;
      at += count;
    }
  }
  for (int64_t r = 0; r < e->regions; ++r) {
    const int64_t rows = rows_of(j, r, row);
    to[next[(int64_t)j->rois[5 * r] * heights + rows]++] = (band){r, rows};
  }
}

static void fill_parts(const job *j, int64_t row, int64_t column, const band *bands, part *to,
                       cr_real *shares) {
  const cr_roi_extents *e = &j->e;
  for (int64_t k = 0; k < j->t.entries; ++k) {
    const cr_roi_span *spans = j->spans + bands[k].region * (e->rows + e->columns);
    const cr_roi_span x = spans[e->rows + column];
    to[k] = (part){0, 0};
    shares[k] = 0;
    if (bands[k].rows == 0 || x.end <= x.begin) continue;
    to[k] = (part){spans[row].begin * e->width + x.begin, (int32_t)(x.end - x.begin)};
    shares[k] = (cr_real)(1 / (double)(bands[k].rows * (x.end - x.begin)));
  }
}

/* Of windows of 0 to EIGHT values in EIGHT: for each width MASK numbers, EIGHT of which are a mask,
 * from the one with index EIGHT less the window's first value on. */
enum { MASK = 2 * EIGHT };

#define MASK_OF(...) \
  { 0, 0, 0, 0, 0, 0, 0, 0, __VA_ARGS__ }
static const number masks[EIGHT + 1][MASK]
    __attribute__((aligned(64))) = {MASK_OF(0),
                                    MASK_OF(-1),
                                    MASK_OF(-1, -1),
                                    MASK_OF(-1, -1, -1),
                                    MASK_OF(-1, -1, -1, -1),
                                    MASK_OF(-1, -1, -1, -1, -1),
                                    MASK_OF(-1, -1, -1, -1, -1, -1),
                                    MASK_OF(-1, -1, -1, -1, -1, -1, -1),
                                    MASK_OF(-1, -1, -1, -1, -1, -1, -1, -1)};

/* The last position from which eight values can be read in so many rows. */
static int64_t last_of(const cr_roi_extents *e, int64_t rows) {
  return (e->height - (rows > 0 ? rows - 1 : 0)) * e->width - EIGHT;
}

/* What eight parts are, which are described as that is. */
static int32_t kind_of(const cr_roi_extents *e, const band *bands, part *p) {
  bool equal = bands[0].rows <= ROWS_MOST;
  for (int k = 0; k < EIGHT; ++k) {
    if (p[k].columns > EIGHT || last_of(e, bands[k].rows) < 0) return WIDE;
    equal = equal && bands[k].rows == bands[0].rows;
  }
  for (int k = 0; k < EIGHT; ++k) {
    const int64_t last = last_of(e, bands[k].rows), left = p[k].at > last ? p[k].at - last : 0;
    p[k] = (part){p[k].at - left, p[k].columns * MASK + EIGHT - (int32_t)left};
  }
  return equal ? (int32_t)bands[0].rows : NARROW;
}

static void fill_table(job *j, double scale, void *memory) {
  const cr_roi_extents *e = &j->e;
  table *t = &j->t;
  t->entries = entries_of(e);
  j->spans = memory;
  t->first = (int64_t *)(j->spans + e->regions * (e->rows + e->columns));
  t->regions = t->first + e->images + 1;
  int64_t *next = t->regions + e->images;
  t->bands = (band *)(next + e->images * (e->height + 1));
  t->parts = (part *)(t->bands + e->rows * t->entries);
  t->shares = (cr_real *)(t->parts + e->rows * e->columns * t->entries);
  t->kinds = (int32_t *)(t->shares + e->rows * e->columns * t->entries);
  fill_spans(j, scale);
  count_regions(j);
  for (int64_t i = 0; i < e->rows; ++i) {
    band *bands = t->bands + i * t->entries;
    fill_bands(j, i, next, bands);
    for (int64_t c = 0; c < e->columns; ++c) {
      const int64_t at = (i * e->columns + c) * t->entries;
      fill_parts(j, i, c, bands, t->parts + at, t->shares + at);
      for (int64_t k = 0; k < t->entries; k += EIGHT) {
        t->kinds[(at + k) / EIGHT] = kind_of(e, bands + k, t->parts + at + k);
      }
    }
  }
}

/* ---- eight parts ---------------------------------------------------------- */

/* Eight parts, their values in a row. */
typedef struct eight_parts {
  int32_t kind;
  const band *bands;
  const part *parts;
} eight_parts;

CR_INLINE const eight *eight_at(const cr_real *from) {
  return (const eight *)from;
}

CR_INLINE const eight_numbers *mask_of(const part *p) {
  return (const eight_numbers *)(masks[0] + p->columns);
}

/* Of a narrow part, the sum of each column. */
CR_INLINE void sum_narrow(const cr_real *plane, int64_t width, int64_t rows, const part *p,
                          eight *sums) {
  const cr_real *from = plane + p->at;
  eight all = {0};
#pragma GCC unroll 4
  for (int64_t i = 0; i < rows; ++i) all += *eight_at(from + i * width);
  *sums = (eight)((eight_numbers)all & *mask_of(p));
}

/* Of any part, sums of every eighth column. */
CR_INLINE void sum_wide(const cr_real *plane, int64_t width, int64_t rows, const part *p,
                        eight *sums) {
  const cr_real *from = plane + p->at;
  cr_real all[EIGHT] = {0};
  for (int64_t i = 0; i < rows; ++i, from += width) {
    int32_t c = 0;
    for (; c + EIGHT <= p->columns; c += EIGHT) *(eight *)all += *eight_at(from + c);
    for (int32_t k = 0; c + k < p->columns; ++k) all[k] += from[c + k];
  }
  *sums = *eight_at(all);
}

#define EACH_OF_EIGHT(statement) _Pragma("GCC unroll 8") for (int k = 0; k < EIGHT; ++k) statement

CR_INLINE void sum_eight(const cr_real *plane, int64_t width, const eight_parts *of, eight *sums) {
  const part *p = of->parts;
  switch (of->kind) {
    case 1: EACH_OF_EIGHT(sum_narrow(plane, width, 1, p + k, sums + k)); break;
    case 2: EACH_OF_EIGHT(sum_narrow(plane, width, 2, p + k, sums + k)); break;
    case 3: EACH_OF_EIGHT(sum_narrow(plane, width, 3, p + k, sums + k)); break;
    case 4: EACH_OF_EIGHT(sum_narrow(plane, width, 4, p + k, sums + k)); break;
    case WIDE:
      for (int k = 0; k < EIGHT; ++k) sum_wide(plane, width, of->bands[k].rows, p + k, sums + k);
      break;
    default:
      for (int k = 0; k < EIGHT; ++k) sum_narrow(plane, width, of->bands[k].rows, p + k, sums + k);
      break;
  }
}

/* The sums of two, then of four, then of eight vectors' values side by side. */
CR_INLINE void add_two(const eight *v, eight *out) {
  *out = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13) +
         __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15);
}

CR_INLINE void add_four(const eight *v, eight *out) {
  eight a, b;
  add_two(v, &a);
  add_two(v + 2, &b);
  *out = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
         __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

CR_INLINE void add_across(const eight *v, eight *out) {
  eight a, b;
  add_four(v, &a);
  add_four(v + 4, &b);
  *out = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

/* The gradients of the same parts of one result or two: a plane of the map of each, and what each
 * value of a part gets. */
typedef struct gradients {
  cr_real *planes[PAIR];
  const cr_real *diffs[PAIR];
} gradients;

CR_INLINE void give_narrow(const gradients *g, int count, int64_t width, int64_t rows,
                           const part *p, int k) {
  const eight_numbers mask = *mask_of(p + k);
#pragma GCC unroll 2
  for (int n = 0; n < count; ++n) {
    const cr_real diff = g->diffs[n][k];
    const eight all = {diff, diff, diff, diff, diff, diff, diff, diff};
    const eight some = (eight)((eight_numbers)all & mask);
    cr_real *to = g->planes[n] + p[k].at;
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; ++i) *(eight *)(to + i * width) += some;
  }
}

CR_INLINE void give_wide(const gradients *g, int count, int64_t width, int64_t rows, const part *p,
                         int k) {
  for (int n = 0; n < count; ++n) {
    const cr_real diff = g->diffs[n][k];
    cr_real *to = g->planes[n] + p[k].at;
    for (int64_t i = 0; i < rows; ++i, to += width) {
#pragma omp simd
      for (int32_t c = 0; c < p[k].columns; ++c) to[c] += diff;
    }
  }
}

CR_INLINE void give_eight(const gradients *g, int count, int64_t width, const eight_parts *of) {
  const part *p = of->parts;
  const band *bands = of->bands;
  switch (of->kind) {
    case 1:
      for (int k = 0; k < EIGHT; ++k) give_narrow(g, count, width, 1, p, k);
      break;
    case 2:
      for (int k = 0; k < EIGHT; ++k) give_narrow(g, count, width, 2, p, k);
      break;
    case 3:
      for (int k = 0; k < EIGHT; ++k) give_narrow(g, count, width, 3, p, k);
      break;
    case 4:
      for (int k = 0; k < EIGHT; ++k) give_narrow(g, count, width, 4, p, k);
      break;
    case WIDE:
      for (int k = 0; k < EIGHT; ++k) give_wide(g, count, width, bands[k].rows, p, k);
      break;
    default:
      for (int k = 0; k < EIGHT; ++k) give_narrow(g, count, width, bands[k].rows, p, k);
      break;
  }
}

/* ---- tasks ---------------------------------------------------------------- */

/* What a thread works on at a time: a row of parts of one result or two, for an image's regions. */
typedef struct task {
  int64_t first, count, regions; /* entries of the image, and those that are not none */
  int64_t row;                   /* of parts */
  int64_t plane;                 /* where its first plane is in the map */
  int64_t value;                 /* where region 0 has its first value */
  int results;
} task;

/* `most` results in a task. */
static int64_t tasks_of(const cr_roi_extents *e, int most) {
  return e->images * ((e->results + most - 1) / most) * e->rows;
}

static task task_of(const job *j, int most, int64_t index) {
  const cr_roi_extents *e = &j->e;
  const int64_t groups = (e->results + most - 1) / most, image = index / e->rows / groups;
  const int64_t result = index / e->rows % groups * most, row = index % e->rows;
  const int64_t value = (result * e->rows + row) * e->columns;
  return (task){.first = j->t.first[image],
                .count = j->t.first[image + 1] - j->t.first[image],
                .regions = j->t.regions[image],
                .row = row,
                .plane = (image * e->channels + value) * e->height * e->width,
                .value = value,
                .results = result + most <= e->results ? most : (int)(e->results - result)};
}

static const band *bands_of(const job *j, const task *t) {
  return j->t.bands + t->row * j->t.entries + t->first;
}

/* The first entry of column `column` of the row of parts. */
static int64_t entry_of(const job *j, const task *t, int64_t column) {
  return (t->row * j->e.columns + column) * j->t.entries + t->first;
}

CR_INLINE eight_parts parts_at(const job *j, const task *t, int64_t entry, int64_t k) {
  return (eight_parts){j->t.kinds[(entry + k) / EIGHT], bands_of(j, t) + k, j->t.parts + entry + k};
}

/* The next plane is asked for while eights of parts of this one are worked on: about as many of its
 * cache lines for each. */
typedef struct asking {
  int64_t size, piece; /* values */
} asking;

static asking asking_of(const job *j, const task *t) {
  const int64_t size = j->e.height * j->e.width, eights = t->count / EIGHT;
  return (asking){size, eights > 0 ? cr_roi_blocks(size / eights + 1) * CR_ROI_BLOCK : 0};
}

CR_INLINE void ask(const asking *a, const cr_real *plane, int64_t k) {
  const cr_real *end = plane + a->size + (k / EIGHT + 1) * a->piece;
  for (const cr_real *at = end - a->piece; at < end; at += CR_ROI_BLOCK)
    __builtin_prefetch(at, 0, CR_SECOND_CACHE);
}

/* Where region r has the values of the row of parts of the first result. */
CR_INLINE int64_t value_of(const job *j, const task *t, int64_t region) {
  return region * j->e.results * j->e.rows * j->e.columns + t->value;
}

/* ---- forward -------------------------------------------------------------- */

/* means: t->count of each column of parts. */
CR_INLINE void write_means(const job *j, const task *t, const cr_real *means) {
  const int64_t columns = j->e.columns;
  const band *bands = bands_of(j, t);
  int64_t k = 0;
  for (; k + CR_QUAD <= t->regions && columns >= CR_QUAD; k += CR_QUAD) {
    cr_real *to[CR_QUAD];
    for (int i = 0; i < CR_QUAD; ++i) to[i] = j->dst + value_of(j, t, bands[k + i].region);
    for (int64_t c = 0; c < columns; c += CR_QUAD) {
      if (c + CR_QUAD > columns) c = columns - CR_QUAD;
      cr_quad q[CR_QUAD];
      for (int i = 0; i < CR_QUAD; ++i) q[i] = *(const cr_quad *)(means + (c + i) * t->count + k);
      cr_roi_turn_quads(q);
      for (int i = 0; i < CR_QUAD; ++i) *(cr_quad *)(to[i] + c) = q[i];
    }
  }
  for (; k < t->regions; ++k) {
    cr_real *to = j->dst + value_of(j, t, bands[k].region);
    for (int64_t c = 0; c < columns; ++c) to[c] = means[c * t->count + k];
  }
}

CR_CLONES static void forward_task(const job *j, const task *t, cr_real *means) {
  const asking a = asking_of(j, t);
  for (int64_t c = 0; c < j->e.columns; ++c) {
    const int64_t entry = entry_of(j, t, c);
    const cr_real *plane = j->src + t->plane + c * a.size;
    for (int64_t k = 0; k < t->count; k += EIGHT) {
      const eight_parts of = parts_at(j, t, entry, k);
      eight sums[EIGHT], all;
      ask(&a, plane, k);
      sum_eight(plane, j->e.width, &of, sums);
      add_across(sums, &all);
      *(eight *)(means + c * t->count + k) = all * *eight_at(j->t.shares + entry + k);
    }
  }
  write_means(j, t, means);
}

/* ---- backward ------------------------------------------------------------- */

/* diffs: t->count of each column of parts. The cache lines of the next row of parts are asked for.
 */
CR_INLINE void read_diffs(const job *j, const task *t, int result, cr_real *diffs) {
  const int64_t columns = j->e.columns, skip = result * j->e.rows * columns;
  const band *bands = bands_of(j, t);
  const cr_real *diff_dst = j->diff_dst + skip;
  int64_t k = 0;
  for (; k + CR_QUAD <= t->regions && columns >= CR_QUAD; k += CR_QUAD) {
    const cr_real *from[CR_QUAD];
    for (int i = 0; i < CR_QUAD; ++i) {
      from[i] = diff_dst + value_of(j, t, bands[k + i].region);
      __builtin_prefetch(from[i] + 2 * columns - 1, 0, CR_SECOND_CACHE);
    }
    for (int64_t c = 0; c < columns; c += CR_QUAD) {
      if (c + CR_QUAD > columns) c = columns - CR_QUAD;
      cr_quad q[CR_QUAD];
      for (int i = 0; i < CR_QUAD; ++i) q[i] = *(const cr_quad *)(from[i] + c);
      cr_roi_turn_quads(q);
      for (int i = 0; i < CR_QUAD; ++i) *(cr_quad *)(diffs + (c + i) * t->count + k) = q[i];
    }
  }
  for (; k < t->count; ++k) {
    const cr_real *from = diff_dst + value_of(j, t, bands[k].region);
    for (int64_t c = 0; c < columns; ++c) diffs[c * t->count + k] = k < t->regions ? from[c] : 0;
  }
  for (int64_t c = 0; c < columns; ++c) {
    const cr_real *shares = j->t.shares + entry_of(j, t, c);
    for (k = 0; k < t->count; k += EIGHT)
      *(eight *)(diffs + c * t->count + k) *= *eight_at(shares + k);
  }
}

CR_INLINE void give_row(const job *j, const task *t, int count, const cr_real *diffs) {
  const asking a = asking_of(j, t);
  const int64_t step = j->e.rows * j->e.columns * a.size;
  for (int64_t c = 0; c < j->e.columns; ++c) {
    const int64_t entry = entry_of(j, t, c);
    cr_real *planes = j->diff_src + t->plane + c * a.size;
    for (int n = 0; n < count; ++n) memset(planes + n * step, 0, (size_t)a.size * sizeof *planes);
    for (int64_t k = 0; k < t->count; k += EIGHT) {
      const eight_parts of = parts_at(j, t, entry, k);
      gradients g;
      for (int n = 0; n < count; ++n) {
        g.planes[n] = planes + n * step;
        g.diffs[n] = diffs + (n * j->e.columns + c) * t->count + k;
        ask(&a, g.planes[n], k);
      }
      give_eight(&g, count, j->e.width, &of);
    }
  }
}

CR_CLONES static void backward_task(const job *j, const task *t, cr_real *diffs) {
  for (int n = 0; n < t->results; ++n) read_diffs(j, t, n, diffs + n * j->e.columns * t->count);
  if (t->results == PAIR) give_row(j, t, PAIR, diffs);
  else give_row(j, t, 1, diffs);
}

/* ---- kernels ------------------------------------------------------------- */

/* The means or gradients of a task. */
static int64_t lines_of(const cr_roi_extents *e) {
  return cr_roi_blocks(PAIR * e->columns * up_to_eights(e->regions) + 1);
}

static crema_status plan_parts(cr_plan *plan, int map, int result) {
  CR_TRY(cr_roi_check(plan, map, 1, result, true));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, map, 1, result);
  cr_roi_need(plan, table_bytes(&e), lines_of(&e), tasks_of(&e, map == 0 ? 1 : PAIR));
  return CREMA_OK;
}

static crema_status psroi_pool_fwd_plan(cr_plan *plan) {
  return plan_parts(plan, 0, 2);
}

static crema_status psroi_pool_bwd_plan(cr_plan *plan) {
  return plan_parts(plan, 2, 0);
}

static crema_status run_tasks(const cr_call *call, job *j, bool forward) {
  const cr_roi_extents *e = &j->e;
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(e), lines_of(e));
  const int most = forward ? 1 : PAIR;
  const int64_t tasks = tasks_of(e, most);
  CR_TRY(cr_roi_check_images(e, j->rois));
  fill_table(j, (double)call->desc->u.roi.scale,
             (void *)call->workspace.address); /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_real *values = s.line[slot * s.lines].value;
    for (int64_t k = tasks * slot / s.slots; k < tasks * (slot + 1) / s.slots; ++k) {
      const task t = task_of(j, most, k);
      (forward ? forward_task : backward_task)(j, &t, values);
    }
  }
  return CREMA_OK;
}

/* src, rois, dst. */
static crema_status psroi_pool_fwd(const cr_call *call) {
  job j = {.e = cr_roi_extents_of(call->desc, 0, 1, 2),
           .src = cr_as_reals(call->buffer, 0),
           .rois = cr_as_reals(call->buffer, 1),
           .dst = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &j, true);
}

/* diff_dst, rois, diff_src. */
static crema_status psroi_pool_bwd(const cr_call *call) {
  job j = {.e = cr_roi_extents_of(call->desc, 2, 1, 0),
           .diff_dst = cr_as_reals(call->buffer, 0),
           .rois = cr_as_reals(call->buffer, 1),
           .diff_src = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &j, false);
}

CR_REF_KERNEL(psroi_pool_fwd, PSROI_POOL_FWD, .plan = psroi_pool_fwd_plan, .run = psroi_pool_fwd);
CR_REF_KERNEL(psroi_pool_bwd, PSROI_POOL_BWD, .plan = psroi_pool_bwd_plan, .run = psroi_pool_bwd);
