/* Shared parts of the fast kernels that pool regions of interest.
 *
 * A block of channels of one image is copied to lines first: one line per position, with the values
 * of all channels of the block side by side. Loops over a line are loops over channels, which
 * vectorise. A thread has whole blocks, so that each gradient is summed in one order. */
#ifndef CR_DEVICE_CPU_KERNELS_ROI_FAST_H
#define CR_DEVICE_CPU_KERNELS_ROI_FAST_H

#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/roi.h"
#include "device/cpu/kernels/transpose.h"
#include "device/cpu/threads/threads.h"

/* Channels of a block: a cache line. */
enum { CR_ROI_BLOCK = 64 / (int)sizeof(float) };

/* Vectors are passed by address: how a function returns one depends on the processor. */
typedef float cr_roi_line __attribute__((vector_size(64), aligned(sizeof(float)), may_alias));

/* Lines: */

static inline int64_t cr_roi_planes(int64_t channels, int64_t first) {
  return channels - first < CR_ROI_BLOCK ? channels - first : CR_ROI_BLOCK;
}

/* `positions` values of each of `planes` planes to lines, and back. `step`: from a plane to the
 * next.
 */
CR_INLINE void cr_roi_to_lines(int64_t planes, int64_t positions, int64_t step, const float *from,
                               cr_roi_line *to) {
  cr_transpose(planes, positions, from, step, (float *)to, CR_ROI_BLOCK);
}

CR_INLINE void cr_roi_to_planes(int64_t planes, int64_t positions, int64_t step,
                                const cr_roi_line *from, float *to) {
  cr_transpose(positions, planes, (const float *)from, CR_ROI_BLOCK, to, step);
}

/* Tasks: */

/* Input of the threads of a run. Forward: src, rois, dst. Backward: diff_dst, rois, perhaps src,
 * diff_src. */
typedef struct cr_roi_job {
  cr_roi_extents e;
  double scale;
  int ratio;
  const float *rois, *src, *diff_dst;
  float *dst, *diff_src;
  void *table; /* of the kernel's own, in the workspace */
} cr_roi_job;

/* The workspace has a table that all threads read, then `lines` lines for each thread. */
typedef struct cr_roi_space {
  size_t table;
  int64_t lines;
} cr_roi_space;

/* A task is the block of `group` that begins with channel `first`. Groups are images, or what else
 * has channels that are pooled alike. */
typedef void cr_roi_task_fn(const cr_roi_job *job, int64_t group, int64_t first,
                            cr_roi_line *lines);

/* `map`: the argument that is the map, or its gradient; `result`: likewise. */
static inline cr_roi_job cr_roi_job_of(const cr_call *call, int map, int result) {
  cr_roi_job job = {.e = cr_roi_extents_of(call->desc, map, result),
                    .scale = (double)call->desc->u.roi.scale,
                    .ratio = call->desc->u.roi.ratio,
                    .rois = cr_as_reals(call->buffer, 1),
                    .table = (void *)call->workspace.address}; /* NOLINT: a host address */
  if (map < result) {
    job.src = cr_as_reals(call->buffer, map);
    job.dst = cr_as_reals(call->buffer, result);
  } else {
    job.diff_dst = cr_as_reals(call->buffer, result);
    if (map > 2) job.src = cr_as_reals(call->buffer, 2);
    job.diff_src = cr_as_reals(call->buffer, map);
  }
  return job;
}

static inline size_t cr_roi_table_bytes(cr_roi_space s) {
  return (s.table + sizeof(cr_roi_line) - 1) / sizeof(cr_roi_line) * sizeof(cr_roi_line);
}

static inline int64_t cr_roi_blocks(int64_t channels) {
  return (channels + CR_ROI_BLOCK - 1) / CR_ROI_BLOCK;
}

static inline crema_status cr_roi_need(cr_plan *plan, int64_t groups, int64_t channels,
                                       cr_roi_space s) {
  const int64_t threads = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  const int64_t tasks = groups * cr_roi_blocks(channels);
  plan->workspace_bytes = cr_roi_table_bytes(s) + (size_t)(tasks < threads ? tasks : threads) *
                                                      (size_t)s.lines * sizeof(cr_roi_line);
  return CREMA_OK;
}

