/* Max and average pooling over two axes of tensors in plain order whose windows are two columns
 * STRIDE and two apart.
 *
 * oneDNN 2.6 brings plain planes into blocks of channels and back for this, which takes four times
 * as long as copying as many bytes. The positions of maxima have the layout and element type of
 * oneDNN's workspace, so that either can read the other's. */
#include <stdlib.h>
#include <string.h>

#include "core/clones.h"
#include "core/fail.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"

enum {
  LANES = 8,
  STRIDE = 2 /* of columns, and their number in a window */,
  PARALLEL_MIN = 16384 /* values; below, one thread is faster */
};

/* Vectors of 8 windows side by side; element-wise aligned. */
typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(8), aligned(1), may_alias));

typedef struct windows {
  int64_t planes;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
  int64_t begin, end; /* columns of the output whose windows lie inside the input's columns */
  bool max;
  bool inside;  /* averages are of the input's elements alone */
  bool covered; /* every element of the input is in a window */
} windows;

/* A window, or a row of them, along one axis: it begins at `start`, the input has its elements
 * from ... to - 1, and an average counts so many. */
typedef struct reach {
  int64_t start, from, to, counted;
} reach;

CR_INLINE reach reach_of(const windows *p, int axis, int64_t index) {
  reach r = {.start = index * p->stride[axis] - p->pad[axis]};
  const int64_t left = p->in[axis] - r.start, padded = left + p->pad[axis];
  r.from = r.start < 0 ? -r.start : 0;
  r.to = left < p->kernel[axis] ? left : p->kernel[axis];
  r.counted = p->inside ? r.to - r.from : padded < p->kernel[axis] ? padded : p->kernel[axis];
  return r;
}

/* ---- forward ------------------------------------------------------------- */

/* Column kx of 8 windows, the first of which begins at `at`. Nothing behind the last window is
 * read. */
CR_INLINE void column(const float *at, int kx, floats *out) {
  const float *from = kx == 0 ? at : at + kx - 1;
  const floats a = *(const floats *)from, b = *(const floats *)(from + LANES);
  if (kx == 0) *out = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  else *out = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* The maxima of 8 windows, the first of several that are equal, and their positions. */
CR_INLINE void maxima(const windows *p, const reach *y, const float *at, float *dst,
                      uint8_t *indices) {
  floats best;
  ints index = (ints){0} + (int32_t)(y->from * STRIDE);
  column(at, 0, &best);
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->in[1]) {
    for (int kx = 0; kx < STRIDE; ++kx) {
      floats value;
      column(at, kx, &value);
      const ints more = value > best;
      best = (floats)(((ints)value & more) | ((ints)best & ~more));
      index = ((int32_t)(ky * STRIDE + kx) & more) | (index & ~more);
    }
  }
  *(floats *)dst = best;
  if (indices != NULL) *(bytes *)indices = __builtin_convertvector(index, bytes);
}

CR_INLINE void averages(const windows *p, const reach *y, const float *at, float *dst) {
  floats sum = {0};
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->in[1]) {
    for (int kx = 0; kx < STRIDE; ++kx) {
      floats value;
      column(at, kx, &value);
      sum += value;
    }
  }
  *(floats *)dst = sum / (float)(y->counted * STRIDE);
}

/* One window at the left or right edge. `rows`: the input's first row in it. */
static void forward_edge(const windows *p, const reach *y, int64_t column, const float *rows,
                         float *dst, uint8_t *index) {
  const reach x = reach_of(p, 1, column);
  float best = rows[x.start + x.from], sum = 0;
  int64_t best_at = y->from * p->kernel[1] + x.from;
  for (int64_t ky = y->from; ky < y->to; ++ky, rows += p->in[1]) {
    for (int64_t kx = x.from; kx < x.to; ++kx) {
      const float value = rows[x.start + kx];
      sum += value;
      if (!(value > best)) continue;
      best = value;
      best_at = ky * p->kernel[1] + kx;
    }
  }
  *dst = p->max ? best : sum / (float)(y->counted * x.counted);
  if (index != NULL) *index = (uint8_t)best_at;
}

