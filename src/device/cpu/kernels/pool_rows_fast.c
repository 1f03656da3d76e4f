/* Max pooling over two axes of tensors in plain order: first the largest value of each column over
 * the rows of a row of windows, a vector of columns at a time, then of these the largest value of
 * each window. For windows of 2 or 3 columns that are 1 or 2 apart, and for wide ones that do not
 * overlap, as those of a spatial pyramid.
 *
 * oneDNN brings plain planes into blocks of channels and back for this, backward too. The positions
 * of maxima have the element type of its workspace, so that either can read the other's. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/prefetch.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/pool_planes.h"
#include "device/cpu/onednn/primitive.h"

enum {
  ROWS = 4,            /* of wide windows that are looked at together */
  COLUMNS_MOST = 2048, /* of a plane: what is known of them is on the stack */
  SHORT = 3,           /* columns of a short window at most; 2 at least */
  STRIDE = 2,          /* between short windows at most */
  SHORT_ROWS = 5,      /* of short windows at most */
  BLOCK = 16,          /* columns, or windows, that are worked on at once */
  GAP = 48,            /* so that arrays are not a multiple of 4096 bytes apart, and for blocks that
                        * reach beyond the last window */
  RING = 2,
  WIDE = 8,
  LINE = 64 /* bytes that memory gives at once */
};

typedef struct windows {
  cr_pool_planes w;              /* has to be the first member */
  bool few;                      /* columns in a window */
  bool narrow;                   /* the positions are U8, else I32 */
  int32_t offset[UINT8_MAX + 1]; /* from a window's begin to each of its elements */
} windows;

/* For each column of a plane the largest value in some rows, and the first of these rows that has
 * it, as the position in a window that begins with this column. */
typedef struct columns {
  float best[COLUMNS_MOST + GAP];
  int32_t at[COLUMNS_MOST + GAP];
} columns;

/* `from` and `to` are counted from the input's first element. */
CR_INLINE cr_pool_reach reach_of(const windows *p, int axis, int64_t index) {
  cr_pool_reach r = cr_pool_reach_of(&p->w, axis, index);
  r.from += r.start;
  r.to += r.start;
  return r;
}

/* ---- forward ------------------------------------------------------------- */

/* Looks at `rows` more rows of `count` columns, whose positions begin at `at`, `step` apart. A nan
 * is never larger. */
CR_INLINE void look_at(int64_t count, int rows, bool first, int64_t width,
                       const float *restrict src, int32_t at, int32_t step, float *restrict best,
                       int32_t *restrict where) {
#pragma omp simd
  for (int64_t x = 0; x < count; ++x) {
    float value = first ? -INFINITY : best[x];
    int32_t here = first ? at : where[x];
    for (int r = 0; r < rows; ++r) {
      const bool more = src[r * width + x] > value;
      value = more ? src[r * width + x] : value;
      here = more ? at + r * step : here;
    }
    best[x] = value;
    where[x] = here;
  }
}

/* Columns of the last block may be looked at twice. */
CR_INLINE void look_at_blocks(int rows, bool first, int64_t width, const float *src, int32_t at,
                              int32_t step, columns *c) {
  if (width < BLOCK) look_at(width, rows, first, width, src, at, step, c->best, c->at);
  for (int64_t next = 0; next < width && width >= BLOCK; next += BLOCK) {
    const int64_t x = next < width - BLOCK ? next : width - BLOCK;
    look_at(BLOCK, rows, first, width, src + x, at, step, c->best + x, c->at + x);
  }
}

CR_INLINE void look_at_some(int64_t rows, bool first, int64_t width, const float *src, int32_t at,
                            int32_t step, columns *c) {
  if (rows >= ROWS) look_at_blocks(ROWS, first, width, src, at, step, c);
  else if (rows == 3) look_at_blocks(3, first, width, src, at, step, c);
  else if (rows == 2) look_at_blocks(2, first, width, src, at, step, c);
  else look_at_blocks(1, first, width, src, at, step, c);
}

