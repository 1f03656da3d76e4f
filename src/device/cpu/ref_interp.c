/* Bilinear interpolation whose corners stay corners, and the reverse of max pooling. */
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
  return cr_fail(CREMA_E_SHAPE, "%s: source and result are not maps of as many channels",
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

/* src, dst. */
static crema_status interp_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
  for (int64_t k = 0; k < e.planes * e.rows; ++k) {
    const cr_real *plane = src + k / e.rows * e.height * e.width;
    int64_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
    double wy = 0, wx = 0;
    neighbours(k % e.rows, e.rows, e.height, &y0, &y1, &wy);
    for (int64_t j = 0; j < e.columns; ++j) {
      neighbours(j, e.columns, e.width, &x0, &x1, &wx);
      const cr_real *a = plane + y0 * e.width, *b = plane + y1 * e.width;
      const double above = (1 - wx) * (double)a[x0] + wx * (double)a[x1];
      const double below = (1 - wx) * (double)b[x0] + wx * (double)b[x1];
      dst[k * e.columns + j] = (cr_real)((1 - wy) * above + wy * below);
    }
  }
  return CREMA_OK;
}

/* diff_dst, diff_src. */
static crema_status interp_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 1, 0);
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  cr_real *diff_src = cr_as_reals(call->buffer, 1);
  memset(diff_src, 0, (size_t)(e.planes * e.height * e.width) * sizeof *diff_src);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < e.planes; ++p) {
    cr_real *plane = diff_src + p * e.height * e.width;
    for (int64_t k = 0; k < e.rows * e.columns; ++k) {
      const double d = (double)diff_dst[p * e.rows * e.columns + k];
      int64_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
      double wy = 0, wx = 0;
      neighbours(k / e.columns, e.rows, e.height, &y0, &y1, &wy);
      neighbours(k % e.columns, e.columns, e.width, &x0, &x1, &wx);
      plane[y0 * e.width + x0] += (cr_real)((1 - wy) * (1 - wx) * d);
      plane[y0 * e.width + x1] += (cr_real)((1 - wy) * wx * d);
      plane[y1 * e.width + x0] += (cr_real)(wy * (1 - wx) * d);
      plane[y1 * e.width + x1] += (cr_real)(wy * wx * d);
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

/* src, mask, dst. */
static crema_status unpool_fwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 0, 2);
  const int64_t from = e.height * e.width, to = e.rows * e.columns;
  const cr_real *src = cr_as_reals(call->buffer, 0), *mask = cr_as_reals(call->buffer, 1);
  cr_real *dst = cr_as_reals(call->buffer, 2);
  CR_TRY(check_mask(mask, e.planes * from, to));
  memset(dst, 0, (size_t)(e.planes * to) * sizeof *dst);
#pragma omp parallel for schedule(static) if (e.planes * to >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < e.planes; ++p) {
    for (int64_t i = p * from; i < (p + 1) * from; ++i) dst[p * to + (int64_t)mask[i]] += src[i];
  }
  return CREMA_OK;
}

/* diff_dst, mask, diff_src. */
static crema_status unpool_bwd(const cr_call *call) {
  const extents e = extents_of(call->desc, 2, 0);
  const int64_t from = e.height * e.width, to = e.rows * e.columns;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *mask = cr_as_reals(call->buffer, 1);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  CR_TRY(check_mask(mask, e.planes * from, to));
#pragma omp parallel for schedule(static) if (e.planes * from >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < e.planes * from; ++i) {
    diff_src[i] = diff_dst[i / from * to + (int64_t)mask[i]];
  }
  return CREMA_OK;
}

CR_REF_KERNEL(interp_fwd, INTERP_FWD, .plan = interp_fwd_plan, .run = interp_fwd);
CR_REF_KERNEL(interp_bwd, INTERP_BWD, .plan = interp_fwd_plan, .run = interp_bwd);
CR_REF_KERNEL(unpool_fwd, UNPOOL_FWD, .plan = unpool_fwd_plan, .run = unpool_fwd);
CR_REF_KERNEL(unpool_bwd, UNPOOL_BWD, .plan = unpool_bwd_plan, .run = unpool_bwd);
