/* Pooling over regions of interest: the largest value of each part of a region (Girshick, "Fast
 * R-CNN", 2015), means of parts that have channels of their own (Dai et al., "R-FCN", 2016), and
 * means of interpolated values (He et al., "Mask R-CNN", 2017).
 *
 * A region is five numbers: the index of its image, then left, top, right and bottom in pixels of
 * the net's input, which u.roi.scale brings to the map. Gradients are summed by the thread that has
 * the channel, so that sums have one order. */
#include "core/fail.h"
#include "device/cpu/ref_type.h"

/* The map (N,C,H,W), the regions (R,5), the result (R,C',h,w). */
typedef struct extents {
  int64_t images, channels, height, width;
  int64_t regions, results, rows, columns;
} extents;

static extents extents_of(const cr_op_desc *desc, int map, int rois, int result) {
  const int64_t *m = desc->arg[map].shape.dim, *r = desc->arg[result].shape.dim;
  return (extents){m[0], m[1], m[2], m[3], desc->arg[rois].shape.dim[0], r[1], r[2], r[3]};
}

static crema_status check(const cr_plan *plan, int map, int rois, int result) {
  const cr_op_arg *arg = plan->desc->arg;
  const int64_t *to = arg[result].shape.dim;
  const bool parts =
      plan->desc->kind == CR_OP_PSROI_POOL_FWD || plan->desc->kind == CR_OP_PSROI_POOL_BWD;
  if (arg[map].shape.axes == 4 && arg[rois].shape.axes == 2 && arg[result].shape.axes == 4 &&
      arg[rois].shape.dim[1] == 5 && to[0] == arg[rois].shape.dim[0] &&
      arg[map].shape.dim[1] == (parts ? to[1] * to[2] * to[3] : to[1])) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: shapes of map, regions and result do not fit",
                 cr_op_kind_name(plan->desc->kind));
}

static crema_status fwd_plan(cr_plan *plan) {
  return check(plan, 0, 1, 2);
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  return check(plan, 3, 1, 0);
}

static crema_status bwd_plan(cr_plan *plan) {
  return check(plan, 2, 1, 0);
}

static crema_status check_images(const extents *e, const cr_real *rois) {
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = rois + 5 * r;
    if (!(roi[0] >= 0 && roi[0] < (cr_real)e->images)) {
      return cr_fail(CREMA_E_RANGE, "region %lld is of image %g, and there are %lld", (long long)r,
                     (double)roi[0], (long long)e->images);
    }
    for (int i = 1; i < 5; ++i) {
      if (fabs(roi[i]) <= 1e9) continue;
      return cr_fail(CREMA_E_RANGE, "region %lld has a side at %g", (long long)r, (double)roi[i]);
    }
  }
  return CREMA_OK;
}

static int64_t cut(int64_t x, int64_t most) {
  return x < 0 ? 0 : x > most ? most : x;
}

/* Half open. */
typedef struct span {
  int64_t begin, end;
} span;

/* ---- the largest value --------------------------------------------------- */

/* Part `index` of `parts` of the region's side from `low` to `high`, both included. */
static span pool_span(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                      int64_t extent) {
  const double begin = round((double)low * scale), end = round((double)high * scale);
  const double length = end - begin + 1 < 1 ? 1 : end - begin + 1;
  /* In single precision, as the definition has it: parts of, say, 7 / 7 rows depend on it. */
  const float size = (float)length / (float)parts;
  const double from = floor((double)((float)index * size)),
               to = ceil((double)((float)(index + 1) * size));
  return (span){cut((int64_t)(from + begin), extent), cut((int64_t)(to + begin), extent)};
}

/* src, rois, dst, aux: the index of the largest value in its plane, or -1. */
static crema_status roi_pool_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 1, 2);
  const double scale = (double)call->desc->u.roi.scale;
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  int32_t *aux = (int32_t *)call->buffer[3].address;
  CR_TRY(check_images(&e, rois));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 2) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t k = 0; k < e.regions * e.channels; ++k) {
    const cr_real *roi = rois + k / e.channels * 5;
    const cr_real *plane =
        src + ((int64_t)roi[0] * e.channels + k % e.channels) * e.height * e.width;
    for (int64_t cell = 0; cell < e.rows * e.columns; ++cell) {
      const span y = pool_span(roi[2], roi[4], scale, e.rows, cell / e.columns, e.height);
      const span x = pool_span(roi[1], roi[3], scale, e.columns, cell % e.columns, e.width);
      int64_t best = -1;
      for (int64_t i = y.begin; i < y.end; ++i) {
        for (int64_t j = x.begin; j < x.end; ++j) {
          const int64_t at = i * e.width + j;
          if (best < 0 || plane[at] > plane[best]) best = at;
        }
      }
      dst[k * e.rows * e.columns + cell] = best < 0 ? 0 : plane[best];
      aux[k * e.rows * e.columns + cell] = (int32_t)best;
    }
  }
  return CREMA_OK;
}

