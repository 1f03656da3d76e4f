/* Max pooling over two axes of planes in plain order, for windows that are 2 or 3 columns wide,
 * with stride 1 or 2. The gradient is for any window of at most 255 elements. In FLOAT.
 *
 * Gain over oneDNN 2.6, which converts such planes to blocks of channels and back: 3.5x
 * forward, 1.8x to 3.2x backward. Measured on Granite Rapids with 32 x 64 planes of 56 x 56 (the
 * Pooling rows of bench/layers). The backward pass of SPP is 2.1x as fast.
 *
 * A row of windows takes two steps. The first finds the maximum of each column over the rows of the
 * windows, one vector of columns at a time. The second finds the maximum of each window over its
 * columns. Positions of maxima have the element type of oneDNN's workspace, so that either kernel
 * reads the positions of the other. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/pool_planes.h"
#include "device/cpu/onednn/primitive.h"

enum {
  COLUMNS_MOST = 2048, /* of a plane; their maxima are on the stack */
  ROWS_MOST = 5,       /* of a window */
  BLOCK = 16,          /* columns, or windows, that are computed together */
  GAP = 3 * BLOCK      /* columns after the last one that a block may read */
};

/* For each column over the rows of one row of windows. Column x of the input is number
 * x + padding. */
typedef struct columns {
  float best[COLUMNS_MOST + GAP]; /* the maximum; NaN does not count */
  int32_t at[COLUMNS_MOST + GAP]; /* position of the maximum in a window that begins here */
  const float *first;             /* the first row */
  bool odd;                       /* it has NaN */
} columns;

/* A block of columns over `rows` rows, `width` apart; `at`: the position of the first row. */
CR_INLINE void reduce_block(int64_t rows, int64_t width, const float *restrict src, int32_t at,
                            int32_t step, int64_t to, int32_t *restrict odd, columns *restrict c) {
#pragma omp simd
  for (int x = 0; x < BLOCK; ++x) {
    float best = -INFINITY;
    int32_t here = at;
    for (int64_t r = 0; r < rows; ++r) {
      const float value = src[r * width + x];
      const bool more = value > best;
      best = more ? value : best;
      here = more ? at + (int32_t)r * step : here;
    }
    c->best[to + x] = best;
    odd[x] |= src[x] != src[x];
    c->at[to + x] = here;
  }
}

/* The last block overlaps the one before. */
CR_INLINE void reduce_rows(const cr_pool_planes *p, int64_t rows, const float *src, int32_t at,
                           columns *c) {
  const int64_t width = p->in[1];
  int32_t odd[BLOCK] = {0}, any = 0;
  for (int64_t next = 0; next < width; next += BLOCK) {
    const int64_t x = next < width - BLOCK ? next : width - BLOCK;
    reduce_block(rows, width, src + x, at, (int32_t)p->kernel[1], p->pad[1] + x, odd, c);
  }
  for (int x = 0; x < BLOCK; ++x) any |= odd[x];
  c->odd = any != 0;
  c->first = src;
}

/* The columns of row `i` of windows. */
CR_INLINE void reduce_columns(const cr_pool_planes *p, int64_t i, const float *plane, columns *c) {
  const cr_pool_reach y = cr_pool_reach_of(p, 0, i);
  const int64_t rows = y.to - y.from;
  const float *src = plane + (y.start + y.from) * p->in[1];
  const int32_t at = (int32_t)(y.from * p->kernel[1]);
  if (rows == 3) reduce_rows(p, 3, src, at, c);
  else if (rows == 2) reduce_rows(p, 2, src, at, c);
  else reduce_rows(p, rows, src, at, c);
}

/* Keeps the larger value of two columns of each window, or the earlier one of equal values. */
CR_INLINE void compare_columns(const float *restrict value, const int32_t *restrict at,
                               int32_t number, float *restrict best, int32_t *restrict best_at) {
#pragma omp simd
  for (int k = 0; k < BLOCK; ++k) {
    const int32_t here = at[k] + number;
    const bool more = (value[k] > best[k]) | ((value[k] == best[k]) & (here < best_at[k]));
    best[k] = more ? value[k] : best[k];
    best_at[k] = more ? here : best_at[k];
  }
}

