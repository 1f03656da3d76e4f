/* Tile: (outer, inner) repeated to (outer, tiles, inner); its gradient is the sum over the tiles.
 */
#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

/* Rows of one value: each of `count` values `tiles` times. */
CR_CLONES static void repeat(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < tiles; ++c) y[i * tiles + c] = x[i];
  }
}

/* src, dst. */
static crema_status tile_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 1, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  if (s.inner == 1) {
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
    for (int part = 0; part < CR_REF_PARTS; ++part) {
      const int64_t from = cr_ref_part(s.outer, part), to = cr_ref_part(s.outer, part + 1);
      repeat(s.channels, to - from, src + from, dst + from * s.channels);
    }
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer * s.channels; ++r) {
    memcpy(dst + r * s.inner, src + r / s.channels * s.inner, (size_t)s.inner * sizeof *dst);
  }
  return CREMA_OK;
}

/* y[i] = sum over c of x[i apart + c step]. */
CR_INLINE void sum_few(int64_t tiles, int64_t step, int64_t apart, int64_t count, const cr_value *x,
                       cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < tiles; ++c) sum += (double)cr_get(x, i * apart + c * step);
    cr_put(y, i, (cr_real)sum);
  }
}

/* Most nets use two tiles, which the compiler optimises. */
CR_CLONES static void sum_tiles(int64_t tiles, int64_t step, int64_t apart, int64_t count,
                                const cr_value *x, cr_value *y) {
  if (tiles == 2 && apart == 2) sum_few(2, 1, 2, count, x, y);
  else if (tiles == 2) sum_few(2, step, 1, count, x, y);
  else sum_few(tiles, step, apart, count, x, y);
}

/* diff_dst, diff_src. */
static crema_status tile_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *dy = cr_as_values(call->buffer, 0);
  cr_value *dx = cr_as_values(call->buffer, 1);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    const int64_t from = cr_ref_part(s.outer, part), to = cr_ref_part(s.outer, part + 1);
    if (s.inner == 1) {
      sum_tiles(s.channels, 1, s.channels, to - from, dy + from * s.channels, dx + from);
    }
    for (int64_t r = from; s.inner != 1 && r < to; ++r) {
      sum_tiles(s.channels, s.inner, 1, s.inner, dy + r * s.channels * s.inner, dx + r * s.inner);
    }
  }
  return CREMA_OK;
}

CR_REF_KERNEL(tile_fwd, TILE_FWD, .run = tile_fwd);
CR_REF_KERNEL(tile_bwd, TILE_BWD, .run = tile_bwd);