/* diff_dst, rois, aux, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 3, 1, 0);
  const int64_t cells = e.rows * e.columns, plane = e.height * e.width;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  const int32_t *aux = (const int32_t *)call->buffer[2].address;
  cr_real *diff_src = cr_as_reals(call->buffer, 3);
  CR_TRY(check_images(&e, rois));
  memset(diff_src, 0, (size_t)(e.images * e.channels * plane) * sizeof *diff_src);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < e.channels; ++c) {
    for (int64_t r = 0; r < e.regions; ++r) {
      cr_real *to = diff_src + ((int64_t)rois[5 * r] * e.channels + c) * plane;
      const int64_t from = (r * e.channels + c) * cells;
      for (int64_t cell = 0; cell < cells; ++cell) {
        if (aux[from + cell] >= 0 && aux[from + cell] < plane) {
          to[aux[from + cell]] += diff_dst[from + cell];
        }
      }
    }
  }
  return CREMA_OK;
}

/* ---- means of parts ------------------------------------------------------ */

static span part_span(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                      int64_t extent) {
  const double begin = round((double)low) * scale, end = (round((double)high) + 1) * scale;
  const double length = end - begin < 0.1 ? 0.1 : end - begin, size = length / (double)parts;
  const double from = floor((double)index * size + begin);
  const double to = ceil((double)(index + 1) * size + begin);
  return (span){cut((int64_t)from, extent), cut((int64_t)to, extent)};
}

/* One cell of the result: its source's plane and window. */
typedef struct part {
  int64_t plane; /* index of (image, channel) */
  span y, x;
  double area;
} part;

static part part_of(const extents *e, double scale, const cr_real *rois, int64_t index) {
  const int64_t cells = e->rows * e->columns, cell = index % cells;
  const int64_t o = index / cells % e->results;
  const cr_real *roi = rois + 5 * (index / cells / e->results);
  part p;
  p.plane = (int64_t)roi[0] * e->channels + o * cells + cell;
  p.y = part_span(roi[2], roi[4], scale, e->rows, cell / e->columns, e->height);
  p.x = part_span(roi[1], roi[3], scale, e->columns, cell % e->columns, e->width);
  const bool empty = p.y.end <= p.y.begin || p.x.end <= p.x.begin;
  p.area = empty ? 0 : (double)((p.y.end - p.y.begin) * (p.x.end - p.x.begin));
  return p;
}

/* src, rois, dst. */
static crema_status psroi_pool_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 1, 2);
  const double scale = (double)call->desc->u.roi.scale;
  const int64_t count = cr_op_arg_count(call->desc, 2);
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  CR_TRY(check_images(&e, rois));
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN / 16)
  for (int64_t k = 0; k < count; ++k) {
    const part p = part_of(&e, scale, rois, k);
    const cr_real *plane = src + p.plane * e.height * e.width;
    double sum = 0;
    for (int64_t i = p.y.begin; i < p.y.end; ++i) {
      for (int64_t j = p.x.begin; j < p.x.end; ++j) sum += (double)plane[i * e.width + j];
    }
    dst[k] = p.area > 0 ? (cr_real)(sum / p.area) : 0;
  }
  return CREMA_OK;
}

/* diff_dst, rois, diff_src. Each plane belongs to one cell of one result. */
static crema_status psroi_pool_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 2, 1, 0);
  const double scale = (double)call->desc->u.roi.scale;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t all = e.images * e.channels * e.height * e.width;
  CR_TRY(check_images(&e, rois));
  memset(diff_src, 0, (size_t)all * sizeof *diff_src);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t c = 0; c < e.channels; ++c) {
    for (int64_t r = 0; r < e.regions; ++r) {
      const part p = part_of(&e, scale, rois, r * e.channels + c);
      cr_real *plane = diff_src + p.plane * e.height * e.width;
      const double share = p.area > 0 ? (double)diff_dst[r * e.channels + c] / p.area : 0;
      for (int64_t i = p.y.begin; i < p.y.end; ++i) {
        for (int64_t j = p.x.begin; j < p.x.end; ++j) plane[i * e.width + j] += (cr_real)share;
      }
    }
  }
  return CREMA_OK;
}

/* ---- means of interpolated values ---------------------------------------- */

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
  if (at < -1 || at > (double)extent) return false;
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

