/* Means of interpolated values over regions of interest (He et al., "Mask R-CNN", 2017).
 *
 * A part's samples lie on a grid, so its mean is a sum over rows of sums over columns: the weights
 * that all samples of a part give to a row or column of the map are added up once per region, and
 * rows are summed once for all rows of parts that they belong to. */
#include <assert.h>

#include "device/cpu/kernels/roi.h"

static crema_status check(const cr_plan *plan, int map, int result) {
  return cr_roi_check(plan, map, 1, result, false);
}

/* ---- samples ------------------------------------------------------------- */

/* Positions along one side at which values are taken: `count` in each part. */
typedef struct samples {
  double begin, size; /* of the region, and of a part */
  int64_t count;
} samples;

static samples samples_of(cr_real low, cr_real high, double scale, int64_t parts, int ratio) {
  const double begin = (double)low * scale, length = (double)high * scale - begin;
  const double size = (length < 1 ? 1 : length) / (double)parts;
  return (samples){begin, size, ratio > 0 ? ratio : (int64_t)ceil(size)};
}

/* The two neighbours of a position and the weight of the second; false: outside. */
static bool neighbours(double at, int64_t extent, int64_t *low, int64_t *high, double *weight) {
  if (extent == 0 || at < -1 || at > (double)extent) return false;
  if (at <= 0) at = 0;
  *low = (int64_t)at;
  *high = *low + 1;
  if (*low >= extent - 1) {
    *low = *high = extent - 1;
    at = (double)*low;
  }
  *weight = at - (double)*low;
  return true;
}

/* Regions of a million pixels a side are no regions: their samples would never end. */
static crema_status check_samples(const cr_roi_extents *e, const cr_real *rois,
                                  const cr_op_desc *desc) {
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = rois + 5 * r;
    const samples y =
        samples_of(roi[2], roi[4], (double)desc->u.roi.scale, e->rows, desc->u.roi.ratio);
    const samples x =
        samples_of(roi[1], roi[3], (double)desc->u.roi.scale, e->columns, desc->u.roi.ratio);
    if (y.count <= 4096 && x.count <= 4096) continue;
    return cr_fail(CREMA_E_RANGE, "region %lld would take %lld x %lld samples for each value",
                   (long long)r, (long long)y.count, (long long)x.count);
  }
  return CREMA_OK;
}

/* ---- weights ------------------------------------------------------------- */

/* What a part takes of a row or column of the map. */
typedef struct tap {
  double sum; /* over the samples */
  cr_real weight;
  int32_t at;
} tap;

/* Of one side of a region: part i has the taps first[i] ... first[i + 1] - 1, in rising order. */
typedef struct side {
  const tap *taps;
  const int32_t *first;
} side;

/* The most taps of a side: two per sample, and as positions rise, parts that follow each other have
 * no more than two rows or columns in common. */
static int64_t taps_most(int64_t extent, int64_t parts, int ratio) {
  const int64_t most = extent + 2 * parts;
  return ratio > 0 && 2 * ratio * parts < most ? 2 * ratio * parts : most;
}

/* Neighbours of a sample are no lower than those of the one before it: of the taps that the part
 * has, only the last two may be meant. */
static void add_tap(tap *taps, int32_t first, int32_t *count, int64_t at, double weight) {
  for (int32_t i = *count - 1; i >= first && i >= *count - 2; --i) {
    if (taps[i].at != at) continue;
    taps[i].sum += weight;
    return;
  }
  taps[(*count)++] = (tap){.sum = weight, .at = (int32_t)at};
}

static void fill_side(const samples *s, int64_t parts, int64_t extent, tap *taps, int32_t *first) {
  int32_t count = 0;
  for (int64_t i = 0; i < parts; ++i) {
    first[i] = count;
    for (int64_t k = 0; k < s->count; ++k) {
      const double at = s->begin + s->size * ((double)i + ((double)k + 0.5) / (double)s->count);
      int64_t low = 0, high = 0;
      double weight = 0;
      if (!neighbours(at, extent, &low, &high, &weight)) continue;
      add_tap(taps, first[i], &count, low, 1 - weight);
      add_tap(taps, first[i], &count, high, weight);
    }
    for (int32_t k = first[i]; k < count; ++k) {
      taps[k].weight = (cr_real)(taps[k].sum / (double)s->count);
    }
  }
  first[parts] = count;
}

