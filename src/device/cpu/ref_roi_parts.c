/* Means of parts of regions of interest that have channels of their own (Dai et al., "R-FCN",
 * 2016). Sums are made in double.
 *
 * A block is the same part of several results: its channels lie rows times columns planes apart. */
#include "device/cpu/ref_roi.h"

static crema_status check(const cr_plan *plan, int map, int result) {
  return cr_roi_check(plan, map, 1, result, true);
}

CR_INLINE cr_roi_span span_of(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                              int64_t extent) {
  const double begin = round((double)low) * scale, end = (round((double)high) + 1) * scale;
  const double length = end - begin < 0.1 ? 0.1 : end - begin, size = length / (double)parts;
  const double from = floor((double)index * size + begin);
  const double to = ceil((double)(index + 1) * size + begin);
  return (cr_roi_span){cr_roi_cut((int64_t)from, extent), cr_roi_cut((int64_t)to, extent)};
}

/* The sides of each region's parts: rows, then columns. */
CR_CLONES static void fill_spans(const cr_roi_job *j, double scale) {
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

/* What a thread works on at a time: a row of parts of an image's regions, of results from `first`
 * on. */
typedef struct task {
  int64_t image, row, first;
  int64_t planes; /* results */
} task;

static int64_t tasks_of(const cr_roi_extents *e) {
  return e->images * cr_roi_blocks(e->results) * e->rows;
}

static task task_of(const cr_roi_extents *e, int64_t index) {
  const int64_t blocks = cr_roi_blocks(e->results);
  task t = {.image = index / e->rows / blocks,
            .row = index % e->rows,
            .first = index / e->rows % blocks * CR_ROI_BLOCK};
  t.planes = cr_roi_planes(e->results, t.first);
  return t;
}

static bool is_of(const cr_roi_job *j, int64_t region, int64_t image) {
  return (int64_t)j->rois[5 * region] == image;
}

static cr_roi_window part_of(const cr_roi_job *j, const task *t, int64_t region, int64_t column) {
  const cr_roi_span *spans = j->spans + region * (j->e.rows + j->e.columns);
  return cr_roi_window_at(&j->e, spans, t->row, column);
}

/* What the image's regions read for that column of parts. */
static cr_roi_window reach_of(const cr_roi_job *j, const task *t, int64_t column) {
  cr_roi_window all = {{0, 0}, {0, 0}};
  for (int64_t r = 0; r < j->e.regions; ++r) {
    if (is_of(j, r, t->image)) all = cr_roi_unite(all, part_of(j, t, r, column));
  }
  return cr_roi_widen(all, j->e.width);
}

/* Where the first plane of a column of parts is in an array like the map, and that column's first
 * result of a region in one like the result. */
static int64_t map_at(const cr_roi_extents *e, const task *t, int64_t column) {
  const int64_t channel = (t->first * e->rows + t->row) * e->columns + column;
  return (t->image * e->channels + channel) * e->height * e->width;
}

static int64_t result_at(const cr_roi_extents *e, const task *t, int64_t region) {
  return ((region * e->results + t->first) * e->rows + t->row) * e->columns;
}

static double inverse_area(const cr_roi_window *w) {
  return 1 / (double)((w->y.end - w->y.begin) * (w->x.end - w->x.begin));
}

/* ---- forward ------------------------------------------------------------- */

/* `lanes`: of a line. */
CR_INLINE void mean_of(int lanes, const cr_roi_line *map, int64_t width, const cr_roi_window *w,
                       cr_roi_line *out) {
  double sum[CR_ROI_BLOCK];
  const double share = inverse_area(w);
#pragma omp simd
  for (int l = 0; l < lanes; ++l) sum[l] = 0;
  for (int64_t i = w->y.begin; i < w->y.end; ++i) {
    for (int64_t j = w->x.begin; j < w->x.end; ++j) {
      const cr_real *value = map[i * width + j].value;
#pragma omp simd
      for (int l = 0; l < lanes; ++l) sum[l] += (double)value[l];
    }
  }
#pragma omp simd
  for (int l = 0; l < lanes; ++l) out->value[l] = (cr_real)(sum[l] * share);
}

/* `map`: lines for the map, then a row of parts per region. */
CR_CLONES static void forward_task(const cr_roi_job *j, const task *t, cr_roi_line *map) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const bool few = t->planes <= CR_ROI_BLOCK / 2;
  cr_roi_line *mean = map + plane;
  for (int64_t c = 0; c < e->columns; ++c) {
    const cr_roi_window reach = reach_of(j, t, c);
    cr_roi_to_lines(&reach, e->width, t->planes, cells * plane, j->src + map_at(e, t, c), map);
    for (int64_t r = 0; r < e->regions; ++r) {
      if (!is_of(j, r, t->image)) continue;
      const cr_roi_window w = part_of(j, t, r, c);
      if (cr_roi_is_empty(&w)) cr_roi_fill(1, 0, mean + r * e->columns + c);
      else if (few) mean_of(CR_ROI_BLOCK / 2, map, e->width, &w, mean + r * e->columns + c);
      else mean_of(CR_ROI_BLOCK, map, e->width, &w, mean + r * e->columns + c);
    }
  }
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, t->image)) continue;
    cr_roi_transpose(e->columns, t->planes, mean[r * e->columns].value, CR_ROI_BLOCK,
                     j->dst + result_at(e, t, r), cells);
  }
}

