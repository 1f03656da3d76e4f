/* Bilinear interpolation whose corners stay corners, and the reverse of max pooling. */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

typedef struct extents {
  int64_t planes, height, width, rows, columns;
} extents;

static extents extents_of(const cr_op_desc *desc, int small, int large) {
  const int64_t *s = desc->arg[small].shape.dim, *l = desc->arg[large].shape.dim;
  return (extents){s[0] * s[1], s[2], s[3], l[2], l[3]};
}

static crema_status interp_fwd_plan(cr_plan *plan) {
  return cr_check_maps(plan, 0, 1);
}

static crema_status unpool_fwd_plan(cr_plan *plan) {
  return cr_check_maps(plan, 0, 2);
}

static crema_status unpool_bwd_plan(cr_plan *plan) {
  return cr_check_maps(plan, 2, 0);
}

/* The source of position `at` of `to` positions: two neighbours and the weight of the second. */
static void neighbours(int64_t at, int64_t to, int64_t from, int64_t *low, int64_t *high,
                       double *weight) {
  const double place = to > 1 ? (double)at * (double)(from - 1) / (double)(to - 1) : 0;
  *low = (int64_t)place;
  *high = *low + (*low < from - 1);
  *weight = place - (double)*low;
}

/* Columns that are worked on at a time, and neighbours of these that a source takes at a time. */
enum { WIDTH = 256, TAPS = 4 };

/* Columns of a loop of constant length, which has no rest; rows that are added at once; rows of the
 * small map whose sums are kept. */
enum { BLOCK = 16, ROWS_MOST = 4, HELD = 4 };

/* Vectors as GCC has them, and numbers of their lanes. */
#ifdef CR_REF_F64
typedef int64_t lane;
#else
typedef int32_t lane;
#endif
enum { LANES = 32 / (int)sizeof(cr_real) };
typedef cr_real lanes __attribute__((vector_size(32), aligned(sizeof(cr_real)), may_alias));
typedef lane numbers __attribute__((vector_size(32), aligned(sizeof(cr_real)), may_alias));

/* Of the large map's columns: where they come from. Those of LANES columns that follow each other
 * are often `near`, within as many columns from window[...] on, and are then counted from there. */
typedef struct columns {
  int64_t begin, count;
  lane low[WIDTH], high[WIDTH];
  cr_real weight[WIDTH];
  int64_t window[WIDTH / LANES];
  bool near[WIDTH / LANES];
} columns;

/* The columns from number j on. */
static void window_at(const extents *e, int64_t j, columns *c) {
  const int64_t end = j + LANES < c->count ? j + LANES : c->count;
  const int64_t last = e->width - LANES, begin = c->low[j] < last ? c->low[j] : last;
  c->window[j / LANES] = begin;
  c->near[j / LANES] = begin >= 0 && c->high[end - 1] - begin < LANES;
  for (int64_t k = end; k < j + LANES; ++k) {
    c->low[k] = c->low[end - 1];
    c->high[k] = c->high[end - 1];
    c->weight[k] = 0;
  }
  for (int64_t k = j; k < j + LANES && c->near[j / LANES]; ++k) {
    c->low[k] -= (lane)begin;
    c->high[k] -= (lane)begin;
  }
}

static void columns_at(const extents *e, int64_t begin, columns *out) {
  out->begin = begin;
  out->count = e->columns - begin < WIDTH ? e->columns - begin : WIDTH;
  for (int64_t j = 0; j < out->count; ++j) {
    int64_t low = 0, high = 0;
    double weight = 0;
    neighbours(begin + j, e->columns, e->width, &low, &high, &weight);
    out->low[j] = (lane)low;
    out->high[j] = (lane)high;
    out->weight[j] = (cr_real)weight;
  }
}

static void windows_at(const extents *e, columns *c) {
  for (int64_t j = 0; j < c->count; j += LANES) window_at(e, j, c);
}

/* The values whose numbers are at `at`; GCC has one instruction for it where the processor has. */
CR_INLINE void pick(const lanes *from, const lane *at, lanes *out) {
#if defined __GNUC__ && !defined __clang__
  *out = __builtin_shuffle(*from, *(const numbers *)at);
#else
  for (int k = 0; k < LANES; ++k) (*out)[k] = (*from)[at[k]];
#endif
}