/* ---- shares -------------------------------------------------------------- */

/* What a sum takes of a line: where it is, in values, or NONE, and its weight. A sum has as many as
 * the longest one, up to four or a multiple, so that the processor foresees the ends of loops; what
 * it has too many are lines of -0, which change no sum. */
typedef struct share {
  int32_t at;
  cr_real weight;
} share;

typedef struct shares {
  int64_t count; /* per sum */
  const share *of;
} shares;

enum { NONE = -1 };

/* Sums over the columns of a row of the map, one for each part. */
CR_INLINE shares shares_of_parts(const side *x, int64_t parts, share *of) {
  int32_t most = 1;
  for (int64_t j = 0; j < parts; ++j) {
    const int32_t count = x->first[j + 1] - x->first[j];
    most = count > most ? count : most;
  }
  const shares all = {cr_roi_fours(most), of};
  for (int64_t j = 0; j < parts; ++j, of += all.count) {
    const tap *t = x->taps + x->first[j];
    const int32_t count = x->first[j + 1] - x->first[j];
    for (int64_t k = 0; k < all.count; ++k) {
      /* Without any: -0 times -0 and then -0 are 0. */
      of[k] = k < count ? (share){t[k].at * CR_ROI_BLOCK, t[k].weight}
                        : (share){NONE, k == 0 ? -(cr_real)0 : 0};
    }
  }
  return all;
}

/* Sums over parts, one for each row or column of the map in `span`. `none` stands for NONE. Parts
 * that overlap follow each other, so that none of them has the place of another one. */
CR_INLINE shares shares_of_map(const side *x, int64_t parts, cr_roi_span span, int32_t none,
                               share *of) {
  const int64_t sums = span.end - span.begin;
  int64_t most = 1;
  for (int64_t j = 0, first = 0; j < parts; ++j) {
    if (x->first[j] == x->first[j + 1]) continue;
    while (first < j && (x->first[first] == x->first[first + 1] ||
                         x->taps[x->first[first + 1] - 1].at < x->taps[x->first[j]].at)) {
      ++first;
    }
    most = most > j - first + 1 ? most : j - first + 1;
  }
  const shares all = {cr_roi_fours(most), of};
  for (int64_t k = 0; k < sums * all.count; ++k) of[k] = (share){none, 0};
  for (int64_t j = 0, place = 0; j < parts; ++j) {
    for (int32_t k = x->first[j]; k < x->first[j + 1]; ++k) {
      of[(x->taps[k].at - span.begin) * all.count + place] =
          (share){(int32_t)j * CR_ROI_BLOCK, x->taps[k].weight};
    }
    if (++place == all.count) place = 0;
  }
  return all;
}

/* The most shares of a side of a gradient. A row or column of the map gets something of positions
 * in a range of 3 (those below 0 count as 0), which not more than 3 / size + 2 parts have some of;
 * a region has neighbours in as many rows or columns as it is long and two more, and is at least 1
 * long, its parts 1 / parts. */
static int64_t shares_of_side(int64_t extent, int64_t parts) {
  const int64_t most = extent * cr_roi_fours(parts), likely = 12 * parts + 6 * extent + 32;
  return most < likely ? most : likely;
}

/* ---- tables -------------------------------------------------------------- */

/* What the rows and columns of the map get of a region's gradient. */
typedef struct receivers {
  cr_roi_span y, x;
  shares of_row, of_column;
} receivers;

/* What all threads read. `taps` and `first`: of rows, then of columns, per region. */
typedef struct job {
  cr_roi_extents e;
  int64_t row_taps, column_taps; /* for which there is room, per region */
  const cr_real *rois, *src;
  tap *taps;
  int32_t *first;
  cr_real *dst;            /* forward */
  const cr_real *diff_dst; /* backward */
  cr_real *diff_src;
  receivers *receivers; /* backward, per region */
} job;

