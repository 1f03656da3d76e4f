/* Max and average pooling over two axes of tensors in plain order whose windows are two columns
 * STRIDE and two apart.
 *
 * oneDNN 2.6 brings plain planes into blocks of channels and back for this, which takes four times
 * as long as copying as many bytes. The positions of maxima have the layout and element type of
 * oneDNN's workspace, so that either can read the other's. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"
#include "device/cpu/pool_planes.h"

/* Vectors are of windows side by side. */
enum {
  LANES = CR_POOL_LANES,
  STRIDE = 2 /* of columns, and their number in a window */
};

typedef struct windows {
  cr_pool_planes w;   /* has to be the first member */
  int64_t begin, end; /* columns of the output whose windows lie inside the input's columns */
  bool max;
  bool inside;  /* averages are of the input's elements alone */
  bool covered; /* every element of the input is in a window */
} windows;

/* How many elements an average counts along one axis. */
CR_INLINE int64_t counted(const windows *p, int axis, const cr_pool_reach *r) {
  const int64_t padded = p->w.in[axis] + p->w.pad[axis] - r->start;
  return p->inside ? r->to - r->from : padded < p->w.kernel[axis] ? padded : p->w.kernel[axis];
}

/* ---- forward ------------------------------------------------------------- */

/* Column kx of 8 windows, the first of which begins at `at`. Nothing behind the last window is
 * read. */
CR_INLINE void column(const float *at, int kx, cr_floats *out) {
  const float *from = kx == 0 ? at : at + kx - 1;
  const cr_floats a = *(const cr_floats *)from, b = *(const cr_floats *)(from + LANES);
  if (kx == 0) *out = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  else *out = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* The maxima of 8 windows, the first of several that are equal, and their positions. */
CR_INLINE void maxima(const windows *p, const cr_pool_reach *y, const float *at, float *dst,
                      uint8_t *indices) {
  cr_floats best;
  cr_ints index = (cr_ints){0} + (int32_t)(y->from * STRIDE);
  column(at, 0, &best);
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->w.in[1]) {
    for (int kx = 0; kx < STRIDE; ++kx) {
      cr_floats value;
      column(at, kx, &value);
      const cr_ints more = value > best;
      best = (cr_floats)(((cr_ints)value & more) | ((cr_ints)best & ~more));
      index = ((int32_t)(ky * STRIDE + kx) & more) | (index & ~more);
    }
  }
  *(cr_floats *)dst = best;
  if (indices != NULL) *(cr_bytes *)indices = __builtin_convertvector(index, cr_bytes);
}

CR_INLINE void averages(const windows *p, const cr_pool_reach *y, const float *at, float *dst) {
  cr_floats sum = {0};
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->w.in[1]) {
    for (int kx = 0; kx < STRIDE; ++kx) {
      cr_floats value;
      column(at, kx, &value);
      sum += value;
    }
  }
  *(cr_floats *)dst = sum / (float)(counted(p, 0, y) * STRIDE);
}

/* One window at the left or right edge. `rows`: the input's first row in it. */
static void forward_edge(const windows *p, const cr_pool_reach *y, int64_t column,
                         const float *rows, float *dst, uint8_t *index) {
  const cr_pool_reach x = cr_pool_reach_of(&p->w, 1, column);
  float best = rows[x.start + x.from], sum = 0;
  int64_t best_at = y->from * p->w.kernel[1] + x.from;
  for (int64_t ky = y->from; ky < y->to; ++ky, rows += p->w.in[1]) {
    for (int64_t kx = x.from; kx < x.to; ++kx) {
      const float value = rows[x.start + kx];
      sum += value;
      if (!(value > best)) continue;
      best = value;
      best_at = ky * p->w.kernel[1] + kx;
    }
  }
  *dst = p->max ? best : sum / (float)(counted(p, 0, y) * counted(p, 1, &x));
  if (index != NULL) *index = (uint8_t)best_at;
}