/* A row of the source at the places of the columns. */
CR_INLINE void widen(const columns *c, const cr_real *row, cr_real *out) {
  for (int64_t j = 0; j < c->count; j += LANES) {
    lanes low, high;
    const lanes weight = *(const lanes *)(c->weight + j);
    if (c->near[j / LANES]) {
      const lanes from = *(const lanes *)(row + c->window[j / LANES]);
      pick(&from, c->low + j, &low);
      pick(&from, c->high + j, &high);
    } else {
      for (int k = 0; k < LANES; ++k) {
        low[k] = row[c->low[j + k]];
        high[k] = row[c->high[j + k]];
      }
    }
    *(lanes *)(out + j) = (1 - weight) * low + weight * high;
  }
}

CR_INLINE void blend(int64_t count, cr_real weight, const cr_real *above, const cr_real *below,
                     cr_real *out) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) out[j] = (1 - weight) * above[j] + weight * below[j];
}

/* The columns of a plane: each row of the source is widened once, and each row of the result
 * blended from two of these. */
CR_CLONES static void interp_plane(const extents *e, const columns *c, const cr_real *src,
                                   cr_real *dst) {
  cr_real wide[2][WIDTH];
  int64_t held[2] = {-1, -1};
  for (int64_t k = 0; k < e->rows; ++k) {
    int64_t y[2];
    double weight = 0;
    neighbours(k, e->rows, e->height, &y[0], &y[1], &weight);
    for (int i = 0; i < 2; ++i) {
      if (held[y[i] % 2] == y[i]) continue;
      held[y[i] % 2] = y[i];
      widen(c, src + y[i] * e->width, wide[y[i] % 2]);
    }
    blend(c->count, (cr_real)weight, wide[y[0] % 2], wide[y[1] % 2],
          dst + k * e->columns + c->begin);
  }
}

/* src, dst. */
static crema_status interp_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  for (int64_t begin = 0; begin < e.columns; begin += WIDTH) {
    columns c;
    columns_at(&e, begin, &c);
    windows_at(&e, &c);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
    for (int64_t p = 0; p < e.planes; ++p) {
      interp_plane(&e, &c, src + p * e.height * e.width, dst + p * e.rows * e.columns);
    }
  }
  return CREMA_OK;
}

/* Shares of TAPS columns, from `first` on, some of which are 0. */
typedef struct part {
  int32_t source, first;
  cr_real share[TAPS];
} part;

/* The same seen from the small map: each part adds to a column its shares. Where no source is
 * passed over, the first parts of all come first, in their order, and `rest` of the others,
 * of sources of more than TAPS columns, behind them. */
typedef struct parts {
  int64_t sources, rest;
  part first[WIDTH + TAPS], other[2 * WIDTH];
} parts;

/* The part of `list` that has a share of the column, or a new one at its end. */
static void add_share(part *list, int64_t *count, int32_t source, int32_t column, cr_real share) {
  for (int64_t i = *count - 1; i >= 0 && i >= *count - 2; --i) {
    if (list[i].source != source || column - list[i].first >= TAPS) continue;
    list[i].share[column - list[i].first] += share;
    return;
  }
  list[(*count)++] = (part){source, column, {share}};
}

/* Columns come in rising order, and each one's lower source first: the last part of a source is
 * among the last two. */
static void add_column(parts *p, bool dense, int32_t source, int32_t column, cr_real share) {
  const int64_t from = p->sources > 0 ? source - p->first[0].source : 0;
  const bool is_new = from >= p->sources;
  if (dense && (is_new || column - p->first[from].first < TAPS)) {
    add_share(p->first, &p->sources, source, column, share);
  } else {
    add_share(p->other, &p->rest, source, column, share);
  }
}

static void parts_of(const extents *e, const columns *c, parts *out) {
  const bool dense = e->columns >= e->width;
  out->sources = out->rest = 0;
  for (int32_t j = 0; j < (int32_t)c->count; ++j) {
    add_column(out, dense, (int32_t)c->low[j], j, 1 - c->weight[j]);
    if (c->weight[j] > 0) add_column(out, dense, (int32_t)c->high[j], j, c->weight[j]);
  }
}

typedef cr_real four
    __attribute__((vector_size(TAPS * sizeof(cr_real)), aligned(sizeof(cr_real)), may_alias));

/* The shares of one part, not yet summed. */
CR_INLINE void shares_of(const part *p, const cr_real *sums, four *out) {
  *out = *(const four *)p->share * *(const four *)(sums + p->first);
}