static inline crema_status cr_roi_run(const cr_call *call, const cr_roi_job *job, int64_t groups,
                                      int64_t channels, cr_roi_space s, cr_roi_task_fn *task) {
  cr_roi_line *all = (cr_roi_line *)(call->workspace.address + cr_roi_table_bytes(s));
  const size_t bytes = (size_t)s.lines * sizeof *all, table = cr_roi_table_bytes(s);
  const int64_t slots = bytes == 0 ? 0 : (int64_t)((call->plan->workspace_bytes - table) / bytes);
  const int64_t blocks = cr_roi_blocks(channels), tasks = groups * blocks;
#pragma omp parallel for schedule(static) if (job->e.regions * job->e.results * job->e.rows * \
                                                  job->e.columns >=                           \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < slots; ++slot) {
    cr_roi_line *lines = all + slot * s.lines;
    /* Loops run over whole lines: where there is no channel, values must not be slow. */
    if (channels % CR_ROI_BLOCK != 0) memset(lines, 0, bytes);
    for (int64_t t = tasks * slot / slots; t < tasks * (slot + 1) / slots; ++t) {
      task(job, t / blocks, t % blocks * CR_ROI_BLOCK, lines);
    }
  }
  return CREMA_OK;
}

/* ---- spans of cells ---------------------------------------------------------- */

/* Cell `index` of `cells` of the region's side from `low` to `high`. */
typedef cr_roi_span cr_roi_span_fn(float low, float high, double scale, int64_t cells,
                                   int64_t index, int64_t extent);

static inline size_t cr_roi_spans_bytes(const cr_roi_extents *e) {
  return (size_t)(e->regions * (e->rows + e->columns)) * sizeof(cr_roi_span);
}

/* The spans of region r, a table: of each row of cells, then of each column. */
static inline cr_roi_span *cr_roi_spans_of(const cr_roi_job *j, int64_t r) {
  return (cr_roi_span *)j->table + r * (j->e.rows + j->e.columns);
}

static inline crema_status cr_roi_fill_spans(const cr_op_desc *desc, const cr_roi_job *j,
                                             cr_roi_span_fn *span_of) {
  const cr_roi_extents *e = &j->e;
  CR_TRY(cr_roi_check_images(e, j->rois));
  for (int64_t r = 0; r < e->regions; ++r) {
    float roi[5];
    cr_roi_pad(desc, j->rois + 5 * r, roi);
    cr_roi_span *y = cr_roi_spans_of(j, r), *x = y + e->rows;
    for (int64_t i = 0; i < e->rows; ++i) {
      y[i] = span_of(roi[2], roi[4], j->scale, e->rows, i, e->height);
    }
    for (int64_t i = 0; i < e->columns; ++i) {
      x[i] = span_of(roi[1], roi[3], j->scale, e->columns, i, e->width);
    }
  }
  return CREMA_OK;
}

/* ---- blocks of an image's channels -------------------------------------------- */

/* A cell of a region. */
typedef struct cr_roi_place {
  int64_t region, row, column;
  const cr_roi_line *map; /* the source, if the job has one */
  cr_roi_line *sums;      /* backward: the gradients of the map's positions so far */
  cr_roi_line *line;      /* the result; backward its gradient, which may be overwritten */
} cr_roi_place;

typedef void cr_roi_pool_fn(const cr_roi_job *job, const cr_roi_place *cell);

/* Lines of a block: a result's cells, and `maps` maps. */
static inline int64_t cr_roi_block_lines(const cr_roi_extents *e, int maps) {
  return e->rows * e->columns + maps * e->height * e->width;
}

/* A task whose group is an image: pools all cells of the image's regions, or adds up their
 * gradients. */
CR_INLINE void cr_roi_block(const cr_roi_job *j, int64_t image, int64_t first, cr_roi_line *lines,
                            cr_roi_pool_fn *pool) {
  const cr_roi_extents *e = &j->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first);
  const int64_t at = (image * e->channels + first) * plane;
  cr_roi_line *sums = lines + cells, *map = j->diff_src != NULL ? sums + plane : sums;
  if (j->src != NULL) cr_roi_to_lines(planes, plane, plane, j->src + at, map);
  if (j->diff_src != NULL) memset(sums, 0, (size_t)plane * sizeof *sums);
  for (int64_t r = 0; r < e->regions; ++r) {
    if ((int64_t)j->rois[5 * r] != image) continue;
    const int64_t value = (r * e->channels + first) * cells;
    if (j->diff_dst != NULL) cr_roi_to_lines(planes, cells, cells, j->diff_dst + value, lines);
    for (int64_t i = 0; i < cells; ++i) {
      pool(j, &(cr_roi_place){r, i / e->columns, i % e->columns, map, sums, &lines[i]});
    }
    if (j->dst != NULL) cr_roi_to_planes(planes, cells, cells, lines, j->dst + value);
  }
  if (j->diff_src != NULL) cr_roi_to_planes(planes, plane, plane, sums, j->diff_src + at);
}

#endif
