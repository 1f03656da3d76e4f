/* Pooling over regions of interest: the largest value of each part of a region (Girshick, "Fast
 * R-CNN", 2015); the kernels of its gradient, too, which kernels/roi_pool_bwd.c computes. */
#include "device/cpu/kernels/roi_pool.h"

static crema_status check_fwd(const cr_plan *plan) {
  return cr_roi_check(plan, 0, 1, 2, false);
}

static crema_status check_bwd(const cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  CR_TRY(cr_roi_check(plan, 3, 1, 0, false));
  if (cr_op_arg_count(plan->desc, 2) == cr_op_arg_count(plan->desc, 3)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s: a map of %d axes and its gradient do not fit",
                 cr_op_kind_name(plan->desc->kind), arg[2].shape.axes);
}

/* ---- windows ------------------------------------------------------------- */

static size_t table_bytes(const cr_roi_extents *e, bool forward) {
  return (size_t)e->regions * ((size_t)(e->rows + e->columns) * sizeof(cr_roi_span) +
                               (forward ? 0 : (size_t)e->height * sizeof(cr_roi_row)) +
                               sizeof(cr_roi_outline) + (size_t)e->columns * sizeof(cr_roi_strip));
}

/* Part `index` of `parts` of the region's side from `low` to `high`, both included. */
CR_INLINE cr_roi_span span_of(cr_real low, cr_real high, double scale, int64_t parts, int64_t index,
                              int64_t extent) {
  const double begin = round((double)low * scale), end = round((double)high * scale);
  const double length = end - begin + 1 < 1 ? 1 : end - begin + 1;
  /* In single precision, as the definition has it: parts of, say, 7 / 7 rows depend on it. */
  const float size = (float)length / (float)parts;
  const double from = floor((double)((float)index * size)),
               to = ceil((double)((float)(index + 1) * size));
  return (cr_roi_span){cr_roi_cut((int64_t)(from + begin), extent),
                       cr_roi_cut((int64_t)(to + begin), extent)};
}

static int width_of(const cr_roi_span *x) {
  const int64_t columns = cr_roi_length(x);
  return columns < CR_ROI_WIDTHS ? (int)columns : CR_ROI_WIDTHS;
}

static void fill_outline(const cr_roi_extents *e, const cr_roi_span *x, cr_roi_outline *o,
                         cr_roi_strip *strips) {
  int32_t next[CR_ROI_WIDTHS + 1] = {0};
  for (int64_t j = 0; j < e->columns; ++j) ++next[width_of(x + j)];
  for (int32_t w = 1, all = 0; w <= CR_ROI_WIDTHS; ++w) {
    const int32_t count = next[w];
    next[w] = all;
    all += count;
    o->end[w - 1] = all;
  }
  for (int64_t j = 0; j < e->columns; ++j) {
    const int width = width_of(x + j);
    if (width == 0) continue;
    strips[next[width]++] = (cr_roi_strip){(int32_t)(x[j].begin * CR_ROI_BLOCK), (int32_t)j};
  }
}

CR_CLONES static void fill_spans(const cr_roi_extents *e, double scale, const cr_real *rois,
                                 cr_roi_span *out) {
  for (int64_t r = 0; r < e->regions; ++r, rois += 5) {
    for (int64_t i = 0; i < e->rows; ++i) {
      *out++ = span_of(rois[2], rois[4], scale, e->rows, i, e->height);
    }
    for (int64_t j = 0; j < e->columns; ++j) {
      *out++ = span_of(rois[1], rois[3], scale, e->columns, j, e->width);
    }
  }
}

static void fill_table(cr_roi_pool *p, double scale, bool forward, void *memory) {
  const cr_roi_extents *e = &p->e;
  p->spans = memory;
  p->rows = (cr_roi_row *)(p->spans + e->regions * (e->rows + e->columns));
  p->outlines = (cr_roi_outline *)(p->rows + (forward ? 0 : e->regions * e->height));
  p->strips = (cr_roi_strip *)(p->outlines + e->regions);
  fill_spans(e, scale, p->rois, p->spans);
  for (int64_t r = 0; r < e->regions; ++r) {
    fill_outline(e, cr_roi_pool_spans(p, r) + e->rows, p->outlines + r, p->strips + r * e->columns);
  }
  if (!forward) cr_roi_pool_fill_rows(p);
}

/* ---- rows of a region ---------------------------------------------------- */

/* A region is pooled in two steps: the largest value of each part in each row of the map, which
 * several rows of parts may share, and the largest of these. As many rows of the map are kept as a
 * row of parts has, up to a power of two. ring: that less 1. next: the row of which there are no
 * largest values yet. */
typedef struct kept {
  cr_roi_line *best;
  int64_t ring, next;
} kept;

static int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