/* ---- backward ------------------------------------------------------------ */

CR_INLINE void give(int lanes, const cr_roi_line *diff, int64_t width, const cr_roi_window *w,
                    cr_roi_line *sums) {
  const double share = inverse_area(w);
  cr_real part[CR_ROI_BLOCK];
#pragma omp simd
  for (int l = 0; l < lanes; ++l) part[l] = (cr_real)((double)diff->value[l] * share);
  for (int64_t i = w->y.begin; i < w->y.end; ++i) {
    for (int64_t j = w->x.begin; j < w->x.end; ++j) {
      cr_real *sum = sums[i * width + j].value;
#pragma omp simd
      for (int l = 0; l < lanes; ++l) sum[l] += part[l];
    }
  }
}

/* `sums`: as forward. */
CR_CLONES static void backward_task(const cr_roi_job *j, const task *t, cr_roi_line *sums) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const bool few = t->planes <= CR_ROI_BLOCK / 2;
  cr_roi_line *diff = sums + plane;
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!is_of(j, r, t->image)) continue;
    cr_roi_transpose(t->planes, e->columns, j->diff_dst + result_at(e, t, r), cells,
                     diff[r * e->columns].value, CR_ROI_BLOCK);
  }
  for (int64_t c = 0; c < e->columns; ++c) {
    const cr_roi_window reach = reach_of(j, t, c);
    cr_roi_zero_lines(&reach, e->width, sums);
    for (int64_t r = 0; r < e->regions; ++r) {
      if (!is_of(j, r, t->image)) continue;
      const cr_roi_window w = part_of(j, t, r, c);
      if (cr_roi_is_empty(&w)) continue;
      if (few) give(CR_ROI_BLOCK / 2, diff + r * e->columns + c, e->width, &w, sums);
      else give(CR_ROI_BLOCK, diff + r * e->columns + c, e->width, &w, sums);
    }
    cr_roi_to_planes(&reach, e->height, e->width, t->planes, cells * plane, sums,
                     j->diff_src + map_at(e, t, c));
  }
}

/* ---- kernels ------------------------------------------------------------- */

static size_t table_bytes(const cr_roi_extents *e) {
  return (size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span);
}

static int64_t lines_of(const cr_roi_extents *e) {
  return e->height * e->width + e->regions * e->columns;
}

static crema_status psroi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 0, 2));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 1, 2);
  cr_roi_need(plan, table_bytes(&e), lines_of(&e), tasks_of(&e));
  return CREMA_OK;
}

static crema_status psroi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(check(plan, 2, 0));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 2, 1, 0);
  cr_roi_need(plan, table_bytes(&e), lines_of(&e), tasks_of(&e));
  return CREMA_OK;
}

static crema_status run_tasks(const cr_call *call, cr_roi_job *j, bool forward) {
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(&j->e), lines_of(&j->e));
  const int64_t tasks = tasks_of(&j->e);
  CR_TRY(cr_roi_check_images(&j->e, j->rois));
  j->spans = (cr_roi_span *)call->workspace.address; /* NOLINT: a host address */
  fill_spans(j, (double)call->desc->u.roi.scale);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_roi_line *lines = cr_roi_begin(&s, slot, j->e.results);
    for (int64_t k = tasks * slot / s.slots; k < tasks * (slot + 1) / s.slots; ++k) {
      const task t = task_of(&j->e, k);
      (forward ? forward_task : backward_task)(j, &t, lines);
    }
  }
  return CREMA_OK;
}

/* src, rois, dst. */
static crema_status psroi_pool_fwd(const cr_call *call) {
  cr_roi_job j = {.e = cr_roi_extents_of(call->desc, 0, 1, 2),
                  .src = cr_as_reals(call->buffer, 0),
                  .rois = cr_as_reals(call->buffer, 1),
                  .dst = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &j, true);
}

/* diff_dst, rois, diff_src. */
static crema_status psroi_pool_bwd(const cr_call *call) {
  cr_roi_job j = {.e = cr_roi_extents_of(call->desc, 2, 1, 0),
                  .diff_dst = cr_as_reals(call->buffer, 0),
                  .rois = cr_as_reals(call->buffer, 1),
                  .diff_src = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &j, false);
}

CR_REF_KERNEL(psroi_pool_fwd, PSROI_POOL_FWD, .plan = psroi_pool_fwd_plan, .run = psroi_pool_fwd);
CR_REF_KERNEL(psroi_pool_bwd, PSROI_POOL_BWD, .plan = psroi_pool_bwd_plan, .run = psroi_pool_bwd);
