/* Max pooling over two axes of tensors in plain order: first the largest value of each column over
 * the rows of a row of windows, a vector of columns at a time, then of these the largest value of
 * each window. For windows of 3 columns 1 or 2 apart, and for wide ones that do not overlap, as
 * those of a spatial pyramid.
 *
 * oneDNN brings plain planes into blocks of channels and back for this, backward too. The positions
 * of maxima have the element type of its workspace, so that either can read the other's. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"
#include "device/cpu/pool_planes.h"

enum {
  ROWS = 4,            /* that are looked at together */
  COLUMNS_MOST = 2048, /* of a plane: what is known of them is on the stack */
  SHORT = 3,           /* columns of a window */
  STRIDE = 2,          /* between short windows at most */
  SHORT_ROWS = 5,      /* of short windows at most */
  RING = 2 * SHORT_ROWS,
  TOGETHER = 256, /* columns that are worked on at once, if a plane has no more */
  LANES = CR_POOL_LANES,
  BLOCK = 16, /* columns of a strip are a multiple of this */
  GAP = 16,   /* so that arrays are not a multiple of 4096 bytes apart, and for vectors
               * that reach beyond the last column */
  WIDE = 8,
  LINE = 64 /* bytes that memory gives at once */
};

/* Vectors are of columns side by side. */
typedef struct windows {
  cr_pool_planes w;              /* has to be the first member */
  bool few;                      /* columns in a window: SHORT */
  int64_t segment, together;     /* columns of a plane, with its padding; planes side by side */
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

/* Looks at `rows` more rows, whose positions begin at `at`, `step` apart. A nan is never larger. */
CR_INLINE void look_at(int rows, bool first, int64_t width, const float *src, int32_t at,
                       int32_t step, columns *c) {
#pragma omp simd
  for (int64_t x = 0; x < width; ++x) {
    float best = first ? -INFINITY : c->best[x];
    int32_t where = first ? at : c->at[x];
    for (int r = 0; r < rows; ++r) {
      const float value = src[r * width + x];
      const bool more = value > best;
      best = more ? value : best;
      where = more ? at + r * step : where;
    }
    c->best[x] = best;
    c->at[x] = where;
  }
}

CR_INLINE void look_at_some(int64_t rows, bool first, int64_t width, const float *src, int32_t at,
                            int32_t step, columns *c) {
  if (rows >= ROWS) look_at(ROWS, first, width, src, at, step, c);
  else if (rows == 3) look_at(3, first, width, src, at, step, c);
  else if (rows == 2) look_at(2, first, width, src, at, step, c);
  else look_at(1, first, width, src, at, step, c);
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
      __builtin_prefetch(src + ahead + i);
    }
    if (row == y->from) look_at_some(rows, true, width, src, at, step, c);
    else look_at_some(rows, false, width, src, at, step, c);
  }
}

/* The maximum of one window of any width. `first`: the first of its rows, whose position is `at`.
 * The first element of a window is its maximum unless another one is larger: it alone may be nan.
 */
