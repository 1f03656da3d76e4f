/* Position-sensitive ROI pooling of floats, in blocks of 16 results.
 *
 * Gain over psroi_pool.c on AMD EPYC (Zen 5), two threads: 10x in the PSROIPooling row of
 * bench/layers, 300 regions of 7 x 7 cells with 21 results, as R-FCN has.
 *
 * A plane of the map belongs to one cell of one result. A task is a plane: it pools that cell of
 * all regions of its image. */
#define CR_REF_F32
#include "device/cpu/kernels/roi_fast.h"

/* Groups are the cells of each image. */
typedef struct result_group {
  int64_t image, row, column;
  int64_t results; /* of the block */
  int64_t step;    /* from the plane of a result to the next plane */
  int64_t plane;   /* where the first plane begins */
  int64_t value;   /* where region 0 has the first result's value */
} result_group;

static result_group group_of(const cr_roi_extents *e, int64_t index, int64_t first) {
  const int64_t cells = e->rows * e->columns, plane = e->height * e->width, cell = index % cells;
  return (result_group){.image = index / cells,
                        .row = cell / e->columns,
                        .column = cell % e->columns,
                        .results = cr_roi_planes(e->results, first),
                        .step = cells * plane,
                        .plane = (index / cells * e->channels + first * cells + cell) * plane,
                        .value = first * cells + cell};
}

/* Pools a block of results in the same cell of all regions; or, backward, adds their gradients. */
CR_INLINE void pool_block(const cr_roi_job *j, int64_t index, int64_t first, bool forward,
                          cr_roi_line *lines) {
  const cr_roi_extents *e = &j->e;
  const result_group g = group_of(e, index, first);
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  if (forward) cr_roi_to_lines(g.results, plane, g.step, j->src + g.plane, lines);
  else memset(lines, 0, (size_t)plane * sizeof *lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != g.image) continue;
    const cr_roi_span y = cr_roi_spans_of(j, r)[g.row],
                      x = cr_roi_spans_of(j, r)[e->rows + g.column];
    const int64_t count =
        y.end > y.begin && x.end > x.begin ? (y.end - y.begin) * (x.end - x.begin) : 0;
    const float share = count == 0 ? 0 : (float)(1 / (double)count);
    const int64_t at = r * e->channels + g.value;
    cr_roi_line line = {0};
    for (int64_t o = 0; !forward && o < g.results; ++o)
      line[o] = share * j->diff_dst[at + o * cells];
    for (int64_t h = y.begin; h < y.end; ++h) {
      for (int64_t w = x.begin; w < x.end; ++w) {
        if (forward) line += lines[h * e->width + w];
        else lines[h * e->width + w] += line;
      }
    }
    for (int64_t o = 0; forward && o < g.results; ++o) j->dst[at + o * cells] = share * line[o];
  }
  if (!forward) cr_roi_to_planes(g.results, plane, g.step, lines, j->diff_src + g.plane);
}

CR_CLONES static void forward_block(const cr_roi_job *j, int64_t index, int64_t first,
                                    cr_roi_line *lines) {
  pool_block(j, index, first, true, lines);
}

CR_CLONES static void backward_block(const cr_roi_job *j, int64_t index, int64_t first,
                                     cr_roi_line *lines) {
  pool_block(j, index, first, false, lines);
}

static cr_roi_space space_of(const cr_roi_extents *e) {
  return (cr_roi_space){cr_roi_spans_bytes(e), e->height * e->width};
}

static crema_status plan_parts(cr_plan *plan, int map, int result) {
  CR_TRY(cr_roi_check(plan, map, result, true));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, map, result);
  return cr_roi_need(plan, e.images * e.rows * e.columns, e.results, space_of(&e));
}

static crema_status run(const cr_call *call, int map, int result, cr_roi_task_fn *task) {
  const cr_roi_job j = cr_roi_job_of(call, map, result);
  const cr_roi_extents *e = &j.e;
  CR_TRY(cr_roi_fill_spans(call->desc, &j, cr_psroi_pool_span));
  return cr_roi_run(call, &j, e->images * e->rows * e->columns, e->results, space_of(e), task);
}

static crema_status psroi_pool_fwd_plan(cr_plan *plan) {
  return plan_parts(plan, 0, 2);
}

static crema_status psroi_pool_bwd_plan(cr_plan *plan) {
  return plan_parts(plan, 2, 0);
}

static crema_status psroi_pool_fwd(const cr_call *call) {
  return run(call, 0, 2, forward_block);
}

static crema_status psroi_pool_bwd(const cr_call *call) {
  return run(call, 2, 0, backward_block);
}

CR_KERNEL(psroi_pool_fwd_fast, PSROI_POOL_FWD, .plan = psroi_pool_fwd_plan, .run = psroi_pool_fwd);
CR_KERNEL(psroi_pool_bwd_fast, PSROI_POOL_BWD, .plan = psroi_pool_bwd_plan, .run = psroi_pool_bwd);