static job job_of(const cr_op_desc *desc, int map, int result) {
  const cr_roi_extents e = cr_roi_extents_of(desc, map, 1, result);
  return (job){.e = e,
               .row_taps = taps_most(e.height, e.rows, desc->u.roi.ratio),
               .column_taps = taps_most(e.width, e.columns, desc->u.roi.ratio)};
}

static int64_t firsts(const cr_roi_extents *e) {
  return e->rows + e->columns + 2;
}

static size_t receivers_bytes(const cr_roi_extents *e) {
  const int64_t most = shares_of_side(e->height, e->rows) + shares_of_side(e->width, e->columns);
  return (size_t)e->regions * (sizeof(receivers) + (size_t)most * sizeof(share));
}

static size_t table_bytes(const job *j, bool forward) {
  return (size_t)j->e.regions * ((size_t)(j->row_taps + j->column_taps) * sizeof(tap) +
                                 (size_t)firsts(&j->e) * sizeof(int32_t)) +
         (forward ? 0 : receivers_bytes(&j->e));
}

/* Rows and columns of region r. */
static side rows_of(const job *j, int64_t r) {
  return (side){j->taps + r * (j->row_taps + j->column_taps), j->first + r * firsts(&j->e)};
}

static side columns_of(const job *j, int64_t r) {
  const side rows = rows_of(j, r);
  return (side){rows.taps + j->row_taps, rows.first + j->e.rows + 1};
}

static cr_roi_span reach_of_side(const side *s, int64_t parts) {
  const int32_t count = s->first[parts];
  if (count == 0) return (cr_roi_span){0, 0};
  return (cr_roi_span){s->taps[0].at, s->taps[count - 1].at + 1};
}

/* The shares of all regions follow each other. */
static void fill_receivers(const job *j) {
  const cr_roi_extents *e = &j->e;
  receivers *to = j->receivers;
  const int32_t none = (int32_t)e->columns * CR_ROI_BLOCK; /* of a row of parts */
  share *of = (share *)(to + e->regions);
  for (int64_t r = 0; r < e->regions; ++r, ++to) {
    const side y = rows_of(j, r), x = columns_of(j, r);
    to->y = reach_of_side(&y, e->rows);
    to->x = reach_of_side(&x, e->columns);
    to->of_row = shares_of_map(&y, e->rows, to->y, NONE, of);
    of += (to->y.end - to->y.begin) * to->of_row.count;
    to->of_column = shares_of_map(&x, e->columns, to->x, none, of);
    of += (to->x.end - to->x.begin) * to->of_column.count;
  }
  assert((char *)of <= (char *)j->receivers + receivers_bytes(e));
}

static void fill_tables(job *j, const cr_op_desc *desc, bool forward, void *table) {
  const cr_roi_extents *e = &j->e;
  const double scale = (double)desc->u.roi.scale;
  j->taps = table;
  j->receivers = (receivers *)(j->taps + e->regions * (j->row_taps + j->column_taps));
  j->first = (int32_t *)((char *)j->receivers + (forward ? 0 : receivers_bytes(e)));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = j->rois + 5 * r;
    const samples y = samples_of(roi[2], roi[4], scale, e->rows, desc->u.roi.ratio);
    const samples x = samples_of(roi[1], roi[3], scale, e->columns, desc->u.roi.ratio);
    tap *taps = j->taps + r * (j->row_taps + j->column_taps);
    int32_t *first = j->first + r * firsts(e);
    fill_side(&y, e->rows, e->height, taps, first);
    fill_side(&x, e->columns, e->width, taps + j->row_taps, first + e->rows + 1);
  }
  if (!forward) fill_receivers(j);
}

static bool is_of(const job *j, int64_t region, int64_t image) {
  return (int64_t)j->rois[5 * region] == image;
}