/* Of TAPS parts at once, turned so that a vector has one share of each. */
CR_INLINE void narrow_four(const part *p, const cr_real *sums, cr_real *row) {
  four q[TAPS];
  for (int i = 0; i < TAPS; ++i) shares_of(p + i, sums, &q[i]);
  const four low = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5),
             high = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7),
             low_rest = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5),
             high_rest = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
  const four even = low + high, odd = low_rest + high_rest;
  *(four *)row += __builtin_shufflevector(even, odd, 0, 1, 4, 5) +
                  __builtin_shufflevector(even, odd, 2, 3, 6, 7);
}

CR_INLINE void narrow_one(const part *p, const cr_real *sums, cr_real *row) {
  four share;
  shares_of(p, sums, &share);
  row[p->source] += (share[0] + share[2]) + (share[1] + share[3]);
}

/* Adds the sums of the columns to the row that they come from. */
CR_INLINE void narrow(const parts *p, const cr_real *sums, cr_real *row) {
  int64_t i = 0;
  for (; i + TAPS <= p->sources; i += TAPS) {
    narrow_four(p->first + i, sums, row + p->first[i].source);
  }
  for (; i < p->sources; ++i) narrow_one(p->first + i, sums, row);
  for (i = 0; i < p->rest; ++i) narrow_one(p->other + i, sums, row);
}

/* Rows of the large map that a row of the small one is made of, ROWS_MOST of them at most before
 * they are added to the sums. */
typedef struct weighted {
  int64_t held; /* the row of the small map; -1: none */
  bool begun;   /* there are sums */
  int count;
  const cr_real *row[ROWS_MOST];
  cr_real weight[ROWS_MOST];
  cr_real sums[WIDTH + TAPS];
} weighted;

/* `count` columns from column x on. */
CR_INLINE void add_rows(int64_t count, int64_t x, int rows, bool begun, weighted *w) {
  cr_real *restrict sums = w->sums + x;
  const cr_real *row[ROWS_MOST];
  cr_real weight[ROWS_MOST];
  for (int r = 0; r < rows; ++r) row[r] = w->row[r] + x;
  for (int r = 0; r < rows; ++r) weight[r] = w->weight[r];
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    cr_real sum = begun ? sums[j] : 0;
    for (int r = 0; r < rows; ++r) sum += weight[r] * row[r][j];
    sums[j] = sum;
  }
}

/* The last block has some columns of the one before. */
CR_INLINE void add_all(int64_t count, int rows, weighted *w) {
  if (w->begun || count < BLOCK) {
    if (w->begun) add_rows(count, 0, rows, true, w);
    else add_rows(count, 0, rows, false, w);
  } else {
    for (int64_t next = 0; next < count; next += BLOCK) {
      add_rows(BLOCK, next < count - BLOCK ? next : count - BLOCK, rows, false, w);
    }
  }
  w->begun = true;
  w->count = 0;
}

CR_INLINE void add_held(int64_t count, weighted *w) {
  switch (w->count) {
    case 1: add_all(count, 1, w); break;
    case 2: add_all(count, 2, w); break;
    case 3: add_all(count, 3, w); break;
    case ROWS_MOST: add_all(count, ROWS_MOST, w); break;
    default: break;
  }
}

CR_INLINE void hold(int64_t count, cr_real weight, const cr_real *values, weighted *w) {
  if (w->count == ROWS_MOST) add_held(count, w);
  w->row[w->count] = values;
  w->weight[w->count++] = weight;
}

/* Of the rows that are held, those that nothing more belongs to are summed when row y begins, and
 * narrowed when their place is needed: what was just stored is slow to load in other pieces. */
CR_INLINE weighted *begin_row(const extents *e, const columns *c, const parts *p, int64_t y,
                              weighted *rows, cr_real *diff_src) {
  weighted *own = &rows[y % HELD];
  if (own->held == y) return own;
  for (int i = 0; i < HELD; ++i) {
    if (rows[i].held >= 0 && rows[i].held < y - 1) add_held(c->count, &rows[i]);
  }
  if (own->held >= 0) narrow(p, own->sums, diff_src + own->held * e->width);
  own->held = y;
  own->begun = false;
  return own;
}

/* The other way round than interp_plane: the rows of diff_dst are summed up, each with its share,
 * for the two rows that they come from, and every such sum is narrowed once. */
