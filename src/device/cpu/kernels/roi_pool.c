/* Max pooling over regions of interest (Girshick, "Fast R-CNN", 2015).
 *
 *   dst[r][c][i][j] = maximum of src[n][c] over cell (i, j) of region r of image n; 0 if it is
 * empty
 *
 * The gradient goes to the first of equal maxima, which backward finds again: that takes less time
 * than reading an index per value. NaN loses against each number after it; a cell that begins with
 * NaN is NaN. */
#include "device/cpu/kernels/roi.h"

static crema_status check_bwd(const cr_plan *plan) {
  CR_TRY(cr_roi_check(plan, 3, 0, false));
  if (cr_op_arg_count(plan->desc, 2) == cr_op_arg_count(plan->desc, 3)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: a map of %d axes and its gradient do not fit",
                 cr_op_kind_name(plan->desc->kind), plan->desc->arg[2].shape.axes);
}

/* The cells of a region's side from `low` to `high`, both included. Cells overlap where the side is
 * no multiple of their number. */
static void fill_spans(cr_real low, cr_real high, double scale, int64_t cells, int64_t extent,
                       cr_roi_span *to) {
  const double begin = round((double)low * scale), length = round((double)high * scale) - begin + 1;
  /* In single precision, as in Caffe: whether 7 / 7 rows are one row or two depends on it. */
  const float size = (float)(length < 1 ? 1 : length) / (float)cells;
  for (int64_t i = 0; i < cells; ++i) {
    to[i].begin = cr_roi_clip(floor((double)((float)i * size)) + begin, extent);
    to[i].end = cr_roi_clip(ceil((double)((float)(i + 1) * size)) + begin, extent);
  }
}

/* The spans of region r: of each row of cells, then of each column. */
static cr_roi_span *spans_of(const cr_roi_job *j, int64_t r) {
  return (cr_roi_span *)j->table + r * (j->e.rows + j->e.columns);
}

/* The maximum of a cell, for each channel of a line. */
CR_INLINE void find_maximum(const cr_roi_line *map, int64_t width, cr_roi_span y, cr_roi_span x,
                            cr_real *top) {
  const cr_roi_line none = {0}, *first = &map[y.begin * width + x.begin];
  *(cr_roi_line *)top = y.begin < y.end && x.begin < x.end ? *first : none;
  for (int64_t h = y.begin; h < y.end; ++h) {
    const cr_real *line = (const cr_real *)&map[h * width + x.begin];
    for (int64_t w = x.begin; w < x.end; ++w, line += CR_ROI_BLOCK) {
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) top[l] = line[l] > top[l] ? line[l] : top[l];
    }
  }
}

CR_CLONES static void forward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  cr_roi_line *map = lines, *result = lines + plane;
  cr_roi_to_lines(planes, plane, plane, j->src + (image * e->channels + first) * plane, map);
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != image) continue;
    const cr_roi_span *y = spans_of(j, r), *x = y + e->rows;
    for (int64_t i = 0; i < cells; ++i) {
      find_maximum(map, e->width, y[i / e->columns], x[i % e->columns], (cr_real *)&result[i]);
    }
    cr_roi_to_planes(planes, cells, cells, result, j->dst + (r * e->channels + first) * cells);
  }
}

/* Adds a cell's gradient to the first position that has its maximum. `left`: the gradient; is used
 * up.
 */
CR_INLINE void give_to_maximum(const cr_roi_line *map, int64_t width, cr_roi_span y, cr_roi_span x,
                               cr_real *left, cr_roi_line *sums) {
  cr_real top[CR_ROI_BLOCK];
  find_maximum(map, width, y, x, top);
  for (int64_t h = y.begin; h < y.end; ++h) {
    const cr_real *line = (const cr_real *)&map[h * width + x.begin];
    cr_real *sum = (cr_real *)&sums[h * width + x.begin];
    for (int64_t w = x.begin; w < x.end; ++w, line += CR_ROI_BLOCK, sum += CR_ROI_BLOCK) {
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) {
        const bool is_first = line[l] == top[l] || top[l] != top[l];
        sum[l] += is_first ? left[l] : 0;
        left[l] = is_first ? 0 : left[l];
      }
    }
  }
}

CR_CLONES static void backward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane;
  cr_roi_line *map = lines, *sums = map + plane, *diff = sums + plane;
  cr_roi_to_lines(planes, plane, plane, j->src + at, map);
  memset(sums, 0, (size_t)plane * sizeof *sums);
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != image) continue;
    const cr_roi_span *y = spans_of(j, r), *x = y + e->rows;
    cr_roi_to_lines(planes, cells, cells, j->diff_dst + (r * e->channels + first) * cells, diff);
    for (int64_t i = 0; i < cells; ++i) {
      give_to_maximum(map, e->width, y[i / e->columns], x[i % e->columns], (cr_real *)&diff[i],
                      sums);
    }
  }
  cr_roi_to_planes(planes, plane, plane, sums, j->diff_src + at);
}

static cr_roi_space space_of(const cr_roi_extents *e, int maps) {
  return (cr_roi_space){(size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span),
                        maps * e->height * e->width + e->rows * e->columns};
}

static crema_status run(const cr_call *call, const cr_roi_job *j, cr_roi_space space,
                        cr_roi_task_fn *task) {
  const cr_roi_extents *e = &j->e;
  CR_TRY(cr_roi_check_images(e, j->rois));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = j->rois + 5 * r;
    fill_spans(roi[2], roi[4], j->scale, e->rows, e->height, spans_of(j, r));
    fill_spans(roi[1], roi[3], j->scale, e->columns, e->width, spans_of(j, r) + e->rows);
  }
  return cr_roi_run(call, j, e->images, e->channels, space, task);
}

static crema_status roi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(cr_roi_check(plan, 0, 2, false));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 2);
  return cr_roi_need(plan, e.images, e.channels, space_of(&e, 1));
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(check_bwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 3, 0);
  return cr_roi_need(plan, e.images, e.channels, space_of(&e, 2));
}

static crema_status roi_pool_fwd(const cr_call *call) {
  const cr_roi_job j = cr_roi_job_of(call, 0, 2);
  return run(call, &j, space_of(&j.e, 1), forward_block);
}

static crema_status roi_pool_bwd(const cr_call *call) {
  const cr_roi_job j = cr_roi_job_of(call, 3, 0);
  return run(call, &j, space_of(&j.e, 2), backward_block);
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = roi_pool_fwd_plan, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
