/* Average pooling over two axes of planes in plain order, for windows of 2 or 3 columns that are 1
 * or 2 apart, and its gradient. In FLOAT.
 *
 * Gain over oneDNN 2.6, which brings such planes into blocks of channels and back: 2.5x to 3.3x
 * forward, 1.5x to 2.3x backward on Granite Rapids, 32 x 64 planes of 56 x 56 (the Pooling rows of
 * bench/layers).
 *
 * Forward, the columns are summed over the rows of a row of windows, then the windows over their
 * columns. Backward, the shares of a row of windows are summed for each column of the input; a row
 * of the input is the sum of these rows. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/pool_planes.h"
#include "device/cpu/onednn/primitive.h"

enum {
  COLUMNS_MOST = 2048, /* of a plane; their sums lie on the stack */
  ROWS_MOST = 5,       /* of a window */
  RING = ROWS_MOST + 1,
  BLOCK = 16, /* columns, or windows, that are computed together */
  GAP = 4 * BLOCK,
  ROOM = COLUMNS_MOST + GAP /* a row with padding, and what blocks reach beyond it */
};

typedef struct windows {
  cr_pool_planes w;            /* has to be the first member */
  bool inside;                 /* the divisor counts elements of the input, without padding */
  float columns[COLUMNS_MOST]; /* how many columns of each window the divisor counts */
} windows;

/* How many elements the divisor counts along one axis. */
static int64_t counted(const windows *p, int axis, int64_t index) {
  const cr_pool_reach r = cr_pool_reach_of(&p->w, axis, index);
  const int64_t padded = p->w.in[axis] + p->w.pad[axis] - r.start;
  return p->inside ? r.to - r.from : cr_least(padded, p->w.kernel[axis]);
}

/* Where block `next` of `count` values begins: the last block overlaps the one before. */
CR_INLINE int64_t begin_of(int64_t next, int64_t count) {
  return cr_least(next, cr_most(0, count - BLOCK));
}

/* ---- forward ---- */

/* sum = the columns of `rows` rows, a constant where it is 2 or 3. */
CR_INLINE void sum_rows(int64_t rows, int64_t width, const float *src, float *sum) {
  for (int64_t next = 0; next < width; next += BLOCK) {
    const int64_t x = begin_of(next, width);
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) {
      float all = src[x + k];
      for (int64_t r = 1; r < rows; ++r) all += src[r * width + x + k];
      sum[x + k] = all;
    }
  }
}

/* Sums of the columns of row `i` of windows; column x of the input is sum[x + padding]. */
CR_INLINE void sum_columns(const cr_pool_planes *p, int64_t i, const float *plane, float *sum) {
  const cr_pool_reach y = cr_pool_reach_of(p, 0, i);
  const float *src = plane + (y.start + y.from) * p->in[1];
  const int64_t rows = y.to - y.from, width = p->in[1];
  if (rows == 3) sum_rows(3, width, src, sum + p->pad[1]);
  else if (rows == 2) sum_rows(2, width, src, sum + p->pad[1]);
  else sum_rows(rows, width, src, sum + p->pad[1]);
}

/* A row of averages; `width` and `stride` are constants. */
CR_INLINE void average_row(int width, int stride, const windows *p, const float *sum, float rows,
                           float *dst) {
  const int64_t count = p->w.out[1];
  for (int64_t next = 0; next < count; next += BLOCK) {
    const int64_t first = begin_of(next, count);
    const float *from = sum + first * stride;
    float block[BLOCK];
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) {
      float all = from[stride * k] + from[stride * k + 1];
      if (width == 3) all += from[stride * k + 2];
      block[k] = all / (rows * p->columns[first + k]);
    }
    if (count < BLOCK) memcpy(dst, block, (size_t)count * sizeof *dst);
    else memcpy(dst + first, block, sizeof block);
  }
}

/* src (H,W), dst (H',W'). The columns of the next row of windows are summed before a row is read:
 * loads of what was just stored wait for the store. */
CR_CLONES static void forward_plane(const void *state, const float *src, float *dst,
                                    uint8_t *indices) {
  const windows *p = state;
  const cr_pool_planes *w = &p->w;
  _Alignas(64) float ring[2][ROOM];
  (void)indices;
  for (int i = 0; i < 2; ++i) memset(ring[i], 0, (size_t)(w->in[1] + GAP) * sizeof **ring);
  sum_columns(w, 0, src, ring[0]);
  for (int64_t i = 0; i < w->out[0]; ++i, dst += w->out[1]) {
    const float *sum = ring[i % 2], rows = (float)counted(p, 0, i);
    if (i + 1 < w->out[0]) sum_columns(w, i + 1, src, ring[(i + 1) % 2]);
    if (w->kernel[1] == 3 && w->stride[1] == 2) average_row(3, 2, p, sum, rows, dst);
    else if (w->kernel[1] == 3) average_row(3, 1, p, sum, rows, dst);
    else if (w->stride[1] == 2) average_row(2, 2, p, sum, rows, dst);
    else average_row(2, 1, p, sum, rows, dst);
  }
}

/* ---- backward ---- */

/* share (windows of a row) = what each element of a window receives. */
CR_INLINE void fill_shares(const windows *p, float rows, const float *diff, float *share) {
  const int64_t count = p->w.out[1];
#pragma omp simd
  for (int64_t k = 0; k < count; ++k) share[k] = diff[k] / (rows * p->columns[k]);
}

