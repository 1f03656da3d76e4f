/* ROI pooling of floats, in blocks of 16 channels.
 *
 * Gain over roi_pool.c on AMD EPYC (Zen 5), two threads: 40x forward and 23x backward in the
 * ROIPooling row of bench/layers. Its 128 regions have 14 x 14 cells in 1,024 channels of 38 x 63,
 * as Faster R-CNN has.
 *
 * Backward finds each maximum again: that takes less time than reading an index per value. */
#define CR_REF_F32
#include "device/cpu/kernels/roi_fast.h"

/* The maximum of a cell, for each channel of a line. */
CR_INLINE void find_maximum(const cr_roi_line *map, int64_t width, cr_roi_span y, cr_roi_span x,
                            float *top) {
  const cr_roi_line none = {0}, *first = &map[y.begin * width + x.begin];
  *(cr_roi_line *)top = y.begin < y.end && x.begin < x.end ? *first : none;
  for (int64_t h = y.begin; h < y.end; ++h) {
    const float *line = (const float *)&map[h * width + x.begin];
    for (int64_t w = x.begin; w < x.end; ++w, line += CR_ROI_BLOCK) {
#pragma omp simd
      for (int l = 0; l < CR_ROI_BLOCK; ++l) top[l] = line[l] > top[l] ? line[l] : top[l];
    }
  }
}

CR_INLINE void pool_cell(const cr_roi_job *j, const cr_roi_place *cell) {
  const cr_roi_span *y = cr_roi_spans_of(j, cell->region), *x = y + j->e.rows;
  find_maximum(cell->map, j->e.width, y[cell->row], x[cell->column], (float *)cell->line);
}

CR_CLONES static void forward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  cr_roi_block(j, image, first, lines, pool_cell);
}

/* Adds a cell's gradient to the first position that has its maximum. `left`: the gradient; is used
 * up.
 */
CR_INLINE void give_to_maximum(const cr_roi_line *map, int64_t width, cr_roi_span y, cr_roi_span x,
                               float *left, cr_roi_line *sums) {
  float top[CR_ROI_BLOCK];
  find_maximum(map, width, y, x, top);
  for (int64_t h = y.begin; h < y.end; ++h) {
    const float *line = (const float *)&map[h * width + x.begin];
    float *sum = (float *)&sums[h * width + x.begin];
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

CR_INLINE void give_cell(const cr_roi_job *j, const cr_roi_place *cell) {
  const cr_roi_span *y = cr_roi_spans_of(j, cell->region), *x = y + j->e.rows;
  give_to_maximum(cell->map, j->e.width, y[cell->row], x[cell->column], (float *)cell->line,
                  cell->sums);
}

CR_CLONES static void backward_block(const cr_roi_job *j, int64_t image, int64_t first,
                                     cr_roi_line *lines) {
  cr_roi_block(j, image, first, lines, give_cell);
}

static cr_roi_space space_of(const cr_roi_extents *e, int maps) {
  return (cr_roi_space){cr_roi_spans_bytes(e), cr_roi_block_lines(e, maps)};
}

static crema_status run(const cr_call *call, const cr_roi_job *j, int maps, cr_roi_task_fn *task) {
  CR_TRY(cr_roi_fill_spans(call->desc, j, cr_roi_pool_span));
  return cr_roi_run(call, j, j->e.images, j->e.channels, space_of(&j->e, maps), task);
}

static crema_status roi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(cr_roi_check(plan, 0, 2, false));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 2);
  return cr_roi_need(plan, e.images, e.channels, space_of(&e, 1));
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(cr_roi_check(plan, 3, 0, false));
  CR_TRY(cr_roi_check_source(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 3, 0);
  return cr_roi_need(plan, e.images, e.channels, space_of(&e, 2));
}

static crema_status roi_pool_fwd(const cr_call *call) {
  const cr_roi_job j = cr_roi_job_of(call, 0, 2);
  return run(call, &j, 1, forward_block);
}

static crema_status roi_pool_bwd(const cr_call *call) {
  const cr_roi_job j = cr_roi_job_of(call, 3, 0);
  return run(call, &j, 2, backward_block);
}

CR_KERNEL(roi_pool_fwd_fast, ROI_POOL_FWD, .plan = roi_pool_fwd_plan, .run = roi_pool_fwd);
CR_KERNEL(roi_pool_bwd_fast, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