/* Loads of every second value are fast only in pairs: both values of a pair are used. */
CR_INLINE void load_pair(int stride, const float *restrict value, const int32_t *restrict at,
                         float *restrict even, float *restrict odd, int32_t *restrict even_at,
                         int32_t *restrict odd_at) {
#pragma omp simd
  for (int k = 0; k < BLOCK; ++k) {
    even[k] = value[stride * k];
    odd[k] = value[stride * k + 1];
    even_at[k] = at[stride * k];
    odd_at[k] = at[stride * k + 1];
  }
}

/* A block of windows from number `k` on; `at`: the position of their first row. The first element
 * of a window is its maximum if it is NaN. */
CR_INLINE void pool_block(int width, int stride, const cr_pool_planes *p, const columns *c,
                          int64_t k, int32_t at, float *restrict best, int32_t *restrict best_at) {
  const int64_t from = k * stride;
  float second[BLOCK], third[BLOCK];
  int32_t second_at[BLOCK], third_at[BLOCK];
  load_pair(stride, c->best + from, c->at + from, best, second, best_at, second_at);
  compare_columns(second, second_at, 1, best, best_at);
  if (width == 3) {
    load_pair(stride, c->best + from + 1, c->at + from + 1, second, third, second_at, third_at);
    compare_columns(third, third_at, 2, best, best_at);
  }
  for (int64_t i = k; c->odd && i < k + BLOCK && i < p->out[1]; ++i) {
    const int64_t padded = cr_most(0, p->pad[1] - i * stride);
    const float first = c->first[i * stride + padded - p->pad[1]];
    if (first == first) continue;
    best[i - k] = first;
    best_at[i - k] = at + (int32_t)padded;
  }
}

/* A row of windows; `indices` may be NULL. The last block overlaps the preceding block, or has
 * fewer than BLOCK windows. */
CR_INLINE void pool_row(int width, int stride, const cr_pool_planes *p, const columns *c,
                        int32_t at, float *dst, uint8_t *indices) {
  const int64_t count = p->out[1], last = count > BLOCK ? count - BLOCK : 0;
  for (int64_t next = 0; next < count; next += BLOCK) {
    const int64_t k = next < last ? next : last;
    float best[BLOCK];
    int32_t index[BLOCK];
    uint8_t byte[BLOCK];
    pool_block(width, stride, p, c, k, at, best, index);
    if (count < BLOCK) memcpy(dst, best, (size_t)count * sizeof *dst);
    else memcpy(dst + k, best, sizeof best);
    if (indices == NULL) continue;
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) byte[i] = (uint8_t)index[i];
    if (count < BLOCK) memcpy(indices, byte, (size_t)count);
    else memcpy(indices + k, byte, sizeof byte);
  }
}

/* Columns in the padding are never chosen. */
static void clear_columns(const cr_pool_planes *p, columns *c) {
  for (int64_t x = 0; x < p->pad[1] + p->in[1] + GAP; ++x) {
    c->best[x] = -INFINITY;
    c->at[x] = UINT8_MAX;
  }
}

/* src (H,W), dst and positions (H',W'). The columns of the next row of windows are computed
 * before a row is read, because loads of recently stored values wait for the store. */
CR_CLONES static void forward_plane(const void *state, const float *src, float *dst,
                                    uint8_t *indices) {
  const cr_pool_planes *p = state;
  const int64_t rows = p->out[0];
  columns ring[2];
  clear_columns(p, &ring[0]);
  clear_columns(p, &ring[1]);
  reduce_columns(p, 0, src, &ring[0]);
  for (int64_t i = 0; i < rows; ++i, dst += p->out[1]) {
    const columns *c = &ring[i % 2];
    const int32_t at = (int32_t)(cr_pool_reach_of(p, 0, i).from * p->kernel[1]);
    if (i + 1 < rows) reduce_columns(p, i + 1, src, &ring[(i + 1) % 2]);
    if (p->kernel[1] == 3 && p->stride[1] == 2) pool_row(3, 2, p, c, at, dst, indices);
    else if (p->kernel[1] == 3) pool_row(3, 1, p, c, at, dst, indices);
    else if (p->stride[1] == 2) pool_row(2, 2, p, c, at, dst, indices);
    else pool_row(2, 1, p, c, at, dst, indices);
    if (indices != NULL) indices += p->out[1];
  }
}

