/* Bilinear sampling of maps at given positions (Jaderberg et al., "Spatial transformer networks",
 * 2015).
 *
 *   dst[n][c][p] = sum over the four neighbours q of position p of w(q) src[n][c][q]
 *
 * w(q) = (1 - |y - q_y|) (1 - |x - q_x|). Neighbours outside the map count as 0 or, clamped, as the
 * last row or column; then a position outside [0, H) x [0, W) has no neighbours. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

typedef struct sampling {
  int64_t images, channels, height, width, points;
  const cr_real *grid;
  bool rows_first, clamped;
} sampling;

/* The neighbours of a position: their index in the plane, weight, and its derivatives. */
typedef struct sample_taps {
  bool inside;
  int64_t at[4];
  cr_real weight[4], by_y[4], by_x[4];
} sample_taps;

static crema_status check(const cr_plan *plan, int src, int grid, int dst) {
  const int64_t *g = plan->desc->arg[grid].shape.dim, *d = plan->desc->arg[dst].shape.dim;
  CR_TRY(cr_check_maps(plan, src, dst));
  if (plan->desc->arg[grid].shape.axes == 4 && g[0] == d[0] && g[1] == 2 && g[2] == d[2] &&
      g[3] == d[3]) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "the positions do not have two values for each value of a map");
}

static sampling sampling_of(const cr_call *call, int src, int grid) {
  const int64_t *s = call->desc->arg[src].shape.dim, *g = call->desc->arg[grid].shape.dim;
  return (sampling){s[0], s[1], s[2], s[3], g[2] * g[3], cr_as_reals(call->buffer, grid),
                    call->desc->u.sample.rows_first,
                    call->desc->u.sample.clamped};
}

static sample_taps taps_of(const sampling *s, int64_t image, int64_t point) {
  const cr_real *first = s->grid + image * 2 * s->points + point, *second = first + s->points;
  const cr_real y = s->rows_first ? *first : *second, x = s->rows_first ? *second : *first;
  const cr_real least = s->clamped ? 0 : -1;
  sample_taps t = {.inside = false};
  if (!s->clamped && !(y > least && x > least)) return t;
  if (!(y >= least && x >= least && y < (cr_real)s->height && x < (cr_real)s->width)) return t;
  const int64_t top = (int64_t)floor(y), left = (int64_t)floor(x);
  const cr_real down = y - (cr_real)top, right = x - (cr_real)left;
  t.inside = true;
  for (int k = 0; k < 4; ++k) {
    const bool low = k / 2 == 1, far = k % 2 == 1;
    int64_t row = top + low, column = left + far;
    if (s->clamped && row > s->height - 1) row = s->height - 1;
    if (s->clamped && column > s->width - 1) column = s->width - 1;
    if (row < 0 || column < 0 || row >= s->height || column >= s->width) continue;
    const cr_real wy = low ? down : 1 - down, wx = far ? right : 1 - right;
    t.at[k] = row * s->width + column;
    t.weight[k] = wy * wx;
    t.by_y[k] = low ? wx : -wx;
    t.by_x[k] = far ? wy : -wy;
  }
  return t;
}

static crema_status sample_fwd_plan(cr_plan *plan) {
  return check(plan, 0, 1, 2);
}

/* src, grid, dst. */
static crema_status sample_fwd(const cr_call *call) {
  const sampling s = sampling_of(call, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0), fill = (cr_real)call->desc->u.sample.fill;
  cr_real *dst = cr_as_reals(call->buffer, 2);
  const int64_t plane = s.height * s.width, positions = s.images * s.points;
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < positions; ++i) {
    const int64_t image = i / s.points, point = i % s.points;
    const sample_taps t = taps_of(&s, image, point);
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      cr_real sum = t.inside ? 0 : fill;
      for (int k = 0; t.inside && k < 4; ++k) sum += t.weight[k] * src[c * plane + t.at[k]];
      dst[c * s.points + point] = sum;
    }
  }
  return CREMA_OK;
}

static crema_status sample_bwd_data_plan(cr_plan *plan) {
  return check(plan, 2, 1, 0);
}

/* diff_dst, grid, diff_src. */
static crema_status sample_bwd_data(const cr_call *call) {
  const sampling s = sampling_of(call, 2, 1);
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t plane = s.height * s.width, planes = s.images * s.channels;
#pragma omp parallel for schedule(static) if (planes * s.points >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < planes; ++c) {
    memset(diff_src + c * plane, 0, (size_t)plane * sizeof *diff_src);
    for (int64_t p = 0; p < s.points; ++p) {
      const sample_taps t = taps_of(&s, c / s.channels, p);
      const cr_real gradient = diff_dst[c * s.points + p];
      for (int k = 0; t.inside && k < 4; ++k) {
        diff_src[c * plane + t.at[k]] += t.weight[k] * gradient;
      }
    }
  }
  return CREMA_OK;
}

static crema_status sample_bwd_grid_plan(cr_plan *plan) {
  return check(plan, 0, 1, 2);
}

/* src, grid, diff_dst, diff_grid. */
static crema_status sample_bwd_grid(const cr_call *call) {
  const sampling s = sampling_of(call, 0, 1);
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 2);
  cr_real *diff_grid = cr_as_reals(call->buffer, 3);
  const int64_t plane = s.height * s.width, positions = s.images * s.points;
#pragma omp parallel for schedule(static) if (positions * s.channels >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < positions; ++i) {
    const int64_t image = i / s.points, point = i % s.points;
    const sample_taps t = taps_of(&s, image, point);
    double by_y = 0, by_x = 0;
    for (int64_t c = image * s.channels; t.inside && c < (image + 1) * s.channels; ++c) {
      const cr_real gradient = diff_dst[c * s.points + point];
      for (int k = 0; k < 4; ++k) {
        const cr_real value = src[c * plane + t.at[k]] * gradient;
        by_y += (double)(t.by_y[k] * value);
        by_x += (double)(t.by_x[k] * value);
      }
    }
    cr_real *first = diff_grid + image * 2 * s.points + point;
    first[0] = (cr_real)(s.rows_first ? by_y : by_x);
    first[s.points] = (cr_real)(s.rows_first ? by_x : by_y);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(sample_fwd, SAMPLE_FWD, .plan = sample_fwd_plan, .run = sample_fwd);
CR_REF_KERNEL(sample_bwd_data, SAMPLE_BWD_DATA, .plan = sample_bwd_data_plan,
              .run = sample_bwd_data);
CR_REF_KERNEL(sample_bwd_grid, SAMPLE_BWD_GRID, .plan = sample_bwd_grid_plan,
              .run = sample_bwd_grid);
