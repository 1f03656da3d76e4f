/* Mean of interpolated values over regions of interest (He et al., "Mask R-CNN", 2017).
 *
 *   dst[r][c][i][j] = mean of src[n][c] at samples of cell (i, j), interpolated bilinearly
 *
 * The weights of rows and columns are found once per region (roi_taps.h). */
#include "device/cpu/kernels/roi_taps.h"

static int64_t taps_of(const cr_roi_extents *e, int ratio) {
  return cr_roi_most_taps(e->height, e->rows, ratio) +
         cr_roi_most_taps(e->width, e->columns, ratio);
}

static cr_roi_side side_of(const cr_roi_job *j, int64_t r, bool columns) {
  const cr_roi_extents *e = &j->e;
  const int64_t taps = taps_of(e, j->ratio);
  cr_roi_weight *all = j->table;
  int64_t *first = (int64_t *)(all + e->regions * taps) + r * (e->rows + e->columns + 2);
  if (!columns) return (cr_roi_side){all + r * taps, first};
  return (cr_roi_side){all + r * taps + cr_roi_most_taps(e->height, e->rows, j->ratio),
                       first + e->rows + 1};
}

static cr_roi_space space_of(const cr_roi_extents *e, int ratio) {
  const int64_t taps = taps_of(e, ratio), firsts = e->rows + e->columns + 2;
  return (cr_roi_space){(size_t)e->regions * ((size_t)taps * sizeof(cr_roi_weight) +
                                              (size_t)firsts * sizeof(int64_t)),
                        e->height * e->width + e->rows * e->columns};
}

static crema_status fill_table(const cr_roi_job *j) {
  const cr_roi_extents *e = &j->e;
  CR_TRY(cr_roi_check_images(e, j->rois));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = j->rois + 5 * r;
    const cr_roi_samples y = cr_roi_samples_of(roi[2], roi[4], j->scale, e->rows, j->ratio);
    const cr_roi_samples x = cr_roi_samples_of(roi[1], roi[3], j->scale, e->columns, j->ratio);
    if (y.count > 4096 || x.count > 4096) {
      return cr_fail(CREMA_E_RANGE, "region %lld would take %lld x %lld samples for each value",
                     (long long)r, (long long)y.count, (long long)x.count);
    }
    cr_roi_side rows = side_of(j, r, false), columns = side_of(j, r, true);
    cr_roi_fill_side(y, e->rows, e->height, &rows);
    cr_roi_fill_side(x, e->columns, e->width, &columns);
  }
  return CREMA_OK;
}

CR_INLINE void sum_cell(const cr_roi_side *y, const cr_roi_side *x, int64_t i, int64_t k,
                        int64_t width, const cr_roi_line *map, cr_roi_line *out) {
  cr_roi_line sum = {0};
  for (const cr_roi_weight *v = y->taps + y->first[i]; v < y->taps + y->first[i + 1]; ++v) {
    const cr_roi_line *row = map + v->at * width;
    cr_roi_line of_row = {0};
    for (const cr_roi_weight *h = x->taps + x->first[k]; h < x->taps + x->first[k + 1]; ++h) {
      of_row += h->weight * row[h->at];
    }
    sum += v->weight * of_row;
  }
  *out = sum;
}

/* Adds the cell's gradient to the positions that it is a mean of. */
CR_INLINE void give_cell(const cr_roi_side *y, const cr_roi_side *x, int64_t i, int64_t k,
                         int64_t width, const cr_roi_line *diff, cr_roi_line *sums) {
  for (const cr_roi_weight *v = y->taps + y->first[i]; v < y->taps + y->first[i + 1]; ++v) {
    const cr_roi_line of_row = v->weight * *diff;
    cr_roi_line *row = sums + v->at * width;
    for (const cr_roi_weight *h = x->taps + x->first[k]; h < x->taps + x->first[k + 1]; ++h) {
      row[h->at] += h->weight * of_row;
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
    const cr_roi_side y = side_of(j, r, false), x = side_of(j, r, true);
    for (int64_t i = 0; i < cells; ++i) {
      sum_cell(&y, &x, i / e->columns, i % e->columns, e->width, map, &result[i]);
    }
    cr_roi_to_planes(planes, cells, cells, result, j->dst + (r * e->channels + first) * cells);
  }
}

CR_CLONES static void backward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  cr_roi_line *sums = lines, *diff = lines + plane;
  memset(sums, 0, (size_t)plane * sizeof *sums);
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != image) continue;
    const cr_roi_side y = side_of(j, r, false), x = side_of(j, r, true);
    cr_roi_to_lines(planes, cells, cells, j->diff_dst + (r * e->channels + first) * cells, diff);
    for (int64_t i = 0; i < cells; ++i) {
      give_cell(&y, &x, i / e->columns, i % e->columns, e->width, &diff[i], sums);
    }
  }
  cr_roi_to_planes(planes, plane, plane, sums, j->diff_src + (image * e->channels + first) * plane);
}

static crema_status plan_roi(cr_plan *plan, int map, int result) {
  CR_TRY(cr_roi_check(plan, map, result, false));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, map, result);
  return cr_roi_need(plan, e.images, e.channels, space_of(&e, plan->desc->u.roi.ratio));
}

static crema_status run(const cr_call *call, int map, int result, cr_roi_task_fn *task) {
  const cr_roi_job j = cr_roi_job_of(call, map, result);
  CR_TRY(fill_table(&j));
  return cr_roi_run(call, &j, j.e.images, j.e.channels, space_of(&j.e, j.ratio), task);
}

static crema_status roi_align_fwd_plan(cr_plan *plan) {
  return plan_roi(plan, 0, 2);
}

static crema_status roi_align_bwd_plan(cr_plan *plan) {
  return plan_roi(plan, 2, 0);
}

static crema_status roi_align_fwd(const cr_call *call) {
  return run(call, 0, 2, forward_block);
}

static crema_status roi_align_bwd(const cr_call *call) {
  return run(call, 2, 0, backward_block);
}

CR_REF_KERNEL(roi_align_fwd, ROI_ALIGN_FWD, .plan = roi_align_fwd_plan, .run = roi_align_fwd);
CR_REF_KERNEL(roi_align_bwd, ROI_ALIGN_BWD, .plan = roi_align_bwd_plan, .run = roi_align_bwd);
