/* Mean of interpolated values over regions of interest (He et al., "Mask R-CNN", 2017).
 *
 *   dst[r][c][i][j] = mean of src[n][c] at the samples of cell (i, j) of region r of image n,
 *                     interpolated bilinearly
 *
 * The samples of a cell are a grid. A sample more than one position outside of the map counts as
 * 0. */
#include "device/cpu/kernels/roi.h"

/* Backward adds weight * gradient to the four neighbours of each sample of cell (i, j). Forward
 * (`sums` NULL) returns the weighted sum of the values of the four neighbours instead. */
static double visit_cell(const cr_roi_extents *e, const cr_roi_samples *y, const cr_roi_samples *x,
                         int64_t cell, const cr_real *plane, double gradient, cr_real *sums) {
  const double each = 1 / (double)(y->count * x->count);
  cr_roi_neighbours v, h;
  double mean = 0;
  for (int64_t k = 0; k < y->count * x->count; ++k) {
    const double down = cr_roi_sample(y, cell / e->columns, k / x->count);
    const double across = cr_roi_sample(x, cell % e->columns, k % x->count);
    if (!cr_roi_neighbours_of(down, e->height, &v)) continue;
    if (!cr_roi_neighbours_of(across, e->width, &h)) continue;
    const int64_t at[4] = {v.low * e->width + h.low, v.low * e->width + h.high,
                           v.high * e->width + h.low, v.high * e->width + h.high};
    const double weight[4] = {(1 - v.rest) * (1 - h.rest), (1 - v.rest) * h.rest,
                              v.rest * (1 - h.rest), v.rest * h.rest};
    for (int n = 0; n < 4; ++n) {
      if (sums == NULL) mean += each * weight[n] * (double)plane[at[n]];
      else sums[at[n]] += (cr_real)(each * weight[n] * gradient);
    }
  }
  return mean;
}

static crema_status plan_fwd(cr_plan *plan) {
  return cr_roi_check(plan, 0, 2, false);
}

/* src, rois, dst. */
static crema_status roi_align_fwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 0, 2);
  const double scale = (double)call->desc->u.roi.scale;
  const int ratio = call->desc->u.roi.ratio;
  const int64_t cells = e.rows * e.columns;
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  CR_TRY(cr_roi_check_samples(&e, rois, scale, ratio));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 2) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t p = 0; p < e.regions * e.channels; ++p) {
    const cr_real *roi = rois + 5 * (p / e.channels);
    const cr_roi_samples y = cr_roi_samples_of(roi[2], roi[4], scale, e.rows, ratio);
    const cr_roi_samples x = cr_roi_samples_of(roi[1], roi[3], scale, e.columns, ratio);
    const int64_t from = (int64_t)roi[0] * e.channels + p % e.channels;
    const cr_real *plane = src + from * e.height * e.width;
    for (int64_t i = 0; i < cells; ++i) {
      dst[p * cells + i] = (cr_real)visit_cell(&e, &y, &x, i, plane, 0, NULL);
    }
  }
  return CREMA_OK;
}

static crema_status plan_bwd(cr_plan *plan) {
  return cr_roi_check(plan, 2, 0, false);
}

/* diff_dst, rois, diff_src. */
static crema_status roi_align_bwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 2, 0);
  const double scale = (double)call->desc->u.roi.scale;
  const int ratio = call->desc->u.roi.ratio;
  const int64_t area = e.height * e.width, cells = e.rows * e.columns;
  const cr_real *diff = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  CR_TRY(cr_roi_check_samples(&e, rois, scale, ratio));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t p = 0; p < e.images * e.channels; ++p) {
    cr_real *sums = cr_as_reals(call->buffer, 2) + p * area;
    memset(sums, 0, (size_t)area * sizeof *sums);
    for (int64_t r = 0; r < e.regions; ++r) {
      const cr_real *roi = rois + 5 * r;
      if ((int64_t)roi[0] != p / e.channels) continue;
      const cr_roi_samples y = cr_roi_samples_of(roi[2], roi[4], scale, e.rows, ratio);
      const cr_roi_samples x = cr_roi_samples_of(roi[1], roi[3], scale, e.columns, ratio);
      const cr_real *from = diff + (r * e.channels + p % e.channels) * cells;
      for (int64_t i = 0; i < cells; ++i) visit_cell(&e, &y, &x, i, NULL, (double)from[i], sums);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(roi_align_fwd, ROI_ALIGN_FWD, .plan = plan_fwd, .run = roi_align_fwd);
CR_REF_KERNEL(roi_align_bwd, ROI_ALIGN_BWD, .plan = plan_bwd, .run = roi_align_bwd);