/* The mean of the plane around one cell, or (`share` not 0) its share added to the plane. */
static double align_cell(const extents *e, const samples *y, const samples *x, int64_t row,
                         int64_t column, const cr_real *plane, double share, cr_real *diff) {
  double sum = 0;
  for (int64_t i = 0; i < y->count; ++i) {
    const double at_y = y->begin + y->size * ((double)row + ((double)i + 0.5) / (double)y->count);
    int64_t y0 = 0, y1 = 0;
    double wy = 0;
    if (!neighbours(at_y, e->height, &y0, &y1, &wy)) continue;
    for (int64_t j = 0; j < x->count; ++j) {
      const double at_x =
          x->begin + x->size * ((double)column + ((double)j + 0.5) / (double)x->count);
      int64_t x0 = 0, x1 = 0;
      double wx = 0;
      if (!neighbours(at_x, e->width, &x0, &x1, &wx)) continue;
      const int64_t at[4] = {y0 * e->width + x0, y0 * e->width + x1, y1 * e->width + x0,
                             y1 * e->width + x1};
      const double weight[4] = {(1 - wy) * (1 - wx), (1 - wy) * wx, wy * (1 - wx), wy * wx};
      for (int k = 0; k < 4; ++k) {
        if (diff != NULL) diff[at[k]] += (cr_real)(weight[k] * share);
        else sum += weight[k] * (double)plane[at[k]];
      }
    }
  }
  return sum;
}

static double samples_in(const samples *y, const samples *x) {
  const double count = (double)y->count * (double)x->count;
  return count > 0 ? count : 1;
}

/* Regions of a million pixels a side are no regions: their samples would never end. */
static crema_status check_samples(const extents *e, const cr_real *rois, const cr_op_desc *desc) {
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

/* src, rois, dst. */
static crema_status roi_align_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 1, 2);
  const double scale = (double)call->desc->u.roi.scale;
  const int ratio = call->desc->u.roi.ratio;
  const cr_real *src = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  CR_TRY(check_images(&e, rois));
  CR_TRY(check_samples(&e, rois, call->desc));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 2) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t k = 0; k < e.regions * e.channels; ++k) {
    const cr_real *roi = rois + k / e.channels * 5;
    const samples y = samples_of(roi[2], roi[4], scale, e.rows, ratio);
    const samples x = samples_of(roi[1], roi[3], scale, e.columns, ratio);
    const cr_real *plane =
        src + ((int64_t)roi[0] * e.channels + k % e.channels) * e.height * e.width;
    for (int64_t cell = 0; cell < e.rows * e.columns; ++cell) {
      const double sum = align_cell(&e, &y, &x, cell / e.columns, cell % e.columns, plane, 0, NULL);
      dst[k * e.rows * e.columns + cell] = (cr_real)(sum / samples_in(&y, &x));
    }
  }
  return CREMA_OK;
}

/* diff_dst, rois, diff_src. */
static crema_status roi_align_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 2, 1, 0);
  const double scale = (double)call->desc->u.roi.scale;
  const int ratio = call->desc->u.roi.ratio;
  const int64_t cells = e.rows * e.columns, all = e.images * e.channels * e.height * e.width;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *rois = cr_as_reals(call->buffer, 1);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  CR_TRY(check_images(&e, rois));
  CR_TRY(check_samples(&e, rois, call->desc));
  memset(diff_src, 0, (size_t)all * sizeof *diff_src);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t c = 0; c < e.channels; ++c) {
    for (int64_t r = 0; r < e.regions; ++r) {
      const cr_real *roi = rois + 5 * r;
      const samples y = samples_of(roi[2], roi[4], scale, e.rows, ratio);
      const samples x = samples_of(roi[1], roi[3], scale, e.columns, ratio);
      cr_real *plane = diff_src + ((int64_t)roi[0] * e.channels + c) * e.height * e.width;
      for (int64_t cell = 0; cell < cells; ++cell) {
        const double share =
            (double)diff_dst[(r * e.channels + c) * cells + cell] / samples_in(&y, &x);
        align_cell(&e, &y, &x, cell / e.columns, cell % e.columns, NULL, share, plane);
      }
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = fwd_plan, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
CR_REF_KERNEL(psroi_pool_fwd, PSROI_POOL_FWD, .plan = fwd_plan, .run = psroi_pool_fwd);
CR_REF_KERNEL(psroi_pool_bwd, PSROI_POOL_BWD, .plan = bwd_plan, .run = psroi_pool_bwd);
CR_REF_KERNEL(roi_align_fwd, ROI_ALIGN_FWD, .plan = fwd_plan, .run = roi_align_fwd);
CR_REF_KERNEL(roi_align_bwd, ROI_ALIGN_BWD, .plan = bwd_plan, .run = roi_align_bwd);
