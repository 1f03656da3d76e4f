/* Bilinear interpolation whose corners stay corners, and the reverse of max pooling. */
#include "core/clones.h"
#include "core/fail.h"
#include "device/cpu/ref_type.h"

typedef struct extents {
  int64_t planes, height, width, rows, columns;
} extents;

static extents extents_of(const cr_op_desc *desc, int small, int large) {
  const int64_t *s = desc->arg[small].shape.dim, *l = desc->arg[large].shape.dim;
  return (extents){s[0] * s[1], s[2], s[3], l[2], l[3]};
}

static crema_status check(const cr_plan *plan, int src, int dst) {
  const crema_shape *s = &plan->desc->arg[src].shape, *d = &plan->desc->arg[dst].shape;
  if (s->axes == 4 && d->axes == 4 && s->dim[0] == d->dim[0] && s->dim[1] == d->dim[1]) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: source and result must have 4 axes, and the first two alike",
                 cr_op_kind_name(plan->desc->kind));
}

static crema_status interp_fwd_plan(cr_plan *plan) {
  return check(plan, 0, 1);
}

static crema_status unpool_fwd_plan(cr_plan *plan) {
  return check(plan, 0, 2);
}

static crema_status unpool_bwd_plan(cr_plan *plan) {
  return check(plan, 2, 0);
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

/* Of the large map's columns: where they come from. */
typedef struct columns {
  int64_t begin, count;
  int32_t low[WIDTH], high[WIDTH];
  cr_real weight[WIDTH];
} columns;

static void columns_at(const extents *e, int64_t begin, columns *out) {
  out->begin = begin;
  out->count = e->columns - begin < WIDTH ? e->columns - begin : WIDTH;
  for (int64_t j = 0; j < out->count; ++j) {
    int64_t low = 0, high = 0;
    double weight = 0;
    neighbours(begin + j, e->columns, e->width, &low, &high, &weight);
    out->low[j] = (int32_t)low;
    out->high[j] = (int32_t)high;
    out->weight[j] = (cr_real)weight;
  }
}

/* A row of the source at the places of the columns. */
CR_INLINE void widen(const columns *c, const cr_real *row, cr_real *out) {
#pragma omp simd
  for (int64_t j = 0; j < c->count; ++j) {
    out[j] = (1 - c->weight[j]) * row[c->low[j]] + c->weight[j] * row[c->high[j]];
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
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
    for (int64_t p = 0; p < e.planes; ++p) {
      interp_plane(&e, &c, src + p * e.height * e.width, dst + p * e.rows * e.columns);
    }
  }
  return CREMA_OK;
}

/* The same seen from the small map: part i adds to column source[i] its shares of the columns from
 * first[i] on. TAPS shares, some of which are 0, are a vector or two; a source of more columns has
 * several parts. */
typedef struct parts {
  int64_t count;
  int32_t source[2 * WIDTH], first[2 * WIDTH];
  cr_real share[2 * WIDTH][TAPS];
} parts;

/* Columns come in rising order, and each one's lower source first: the last part of a source is
 * among the last two. */
static void add_share(parts *p, int32_t source, int32_t column, cr_real share) {
  for (int64_t i = p->count - 1; i >= 0 && i >= p->count - 2; --i) {
    if (p->source[i] != source || column - p->first[i] >= TAPS) continue;
    p->share[i][column - p->first[i]] += share;
    return;
  }
  const int64_t i = p->count++;
  p->source[i] = source;
  p->first[i] = column;
  for (int k = 0; k < TAPS; ++k) p->share[i][k] = k == 0 ? share : 0;
}

static void parts_of(const columns *c, parts *out) {
  out->count = 0;
  for (int32_t j = 0; j < (int32_t)c->count; ++j) {
    add_share(out, c->low[j], j, 1 - c->weight[j]);
    if (c->weight[j] > 0) add_share(out, c->high[j], j, c->weight[j]);
  }
}

typedef cr_real four __attribute__((vector_size(TAPS * sizeof(cr_real))));

/* Adds the sums of the columns to the row that they come from. */
CR_INLINE void narrow(const parts *p, const cr_real *sums, cr_real *row) {
  for (int64_t i = 0; i < p->count; ++i) {
    four from, share, half;
    memcpy(&from, sums + p->first[i], sizeof from);
    memcpy(&share, p->share[i], sizeof share);
    share *= from;
    half = share + __builtin_shufflevector(share, share, 2, 3, 2, 3);
    row[p->source[i]] += half[0] + half[1];
  }
}

CR_INLINE void add_row(int64_t count, cr_real weight, const cr_real *values, cr_real *sums) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) sums[j] += weight * values[j];
}

CR_INLINE void add_rows(int64_t count, cr_real weight, const cr_real *values, cr_real *above,
                        cr_real *below) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    above[j] += (1 - weight) * values[j];
    below[j] += weight * values[j];
  }
}

/* The other way round than interp_plane: the rows of diff_dst are summed up, each with its share,
 * for the two rows that they come from, and every such sum is narrowed once. */
CR_CLONES static void interp_plane_gradient(const extents *e, const columns *c, const parts *p,
                                            const cr_real *diff_dst, cr_real *diff_src) {
  cr_real wide[2][WIDTH + TAPS];
  int64_t held[2] = {-1, -1};
  if (c->begin == 0) memset(diff_src, 0, (size_t)(e->height * e->width) * sizeof *diff_src);
  for (int64_t k = 0; k < e->rows; ++k) {
    int64_t y[2];
    double weight = 0;
    neighbours(k, e->rows, e->height, &y[0], &y[1], &weight);
    for (int i = 0; i < 2; ++i) {
      const int at = (int)(y[i] % 2);
      if (held[at] == y[i]) continue;
      if (held[at] >= 0) narrow(p, wide[at], diff_src + held[at] * e->width);
      memset(wide[at], 0, (size_t)(c->count + TAPS) * sizeof *wide[at]);
      held[at] = y[i];
    }
    const cr_real *values = diff_dst + k * e->columns + c->begin;
    cr_real *above = wide[y[0] % 2], *below = wide[y[1] % 2];
    if (y[0] == y[1] || weight == 0) add_row(c->count, 1, values, above);
    else add_rows(c->count, (cr_real)weight, values, above, below);
  }
  for (int at = 0; at < 2; ++at) {
    if (held[at] >= 0) narrow(p, wide[at], diff_src + held[at] * e->width);
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
    parts_of(&c, &p);
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
      dst[p * u.large + (int64_t)u.mask[i]] += src[i];
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
