/* Means of interpolated values over regions of interest (He et al., "Mask R-CNN", 2017).
 *
 * A part's samples lie on a grid, so its mean is a sum over rows of sums over columns: the weights
 * that all samples of a part give to a row or column of the map are added up once per region, and
 * rows are summed once for all rows of parts that they belong to. */
#include "device/cpu/ref_roi.h"

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

static size_t table_bytes(const job *j) {
  return (size_t)j->e.regions * ((size_t)(j->row_taps + j->column_taps) * sizeof(tap) +
                                 (size_t)firsts(&j->e) * sizeof(int32_t));
}

/* Rows and columns of region r. */
static side rows_of(const job *j, int64_t r) {
  return (side){j->taps + r * (j->row_taps + j->column_taps), j->first + r * firsts(&j->e)};
}

static side columns_of(const job *j, int64_t r) {
  const side rows = rows_of(j, r);
  return (side){rows.taps + j->row_taps, rows.first + j->e.rows + 1};
}

static void fill_tables(job *j, const cr_op_desc *desc, void *table) {
  const cr_roi_extents *e = &j->e;
  const double scale = (double)desc->u.roi.scale;
  j->taps = table;
  j->first = (int32_t *)(j->taps + e->regions * (j->row_taps + j->column_taps));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = j->rois + 5 * r;
    const samples y = samples_of(roi[2], roi[4], scale, e->rows, desc->u.roi.ratio);
    const samples x = samples_of(roi[1], roi[3], scale, e->columns, desc->u.roi.ratio);
    tap *taps = j->taps + r * (j->row_taps + j->column_taps);
    int32_t *first = j->first + r * firsts(e);
    fill_side(&y, e->rows, e->height, taps, first);
    fill_side(&x, e->columns, e->width, taps + j->row_taps, first + e->rows + 1);
  }
}

static bool is_of(const job *j, int64_t region, int64_t image) {
  return (int64_t)j->rois[5 * region] == image;
}

static cr_roi_span reach_of_side(const side *s, int64_t parts) {
  const int32_t count = s->first[parts];
  if (count == 0) return (cr_roi_span){0, 0};
  return (cr_roi_span){s->taps[0].at, s->taps[count - 1].at + 1};
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

/* ---- forward ------------------------------------------------------------- */

CR_INLINE void add_scaled(int64_t count, cr_real weight, const cr_roi_line *from, cr_roi_line *to) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) to->value[i] += weight * from->value[i];
}

CR_INLINE void set_scaled(int64_t count, cr_real weight, const cr_roi_line *from, cr_roi_line *to) {
#pragma omp simd
  for (int64_t i = 0; i < count * CR_ROI_BLOCK; ++i) to->value[i] = weight * from->value[i];
}

/* A row of the map at the columns of parts. */
CR_INLINE void sum_columns(const side *x, int64_t parts, const cr_roi_line *row, cr_roi_line *out) {
  for (int64_t j = 0; j < parts; ++j, ++out) {
    const tap *t = x->taps + x->first[j], *end = x->taps + x->first[j + 1];
    if (t == end) cr_roi_fill(1, 0, out);
    else set_scaled(1, t->weight, &row[t->at], out);
    while (++t < end) add_scaled(1, t->weight, &row[t->at], out);
  }
}

/* `wide`: two rows at the columns of parts, of odd and even number: parts that follow each other
 * have at most two rows in common. */
CR_INLINE void forward_region(const job *j, int64_t r, const cr_roi_next *later,
                              const cr_roi_line *map, cr_roi_line *wide, cr_roi_line *out) {
  const cr_roi_extents *e = &j->e;
  const side y = rows_of(j, r), x = columns_of(j, r);
  int64_t held[2] = {-1, -1};
  for (int64_t i = 0; i < e->rows; ++i, out += e->columns) {
    cr_roi_ask(later, i, e->rows);
    if (y.first[i] == y.first[i + 1]) cr_roi_fill(e->columns, 0, out);
    for (int32_t k = y.first[i]; k < y.first[i + 1]; ++k) {
      const int64_t at = y.taps[k].at;
      cr_roi_line *row = wide + at % 2 * e->columns;
      if (held[at % 2] != at) sum_columns(&x, e->columns, map + at * e->width, row);
      held[at % 2] = at;
      if (k == y.first[i]) set_scaled(e->columns, y.taps[k].weight, row, out);
      else add_scaled(e->columns, y.taps[k].weight, row, out);
    }
  }
}