static kept kept_of(const cr_roi_region *g, cr_roi_line *best) {
  int64_t most = 0;
  for (int64_t i = 0; i < g->p->e.rows; ++i) {
    if (cr_roi_length(g->y + i) > most) most = cr_roi_length(g->y + i);
  }
  return (kept){best, power_of_two(most) - 1, 0};
}

/* Of each part. */
CR_INLINE cr_roi_line *best_in(const cr_roi_region *g, const kept *k, int64_t row) {
  return k->best + (row & k->ring) * g->p->e.columns;
}

CR_INLINE void largest_in_strips(int count, const cr_roi_strip *s, const cr_roi_strip *end,
                                 const cr_real *map, cr_real least, cr_roi_line *best) {
  for (; s < end; ++s) {
    cr_real *top = best[s->part].value;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) {
      top[l] = cr_roi_largest(count, map + s->column + l, least);
    }
  }
}

/* best: of each part that has columns, in a row of the map. */
CR_INLINE void largest_in_row(const cr_roi_region *g, const cr_roi_line *row, cr_roi_line *best) {
  CR_ROI_BY_WIDTH(g, largest_in_strips, row->value, g->p->least, best)
  for (int64_t i = g->o->end[CR_ROI_WIDTHS - 2]; i < cr_roi_strips(g); ++i) {
    const cr_roi_strip *s = g->strips + i;
    cr_roi_largest_wide(cr_roi_length(g->x + s->part), row->value + s->column, g->p->least, false,
                        best[s->part].value);
  }
}

/* The largest of `count` lines, none of which is NaN; `more`: and what there is. */
CR_INLINE void largest_of(int count, const cr_real *const *value, bool more, cr_real *to) {
#pragma omp simd
  for (int l = 0; l < CR_ROI_BLOCK; ++l) {
    cr_real best = more ? to[l] : value[0][l];
    for (int k = more ? 0 : 1; k < count; ++k) best = value[k][l] > best ? value[k][l] : best;
    to[l] = best;
  }
}

/* Of each part in `count` rows of the map. */
CR_INLINE void largest_rows(int count, const cr_roi_region *g, const kept *rows, int64_t row,
                            bool more, cr_roi_line *out) {
  const int64_t columns = g->p->e.columns;
  const cr_real *value[CR_ROI_FOUR];
  for (int k = 0; k < count; ++k) value[k] = best_in(g, rows, row + k)->value;
  for (int64_t j = 0; j < columns; ++j) {
    largest_of(count, value, more, out[j].value);
    for (int k = 0; k < count; ++k) value[k] += CR_ROI_BLOCK;
  }
}

/* Of the rows of the map in `y`. */
CR_INLINE void largest_of_rows(const cr_roi_region *g, cr_roi_span y, const kept *rows,
                               cr_roi_line *out) {
  CR_ROI_BY_COUNT(y.end - y.begin, largest_rows, g, rows, y.begin, false, out)
  for (int64_t k = y.begin + CR_ROI_FOUR; k < y.end; ++k) largest_rows(1, g, rows, k, true, out);
}

/* ---- forward ------------------------------------------------------------- */

/* Results of row `i` of parts whose first value is NaN. */
CR_INLINE void take_nans(const cr_roi_region *g, int64_t i, cr_roi_line *out) {
  const cr_real *row = g->map[g->y[i].begin * g->p->e.step].value;
  for (const cr_roi_strip *s = g->strips; s < g->strips + cr_roi_strips(g); ++s) {
    const cr_real *first = row + s->column;
    cr_real *to = out[s->part].value;
#pragma omp simd
    for (int l = 0; l < CR_ROI_BLOCK; ++l) to[l] = first[l] == first[l] ? to[l] : first[l];
  }
}

/* Row `i` of parts. */
CR_INLINE void forward_row(const cr_roi_region *g, int64_t i, kept *rows, cr_roi_line *out) {
  const int64_t columns = g->p->e.columns;
  const cr_roi_span y = g->y[i];
  if (cr_roi_length(&y) == 0) {
    cr_roi_fill(columns, 0, out);
    return;
  }
  if (rows->next < y.begin) rows->next = y.begin;
  for (; rows->next < y.end; ++rows->next) {
    largest_in_row(g, g->map + rows->next * g->p->e.step, best_in(g, rows, rows->next));
  }
  largest_of_rows(g, y, rows, out);
  if (g->has_nan) take_nans(g, i, out);
  for (int64_t j = 0; j < columns; ++j) {
    if (cr_roi_length(g->x + j) == 0) cr_roi_fill(1, 0, out + j);
  }
}