CR_CLONES static void interp_plane_gradient(const extents *e, const columns *c, const parts *p,
                                            const cr_real *diff_dst, cr_real *diff_src) {
  weighted rows[HELD];
  for (int i = 0; i < HELD; ++i) {
    rows[i].held = -1;
    rows[i].count = 0;
    for (int64_t j = c->count; j < c->count + TAPS; ++j) rows[i].sums[j] = 0;
  }
  if (c->begin == 0) memset(diff_src, 0, (size_t)(e->height * e->width) * sizeof *diff_src);
  for (int64_t k = 0; k < e->rows; ++k) {
    int64_t low = 0, high = 0;
    double weight = 0;
    neighbours(k, e->rows, e->height, &low, &high, &weight);
    const bool one = low == high || weight == 0;
    const cr_real *values = diff_dst + k * e->columns + c->begin, share = (cr_real)weight;
    hold(c->count, one ? 1 : 1 - share, values, begin_row(e, c, p, low, rows, diff_src));
    if (!one) hold(c->count, share, values, begin_row(e, c, p, high, rows, diff_src));
  }
  for (int i = 0; i < HELD; ++i) {
    if (rows[i].held < 0) continue;
    add_held(c->count, &rows[i]);
    narrow(p, rows[i].sums, diff_src + rows[i].held * e->width);
  }
}

/* diff_dst, diff_src. */
static crema_status interp_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 1, 0);
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  cr_real *diff_src = cr_as_reals(call->buffer, 1);
  for (int64_t begin = 0; begin < e.columns; begin += WIDTH) {
    columns c;
    parts p;
    columns_at(&e, begin, &c);
    parts_of(&e, &c, &p);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
    for (int64_t i = 0; i < e.planes; ++i) {
      interp_plane_gradient(&e, &c, &p, diff_dst + i * e.rows * e.columns,
                            diff_src + i * e.height * e.width);
    }
  }
  return CREMA_OK;
}

/* The index in the plane that the mask has; -1, which is an error, for one outside. */
static int64_t index_of(cr_real mask, int64_t plane) {
  return mask >= 0 && mask < (cr_real)plane ? (int64_t)mask : -1;
}

static crema_status check_mask(const cr_real *mask, int64_t count, int64_t plane) {
  for (int64_t i = 0; i < count; ++i) {
    if (index_of(mask[i], plane) >= 0) continue;
    return cr_fail(CREMA_E_RANGE, "value %lld of the mask is %g, and a plane has %lld values",
                   (long long)i, (double)mask[i], (long long)plane);
  }
  return CREMA_OK;
}

/* Small planes, whose values belong at positions of large ones. */
typedef struct unpooling {
  int64_t planes, small, large; /* values of a plane */
  const cr_real *mask;          /* argument 1, checked */
} unpooling;

/* The arguments that have the small and the large planes. */
static crema_status unpooling_of(const cr_call *call, int small, int large, unpooling *out) {
  const extents e = extents_of(call->desc, small, large);
  *out = (unpooling){.planes = e.planes,
                     .small = e.height * e.width,
                     .large = e.rows * e.columns,
                     .mask = cr_as_reals(call->buffer, 1)};
  return check_mask(out->mask, e.planes * out->small, out->large);
}

/* src, mask, dst. */
static crema_status unpool_fwd(const cr_call *call) {
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  unpooling u;
  CR_TRY(unpooling_of(call, 0, 2, &u));
  memset(dst, 0, (size_t)(u.planes * u.large) * sizeof *dst);
#pragma omp parallel for schedule(static) if (u.planes * u.large >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < u.planes; ++p) {
    for (int64_t i = p * u.small; i < (p + 1) * u.small; ++i) {
      dst[p * u.large + (int64_t)u.mask[i]] = src[i];
    }
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status unpool_bwd(const cr_call *call) {
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  unpooling u;
  CR_TRY(unpooling_of(call, 2, 0, &u));
#pragma omp parallel for schedule(static) if (u.planes * u.small >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < u.planes * u.small; ++i) {
    diff_src[i] = diff_dst[i / u.small * u.large + (int64_t)u.mask[i]];
  }
  return CREMA_OK;
}

CR_REF_KERNEL(interp_fwd, INTERP_FWD, .plan = interp_fwd_plan, .run = interp_fwd);
CR_REF_KERNEL(interp_bwd, INTERP_BWD, .plan = interp_fwd_plan, .run = interp_bwd);
CR_REF_KERNEL(unpool_fwd, UNPOOL_FWD, .plan = unpool_fwd_plan, .run = unpool_fwd);
CR_REF_KERNEL(unpool_bwd, UNPOOL_BWD, .plan = unpool_bwd_plan, .run = unpool_bwd);