/* The channels from `first` on of an image. `lines`: for the map, a result, two rows. */
CR_CLONES static void forward_block(const job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *result = lines + plane, *wide = result + cells;
  cr_roi_to_lines(&reach, e->width, planes, plane, j->src + (image * e->channels + first) * plane,
                  lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    const cr_roi_next later = cr_roi_next_of(e, r, first, planes, j->dst);
    forward_region(j, r, &later, lines, wide, result);
    cr_roi_transpose(cells, planes, result->value, CR_ROI_BLOCK,
                     j->dst + (r * e->channels + first) * cells, cells);
  }
}

/* ---- backward ------------------------------------------------------------ */

/* The reverse of sum_columns. */
CR_INLINE void spread_columns(const side *x, int64_t parts, const cr_roi_line *from,
                              cr_roi_line *row) {
  for (int64_t j = 0; j < parts; ++j) {
    for (int32_t k = x->first[j]; k < x->first[j + 1]; ++k) {
      add_scaled(1, x->taps[k].weight, from + j, &row[x->taps[k].at]);
    }
  }
}

/* `wide`: as in forward_region; a row is spread when another one takes its place. */
CR_INLINE void backward_region(const job *j, int64_t r, const cr_roi_next *later,
                               const cr_roi_line *diff, cr_roi_line *wide, cr_roi_line *sums) {
  const cr_roi_extents *e = &j->e;
  const side y = rows_of(j, r), x = columns_of(j, r);
  int64_t held[2] = {-1, -1};
  for (int64_t i = 0; i < e->rows; ++i, diff += e->columns) {
    cr_roi_ask(later, i, e->rows);
    for (int32_t k = y.first[i]; k < y.first[i + 1]; ++k) {
      const int64_t at = y.taps[k].at, slot = at % 2;
      cr_roi_line *row = wide + slot * e->columns;
      if (held[slot] == at) {
        add_scaled(e->columns, y.taps[k].weight, diff, row);
        continue;
      }
      if (held[slot] >= 0) spread_columns(&x, e->columns, row, sums + held[slot] * e->width);
      set_scaled(e->columns, y.taps[k].weight, diff, row);
      held[slot] = at;
    }
  }
  for (int slot = 0; slot < 2; ++slot) {
    if (held[slot] < 0) continue;
    spread_columns(&x, e->columns, wide + slot * e->columns, sums + held[slot] * e->width);
  }
}

/* `lines`: for the map's gradient, a result's, two rows. */
CR_CLONES static void backward_block(const job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const cr_roi_window reach = reach_of(j, image);
  cr_roi_line *diff = lines + plane, *wide = diff + cells;
  cr_roi_zero_lines(&reach, e->width, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, image)) continue;
    cr_roi_transpose(planes, cells, j->diff_dst + (r * e->channels + first) * cells, cells,
                     diff->value, CR_ROI_BLOCK);
    const cr_roi_next later = cr_roi_next_of(e, r, first, planes, j->diff_dst);
    backward_region(j, r, &later, diff, wide, lines);
  }
  cr_roi_to_planes(&reach, e->height, e->width, planes, plane, lines,
                   j->diff_src + (image * e->channels + first) * plane);
}

/* ---- kernels ------------------------------------------------------------- */

static int64_t lines_of(const cr_roi_extents *e) {
  return e->height * e->width + e->rows * e->columns + 2 * e->columns;
}

static int64_t tasks_of(const cr_roi_extents *e) {
  return e->images * cr_roi_blocks(e->channels);
}

static crema_status roi_align_fwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 0, 2));
  const job j = job_of(plan->desc, 0, 2);
  cr_roi_need(plan, table_bytes(&j), lines_of(&j.e), tasks_of(&j.e));
  return CREMA_OK;
}

static crema_status roi_align_bwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 2, 0));
  const job j = job_of(plan->desc, 2, 0);
  cr_roi_need(plan, table_bytes(&j), lines_of(&j.e), tasks_of(&j.e));
  return CREMA_OK;
}

static crema_status run_tasks(const cr_call *call, job *j, bool forward) {
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(j), lines_of(&j->e));
  const int64_t blocks = cr_roi_blocks(j->e.channels), tasks = tasks_of(&j->e);
  CR_TRY(cr_roi_check_images(&j->e, j->rois));
  CR_TRY(check_samples(&j->e, j->rois, call->desc));
  fill_tables(j, call->desc, (void *)call->workspace.address); /* NOLINT: a host address */
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