/* The columns of the rows `y`. `ahead`: how far behind lies what the next plane is computed from,
 * which is asked for meanwhile. */
CR_INLINE void look_at_columns(const windows *p, const cr_pool_reach *y, const float *plane,
                               int64_t ahead, columns *c) {
  const int64_t width = p->w.in[1];
  for (int64_t row = y->from; row < y->to; row += ROWS) {
    const float *src = plane + row * width;
    const int64_t rows = y->to - row < ROWS ? y->to - row : ROWS;
    const int32_t step = (int32_t)p->w.kernel[1], at = (int32_t)(row - y->start) * step;
    for (int64_t i = 0; i < rows * width; i += LINE / (int64_t)sizeof *src) {
      __builtin_prefetch(src + ahead + i, 0, CR_SECOND_CACHE);
    }
    if (row == y->from) look_at_some(rows, true, width, src, at, step, c);
    else look_at_some(rows, false, width, src, at, step, c);
  }
}

/* The largest of the window's columns `from` to `to` - 1, and the first of its positions. */
CR_INLINE void largest(const columns *c, int64_t from, int64_t to, int64_t start, float *top,
                       int32_t *top_at) {
  float best[BLOCK], most = -INFINITY;
  int32_t at[BLOCK], least = INT32_MAX;
  for (int k = 0; k < BLOCK; ++k) best[k] = -INFINITY;
  for (int64_t x = from; x < to; x += BLOCK) {
    const int32_t left = to - x < BLOCK ? (int32_t)(to - x) : BLOCK;
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) {
      const float value = k < left ? c->best[x + k] : -INFINITY;
      best[k] = value > best[k] ? value : best[k];
    }
  }
#pragma omp simd reduction(max : most)
  for (int k = 0; k < BLOCK; ++k) most = best[k] > most ? best[k] : most;
  for (int k = 0; k < BLOCK; ++k) at[k] = INT32_MAX;
  for (int64_t x = from; x < to; x += BLOCK) {
    const int32_t left = to - x < BLOCK ? (int32_t)(to - x) : BLOCK, first = (int32_t)(x - start);
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) {
      /* Behind the last column there may be anything: unsigned, as such sums may overflow. */
      const int32_t here = (int32_t)((uint32_t)c->at[x + k] + (uint32_t)(first + k));
      const bool is_largest = k < left && c->best[x + k] == most;
      at[k] = is_largest && here < at[k] ? here : at[k];
    }
  }
#pragma omp simd reduction(min : least)
  for (int k = 0; k < BLOCK; ++k) least = at[k] < least ? at[k] : least;
  *top = most;
  *top_at = least;
}

/* The maximum of one window of any width. `first`: the first of its rows, whose position is `at`.
 * The first element of a window is its maximum unless another one is larger: it alone may be nan.
 */
CR_INLINE void maximum(const windows *p, const columns *c, const cr_pool_reach *x,
                       const float *first, int32_t at, float *dst, int32_t *index) {
  float top = 0;
  int32_t top_at = 0;
  largest(c, x->from, x->to, x->start, &top, &top_at);
  const bool more = top > first[x->from];
  *dst = more ? c->best[x->start + top_at % (int32_t)p->w.kernel[1]] : first[x->from];
  *index = more ? top_at : at + (int32_t)(x->from - x->start);
}

/* src (H,W), dst and positions (H',W') from number `to` on; `indices` may be NULL. `ahead`: from
 * the plane to the next one. */