/* Windows begin ... end - 1 of a row, 8 at a time: the last 8 may have some of those before. */
CR_INLINE void forward_row(const windows *p, bool max, const cr_pool_reach *y, const float *rows,
                           float *dst, uint8_t *indices) {
  for (int64_t next = p->begin; next < p->end; next += LANES) {
    const int64_t x = next < p->end - LANES ? next : p->end - LANES;
    const float *at = rows + x * STRIDE - p->w.pad[1];
    if (max) maxima(p, y, at, dst + x, indices == NULL ? NULL : indices + x);
    else averages(p, y, at, dst + x);
  }
}

/* src (H,W), dst and positions (H',W'); positions may be NULL. */
CR_CLONES static void forward_plane(const void *state, const float *src, float *dst,
                                    uint8_t *indices) {
  const windows *p = state;
  for (int64_t i = 0; i < p->w.out[0]; ++i, dst += p->w.out[1]) {
    const cr_pool_reach y = cr_pool_reach_of(&p->w, 0, i);
    const float *rows = src + (y.start + y.from) * p->w.in[1];
    if (p->max) forward_row(p, true, &y, rows, dst, indices);
    else forward_row(p, false, &y, rows, dst, NULL);
    for (int64_t x = 0; x < p->w.out[1]; ++x) {
      if (x == p->begin) x = p->end;
      if (x < p->w.out[1])
        forward_edge(p, &y, x, rows, dst + x, indices == NULL ? NULL : indices + x);
    }
    if (indices != NULL) indices += p->w.out[1];
  }
}

/* ---- backward, of windows that do not overlap ---------------------------- */

/* What 8 windows give to their rows: all to the maximum, or the same to each element. */
CR_INLINE void spread(const windows *p, bool max, const cr_pool_reach *y, const float *diff_dst,
                      const uint8_t *indices, float *at) {
  cr_floats diff = *(const cr_floats *)diff_dst;
  cr_ints index = {0};
  if (max) index = __builtin_convertvector(*(const cr_bytes *)indices, cr_ints);
  else diff /= (float)(counted(p, 0, y) * STRIDE);
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->w.in[1]) {
    cr_floats left = diff, right = diff;
    if (max) {
      left = (cr_floats)((cr_ints)diff & (index == (int32_t)(ky * STRIDE)));
      right = (cr_floats)((cr_ints)diff & (index == (int32_t)(ky * STRIDE + 1)));
    }
    *(cr_floats *)at = __builtin_shufflevector(left, right, 0, 8, 1, 9, 2, 10, 3, 11);
    *(cr_floats *)(at + LANES) = __builtin_shufflevector(left, right, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}

static void backward_edge(const windows *p, const cr_pool_reach *y, int64_t column, float diff,
                          int index, float *rows) {
  const cr_pool_reach x = cr_pool_reach_of(&p->w, 1, column);
  if (!p->max) diff /= (float)(counted(p, 0, y) * counted(p, 1, &x));
  for (int64_t ky = y->from; ky < y->to; ++ky, rows += p->w.in[1]) {
    for (int64_t kx = x.from; kx < x.to; ++kx) {
      rows[x.start + kx] = !p->max || ky * STRIDE + kx == index ? diff : 0;
    }
  }
}

CR_INLINE void backward_row(const windows *p, bool max, const cr_pool_reach *y,
                            const float *diff_dst, const uint8_t *indices, float *rows) {
  for (int64_t next = p->begin; next < p->end; next += LANES) {
    const int64_t x = next < p->end - LANES ? next : p->end - LANES;
    float *at = rows + x * STRIDE - p->w.pad[1];
    spread(p, max, y, diff_dst + x, max ? indices + x : NULL, at);
  }
}

CR_CLONES static void backward_plane(const void *state, const float *diff_dst,
                                     const uint8_t *indices, float *diff_src) {
  const windows *p = state;
  if (!p->covered) memset(diff_src, 0, (size_t)(p->w.in[0] * p->w.in[1]) * sizeof *diff_src);
  for (int64_t i = 0; i < p->w.out[0]; ++i, diff_dst += p->w.out[1]) {
    const cr_pool_reach y = cr_pool_reach_of(&p->w, 0, i);
    float *rows = diff_src + (y.start + y.from) * p->w.in[1];
    if (p->max) backward_row(p, true, &y, diff_dst, indices, rows);
    else backward_row(p, false, &y, diff_dst, NULL, rows);
    for (int64_t x = 0; x < p->w.out[1]; ++x) {
      if (x == p->begin) x = p->end;
      if (x < p->w.out[1]) backward_edge(p, &y, x, diff_dst[x], p->max ? indices[x] : 0, rows);
    }
    if (p->max) indices += p->w.out[1];
  }
}

/* ---- planning ------------------------------------------------------------ */

/* For 8 windows side by side at least that are 2 columns wide, with a stride of 2. */
static crema_status fill_windows(const cr_plan *plan, int src, int dst, windows *p) {
  CR_TRY(cr_pool_planes_make(plan, src, dst, &p->w));
  const cr_pool_planes *w = &p->w;
  if (w->kernel[1] != STRIDE || w->kernel[0] > UINT8_MAX / STRIDE || w->stride[1] != STRIDE) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not windows of 2 columns, 2 apart");
  }
  p->covered = true;
  for (int a = 0; a < 2; ++a) {
    const int64_t end = (w->out[a] - 1) * w->stride[a] - w->pad[a] + w->kernel[a];
    p->covered = p->covered && w->kernel[a] >= w->stride[a] && end >= w->in[a];
  }
  p->begin = (w->pad[1] + STRIDE - 1) / STRIDE;
  p->end = (w->in[1] + w->pad[1] - w->kernel[1] + STRIDE) / STRIDE;
  if (p->end > w->out[1]) p->end = w->out[1];
  if (p->end - p->begin < LANES) return cr_fail(CREMA_E_UNSUPPORTED, "few columns");
  p->max = plan->desc->u.pool.method == CR_POOL_MAX;
  p->inside = plan->desc->u.pool.method == CR_POOL_AVERAGE_INPUT;
  return CREMA_OK;
}

