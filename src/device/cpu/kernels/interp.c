/* Bilinear interpolation with aligned corners.
 *
 *   dst[p][k][j] = sum over y, x of h(k, y) w(j, x) src[p][y][x]
 *
 * Row k has the source row k (height - 1) / (rows - 1), between two rows of the map, which have the
 * weights h; columns likewise. */
#include "core/cpu_dispatch.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

typedef struct interp_extents {
  int64_t planes, height, width, rows, columns;
} interp_extents;

static crema_status interp_plan(cr_plan *plan) {
  return cr_check_maps(plan, 0, 1);
}

/* The source of position `at` of `to` positions: two neighbours and the weight of the second. */
static void neighbours(int64_t at, int64_t to, int64_t from, int64_t *low, int64_t *high,
                       double *weight) {
  const double place = to > 1 ? (double)at * (double)(from - 1) / (double)(to - 1) : 0;
  *low = (int64_t)place;
  *high = *low + (*low < from - 1);
  *weight = place - (double)*low;
}

/* Columns of the large map that are computed together, and their sources. */
enum { WIDTH = 256 };
typedef struct sources {
  int64_t begin, count;
  int32_t low[WIDTH], high[WIDTH];
  cr_real weight[WIDTH]; /* of `high` */
} sources;

static void sources_of(const interp_extents *e, int64_t begin, sources *out) {
  out->begin = begin;
  out->count = e->columns - begin < WIDTH ? e->columns - begin : WIDTH;
  for (int64_t j = 0; j < out->count; ++j) {
    int64_t low, high;
    double weight;
    neighbours(begin + j, e->columns, e->width, &low, &high, &weight);
    out->low[j] = (int32_t)low;
    out->high[j] = (int32_t)high;
    out->weight[j] = (cr_real)weight;
  }
}

/* Each row of the source is widened once, to wide[y % 2]; each row of the result is a blend of two.
 */
CR_CLONES static void interp_plane(const interp_extents *e, const sources *s, const cr_real *src,
                                   cr_real *dst) {
  cr_real wide[2][WIDTH];
  int64_t held[2] = {-1, -1};
  for (int64_t k = 0; k < e->rows; ++k) {
    int64_t y[2];
    double weight = 0;
    neighbours(k, e->rows, e->height, &y[0], &y[1], &weight);
    for (int i = 0; i < 2; ++i) {
      const cr_real *row = src + y[i] * e->width;
      cr_real *out = wide[y[i] % 2];
      if (held[y[i] % 2] == y[i]) continue;
      held[y[i] % 2] = y[i];
#pragma omp simd
      for (int64_t j = 0; j < s->count; ++j) {
        out[j] = (1 - s->weight[j]) * row[s->low[j]] + s->weight[j] * row[s->high[j]];
      }
    }
    const cr_real *above = wide[y[0] % 2], *below = wide[y[1] % 2], w = (cr_real)weight;
    cr_real *to = dst + k * e->columns + s->begin;
#pragma omp simd
    for (int64_t j = 0; j < s->count; ++j) to[j] = (1 - w) * above[j] + w * below[j];
  }
}

/* Adds the gradients of a widened row to the row of the source. */
CR_INLINE void narrow(const sources *s, const cr_real *wide, cr_real *row) {
  for (int64_t j = 0; j < s->count;) {
    const int32_t low = s->low[j], high = s->high[j];
    cr_real of_low = 0, of_high = 0;
    for (; j < s->count && s->low[j] == low; ++j) {
      of_low += (1 - s->weight[j]) * wide[j];
      of_high += s->weight[j] * wide[j];
    }
    row[low] += of_low;
    row[high] += of_high;
  }
}

/* Rows of diff_dst are summed for their two source rows. The sum for a row is narrowed after its
 * last row. */
CR_CLONES static void interp_plane_gradient(const interp_extents *e, const sources *s,
                                            const cr_real *diff_dst, cr_real *diff_src) {
  cr_real sums[2][WIDTH];
  int64_t held[2] = {-1, -1};
  if (s->begin == 0) memset(diff_src, 0, (size_t)(e->height * e->width) * sizeof *diff_src);
  for (int64_t k = 0; k < e->rows; ++k) {
    const cr_real *from = diff_dst + k * e->columns + s->begin;
    int64_t y[2];
    double weight = 0;
    neighbours(k, e->rows, e->height, &y[0], &y[1], &weight);
    for (int i = 0; i < 2; ++i) {
      const cr_real share = (cr_real)(i == 0 ? 1 - weight : weight);
      const int64_t slot = y[i] % 2;
      cr_real *sum = sums[slot];
      if (held[slot] != y[i]) {
        if (held[slot] >= 0) narrow(s, sum, diff_src + held[slot] * e->width);
        held[slot] = y[i];
        memset(sum, 0, sizeof sums[slot]);
      }
#pragma omp simd
      for (int64_t j = 0; j < s->count; ++j) sum[j] += share * from[j];
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (held[i] >= 0) narrow(s, sums[i], diff_src + held[i] * e->width);
  }
}

typedef void plane_fn(const interp_extents *e, const sources *s, const cr_real *from, cr_real *to);

/* The small map is argument `small`. */
static crema_status run(const cr_call *call, int small, plane_fn *of_plane) {
  const int64_t *in = call->desc->arg[small].shape.dim, *out = call->desc->arg[1 - small].shape.dim;
  const interp_extents e = {in[0] * in[1], in[2], in[3], out[2], out[3]};
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  const int64_t in_plane = e.height * e.width, out_plane = e.rows * e.columns;
  const int64_t from = small == 0 ? in_plane : out_plane, to = small == 0 ? out_plane : in_plane;
  for (int64_t begin = 0; begin < e.columns; begin += WIDTH) {
    sources s;
    sources_of(&e, begin, &s);
#pragma omp parallel for schedule(static) if (e.planes * out_plane >= CR_REF_PARALLEL_MIN)
    for (int64_t p = 0; p < e.planes; ++p) of_plane(&e, &s, src + p * from, dst + p * to);
  }
  return CREMA_OK;
}

/* src, dst. */
static crema_status interp_fwd(const cr_call *call) {
  return run(call, 0, interp_plane);
}

/* diff_dst, diff_src. */
static crema_status interp_bwd(const cr_call *call) {
  return run(call, 1, interp_plane_gradient);
}

CR_REF_KERNEL(interp_fwd, INTERP_FWD, .plan = interp_plan, .run = interp_fwd);
CR_REF_KERNEL(interp_bwd, INTERP_BWD, .plan = interp_plan, .run = interp_bwd);