CR_CLONES static void forward_wide(const windows *p, const float *src, int64_t ahead, float *dst,
                                   int64_t to, void *indices) {
  columns c;
  int32_t index[COLUMNS_MOST];
  for (int64_t i = 0; i < p->w.out[0]; ++i, to += p->w.out[1]) {
    const cr_pool_reach y = reach_of(p, 0, i);
    const float *first = src + y.from * p->w.in[1];
    const int32_t at = (int32_t)((y.from - y.start) * p->w.kernel[1]);
    look_at_columns(p, &y, src, ahead, &c);
    for (int64_t k = 0; k < p->w.out[1]; ++k) {
      const cr_pool_reach x = reach_of(p, 1, k);
      maximum(p, &c, &x, first, at, dst + to + k, index + k);
    }
    if (indices == NULL) continue;
    if (p->narrow) {
      for (int64_t k = 0; k < p->w.out[1]; ++k) ((uint8_t *)indices)[to + k] = (uint8_t)index[k];
    } else {
      memcpy((int32_t *)indices + to, index, (size_t)p->w.out[1] * sizeof *index);
    }
  }
}

/* ---- forward, short windows ---------------------------------------------- */

/* What is known of the columns of some rows of windows: column x of the input is number
 * x + padding here. A row of windows is read when the next one has been made: what was just stored
 * is slow to load at another alignment. */
typedef struct plane_rows {
  columns row[RING];       /* row i of windows is number i % RING */
  float sum[COLUMNS_MOST]; /* of the columns' values that are the first of a window */
} plane_rows;

/* `count` columns of `rows` rows of the input, `width` apart. `at`: the position of the first row.
 */
CR_INLINE void look_down(int count, int rows, int64_t width, const float *restrict src, int32_t at,
                         int32_t step, float *restrict best, int32_t *restrict where,
                         float *restrict sum) {
#pragma omp simd
  for (int x = 0; x < count; ++x) {
    float value = src[x];
    int32_t here = at;
    sum[x] += value;
    for (int r = 1; r < rows; ++r) {
      const bool more = src[r * width + x] > value;
      value = more ? src[r * width + x] : value;
      here = more ? at + r * step : here;
    }
    best[x] = value;
    where[x] = here;
  }
}

/* Columns that are never chosen. */
CR_INLINE void fill_padding(columns *c, int64_t from, int64_t count) {
  for (int64_t x = from; x < from + count; ++x) {
    c->best[x] = -INFINITY;
    c->at[x] = UINT8_MAX;
  }
}

/* A row of the input's columns. The last block has some columns of the one before, or, as `spare`
 * values follow, some that do not belong to the row. */
CR_INLINE void look_down_row(const windows *p, int rows, const float *src, int64_t spare,
                             int32_t at, float *sum, columns *c) {
  const int64_t width = p->w.in[1], pad = p->w.pad[1];
  const int32_t step = (int32_t)p->w.kernel[1];
  if (width < BLOCK && spare < BLOCK) {
    for (int64_t x = 0; x < width; ++x) {
      look_down(1, rows, width, src + x, at, step, c->best + pad + x, c->at + pad + x, sum + x);
    }
    return;
  }
  for (int64_t next = 0; next < width; next += BLOCK) {
    const int64_t last = width > BLOCK ? width - BLOCK : 0, x = next < last ? next : last;
    look_down(BLOCK, rows, width, src + x, at, step, c->best + pad + x, c->at + pad + x, sum + x);
  }
  if (width < BLOCK) fill_padding(c, pad + width, BLOCK - width);
}

/* Of two columns of windows, the larger value, or the first one of both. */
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

/* The windows of a block begin with column `from` and those `stride` behind each other. Two loads
 * of two columns each: half of what lies somewhere is slow to load. */