static crema_status plan_windows(cr_plan *plan, int src, int dst, int indices, bool apart) {
  windows p;
  CR_TRY(fill_windows(plan, src, dst, &p));
  if (apart && p.w.kernel[0] > p.w.stride[0]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "windows that overlap");
  }
  if (!cr_dnnl_absent(plan, indices)) plan->format[indices].type = CREMA_U8;
  return cr_pool_planes_keep(plan, &p, sizeof p);
}

static crema_status plan_fwd(cr_plan *plan) {
  if (plan->hint[0].layout != NULL) return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order");
  return plan_windows(plan, 0, 1, 2, false);
}

static crema_status plan_bwd(cr_plan *plan) {
  const bool max = plan->desc->u.pool.method == CR_POOL_MAX;
  if (plan->hint[max ? 1 : 0].layout != NULL || max == cr_dnnl_absent(plan, 1)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order, or without the positions of maxima");
  }
  return plan_windows(plan, 2, 0, 1, true);
}

static crema_status run_fwd(const cr_call *call) {
  cr_pool_planes_fwd(call, forward_plane);
  return CREMA_OK;
}

static crema_status run_bwd(const cr_call *call) {
  cr_pool_planes_bwd(call, backward_plane);
  return CREMA_OK;
}

CR_KERNEL(pool_fwd_plain, POOL_FWD, .follows_hints = true, .plan = plan_fwd, .run = run_fwd,
          .destroy = cr_pool_planes_destroy);

CR_KERNEL(pool_bwd_plain, POOL_BWD, .follows_hints = true, .plan = plan_bwd, .run = run_bwd,
          .destroy = cr_pool_planes_destroy);
