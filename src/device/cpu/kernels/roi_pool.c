/* Max pooling over regions of interest (Girshick, "Fast R-CNN", 2015).
 *
 *   dst[r][c][i][j] = maximum of src[n][c] over cell (i, j) of region r of image n; 0 for an empty
 *                     cell
 *
 * The gradient goes to the first of equal maxima. NaN loses against each number after it; a cell
 * that begins with NaN is NaN. */
#include "device/cpu/kernels/roi.h"

/* The position in a plane of the maximum of cell (i, j); -1: the cell is empty. */
static int64_t find_maximum(const cr_roi_extents *e, const cr_op_desc *desc, const cr_real *region,
                            int64_t i, int64_t j, const cr_real *plane) {
  const double scale = (double)desc->u.roi.scale;
  cr_real roi[5];
  cr_roi_pad(desc, region, roi);
  const cr_roi_span y = cr_roi_pool_span(roi[2], roi[4], scale, e->rows, i, e->height);
  const cr_roi_span x = cr_roi_pool_span(roi[1], roi[3], scale, e->columns, j, e->width);
  int64_t best = -1;
  for (int64_t h = y.begin; h < y.end; ++h) {
    for (int64_t w = x.begin; w < x.end; ++w) {
      const int64_t at = h * e->width + w;
      if (best < 0 || plane[at] > plane[best]) best = at;
    }
  }
  return best;
}

static crema_status plan_fwd(cr_plan *plan) {
  return cr_roi_check(plan, 0, 2, false);
}

/* src, rois, dst. */
static crema_status roi_pool_fwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 0, 2);
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  CR_TRY(cr_roi_check_images(&e, rois));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 2) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t p = 0; p < e.regions * e.channels; ++p) {
    const cr_real *roi = rois + 5 * (p / e.channels);
    const int64_t from = (int64_t)roi[0] * e.channels + p % e.channels;
    const cr_real *plane = src + from * e.height * e.width;
    cr_real *dst = cr_as_reals(call->buffer, 2) + p * e.rows * e.columns;
    for (int64_t cell = 0; cell < e.rows * e.columns; ++cell) {
      const int64_t best =
          find_maximum(&e, call->desc, roi, cell / e.columns, cell % e.columns, plane);
      dst[cell] = best < 0 ? 0 : plane[best];
    }
  }
  return CREMA_OK;
}

static crema_status plan_bwd(cr_plan *plan) {
  CR_TRY(cr_roi_check(plan, 3, 0, false));
  return cr_roi_check_source(plan);
}

/* diff_dst, rois, src, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 3, 0);
  const int64_t area = e.height * e.width, cells = e.rows * e.columns;
  const cr_real *diff = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  CR_TRY(cr_roi_check_images(&e, rois));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t p = 0; p < e.images * e.channels; ++p) {
    const cr_real *plane = cr_as_reals(call->buffer, 2) + p * area;
    cr_real *sum = cr_as_reals(call->buffer, 3) + p * area;
    memset(sum, 0, (size_t)area * sizeof *sum);
    for (int64_t r = 0; r < e.regions; ++r) {
      const cr_real *roi = rois + 5 * r;
      if ((int64_t)roi[0] != p / e.channels) continue;
      for (int64_t cell = 0; cell < cells; ++cell) {
        const int64_t best =
            find_maximum(&e, call->desc, roi, cell / e.columns, cell % e.columns, plane);
        if (best >= 0) sum[best] += diff[(r * e.channels + p % e.channels) * cells + cell];
      }
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = plan_fwd, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = plan_bwd, .run = roi_pool_bwd);