/* Windows begin ... end - 1 of a row, 8 at a time: the last 8 may have some of those before. */
CR_INLINE void forward_row(const windows *p, bool max, const reach *y, const float *rows,
                           float *dst, uint8_t *indices) {
  for (int64_t next = p->begin; next < p->end; next += LANES) {
    const int64_t x = next < p->end - LANES ? next : p->end - LANES;
    const float *at = rows + x * STRIDE - p->pad[1];
    if (max) maxima(p, y, at, dst + x, indices == NULL ? NULL : indices + x);
    else averages(p, y, at, dst + x);
  }
}

/* src (H,W), dst and positions (H',W'); positions may be NULL. */
CR_CLONES static void forward_plane(const windows *p, const float *src, float *dst,
                                    uint8_t *indices) {
  for (int64_t i = 0; i < p->out[0]; ++i, dst += p->out[1]) {
    const reach y = reach_of(p, 0, i);
    const float *rows = src + (y.start + y.from) * p->in[1];
    if (p->max) forward_row(p, true, &y, rows, dst, indices);
    else forward_row(p, false, &y, rows, dst, NULL);
    for (int64_t x = 0; x < p->out[1]; ++x) {
      if (x == p->begin) x = p->end;
      if (x < p->out[1])
        forward_edge(p, &y, x, rows, dst + x, indices == NULL ? NULL : indices + x);
    }
    if (indices != NULL) indices += p->out[1];
  }
}

/* ---- backward, of windows that do not overlap ---------------------------- */

/* What 8 windows give to their rows: all to the maximum, or the same to each element. */
CR_INLINE void spread(const windows *p, bool max, const reach *y, const float *diff_dst,
                      const uint8_t *indices, float *at) {
  floats diff = *(const floats *)diff_dst;
  ints index = {0};
  if (max) index = __builtin_convertvector(*(const bytes *)indices, ints);
  else diff /= (float)(y->counted * STRIDE);
  for (int64_t ky = y->from; ky < y->to; ++ky, at += p->in[1]) {
    floats left = diff, right = diff;
    if (max) {
      left = (floats)((ints)diff & (index == (int32_t)(ky * STRIDE)));
      right = (floats)((ints)diff & (index == (int32_t)(ky * STRIDE + 1)));
    }
    *(floats *)at = __builtin_shufflevector(left, right, 0, 8, 1, 9, 2, 10, 3, 11);
    *(floats *)(at + LANES) = __builtin_shufflevector(left, right, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}

static void backward_edge(const windows *p, const reach *y, int64_t column, float diff, int index,
                          float *rows) {
  const reach x = reach_of(p, 1, column);
  if (!p->max) diff /= (float)(y->counted * x.counted);
  for (int64_t ky = y->from; ky < y->to; ++ky, rows += p->in[1]) {
    for (int64_t kx = x.from; kx < x.to; ++kx) {
      rows[x.start + kx] = !p->max || ky * STRIDE + kx == index ? diff : 0;
    }
  }
}

CR_INLINE void backward_row(const windows *p, bool max, const reach *y, const float *diff_dst,
                            const uint8_t *indices, float *rows) {
  for (int64_t next = p->begin; next < p->end; next += LANES) {
    const int64_t x = next < p->end - LANES ? next : p->end - LANES;
    float *at = rows + x * STRIDE - p->pad[1];
    spread(p, max, y, diff_dst + x, max ? indices + x : NULL, at);
  }
}

CR_CLONES static void backward_plane(const windows *p, const float *diff_dst,
                                     const uint8_t *indices, float *diff_src) {
  if (!p->covered) memset(diff_src, 0, (size_t)(p->in[0] * p->in[1]) * sizeof *diff_src);
  for (int64_t i = 0; i < p->out[0]; ++i, diff_dst += p->out[1]) {
    const reach y = reach_of(p, 0, i);
    float *rows = diff_src + (y.start + y.from) * p->in[1];
    if (p->max) backward_row(p, true, &y, diff_dst, indices, rows);
    else backward_row(p, false, &y, diff_dst, NULL, rows);
    for (int64_t x = 0; x < p->out[1]; ++x) {
      if (x == p->begin) x = p->end;
      if (x < p->out[1]) backward_edge(p, &y, x, diff_dst[x], p->max ? indices[x] : 0, rows);
    }
    if (p->max) indices += p->out[1];
  }
}

/* ---- planning ------------------------------------------------------------ */

/* For 8 windows side by side at least that are 2 columns wide, with a stride of 2. */
static crema_status fill_windows(const cr_plan *plan, int src, int dst, windows *p) {
  const cr_window *w = &plan->desc->u.pool.window;
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  if (w->axes != 2 || in->axes != 4 || out->axes != 4 || w->kernel[1] != STRIDE ||
      w->kernel[0] > UINT8_MAX / w->kernel[1] || w->stride[1] != STRIDE) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not windows of 2 columns, 2 apart");
  }
  p->planes = in->dim[0] * in->dim[1];
  p->covered = true;
  for (int a = 0; a < 2; ++a) {
    p->in[a] = in->dim[a + 2];
    p->out[a] = out->dim[a + 2];
    p->kernel[a] = w->kernel[a];
    p->stride[a] = w->stride[a];
    p->pad[a] = w->pad[a];
    const int64_t last = (p->out[a] - 1) * w->stride[a] - w->pad[a];
    if (w->dilation[a] != 1 || w->pad[a] >= w->kernel[a] || last >= p->in[a]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "dilated or empty windows");
    }
    p->covered = p->covered && w->kernel[a] >= w->stride[a] && last + w->kernel[a] >= p->in[a];
  }
  p->begin = (p->pad[1] + STRIDE - 1) / STRIDE;
  p->end = (p->in[1] + p->pad[1] - p->kernel[1] + STRIDE) / STRIDE;
  if (p->end > p->out[1]) p->end = p->out[1];
  if (p->end - p->begin < LANES) return cr_fail(CREMA_E_UNSUPPORTED, "few columns");
  p->max = plan->desc->u.pool.method == CR_POOL_MAX;
  p->inside = plan->desc->u.pool.method == CR_POOL_AVERAGE_INPUT;
  return CREMA_OK;
}