/* What the regions of an image read. */
static cr_roi_window reach_of(const job *j, int64_t image) {
  cr_roi_window all = {{0, 0}, {0, 0}};
  for (int64_t r = 0; r < j->e.regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const side y = rows_of(j, r), x = columns_of(j, r);
    all = cr_roi_unite(
        all, (cr_roi_window){reach_of_side(&y, j->e.rows), reach_of_side(&x, j->e.columns)});
  }
  return cr_roi_widen(all, j->e.width);
}

/* `more`: added to what there is. */
CR_INLINE void add_lines(int count, const cr_real *const *from, const cr_real *weight, bool more,
                         cr_real *to) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real all = more ? to[l] + weight[0] * from[0][l] : weight[0] * from[0][l];
    for (int k = 1; k < count; ++k) all += weight[k] * from[k][l];
    to[l] = all;
  }
}

/* `count` shares from `first` on of each of `sums` sums. */
CR_INLINE void add_shares(int count, const shares *s, int64_t first, int64_t sums, bool more,
                          const cr_real *lines, const cr_real *none, cr_roi_line *to) {
  const share *of = s->of + first;
  for (int64_t i = 0; i < sums; ++i, of += s->count) {
    const cr_real *from[CR_ROI_FOUR];
    cr_real weight[CR_ROI_FOUR];
    for (int k = 0; k < count; ++k) {
      from[k] = of[k].at < 0 ? none : lines + of[k].at;
      weight[k] = of[k].weight;
    }
    add_lines(count, from, weight, more, to[i].value);
  }
}

CR_INLINE void add_all_shares(const shares *s, int64_t sums, bool more, const cr_real *lines,
                              const cr_real *none, cr_roi_line *to) {
  CR_ROI_BY_COUNT(s->count, add_shares, s, 0, sums, more, lines, none, to)
  for (int64_t k = CR_ROI_FOUR; k < s->count; k += CR_ROI_FOUR) {
    add_shares(CR_ROI_FOUR, s, k, sums, true, lines, none, to);
  }
}

/* ---- rows ------------------------------------------------------------------ */

/* Rows of the map at the columns of parts: the last four that were taken, in rising order. Those
 * that a row of parts has in common with the one before it are at most two, the last ones of that.
 * So four taps that follow each other never displace each other's rows. */
typedef struct window {
  int64_t at[CR_ROI_FOUR]; /* rows; -1: none */
  int64_t taken;
  cr_roi_line *lines; /* of each one for each part, and one of -0 */
} window;

CR_INLINE window window_of(cr_roi_line *lines) {
  return (window){{-1, -1, -1, -1}, 0, lines};
}

/* Where row `at` is, or -1. */
CR_INLINE int64_t slot_of(const window *w, int64_t at) {
  for (int64_t k = 0; k < CR_ROI_FOUR; ++k) {
    if (w->at[k] == at) return k;
  }
  return -1;
}

CR_INLINE int64_t next_slot(window *w) {
  return w->taken++ % CR_ROI_FOUR;
}

/* The memory of a thread. */
typedef struct memory {
  cr_roi_line *map;  /* or its gradient */
  cr_roi_line *part; /* of parts: rows of a group, or all */
  cr_roi_line *wide; /* rows of the window */
  cr_roi_line *none; /* for each part of a row, -0 */
  share *shares;
} memory;

static memory memory_of(const cr_roi_extents *e, cr_roi_line *lines, int64_t parts) {
  memory m = {.map = lines};
  m.part = m.map + e->height * e->width;
  m.wide = m.part + parts;
  m.none = m.wide + CR_ROI_FOUR * (e->columns + 1);
  m.shares = (share *)(m.none + e->columns);
  cr_real *const none = m.none->value;
  for (int64_t i = 0; i < e->columns * CR_ROI_BLOCK; ++i) none[i] = -(cr_real)0;
  m.wide[e->columns] = m.none[0];
  return m;
}

static int64_t lines_of(const cr_roi_extents *e, bool forward) {
  const int64_t parts = forward ? cr_roi_group(e) * e->columns : e->rows * e->columns;
  const int64_t most = forward ? e->columns * cr_roi_fours(e->width + 1) : 0;
  return e->height * e->width + parts + CR_ROI_FOUR * (e->columns + 1) + e->columns +
         most * (int64_t)sizeof(share) / (int64_t)sizeof(cr_roi_line) + 1;
}