CR_INLINE void look_across(int width, int stride, const float *restrict value,
                           const int32_t *restrict at, float *restrict best,
                           int32_t *restrict best_at) {
  float second[BLOCK], third[BLOCK];
  int32_t second_at[BLOCK], third_at[BLOCK];
#pragma omp simd
  for (int k = 0; k < BLOCK; ++k) {
    best[k] = value[stride * k];
    second[k] = value[stride * k + 1];
    best_at[k] = at[stride * k];
    second_at[k] = at[stride * k + 1];
  }
  compare_columns(second, second_at, 1, best, best_at);
  if (width < SHORT) return;
#pragma omp simd
  for (int k = 0; k < BLOCK; ++k) {
    second[k] = value[stride * k + 1];
    third[k] = value[stride * k + 2];
    second_at[k] = at[stride * k + 1];
    third_at[k] = at[stride * k + 2];
  }
  compare_columns(third, third_at, 2, best, best_at);
}

CR_INLINE void to_bytes(const int32_t *restrict index, uint8_t *restrict byte) {
#pragma omp simd
  for (int k = 0; k < BLOCK; ++k) byte[k] = (uint8_t)index[k];
}

/* A row of windows; `indices` may be NULL. The last block has some windows of the one before, or
 * fewer than BLOCK. */
CR_INLINE void look_across_row(int width, int stride, const windows *p, const columns *c,
                               float *dst, uint8_t *indices) {
  const int64_t count = p->w.out[1], last = count > BLOCK ? count - BLOCK : 0;
  const size_t stored = count < BLOCK ? (size_t)count : BLOCK;
  for (int64_t next = 0; next < count; next += BLOCK) {
    const int64_t k = next < last ? next : last;
    float best[BLOCK];
    int32_t index[BLOCK];
    uint8_t byte[BLOCK];
    look_across(width, stride, c->best + k * stride, c->at + k * stride, best, index);
    if (stored < BLOCK) memcpy(dst, best, stored * sizeof *dst);
    else memcpy(dst + k, best, sizeof best);
    if (indices == NULL) continue;
    to_bytes(index, byte);
    if (stored < BLOCK) memcpy(indices, byte, stored);
    else memcpy(indices + k, byte, sizeof byte);
  }
}

/* A window's maximum, one value after the other: the first element is it unless another one is
 * larger; it alone may be nan. */
static float maximum_of(const windows *p, const cr_pool_reach *y, const cr_pool_reach *x,
                        const float *plane, uint8_t *at) {
  float best = plane[y->from * p->w.in[1] + x->from];
  *at = (uint8_t)((y->from - y->start) * p->w.kernel[1] + x->from - x->start);
  for (int64_t r = y->from; r < y->to; ++r) {
    for (int64_t i = x->from; i < x->to; ++i) {
      const float value = plane[r * p->w.in[1] + i];
      if (!(value > best)) continue;
      best = value;
      *at = (uint8_t)((r - y->start) * p->w.kernel[1] + i - x->start);
    }
  }
  return best;
}

static void forward_closely(const windows *p, const float *src, float *dst, uint8_t *indices) {
  for (int64_t i = 0; i < p->w.out[0]; ++i) {
    const cr_pool_reach y = reach_of(p, 0, i);
    for (int64_t k = 0; k < p->w.out[1]; ++k) {
      const cr_pool_reach x = reach_of(p, 1, k);
      uint8_t at = 0;
      *dst++ = maximum_of(p, &y, &x, src, &at);
      if (indices != NULL) *indices++ = at;
    }
  }
}

/* True where windows' first values have a nan, infinite ones of both signs, or large ones. */
CR_INLINE bool may_have_nan(int64_t count, const float *restrict value) {
  float sum[BLOCK] = {0}, all = 0;
  for (int64_t x = 0; x < count; x += BLOCK) {
#pragma omp simd
    for (int k = 0; k < BLOCK; ++k) sum[k] += value[x + k];
  }
  for (int k = 0; k < BLOCK; ++k) all += sum[k];
  return all != all;
}

/* `room`: of the sums that are made. */
CR_INLINE void begin_rows(const windows *p, int64_t room, plane_rows *s) {
  for (int i = 0; i < RING; ++i) {
    fill_padding(&s->row[i], 0, p->w.pad[1]);
    fill_padding(&s->row[i], p->w.pad[1] + p->w.in[1], GAP);
  }
  for (int64_t x = 0; x < room; ++x) s->sum[x] = 0;
}

