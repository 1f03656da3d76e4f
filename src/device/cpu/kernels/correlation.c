/* Correlation of two maps (Dosovitskiy et al., "FlowNet", 2015).
 *
 *   dst[n][d][y][x] = mean over c, j, i of f(a[n][c][v + j][u + i], b[n][c][v + s + j][u + t + i])
 *
 * with f(p, q) = p q or |p - q|, (v, u) = stride (y, x) + displacement - pad, and (s, t) = the
 * displacement with index d, a multiple of step. In rows, v = stride y and s = 0. Positions outside
 * the maps have 0. */
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/extent.h"

typedef struct patch_pairs {
  int64_t samples, channels, height, width, rows, columns;
  int64_t shifts;      /* displacements */
  int64_t first, side; /* displacements along an axis: `side` of them, from `first` on, in steps */
  int64_t origin;      /* of the first patch along the last axis */
  cr_real share;       /* 1 / terms of a mean */
  const cr_real *a, *b;
  const cr_op_desc *desc;
} patch_pairs;

/* The displacements. To the left, FlowNet's begin a step beyond the largest displacement. */
static void set_shifts(patch_pairs *p, const cr_op_desc *desc) {
  const int64_t radius = desc->u.correlation.displacement / desc->u.correlation.step;
  const int direction = desc->u.correlation.in_rows ? desc->u.correlation.direction : 0;
  p->side = direction == 0 ? 2 * radius + 1 : radius + 1;
  p->first = direction == 0 ? -radius : direction > 0 ? 0 : -radius - 1;
  p->shifts = desc->u.correlation.in_rows ? p->side : p->side * p->side;
}

/* The arguments with both maps and with the result. */
static crema_status check(const cr_plan *plan, int result) {
  const crema_shape *a = &plan->desc->arg[0].shape, *b = &plan->desc->arg[1].shape;
  const crema_shape *to = &plan->desc->arg[result].shape;
  bool fits = a->axes == 4 && b->axes == 4 && to->axes == 4 && a->dim[0] == to->dim[0] &&
              plan->desc->u.correlation.step > 0;
  patch_pairs p = {0};
  for (int i = 0; fits && i < 4; ++i) fits = a->dim[i] == b->dim[i];
  if (fits) set_shifts(&p, plan->desc);
  if (fits && to->dim[1] == p.shifts) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "the maps and the result of a correlation do not fit");
}

static patch_pairs pairs_of(const cr_call *call, int result) {
  const int64_t *a = call->desc->arg[0].shape.dim, *to = call->desc->arg[result].shape.dim;
  const int64_t kernel = call->desc->u.correlation.kernel;
  patch_pairs p = {.samples = a[0],
                   .channels = a[1],
                   .height = a[2],
                   .width = a[3],
                   .rows = to[2],
                   .columns = to[3],
                   .origin = call->desc->u.correlation.displacement - call->desc->u.correlation.pad,
                   .share = 1 / (cr_real)(kernel * kernel * a[1]),
                   .a = cr_as_reals(call->buffer, 0),
                   .b = cr_as_reals(call->buffer, 1),
                   .desc = call->desc};
  set_shifts(&p, call->desc);
  return p;
}

/* The positions that a tap of element (y, x) of displacement d compares. */
typedef struct pair_places {
  int64_t a, b; /* indices in the plane; -1: outside */
} pair_places;

static int64_t index_at(const patch_pairs *p, int64_t y, int64_t x) {
  return y < 0 || x < 0 || y >= p->height || x >= p->width ? -1 : y * p->width + x;
}

static pair_places places_of(const patch_pairs *p, int64_t d, int64_t y, int64_t x, int64_t tap) {
  const int64_t stride = p->desc->u.correlation.stride, step = p->desc->u.correlation.step;
  const int64_t kernel = p->desc->u.correlation.kernel;
  const bool in_rows = p->desc->u.correlation.in_rows;
  const int64_t v = y * stride + (in_rows ? 0 : p->origin) + tap / kernel,
                u = x * stride + p->origin + tap % kernel;
  const int64_t s = in_rows ? 0 : (d / p->side + p->first) * step,
                t = (d % p->side + p->first) * step;
  return (pair_places){index_at(p, v, u), index_at(p, v + s, u + t)};
}