/* ---- forward ------------------------------------------------------------- */

/* `count` rows, of which taps tell the weights. */
CR_INLINE void add_rows(int count, const tap *taps, const cr_roi_line *const *rows, int64_t columns,
                        bool more, cr_roi_line *out) {
  const cr_real *from[CR_ROI_FOUR];
  cr_real weight[CR_ROI_FOUR];
  for (int k = 0; k < count; ++k) {
    from[k] = rows[k]->value;
    weight[k] = taps[k].weight;
  }
  for (int64_t j = 0; j < columns; ++j) {
    add_lines(count, from, weight, more, out[j].value);
    for (int k = 0; k < count; ++k) from[k] += CR_ROI_BLOCK;
  }
}

/* Row `i` of parts. */
CR_INLINE void forward_row(const cr_roi_extents *e, const side *y, int64_t i, const shares *x,
                           window *w, const memory *m, cr_roi_line *out) {
  const int32_t first = y->first[i], end = y->first[i + 1];
  if (first == end) cr_roi_fill(e->columns, 0, out);
  for (int32_t k = first; k < end; k += CR_ROI_FOUR) {
    const int32_t count = end - k < CR_ROI_FOUR ? end - k : CR_ROI_FOUR;
    const cr_roi_line *rows[CR_ROI_FOUR];
    for (int32_t t = 0; t < count; ++t) {
      const int64_t at = y->taps[k + t].at;
      int64_t slot = slot_of(w, at);
      if (slot < 0) {
        slot = next_slot(w);
        w->at[slot] = at;
        add_all_shares(x, e->columns, false, m->map[at * e->width].value, m->none->value,
                       w->lines + slot * (e->columns + 1));
      }
      rows[t] = w->lines + slot * (e->columns + 1);
    }
    CR_ROI_BY_COUNT(count, add_rows, y->taps + k, rows, e->columns, k > first, out)
  }
}

/* The channels from `first` on of an image. */
CR_CLONES static void forward_block(const job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first), group = cr_roi_group(e);
  const cr_roi_window reach = reach_of(j, image);
  const memory m = memory_of(e, lines, group * e->columns);
  cr_roi_to_lines(e, &reach, planes, j->src + (image * e->channels + first) * plane, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const side y = rows_of(j, r), x = columns_of(j, r);
    const shares s = shares_of_parts(&x, e->columns, m.shares);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, e->rows, j->dst);
    cr_real *to = j->dst + (r * e->channels + first) * cells;
    window w = window_of(m.wide);
    for (int64_t i = 0; i < e->rows; ++i) {
      cr_roi_ask(&later);
      forward_row(e, &y, i, &s, &w, &m, m.part + i % group * e->columns);
      cr_roi_put_group(e, group, i, planes, m.part, to);
    }
  }
}

/* ---- backward ------------------------------------------------------------ */

/* The reverse, with what each row and column of the map gets of parts: row `at` of those in `y` at
 * the columns of parts. `count` shares from `first` on. */
CR_INLINE void give_rows(int count, const shares *y, int64_t at, int64_t first, int64_t columns,
                         const memory *m) {
  const share *of = y->of + at * y->count + first;
  const cr_real *from[CR_ROI_FOUR];
  cr_real weight[CR_ROI_FOUR];
  for (int k = 0; k < count; ++k) {
    from[k] = of[k].at < 0 ? m->none->value : m->part->value + of[k].at * columns;
    weight[k] = of[k].weight;
  }
  for (int64_t j = 0; j < columns; ++j) {
    add_lines(count, from, weight, first > 0, m->wide[j].value);
    for (int k = 0; k < count; ++k) from[k] += CR_ROI_BLOCK;
  }
}