/* out[x + padding] = the sum of the shares of the windows that have column x. Zeros surround the
 * shares. `width` and `stride` are constants. */
CR_INLINE void sum_shares(int width, int stride, const cr_pool_planes *p, const float *share,
                          float *out) {
  const int64_t count = cr_pieces(p->in[1] + p->pad[1], stride);
  for (int64_t first = 0; first < count; first += BLOCK) {
#pragma omp simd
    for (int64_t k = first; k < first + BLOCK; ++k) {
      const float own = share[k], before = share[k - 1];
      if (stride == 1) {
        out[k] = width == 3 ? own + before + share[k - 2] : own + before;
      } else {
        out[2 * k] = width == 3 ? own + before : own;
        out[2 * k + 1] = own;
      }
    }
  }
}

/* What the columns of the input receive from row `i` of windows. */
CR_INLINE void sum_row_of_windows(const windows *p, int64_t i, const float *diff_dst, float *share,
                                  float *out) {
  const cr_pool_planes *w = &p->w;
  fill_shares(p, (float)counted(p, 0, i), diff_dst + i * w->out[1], share);
  if (w->kernel[1] == 3 && w->stride[1] == 2) sum_shares(3, 2, w, share, out);
  else if (w->kernel[1] == 3) sum_shares(3, 1, w, share, out);
  else if (w->stride[1] == 2) sum_shares(2, 2, w, share, out);
  else sum_shares(2, 1, w, share, out);
}

/* A row of the input: the sum of the `rows` rows of windows that have it. */
CR_INLINE void put_row(const cr_pool_planes *p, int64_t rows, const float *const *from,
                       float *restrict to) {
  for (int64_t next = 0; next < p->in[1]; next += BLOCK) {
    const int64_t x = begin_of(next, p->in[1]);
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) {
      float all = 0;
      for (int64_t r = 0; r < rows; ++r) all += from[r][x + k];
      to[x + k] = all;
    }
  }
}

/* diff_dst (H',W'), diff_src (H,W). */
CR_CLONES static void backward_plane(const void *state, const float *diff_dst,
                                     const uint8_t *indices, float *diff_src) {
  const windows *p = state;
  const cr_pool_planes *w = &p->w;
  _Alignas(64) float ring[RING][ROOM], share[ROOM];
  int64_t made = 0; /* rows of windows */
  (void)indices;
  memset(share, 0, (size_t)(w->in[1] + GAP + 2 * BLOCK) * sizeof *share);
  for (int64_t y = 0; y < w->in[0]; ++y) {
    const int64_t at = y + w->pad[0];
    const int64_t end = cr_least(w->out[0], at / w->stride[0] + 1);
    const int64_t begin = at < w->kernel[0] ? 0 : (at - w->kernel[0]) / w->stride[0] + 1;
    const float *from[ROWS_MOST];
    for (; made < end; ++made) {
      sum_row_of_windows(p, made, diff_dst, share + BLOCK, ring[made % RING]);
    }
    for (int64_t i = begin; i < end; ++i) from[i - begin] = ring[i % RING] + w->pad[1];
    if (end - begin == 1) put_row(w, 1, from, diff_src + y * w->in[1]);
    else if (end - begin == 2) put_row(w, 2, from, diff_src + y * w->in[1]);
    else put_row(w, cr_most(0, end - begin), from, diff_src + y * w->in[1]);
  }
}

/* ---- planning ---- */

static crema_status plan_windows(cr_plan *plan, int src, int dst) {
  windows p = {.inside = plan->desc->u.pool.method == CR_POOL_AVERAGE_INPUT};
  const cr_pool_planes *w = &p.w;
  if (plan->desc->u.pool.method == CR_POOL_MAX) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not averages");
  }
  if (plan->hint[0].layout != NULL) return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order");
  CR_TRY(cr_pool_planes_make(plan, src, dst, &p.w));
  if (w->kernel[1] < 2 || w->kernel[1] > 3 || w->stride[1] > 2 || w->kernel[0] > ROWS_MOST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not windows of 2 or 3 columns, 1 or 2 apart");
  }
  if (w->in[1] < BLOCK || w->in[1] > COLUMNS_MOST || w->out[1] > COLUMNS_MOST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "narrow or wide planes");
  }
  for (int64_t k = 0; k < COLUMNS_MOST; ++k) {
    p.columns[k] = k < w->out[1] ? (float)counted(&p, 1, k) : 1;
  }
  p.w.forward = forward_plane;
  p.w.backward = backward_plane;
  return cr_pool_planes_keep(plan, &p, sizeof p);
}

static crema_status plan_fwd(cr_plan *plan) {
  return plan_windows(plan, 0, 1);
}

static crema_status plan_bwd(cr_plan *plan) {
  return plan_windows(plan, 2, 0);
}

CR_KERNEL(pool_fwd_average, POOL_FWD, .follows_hints = true, .plan = plan_fwd,
          .run = cr_pool_planes_fwd, .destroy = cr_pool_planes_destroy);

CR_KERNEL(pool_bwd_average, POOL_BWD, .follows_hints = true, .plan = plan_bwd,
          .run = cr_pool_planes_bwd, .destroy = cr_pool_planes_destroy);
