/* Mean over parts of regions of interest that have their own channels (Dai et al., "R-FCN", 2016).
 *
 *   dst[r][o][i][j] = mean of src[n][(o rows + i) columns + j] over cell (i, j) of region r; 0 if
 * it is empty
 *
 * A plane of the map belongs to one cell of one result. A task is a plane: it pools that cell of
 * all regions of its image. */
#include "device/cpu/kernels/roi.h"

/* Cell `index` of `cells` of the region's side from `low` to `high`, which is half open. */
static cr_roi_span span_of(cr_real low, cr_real high, double scale, int64_t cells, int64_t index,
                           int64_t extent) {
  const double begin = round((double)low) * scale, end = (round((double)high) + 1) * scale;
  const double size = (end - begin < 0.1 ? 0.1 : end - begin) / (double)cells;
  return (cr_roi_span){cr_roi_clip(floor((double)index * size + begin), extent),
                       cr_roi_clip(ceil((double)(index + 1) * size + begin), extent)};
}

/* The spans of region r: of each row of cells, then of each column. */
static cr_roi_span *spans_of(const cr_roi_job *j, int64_t r) {
  return (cr_roi_span *)j->table + r * (j->e.rows + j->e.columns);
}

static crema_status fill_table(const cr_roi_job *j) {
  const cr_roi_extents *e = &j->e;
  CR_TRY(cr_roi_check_images(e, j->rois));
  for (int64_t r = 0; r < e->regions; ++r) {
    const cr_real *roi = j->rois + 5 * r;
    cr_roi_span *out = spans_of(j, r);
    for (int64_t i = 0; i < e->rows; ++i) {
      *out++ = span_of(roi[2], roi[4], j->scale, e->rows, i, e->height);
    }
    for (int64_t i = 0; i < e->columns; ++i) {
      *out++ = span_of(roi[1], roi[3], j->scale, e->columns, i, e->width);
    }
  }
  return CREMA_OK;
}

CR_INLINE cr_real sum_of(const cr_real *plane, int64_t width, cr_roi_span y, cr_roi_span x) {
  cr_real sum = 0;
  for (int64_t h = y.begin; h < y.end; ++h) {
    for (int64_t w = x.begin; w < x.end; ++w) sum += plane[h * width + w];
  }
  return sum;
}

CR_INLINE void add_to(cr_real *plane, int64_t width, cr_roi_span y, cr_roi_span x, cr_real value) {
  for (int64_t h = y.begin; h < y.end; ++h) {
    for (int64_t w = x.begin; w < x.end; ++w) plane[h * width + w] += value;
  }
}

/* Plane `index` of the map or, backward, of its gradient. */
CR_CLONES static void pool_plane(const cr_roi_job *j, int64_t index) {
  const cr_roi_extents *e = &j->e;
  const int64_t image = index / e->channels, channel = index % e->channels;
  const int64_t row = channel / e->columns % e->rows, column = channel % e->columns;
  const int64_t plane = e->height * e->width;
  if (j->diff_src != NULL) memset(j->diff_src + index * plane, 0, (size_t)plane * sizeof(cr_real));
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != image) continue;
    const cr_roi_span y = spans_of(j, r)[row], x = spans_of(j, r)[e->rows + column];
    const bool empty = y.end <= y.begin || x.end <= x.begin;
    const cr_real share =
        empty ? 0 : (cr_real)(1 / (double)((y.end - y.begin) * (x.end - x.begin)));
    const int64_t at = r * e->channels + channel;
    if (j->dst != NULL) j->dst[at] = share * sum_of(j->src + index * plane, e->width, y, x);
    else add_to(j->diff_src + index * plane, e->width, y, x, share * j->diff_dst[at]);
  }
}

static crema_status plan_parts(cr_plan *plan, int map, int result) {
  CR_TRY(cr_roi_check(plan, map, result, true));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, map, result);
  plan->workspace_bytes = (size_t)(e.regions * (e.rows + e.columns)) * sizeof(cr_roi_span);
  return CREMA_OK;
}

static crema_status run(const cr_call *call, int map, int result) {
  const cr_roi_job j = cr_roi_job_of(call, map, result);
  const int64_t planes = j.e.images * j.e.channels;
  CR_TRY(fill_table(&j));
#pragma omp parallel for schedule(static) if (j.e.regions * j.e.channels >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t i = 0; i < planes; ++i) pool_plane(&j, i);
  return CREMA_OK;
}

static crema_status psroi_pool_fwd_plan(cr_plan *plan) {
  return plan_parts(plan, 0, 2);
}

static crema_status psroi_pool_bwd_plan(cr_plan *plan) {
  return plan_parts(plan, 2, 0);
}

static crema_status psroi_pool_fwd(const cr_call *call) {
  return run(call, 0, 2);
}

static crema_status psroi_pool_bwd(const cr_call *call) {
  return run(call, 2, 0);
}

CR_REF_KERNEL(psroi_pool_fwd, PSROI_POOL_FWD, .plan = psroi_pool_fwd_plan, .run = psroi_pool_fwd);
CR_REF_KERNEL(psroi_pool_bwd, PSROI_POOL_BWD, .plan = psroi_pool_bwd_plan, .run = psroi_pool_bwd);
