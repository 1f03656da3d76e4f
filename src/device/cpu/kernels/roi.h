/* Regions of interest, for the kernels that pool them.
 *
 * A region is five numbers: the index of its image, then left, top, right and bottom in pixels of
 * the net's input; u.roi.scale brings them to the map. Each region is divided into rows x columns
 * cells, and each cell gives one value per channel. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_H
#define CR_DEVICE_CPU_KERNELS_ROI_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"

/* The map (N,C,H,W), the regions (R,5), the result (R,C',rows,columns). */
typedef struct cr_roi_extents {
  int64_t images, channels, height, width;
  int64_t regions, results, rows, columns;
} cr_roi_extents;

/* Positions [begin, end) of the map along one axis. */
typedef struct cr_roi_span {
  int64_t begin, end;
} cr_roi_span;

static inline cr_roi_extents cr_roi_extents_of(const cr_op_desc *desc, int map, int result) {
  const int64_t *m = desc->arg[map].shape.dim, *r = desc->arg[result].shape.dim;
  return (cr_roi_extents){m[0], m[1], m[2], m[3], desc->arg[1].shape.dim[0], r[1], r[2], r[3]};
}

/* `own_channels`: each cell of the result reads its own channel of the map. */
static inline crema_status cr_roi_check(const cr_plan *plan, int map, int result,
                                        bool own_channels) {
  const cr_op_arg *arg = plan->desc->arg;
  const int64_t *to = arg[result].shape.dim, *rois = arg[1].shape.dim;
  if (arg[map].shape.axes == 4 && arg[1].shape.axes == 2 && arg[result].shape.axes == 4 &&
      rois[1] == 5 && to[0] == rois[0] &&
      arg[map].shape.dim[1] == (own_channels ? to[1] * to[2] * to[3] : to[1])) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: shapes of map, regions and result do not fit",
                 cr_op_kind_name(plan->desc->kind));
}

/* Backward max pooling reads the map, argument 2, whose gradient is argument 3. */
static inline crema_status cr_roi_check_source(const cr_plan *plan) {
  if (cr_op_arg_count(plan->desc, 2) == cr_op_arg_count(plan->desc, 3)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: a map of %d axes and its gradient do not fit",
                 cr_op_kind_name(plan->desc->kind), plan->desc->arg[2].shape.axes);
}

static inline crema_status cr_roi_check_images(const cr_roi_extents *e, const cr_real *rois) {
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

static inline int64_t cr_roi_clip(double x, int64_t most) {
  return x < 0 ? 0 : x > (double)most ? most : (int64_t)x;
}

/* A region with u.roi.pad of its sides added to both ends. A side includes its end. */
static inline void cr_roi_pad(const cr_op_desc *desc, const cr_real *roi, cr_real out[5]) {
  const cr_real pad = (cr_real)desc->u.roi.pad;
  const cr_real width = (roi[3] - roi[1] + 1) * pad, height = (roi[4] - roi[2] + 1) * pad;
  memcpy(out, roi, 5 * sizeof *out);
  if (pad == 0) return; /* also keeps the last bit of sides beyond the 24 bits of a float */
  out[1] -= width;
  out[2] -= height;
  out[3] += width;
  out[4] += height;
}

/* The cells of ROI pooling. The region's side includes `high`. Cells overlap if the side is no
 * multiple of their number. */
static inline cr_roi_span cr_roi_pool_span(cr_real low, cr_real high, double scale, int64_t cells,
                                           int64_t index, int64_t extent) {
  const double begin = round((double)low * scale), length = round((double)high * scale) - begin + 1;
  /* In single precision, as in Caffe: whether 7 / 7 rows are one row or two depends on it. */
  const float size = (float)(length < 1 ? 1 : length) / (float)cells;
  return (cr_roi_span){cr_roi_clip(floor((double)((float)index * size)) + begin, extent),
                       cr_roi_clip(ceil((double)((float)(index + 1) * size)) + begin, extent)};
}

/* The cells of position-sensitive ROI pooling. The region's side is half open. */
static inline cr_roi_span cr_psroi_pool_span(cr_real low, cr_real high, double scale, int64_t cells,
                                             int64_t index, int64_t extent) {
  const double begin = round((double)low) * scale, end = (round((double)high) + 1) * scale;
  const double size = (end - begin < 0.1 ? 0.1 : end - begin) / (double)cells;
  return (cr_roi_span){cr_roi_clip(floor((double)index * size + begin), extent),
                       cr_roi_clip(ceil((double)(index + 1) * size + begin), extent)};
}

/* The samples of ROIAlign: each cell takes `count` along one side. */
typedef struct cr_roi_samples {
  double begin, size; /* of the region; of a cell */
  int64_t count;
} cr_roi_samples;

static inline cr_roi_samples cr_roi_samples_of(cr_real low, cr_real high, double scale,
                                               int64_t cells, int ratio) {
  const double begin = (double)low * scale, length = (double)high * scale - begin;
  const double size = (length < 1 ? 1 : length) / (double)cells;
  return (cr_roi_samples){begin, size, ratio > 0 ? ratio : (int64_t)ceil(size)};
}

/* Sample k of cell i. */
static inline double cr_roi_sample(const cr_roi_samples *s, int64_t i, int64_t k) {
  return s->begin + s->size * ((double)i + ((double)k + 0.5) / (double)s->count);
}

/* The neighbours of a sample along one side, with the weights 1 - rest and rest. */
typedef struct cr_roi_neighbours {
  int64_t low, high;
  double rest;
} cr_roi_neighbours;

/* Returns false for samples more than one position outside of the map, which count as 0. */
static inline bool cr_roi_neighbours_of(double where, int64_t extent, cr_roi_neighbours *out) {
  if (extent == 0 || where < -1 || where > (double)extent) return false;
  const double last = (double)(extent - 1), at = where <= 0 ? 0 : where > last ? last : where;
  const int64_t low = (int64_t)at;
  *out = (cr_roi_neighbours){low, low + 1 < extent ? low + 1 : low, at - (double)low};
  return true;
}

static inline crema_status cr_roi_check_samples(const cr_roi_extents *e, const cr_real *rois,
                                                double scale, int ratio) {
  CR_TRY(cr_roi_check_images(e, rois));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = rois + 5 * r;
    const int64_t y = cr_roi_samples_of(roi[2], roi[4], scale, e->rows, ratio).count;
    const int64_t x = cr_roi_samples_of(roi[1], roi[3], scale, e->columns, ratio).count;
    if (y <= 4096 && x <= 4096) continue;
    return cr_fail(CREMA_E_RANGE, "region %lld would take %lld x %lld samples for each value",
                   (long long)r, (long long)y, (long long)x);
  }
  return CREMA_OK;
}

#endif
