/* Mean over parts of regions of interest that have their own channels (Dai et al., "R-FCN", 2016).
 *
 *   dst[r][o][i][j] = mean of src[n][(o rows + i) columns + j] over cell (i, j) of region r of
 *                     image n; 0 for an empty cell */
#include "device/cpu/kernels/roi.h"

/* The positions of cell (i, j) of a region: rows y and columns x. */
typedef struct part {
  cr_roi_span y, x;
  cr_real share; /* 1 / the number of positions; 0 for an empty cell */
} part;

static part part_of(const cr_roi_extents *e, double scale, const cr_real *roi, int64_t i,
                    int64_t j) {
  part p = {cr_psroi_pool_span(roi[2], roi[4], scale, e->rows, i, e->height),
            cr_psroi_pool_span(roi[1], roi[3], scale, e->columns, j, e->width), 0};
  if (p.y.end > p.y.begin && p.x.end > p.x.begin) {
    p.share = (cr_real)(1 / (double)((p.y.end - p.y.begin) * (p.x.end - p.x.begin)));
  }
  return p;
}

static crema_status plan_fwd(cr_plan *plan) {
  return cr_roi_check(plan, 0, 2, true);
}

/* src, rois, dst. */
static crema_status psroi_pool_fwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 0, 2);
  const double scale = (double)call->desc->u.roi.scale;
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  CR_TRY(cr_roi_check_images(&e, rois));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 2) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t v = 0; v < e.regions * e.channels; ++v) {
    const cr_real *roi = rois + 5 * (v / e.channels);
    const int64_t c = v % e.channels, i = c / e.columns % e.rows, j = c % e.columns;
    const cr_real *plane = src + ((int64_t)roi[0] * e.channels + c) * e.height * e.width;
    const part p = part_of(&e, scale, roi, i, j);
    cr_real sum = 0;
    for (int64_t h = p.y.begin; h < p.y.end; ++h) {
      for (int64_t w = p.x.begin; w < p.x.end; ++w) sum += plane[h * e.width + w];
    }
    dst[v] = p.share * sum;
  }
  return CREMA_OK;
}

static crema_status plan_bwd(cr_plan *plan) {
  return cr_roi_check(plan, 2, 0, true);
}

/* diff_dst, rois, diff_src. */
static crema_status psroi_pool_bwd(const cr_call *call) {
  const cr_roi_extents e = cr_roi_extents_of(call->desc, 2, 0);
  const double scale = (double)call->desc->u.roi.scale;
  const int64_t area = e.height * e.width;
  const cr_real *diff = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  CR_TRY(cr_roi_check_images(&e, rois));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t m = 0; m < e.images * e.channels; ++m) {
    const int64_t c = m % e.channels, i = c / e.columns % e.rows, j = c % e.columns;
    cr_real *plane = cr_as_reals(call->buffer, 2) + m * area;
    memset(plane, 0, (size_t)area * sizeof *plane);
    for (int64_t r = 0; r < e.regions; ++r) {
      const cr_real *roi = rois + 5 * r;
      if ((int64_t)roi[0] != m / e.channels) continue;
      const part p = part_of(&e, scale, roi, i, j);
      for (int64_t h = p.y.begin; h < p.y.end; ++h) {
        for (int64_t w = p.x.begin; w < p.x.end; ++w) {
          plane[h * e.width + w] += p.share * diff[r * e.channels + c];
        }
      }
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(psroi_pool_fwd, PSROI_POOL_FWD, .plan = plan_fwd, .run = psroi_pool_fwd);
CR_REF_KERNEL(psroi_pool_bwd, PSROI_POOL_BWD, .plan = plan_bwd, .run = psroi_pool_bwd);