/* The channels from `first` on of an image. `lines`: for the map, a result, the rows. */
CR_CLONES static void forward_block(const cr_roi_pool *p, int64_t image, int64_t first,
                                    cr_roi_line *lines) {
  const cr_roi_extents *e = &p->e;
  const int64_t plane = e->height * e->width, cells = e->rows * e->columns;
  const int64_t planes = cr_roi_planes(e->channels, first), group = cr_roi_group(e);
  const cr_roi_window reach = cr_roi_pool_reach(p, image);
  cr_roi_line *result = lines + plane, *best = result + group * e->columns;
  cr_roi_to_lines(e, &reach, planes, p->src + (image * e->channels + first) * plane, lines);
  const bool nans = cr_roi_has_nan(e, &reach, lines);
  for (int64_t r = 0; r < e->regions; ++r) {
    if (!cr_roi_pool_is_of(p, r, image)) continue;
    const cr_roi_region g = cr_roi_region_of(p, r, lines, nans);
    cr_roi_next later = cr_roi_next_of(e, r, first, planes, e->rows, p->dst);
    cr_real *to = p->dst + (r * e->channels + first) * cells;
    kept rows = kept_of(&g, best);
    for (int64_t i = 0; i < e->rows; ++i) {
      cr_roi_ask(&later);
      forward_row(&g, i, &rows, result + i % group * e->columns);
      cr_roi_put_group(e, group, i, planes, result, to);
    }
  }
}

/* ---- kernels ------------------------------------------------------------- */

/* Lines of a thread. */
static int64_t lines_of(const cr_roi_extents *e, bool forward) {
  if (!forward) return cr_roi_pool_back_lines(e);
  return e->height * e->width + (cr_roi_group(e) + power_of_two(e->height)) * e->columns;
}

static int64_t tasks_of(const cr_roi_extents *e) {
  return e->images * cr_roi_blocks(e->channels);
}

static crema_status roi_pool_fwd_plan(cr_plan *plan) {
  CR_TRY(check_fwd(plan));
  const cr_roi_extents e = cr_roi_extents_of(plan->desc, 0, 1, 2);
  cr_roi_need(plan, table_bytes(&e, true), lines_of(&e, true), tasks_of(&e));
  return CREMA_OK;
}

static crema_status roi_pool_bwd_plan(cr_plan *plan) {
  CR_TRY(check_bwd(plan));
  const cr_roi_extents e = cr_roi_pool_back_extents(plan->desc);
  cr_roi_need(plan, table_bytes(&e, false), lines_of(&e, false), tasks_of(&e));
  return CREMA_OK;
}

static crema_status run_tasks(const cr_call *call, cr_roi_pool *p, bool forward) {
  const cr_roi_extents *e = &p->e;
  const cr_roi_slots s = cr_roi_slots_of(call, table_bytes(e, forward), lines_of(e, forward));
  const int64_t blocks = cr_roi_blocks(e->channels), tasks = tasks_of(e);
  CR_TRY(cr_roi_check_images(e, p->rois));
  fill_table(p, (double)call->desc->u.roi.scale, forward,
             (void *)call->workspace.address); /* NOLINT: a host address */
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, forward ? 2 : 0) >= \
                                              CR_REF_PARALLEL_MIN / 16)
  for (int64_t slot = 0; slot < s.slots; ++slot) {
    cr_roi_line *lines = cr_roi_begin(&s, slot, e->channels);
    for (int64_t t = tasks * slot / s.slots; t < tasks * (slot + 1) / s.slots; ++t) {
      (forward ? forward_block : cr_roi_pool_back)(p, t / blocks, t % blocks * CR_ROI_BLOCK, lines);
    }
  }
  return CREMA_OK;
}

/* src, rois, dst. */
static crema_status roi_pool_fwd(const cr_call *call) {
  cr_roi_pool p = {.least = -(cr_real)INFINITY,
                   .e = cr_roi_extents_of(call->desc, 0, 1, 2),
                   .src = cr_as_reals(call->buffer, 0),
                   .rois = cr_as_reals(call->buffer, 1),
                   .dst = cr_as_reals(call->buffer, 2)};
  return run_tasks(call, &p, true);
}

/* diff_dst, rois, src, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  cr_roi_pool p = {.least = -(cr_real)INFINITY,
                   .e = cr_roi_pool_back_extents(call->desc),
                   .diff_dst = cr_as_reals(call->buffer, 0),
                   .rois = cr_as_reals(call->buffer, 1),
                   .src = cr_as_reals(call->buffer, 2),
                   .diff_src = cr_as_reals(call->buffer, 3)};
  return run_tasks(call, &p, false);
}

CR_REF_KERNEL(roi_pool_fwd, ROI_POOL_FWD, .plan = roi_pool_fwd_plan, .run = roi_pool_fwd);
CR_REF_KERNEL(roi_pool_bwd, ROI_POOL_BWD, .plan = roi_pool_bwd_plan, .run = roi_pool_bwd);