static crema_status plan_windows(cr_plan *plan, int src, int dst, int indices, bool apart) {
  windows p;
  CR_TRY(fill_windows(plan, src, dst, &p));
  if (apart && p.kernel[0] > p.stride[0]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "windows that overlap");
  }
  if (!cr_dnnl_absent(plan, indices)) plan->format[indices].type = CREMA_U8;
  plan->state = malloc(sizeof p);
  if (plan->state == NULL) return cr_fail_memory(sizeof p, "a plan");
  memcpy(plan->state, &p, sizeof p);
  return CREMA_OK;
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
  const windows *p = call->plan->state;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  uint8_t *indices = (uint8_t *)call->buffer[2].address;
  const int64_t in = p->in[0] * p->in[1], out = p->out[0] * p->out[1];
#pragma omp parallel for schedule(static) if (p->planes * in >= PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    forward_plane(p, src + i * in, dst + i * out, indices == NULL ? NULL : indices + i * out);
  }
  return CREMA_OK;
}

static crema_status run_bwd(const cr_call *call) {
  const windows *p = call->plan->state;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const uint8_t *indices = (const uint8_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const int64_t in = p->in[0] * p->in[1], out = p->out[0] * p->out[1];
#pragma omp parallel for schedule(static) if (p->planes * in >= PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    backward_plane(p, diff_dst + i * out, p->max ? indices + i * out : NULL, diff_src + i * in);
  }
  return CREMA_OK;
}

static void destroy(cr_plan *plan) {
  free(plan->state);
  plan->state = NULL;
}

CR_KERNEL(pool_fwd_plain, POOL_FWD, .follows_hints = true, .plan = plan_fwd, .run = run_fwd,
          .destroy = destroy);

CR_KERNEL(pool_bwd_plain, POOL_BWD, .follows_hints = true, .plan = plan_bwd, .run = run_bwd,
          .destroy = destroy);