CR_INLINE void maximum(const windows *p, const columns *c, const cr_pool_reach *x,
                       const float *first, int32_t at, float *dst, int32_t *index) {
  float top = -INFINITY;
  int32_t top_at = INT32_MAX;
#pragma omp simd reduction(max : top)
  for (int64_t k = x->from; k < x->to; ++k) top = c->best[k] > top ? c->best[k] : top;
#pragma omp simd reduction(min : top_at)
  for (int64_t k = x->from; k < x->to; ++k) {
    const int32_t here = c->best[k] == top ? c->at[k] + (int32_t)(k - x->start) : INT32_MAX;
    top_at = here < top_at ? here : top_at;
  }
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

/* ---- forward, windows of 3 columns --------------------------------------- */

/* The same rows of some planes side by side, each begun and ended by its padding, which is -inf. */
typedef struct strip {
  int64_t planes, length;
  float row[RING][COLUMNS_MOST + GAP]; /* row y is number y % RING */
  columns column, half[STRIDE];        /* all, and every second one from either on */
  float dst[COLUMNS_MOST + GAP];
  int32_t index[COLUMNS_MOST + GAP];  /* positions */
  int32_t exists[COLUMNS_MOST + GAP]; /* 0: the window lies between two planes, else -1 */
  uint8_t byte[COLUMNS_MOST];         /* positions */
  int32_t odd[LANES];
} strip;

/* Row y. The same row of the next planes is fetched. */
CR_INLINE void load_row(const windows *p, const float *src, int64_t ahead, int64_t y, strip *s) {
  const int64_t width = p->w.in[1], in = p->w.in[0] * width;
  float *to = s->row[y % RING] + p->w.pad[1];
  for (int64_t i = 0; i < s->planes; ++i, to += p->segment) {
    const float *from = src + i * in + y * width;
    memcpy(to, from, (size_t)width * sizeof *to);
    for (int64_t x = 0; x < width; x += LINE / (int64_t)sizeof *src) {
      __builtin_prefetch(from + ahead + x);
    }
  }
}

/* Where `mask` has bits, of the first, else of the second. */
CR_INLINE void take_some(const cr_ints *mask, const cr_floats *value, const cr_ints *at,
                         cr_floats *best, cr_ints *best_at) {
  *best = (cr_floats)(((cr_ints)*value & *mask) | ((cr_ints)*best & ~*mask));
  *best_at = (*at & *mask) | (*best_at & ~*mask);
}

/* The columns of 1 to SHORT rows, the first of which is number `at / SHORT` of its window; `more`:
 * other rows came before. */
CR_INLINE void look_down(int rows, bool more, const float *const *row, int32_t at, strip *s) {
  columns *c = &s->column;
  cr_ints odd = *(const cr_ints *)s->odd;
  for (int64_t x = 0; x < s->length; x += LANES) {
    cr_floats best = (cr_floats){0} - INFINITY;
    cr_ints where = (cr_ints){0} + at;
    if (more) best = *(const cr_floats *)(c->best + x);
    if (more) where = *(const cr_ints *)(c->at + x);
    for (int r = 0; r < rows; ++r) {
      const cr_floats value = *(const cr_floats *)(row[r] + x);
      const cr_ints larger = value > best, here = (cr_ints){0} + (at + r * SHORT);
      odd |= value != value;
      take_some(&larger, &value, &here, &best, &where);
    }
    *(cr_floats *)(c->best + x) = best;
    *(cr_ints *)(c->at + x) = where;
  }
  *(cr_ints *)s->odd = odd;
}

/* The columns of a row of windows. */
CR_INLINE void look_at_rows(const cr_pool_reach *y, strip *s) {
  for (int64_t done = y->from; done < y->to; done += SHORT) {
    const float *row[SHORT];
    const int32_t at = (int32_t)(done - y->start) * SHORT;
    const bool more = done > y->from;
    for (int r = 0; r < SHORT; ++r) row[r] = s->row[(done + r) % RING];
    if (y->to - done >= SHORT) look_down(SHORT, false, row, at, s);
    else if (y->to - done == 2 && !more) look_down(2, false, row, at, s);
    else if (!more) look_down(1, false, row, at, s);
    else if (y->to - done == 2) look_down(2, true, row, at, s);
    else look_down(1, true, row, at, s);
  }
}

/* Of two columns with positions in one window; the first position if both are equal. */
CR_INLINE void keep_larger(const cr_floats *value, const cr_ints *at, cr_floats *best,
                           cr_ints *best_at) {
  const cr_ints more = (*value > *best) | ((*value == *best) & (*at < *best_at));
  take_some(&more, value, at, best, best_at);
}

/* Column `number` of LANES windows, the first of which begins with column x. */
CR_INLINE void columns_of(int64_t stride, int number, const columns *c, int64_t x, cr_floats *value,
                          cr_ints *at) {
  if (stride == 1) {
    *value = *(const cr_floats *)(c->best + x + number);
    *at = *(const cr_ints *)(c->at + x + number) + number;
    return;
  }
  const int64_t from = number == SHORT - 1 ? x + STRIDE : x;
  const cr_floats a = *(const cr_floats *)(c->best + from),
                  b = *(const cr_floats *)(c->best + from + LANES);
  const cr_ints d = *(const cr_ints *)(c->at + from), e = *(const cr_ints *)(c->at + from + LANES);
  if (number == 1) {
    *value = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    *at = __builtin_shufflevector(d, e, 1, 3, 5, 7, 9, 11, 13, 15) + number;
  } else {
    *value = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    *at = __builtin_shufflevector(d, e, 0, 2, 4, 6, 8, 10, 12, 14) + number;
  }
}

CR_INLINE void look_across(int64_t stride, strip *s) {
  cr_ints odd = *(const cr_ints *)s->odd;
  for (int64_t k = 0; k * stride < s->length; k += LANES) {
    cr_floats best, value;
    cr_ints best_at, at;
    columns_of(stride, 0, &s->column, k * stride, &best, &best_at);
    for (int number = 1; number < SHORT; ++number) {
      columns_of(stride, number, &s->column, k * stride, &value, &at);
      keep_larger(&value, &at, &best, &best_at);
    }
    *(cr_floats *)(s->dst + k) = best;
    *(cr_ints *)(s->index + k) = best_at;
    odd |= (best == -INFINITY) & *(const cr_ints *)(s->exists + k);
  }
  *(cr_ints *)s->odd = odd;
}

/* A row of windows. False: there is a nan, or a window without a number above -inf. */
CR_INLINE bool look_at_windows(const windows *p, const cr_pool_reach *y, strip *s) {
  int32_t odd = 0;
  memset(s->odd, 0, sizeof s->odd);
  look_at_rows(y, s);
  if (p->w.stride[1] == 1) look_across(1, s);
  else look_across(STRIDE, s);
  for (int x = 0; x < LANES; ++x) odd |= s->odd[x];
  return odd == 0;
}

/* One value after the other: the first element of a window is its maximum unless another one is
 * larger; it alone may be nan. */
static void look_closely(const windows *p, const cr_pool_reach *y, strip *s) {
  for (int64_t k = 0; k < s->planes * p->w.out[1]; ++k) {
    const cr_pool_reach x = reach_of(p, 1, k % p->w.out[1]);
    const int64_t begin = k / p->w.out[1] * p->segment + p->w.pad[1];
    const int64_t to = k / p->w.out[1] * (p->segment / p->w.stride[1]) + k % p->w.out[1];
    float best = s->row[y->from % RING][begin + x.from];
    int64_t at = (y->from - y->start) * SHORT + x.from - x.start;
    for (int64_t r = y->from; r < y->to; ++r) {
      for (int64_t i = x.from; i < x.to; ++i) {
        const float value = s->row[r % RING][begin + i];
        if (!(value > best)) continue;
        best = value;
        at = (r - y->start) * SHORT + i - x.start;
      }
    }
    s->dst[to] = best;
    s->index[to] = (int32_t)at;
  }
}

/* A row of windows. */
CR_INLINE void store_row(const windows *p, const strip *s, int64_t row, float *dst,
                         uint8_t *indices) {
  const int64_t width = p->w.out[1], out = p->w.out[0] * width;
  for (int64_t i = 0; i < s->planes; ++i) {
    const int64_t from = i * (p->segment / p->w.stride[1]), to = i * out + row * width;
    memcpy(dst + to, s->dst + from, (size_t)width * sizeof *dst);
    if (indices != NULL) memcpy(indices + to, s->byte + from, (size_t)width);
  }
}

static void begin_strip(const windows *p, strip *s) {
  const int64_t length = s->length;
  for (int64_t r = 0; r < RING; ++r) {
    for (int64_t x = 0; x < length; ++x) s->row[r][x] = -INFINITY;
  }
  for (int64_t k = 0; k < length / p->w.stride[1]; ++k) {
    const int64_t each = p->segment / p->w.stride[1];
    s->exists[k] = -(k % each < p->w.out[1] && k / each < s->planes);
  }
  for (int64_t x = 0; x < GAP; ++x) {
    s->column.best[length + x] = -INFINITY;
    s->column.at[length + x] = 0;
  }
}

/* `planes` planes, (H,W) and (H',W'); `indices` may be NULL. `ahead`: from a plane to the one that
 * comes next. */
CR_CLONES static void forward_short(const windows *p, int64_t planes, const float *src,
                                    int64_t ahead, float *dst, uint8_t *indices) {
  strip s;
  int64_t next = 0;
  s.planes = planes;
  s.length = (planes * p->segment + BLOCK - 1) / BLOCK * BLOCK;
  begin_strip(p, &s);
  for (int64_t i = 0; i < p->w.out[0]; ++i) {
    const cr_pool_reach y = reach_of(p, 0, i);
    /* The rows of the next windows, too: those just stored are slow to read. */
    const cr_pool_reach last = reach_of(p, 0, i + 1 < p->w.out[0] ? i + 1 : i);
    for (; next < last.to; ++next) load_row(p, src, ahead, next, &s);
    if (!look_at_windows(p, &y, &s)) look_closely(p, &y, &s);
#pragma omp simd
    for (int64_t k = 0; k < s.length / p->w.stride[1]; ++k) s.byte[k] = (uint8_t)s.index[k];
    store_row(p, &s, i, dst, indices);
  }
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
  p->few = width == SHORT && p->w.stride[1] <= STRIDE && p->w.kernel[0] <= SHORT_ROWS &&
           p->w.stride[0] <= SHORT_ROWS;
  if (!p->few && (width < WIDE || p->w.stride[1] < width)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "neither 3 columns, 1 or 2 apart, nor many side by side");
  }
  const int64_t reached = (p->w.out[1] - 1) * p->w.stride[1] + width;
  p->segment = p->w.in[1] + p->w.pad[1] > reached ? p->w.in[1] + p->w.pad[1] : reached;
  p->segment = (p->segment + p->w.stride[1] - 1) / p->w.stride[1] * p->w.stride[1];
  if (p->segment > COLUMNS_MOST - BLOCK || p->w.kernel[0] > INT32_MAX / width) {
    return cr_fail(CREMA_E_UNSUPPORTED, "wide planes");
  }
  p->together = p->few && p->segment < TOGETHER ? TOGETHER / p->segment : 1;
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

static void forward_planes(const windows *p, int64_t begin, int64_t planes, const float *src,
                           float *dst, void *indices) {
  const int64_t in = p->w.in[0] * p->w.in[1], out = p->w.out[0] * p->w.out[1];
  const int64_t ahead = begin + 2 * planes <= p->w.planes ? planes * in : 0;
  if (p->few) {
    uint8_t *positions = indices == NULL ? NULL : (uint8_t *)indices + begin * out;
    forward_short(p, planes, src + begin * in, ahead, dst + begin * out, positions);
  } else {
    forward_wide(p, src + begin * in, ahead, dst, begin * out, indices);
  }
}

static crema_status run_fwd(const cr_call *call) {
  const windows *p = call->plan->state;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  void *indices = (void *)call->buffer[2].address;
#pragma omp parallel for schedule(static) if (p->w.planes * p->w.in[0] * p->w.in[1] >= \
                                              CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < p->w.planes; i += p->together) {
    const int64_t left = p->w.planes - i;
    forward_planes(p, i, left < p->together ? left : p->together, src, dst, indices);
  }
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