static cr_real value_at(const cr_real *plane, int64_t at) {
  return at < 0 ? 0 : plane[at];
}

static crema_status correlation_fwd_plan(cr_plan *plan) {
  return check(plan, 2);
}

/* a, b, dst. */
static crema_status correlation_fwd(const cr_call *call) {
  const patch_pairs p = pairs_of(call, 2);
  const int64_t taps = call->desc->u.correlation.kernel * call->desc->u.correlation.kernel;
  const int64_t plane = p.height * p.width, cells = p.rows * p.columns;
  const bool subtract = call->desc->u.correlation.subtract;
  cr_real *dst = cr_as_reals(call->buffer, 2);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < p.samples * p.shifts * p.rows; ++r) {
    const int64_t n = r / p.rows / p.shifts, d = r / p.rows % p.shifts;
    const cr_real *a = p.a + n * p.channels * plane, *b = p.b + n * p.channels * plane;
    for (int64_t x = 0; x < p.columns; ++x) {
      double sum = 0;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const pair_places at = places_of(&p, d, r % p.rows, x, tap);
        if (subtract ? at.a < 0 && at.b < 0 : at.a < 0 || at.b < 0) continue;
        for (int64_t c = 0; c < p.channels; ++c) {
          const cr_real q = value_at(a + c * plane, at.a), s = value_at(b + c * plane, at.b);
          sum += (double)(subtract ? fabs(q - s) : q * s);
        }
      }
      dst[(n * p.shifts + d) * cells + r % p.rows * p.columns + x] = (cr_real)sum * p.share;
    }
  }
  return CREMA_OK;
}

static crema_status correlation_bwd_plan(cr_plan *plan) {
  return check(plan, 2);
}

/* The gradient of one channel of the first or the second map. */
static void channel_gradient(const patch_pairs *p, int64_t channel, bool second,
                             const cr_real *diff_dst, cr_real *diff) {
  const int64_t taps = p->desc->u.correlation.kernel * p->desc->u.correlation.kernel;
  const int64_t plane = p->height * p->width, cells = p->rows * p->columns;
  const cr_real *a = p->a + channel * plane, *b = p->b + channel * plane;
  const cr_real *from = diff_dst + channel / p->channels * p->shifts * cells;
  memset(diff, 0, (size_t)plane * sizeof *diff);
  for (int64_t i = 0; i < p->shifts * cells; ++i) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const pair_places at = places_of(p, i / cells, i % cells / p->columns, i % p->columns, tap);
      const int64_t own = second ? at.b : at.a;
      if (own < 0) continue;
      const cr_real q = value_at(a, at.a), s = value_at(b, at.b);
      cr_real slope = second ? q : s;
      if (p->desc->u.correlation.subtract) slope = (q >= s) != second ? 1 : -1;
      diff[own] += slope * from[i] * p->share;
    }
  }
}

static crema_status run_back(const cr_call *call, bool second) {
  const patch_pairs p = pairs_of(call, 2);
  const cr_real *diff_dst = cr_as_reals(call->buffer, 2);
  cr_real *diff = cr_as_reals(call->buffer, 3);
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < p.samples * p.channels; ++c) {
    channel_gradient(&p, c, second, diff_dst, diff + c * p.height * p.width);
  }
  return CREMA_OK;
}

/* a, b, diff_dst, diff_a. */
static crema_status correlation_bwd_a(const cr_call *call) {
  return run_back(call, false);
}

/* a, b, diff_dst, diff_b. */
static crema_status correlation_bwd_b(const cr_call *call) {
  return run_back(call, true);
}

CR_REF_KERNEL(correlation_fwd, CORRELATION_FWD, .plan = correlation_fwd_plan,
              .run = correlation_fwd);
CR_REF_KERNEL(correlation_bwd_a, CORRELATION_BWD_A, .plan = correlation_bwd_plan,
              .run = correlation_bwd_a);
CR_REF_KERNEL(correlation_bwd_b, CORRELATION_BWD_B, .plan = correlation_bwd_plan,
              .run = correlation_bwd_b);