typedef struct rows_backward {
  cr_pool_planes w;
  int32_t offset[UINT8_MAX]; /* from a window's begin to each of its elements */
} rows_backward;

/* Adds the gradient of each window to the gradient of its maximum. Skips positions that no forward
 * pass can have made. */
static void backward_plane(const rows_backward *g, const float *diff_dst, const uint8_t *indices,
                           float *diff_src) {
  const cr_pool_planes *p = &g->w;
  const int64_t size = p->in[0] * p->in[1], elements = p->kernel[0] * p->kernel[1];
  for (int64_t i = 0; i < p->out[0]; ++i) {
    int64_t start = (i * p->stride[0] - p->pad[0]) * p->in[1] - p->pad[1];
    for (int64_t k = 0; k < p->out[1]; ++k, start += p->stride[1], ++diff_dst, ++indices) {
      const int64_t at = *indices < elements ? start + g->offset[*indices] : -1;
      if (at >= 0 && at < size) diff_src[at] += *diff_dst;
    }
  }
}

static crema_status make_planes(const cr_plan *plan, int src, int dst, cr_pool_planes *p) {
  if (plan->desc->u.pool.method != CR_POOL_MAX) return cr_fail(CREMA_E_UNSUPPORTED, "not maxima");
  return cr_pool_planes_make(plan, src, dst, p);
}

static crema_status plan_fwd(cr_plan *plan) {
  cr_pool_planes p;
  if (plan->hint[0].layout != NULL) return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order");
  CR_TRY(make_planes(plan, 0, 1, &p));
  if (p.kernel[1] < 2 || p.kernel[1] > 3 || p.stride[1] > 2 || p.kernel[0] > ROWS_MOST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not 2 or 3 columns wide with stride 1 or 2");
  }
  if (p.in[1] < BLOCK || p.in[1] > COLUMNS_MOST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "narrow or wide planes");
  }
  if (!cr_dnnl_absent(plan, 2)) plan->format[2].type = CREMA_U8;
  p.forward = forward_plane;
  return cr_plan_keep(plan, &p, sizeof p);
}

static crema_status plan_bwd(cr_plan *plan) {
  rows_backward g = {0};
  if (cr_dnnl_absent(plan, 1) || plan->hint[1].layout != NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order, or without the positions of maxima");
  }
  CR_TRY(make_planes(plan, 2, 0, &g.w));
  const int64_t width = g.w.kernel[1];
  if (width > UINT8_MAX || g.w.kernel[0] > UINT8_MAX / width) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a large window");
  }
  for (int64_t i = 0; i < g.w.kernel[0] * width; ++i) {
    g.offset[i] = (int32_t)(i / width * g.w.in[1] + i % width);
  }
  plan->format[1].type = CREMA_U8;
  return cr_plan_keep(plan, &g, sizeof g);
}

static crema_status run_bwd(const cr_call *call) {
  const rows_backward *g = call->plan->state;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const uint8_t *indices = (const uint8_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const int64_t in = g->w.in[0] * g->w.in[1], out = g->w.out[0] * g->w.out[1];
#pragma omp parallel for schedule(static) if (g->w.planes * in >= CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < g->w.planes; ++i) {
    if (!call->accumulate[2]) memset(diff_src + i * in, 0, (size_t)in * sizeof *diff_src);
    backward_plane(g, diff_dst + i * out, indices + i * out, diff_src + i * in);
  }
  return CREMA_OK;
}

CR_KERNEL(pool_fwd_rows, POOL_FWD, .follows_hints = true, .plan = plan_fwd,
          .run = cr_pool_planes_fwd, .destroy = cr_plan_release);

CR_KERNEL(pool_bwd_rows, POOL_BWD, .follows_hints = true, .can_accumulate = true, .plan = plan_bwd,
          .run = run_bwd, .destroy = cr_plan_release);