CR_INLINE void look_down_rows(const windows *p, int64_t i, const float *src, int64_t spare,
                              plane_rows *s) {
  const cr_pool_reach y = reach_of(p, 0, i);
  columns *c = &s->row[i % RING];
  const int32_t at = (int32_t)((y.from - y.start) * p->w.kernel[1]);
  switch (y.to - y.from) {
    case 1: look_down_row(p, 1, src + y.from * p->w.in[1], spare, at, s->sum, c); break;
    case 2: look_down_row(p, 2, src + y.from * p->w.in[1], spare, at, s->sum, c); break;
    case 3: look_down_row(p, 3, src + y.from * p->w.in[1], spare, at, s->sum, c); break;
    case 4: look_down_row(p, 4, src + y.from * p->w.in[1], spare, at, s->sum, c); break;
    default: look_down_row(p, SHORT_ROWS, src + y.from * p->w.in[1], spare, at, s->sum, c); break;
  }
}

CR_INLINE void look_across_rows(const windows *p, const columns *c, float *dst, uint8_t *indices) {
  const bool apart = p->w.stride[1] > 1;
  if (p->w.kernel[1] == SHORT && apart) look_across_row(3, 2, p, c, dst, indices);
  else if (p->w.kernel[1] == SHORT) look_across_row(3, 1, p, c, dst, indices);
  else if (apart) look_across_row(2, 2, p, c, dst, indices);
  else look_across_row(2, 1, p, c, dst, indices);
}

/* src (H,W), which `spare` values follow, to and positions (H',W'); `positions` may be NULL. */
CR_CLONES static void forward_short(const windows *p, const float *src, int64_t spare, float *to,
                                    uint8_t *positions) {
  const int64_t rows = p->w.out[0], width = p->w.out[1];
  const int64_t room = (p->w.in[1] + BLOCK - 1) / BLOCK * BLOCK;
  float *dst = to;
  uint8_t *indices = positions;
  plane_rows s;
  begin_rows(p, room, &s);
  look_down_rows(p, 0, src, spare, &s);
  for (int64_t i = 0; i < rows; ++i, dst += width) {
    if (i + 1 < rows) look_down_rows(p, i + 1, src, spare, &s);
    look_across_rows(p, &s.row[i % RING], dst, indices);
    if (indices != NULL) indices += width;
  }
  if (may_have_nan(room, s.sum)) forward_closely(p, src, to, positions);
}

/* ---- backward ------------------------------------------------------------ */

/* From a window's begin to its maximum. */
CR_INLINE int64_t offset_of(const windows *p, const void *indices, int64_t i) {
  if (p->narrow) return p->offset[((const uint8_t *)indices)[i]];
  const int32_t at = ((const int32_t *)indices)[i], width = (int32_t)p->w.kernel[1];
  return at / width * p->w.in[1] + at % width;
}

/* Adds each window's gradient, from number `from` on, to that of its maximum. Positions that a
 * forward pass cannot have left are passed over. */
static void backward_plane(const windows *p, const float *diff_dst, int64_t from,
                           const void *indices, float *diff_src) {
  const int64_t size = p->w.in[0] * p->w.in[1];
  for (int64_t i = 0; i < p->w.out[0]; ++i) {
    int64_t start = (i * p->w.stride[0] - p->w.pad[0]) * p->w.in[1] - p->w.pad[1];
    for (int64_t k = 0; k < p->w.out[1]; ++k, ++from, start += p->w.stride[1]) {
      const int64_t at = start + offset_of(p, indices, from);
      if (at >= 0 && at < size) diff_src[at] += diff_dst[from];
    }
  }
}

/* ---- planning ------------------------------------------------------------ */

