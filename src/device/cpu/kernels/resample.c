/* Maps of another size by interpolation (FlowNet's Resample).
 *
 *   dst[y][x] = sum over rows i and columns j of f(v - i) f(u - j) src[i][j] / sum of the weights
 *
 * The pair (v, u) is the source of (y, x). For linear interpolation f is a triangle, for cubic
 * interpolation a spline. Smoothing widens f by the factor by which the map shrinks. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/extent.h"

/* One axis: extents, their ratio, the factor on distances, and the reach of f. */
typedef struct map_side {
  int64_t from;
  double ratio, squeeze;
  int64_t reach;
  double shift; /* of the source of position 0 */
} map_side;

static crema_status resample_plan(cr_plan *plan) {
  CR_TRY(cr_check_maps(plan, 0, 1));
  for (int a = 2; a < 4; ++a) {
    if (plan->desc->arg[0].shape.dim[a] > 0 || cr_op_arg_count(plan->desc, 1) == 0) continue;
    return cr_fail(CREMA_E_SHAPE, "a map without values has no other size");
  }
  return CREMA_OK;
}

static double weight_of(cr_resampling method, double distance) {
  const double x = fabs(distance);
  if (method == CR_RESAMPLE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return x * x * (1.5 * x - 2.5) + 1;
  return x < 2 ? x * (x * (-0.5 * x + 2.5) - 4) + 2 : 0;
}

/* FlowNet takes the ratio of one axis for the shift along the other axis. */
static void sides_of(const cr_op_desc *desc, map_side out[2]) {
  const int64_t *in = desc->arg[0].shape.dim, *to = desc->arg[1].shape.dim;
  const double ratio[2] = {(double)in[2] / (double)to[2], (double)in[3] / (double)to[3]};
  const bool smooth = desc->u.resample.antialias && (ratio[0] > 1 || ratio[1] > 1);
  for (int a = 0; a < 2; ++a) {
    map_side *s = &out[a];
    const double width = desc->u.resample.method == CR_RESAMPLE_LINEAR ? 2 : 4;
    s->from = in[2 + a];
    s->ratio = ratio[a];
    s->squeeze = smooth ? 1 / ratio[a] : 1;
    s->reach = ratio[a] < 1 ? 2 : (int64_t)ceil(width / s->squeeze);
    s->shift = ratio[1 - a] / 2 - 0.5;
  }
}

/* The rows or columns around the source of position `at`. */
typedef struct source_span {
  double source;
  int64_t nearest, begin, end;
} source_span;

static source_span sources_of(const map_side *s, int64_t at) {
  const double source = (double)at * s->ratio + s->shift;
  const int64_t nearest = (int64_t)round(source);
  return (source_span){source, cr_most(0, cr_least(nearest, s->from - 1)),
                       cr_most(0, nearest - s->reach), cr_least(s->from, nearest + s->reach + 1)};
}

static cr_real interpolate(const cr_op_desc *desc, const map_side s[2], const source_span *y,
                           const source_span *x, const cr_real *plane) {
  const cr_resampling method = desc->u.resample.method;
  double sum = 0, weights = 0;
  if (method == CR_RESAMPLE_NEAREST) return plane[y->nearest * s[1].from + x->nearest];
  for (int64_t i = y->begin; i < y->end; ++i) {
    const double wy = weight_of(method, s[0].squeeze * (y->source - (double)i));
    for (int64_t j = x->begin; j < x->end; ++j) {
      const double w = wy * weight_of(method, s[1].squeeze * (x->source - (double)j));
      sum += w * (double)plane[i * s[1].from + j];
      weights += w;
    }
  }
  return weights != 0 ? (cr_real)(sum / weights) : 0;
}

/* src, dst. */
static crema_status resample(const cr_call *call) {
  const int64_t *to = call->desc->arg[1].shape.dim;
  const int64_t planes = to[0] * to[1], rows = to[2], columns = to[3];
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  map_side s[2];
  if (planes * rows * columns == 0) return CREMA_OK;
  sides_of(call->desc, s);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < planes * rows; ++r) {
    const source_span y = sources_of(&s[0], r % rows);
    for (int64_t k = 0; k < columns; ++k) {
      const source_span x = sources_of(&s[1], k);
      dst[r * columns + k] =
          interpolate(call->desc, s, &y, &x, src + r / rows * s[0].from * s[1].from);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(resample, RESAMPLE, .plan = resample_plan, .run = resample);