CR_INLINE void backward_region(const cr_roi_extents *e, const receivers *r, cr_roi_next *later,
                               const memory *m) {
  const int64_t count = r->of_row.count;
  for (int64_t at = r->y.begin; at < r->y.end; ++at) {
    cr_roi_ask(later);
    CR_ROI_BY_COUNT(count, give_rows, &r->of_row, at - r->y.begin, 0, e->columns, m)
    for (int64_t k = CR_ROI_FOUR; k < count; k += CR_ROI_FOUR) {
      give_rows(CR_ROI_FOUR, &r->of_row, at - r->y.begin, k, e->columns, m);
    }
    add_all_shares(&r->of_column, r->x.end - r->x.begin, true, m->wide->value, m->none->value,
                   m->map + at * e->width + r->x.begin);
  }
}

CR_CLONES static void backward_block(const job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const cr_roi_window reach = reach_of(j, image);
  const memory m = memory_of(e, lines, cells);
  cr_roi_zero_lines(e, &reach, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const receivers *to = &j->receivers[r];
    const int64_t rows = to->y.end > to->y.begin ? to->y.end - to->y.begin : 1;
    cr_roi_next later =
        cr_roi_next_of(e, r, first, planes, rows + cr_roi_pieces(cells), j->diff_dst);
    cr_roi_get(cells, planes, j->diff_dst + (r * e->channels + first) * cells, m.part, &later);
    backward_region(e, to, &later, &m);
  }
  cr_roi_to_planes(e, &reach, planes, lines, j->diff_src + (image * e->channels + first) * plane);
}

/* ---- kernels ------------------------------------------------------------- */

static int64_t tasks_of(const cr_roi_extents *e) {
  return e->images * cr_roi_blocks(e->channels);
}

static crema_status roi_align_fwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 0, 2));
  const job j = job_of(plan->desc, 0, 2);
  cr_roi_need(plan, table_bytes(&j, true), lines_of(&j.e, true), tasks_of(&j.e));
  return CREMA_OK;
}

static crema_status roi_align_bwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 2, 0));
  const job j = job_of(plan->desc, 2, 0);
  cr_roi_need(plan, table_bytes(&j, false), lines_of(&j.e, false), tasks_of(&j.e));
  return CREMA_OK;
}

static crema_status run_tasks(const cr_call *call, job *j, bool forward) {
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(j, forward), lines_of(&j->e, forward));
  const int64_t blocks = cr_roi_blocks(j->e.channels), tasks = tasks_of(&j->e);
  CR_TRY(cr_roi_check_images(&j->e, j->rois));
  CR_TRY(check_samples(&j->e, j->rois, call->desc));
  fill_tables(j, call->desc, forward, (void *)call->workspace.address); /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_roi_line *lines = cr_roi_begin(&s, slot, j->e.channels);
    for (int64_t t = tasks * slot / s.slots; t < tasks * (slot + 1) / s.slots; ++t) {
      (forward ? forward_block : backward_block)(j, t / blocks, t % blocks * CR_ROI_BLOCK, lines);
    }
  }
  return CREMA_OK;
}

/* src, rois, dst. */
static crema_status roi_align_fwd(const cr_call *call) {
  job j = job_of(call->desc, 0, 2);
  j.src = cr_as_reals(call->buffer, 0);
  j.rois = cr_as_reals(call->buffer, 1);
  j.dst = cr_as_reals(call->buffer, 2);
  return run_tasks(call, &j, true);
}

/* diff_dst, rois, diff_src. */
static crema_status roi_align_bwd(const cr_call *call) {
  job j = job_of(call->desc, 2, 0);
  j.diff_dst = cr_as_reals(call->buffer, 0);
  j.rois = cr_as_reals(call->buffer, 1);
  j.diff_src = cr_as_reals(call->buffer, 2);
  return run_tasks(call, &j, false);
}

CR_REF_KERNEL(roi_align_fwd, ROI_ALIGN_FWD, .plan = roi_align_fwd_plan, .run = roi_align_fwd);
CR_REF_KERNEL(roi_align_bwd, ROI_ALIGN_BWD, .plan = roi_align_bwd_plan, .run = roi_align_bwd);