static crema_status fill_windows(const cr_plan *plan, int src, int dst, windows *p) {
  if (plan->desc->u.pool.method != CR_POOL_MAX) return cr_fail(CREMA_E_UNSUPPORTED, "not maxima");
  CR_TRY(cr_pool_planes_make(plan, src, dst, &p->w));
  const int64_t width = p->w.kernel[1], count = p->w.kernel[0] * width;
  p->few = width >= 2 && width <= SHORT && p->w.stride[1] <= STRIDE &&
           p->w.kernel[0] <= SHORT_ROWS && p->w.stride[0] <= SHORT_ROWS;
  if (!p->few && (width < WIDE || p->w.stride[1] < width)) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "neither 2 or 3 columns, 1 or 2 apart, nor many side by side");
  }
  if (!p->few && (p->w.in[1] > COLUMNS_MOST || p->w.kernel[0] > INT32_MAX / width)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "wide planes");
  }
  p->narrow = count <= UINT8_MAX;
  for (int64_t i = 0; p->narrow && i < count; ++i) {
    p->offset[i] = (int32_t)(i / width * p->w.in[1] + i % width);
  }
  return CREMA_OK;
}

static crema_status plan_windows(cr_plan *plan, int src, int dst, int indices) {
  windows p = {0};
  CR_TRY(fill_windows(plan, src, dst, &p));
  if (!cr_dnnl_absent(plan, indices)) {
    plan->format[indices].type = p.narrow ? CREMA_U8 : CREMA_I32;
  }
  return cr_pool_planes_keep(plan, &p, sizeof p);
}

static crema_status plan_fwd(cr_plan *plan) {
  if (plan->hint[0].layout != NULL) return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order");
  return plan_windows(plan, 0, 1, 2);
}

static crema_status plan_bwd(cr_plan *plan) {
  if (cr_dnnl_absent(plan, 1) || plan->hint[1].layout != NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not in plain order, or without the positions of maxima");
  }
  return plan_windows(plan, 2, 0, 1);
}

static void forward_plane(const windows *p, int64_t number, const float *src, float *dst,
                          void *indices) {
  const int64_t in = p->w.in[0] * p->w.in[1], out = p->w.out[0] * p->w.out[1];
  const int64_t ahead = number + 1 < p->w.planes ? in : 0;
  if (p->few) {
    uint8_t *positions = indices == NULL ? NULL : (uint8_t *)indices + number * out;
    forward_short(p, src + number * in, ahead, dst + number * out, positions);
  } else {
    forward_wide(p, src + number * in, ahead, dst, number * out, indices);
  }
}

static crema_status run_fwd(const cr_call *call) {
  const windows *p = call->plan->state;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  void *indices = (void *)call->buffer[2].address;
#pragma omp parallel for schedule(static) if (p->w.planes * p->w.in[0] * p->w.in[1] >= \
                                              CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < p->w.planes; ++i) forward_plane(p, i, src, dst, indices);
  return CREMA_OK;
}

static crema_status run_bwd(const cr_call *call) {
  const windows *p = call->plan->state;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const void *indices = (const void *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const int64_t in = p->w.in[0] * p->w.in[1], out = p->w.out[0] * p->w.out[1];
#pragma omp parallel for schedule(static) if (p->w.planes * in >= CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < p->w.planes; ++i) {
    if (!call->accumulate[2]) memset(diff_src + i * in, 0, (size_t)in * sizeof *diff_src);
    backward_plane(p, diff_dst, i * out, indices, diff_src + i * in);
  }
  return CREMA_OK;
}

CR_KERNEL(pool_fwd_rows, POOL_FWD, .follows_hints = true, .plan = plan_fwd, .run = run_fwd,
          .destroy = cr_pool_planes_destroy);

CR_KERNEL(pool_bwd_rows, POOL_BWD, .follows_hints = true, .can_accumulate = true, .plan = plan_bwd,
          .run = run_bwd, .destroy = cr_pool_planes_destroy);
