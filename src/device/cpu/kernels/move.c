/* Ops that move values: crop, tile, gather rows, and windows as columns. */
#include <stdlib.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/prefetch.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/unfold.h"

/* Elements between neighbours along each axis. */
static void strides_of(const crema_shape *shape, int64_t *stride) {
  int64_t step = 1;
  for (int a = shape->axes - 1; a >= 0; --a) {
    stride[a] = step;
    step *= shape->dim[a];
  }
}

/* Steps the index `at` over the axes before `axes`, the last of them fastest; false after the last
 * element. */
static bool next_index(const crema_shape *shape, int axes, int64_t *at) {
  for (int a = axes - 1; a >= 0; --a) {
    if (++at[a] < shape->dim[a]) return true;
    at[a] = 0;
  }
  return false;
}

/* Copies between the window at u.offset of the `whole` and the `part`, row by row. */
static void copy_window(const crema_shape *part_shape, const crema_shape *whole_shape,
                        const int64_t *offset, cr_value *part, cr_value *whole, bool into_whole) {
  int64_t stride[CREMA_MAX_AXES], at[CREMA_MAX_AXES] = {0};
  const int last = part_shape->axes - 1;
  const int64_t row = part_shape->dim[last];
  strides_of(whole_shape, stride);
  cr_value *next = part;
  do {
    int64_t from = offset[last];
    for (int a = 0; a < last; ++a) from += (at[a] + offset[a]) * stride[a];
    memcpy(into_whole ? whole + from : next, into_whole ? next : whole + from,
           (size_t)row * sizeof *next);
    next += row;
  } while (next_index(part_shape, last, at));
}

/* src, dst. */
static crema_status crop_fwd(const cr_call *call) {
  if (cr_op_arg_count(call->desc, 1) == 0) return CREMA_OK;
  copy_window(&call->desc->arg[1].shape, &call->desc->arg[0].shape, call->desc->u.offset,
              cr_as_values(call->buffer, 1), cr_as_values(call->buffer, 0), false);
  return CREMA_OK;
}

/* diff_dst, diff_src: 0 outside the window. */
static crema_status crop_bwd(const cr_call *call) {
  memset(cr_as_values(call->buffer, 1), 0,
         (size_t)cr_op_arg_count(call->desc, 1) * sizeof(cr_value));
  if (cr_op_arg_count(call->desc, 0) == 0) return CREMA_OK;
  copy_window(&call->desc->arg[0].shape, &call->desc->arg[1].shape, call->desc->u.offset,
              cr_as_values(call->buffer, 0), cr_as_values(call->buffer, 1), true);
  return CREMA_OK;
}

CR_INLINE void repeat_by(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < tiles; ++c) y[i * tiles + c] = x[i];
  }
}

/* Each of `count` values `tiles` times; twice is what most nets ask for. */
CR_CLONES static void repeat(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
  if (tiles == 2) repeat_by(2, count, x, y);
  else repeat_by(tiles, count, x, y);
}

/* src (outer, inner), dst (outer, tiles, inner). */
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
    memcpy(dst + r * s.inner, src + r / s.channels * s.inner, (size_t)s.inner * sizeof(cr_value));
  }
  return CREMA_OK;
}

/* y[i] = the sum of `tiles` values `step` apart, the first of which are `apart` from each other. */
CR_INLINE void sum_few(int64_t tiles, int64_t step, int64_t apart, int64_t count, const cr_value *x,
                       cr_value *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < tiles; ++c) sum += (double)cr_get(x, i * apart + c * step);
    cr_put(y, i, (cr_real)sum);
  }
}

/* The sums of `count` runs of `tiles` values. */
CR_CLONES static void sum_runs(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
  if (tiles == 2) sum_few(2, 1, 2, count, x, y);
  else sum_few(tiles, 1, tiles, count, x, y);
}

CR_INLINE void sum_strips(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
  enum { WIDTH = 512 };
  for (int64_t begin = 0; begin < count; begin += WIDTH) {
    const int64_t width = count - begin < WIDTH ? count - begin : WIDTH;
    double sum[WIDTH];
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t c = 0; c < tiles; ++c) {
      const cr_value *tile = x + c * count + begin;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) sum[i] += (double)cr_get(tile, i);
    }
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) cr_put(y + begin, i, (cr_real)sum[i]);
  }
}

/* The sums of `tiles` arrays of `count` values, one behind the other. */
CR_CLONES static void sum_tiles(int64_t tiles, int64_t count, const cr_value *x, cr_value *y) {
  if (tiles == 2) sum_few(2, count, 1, count, x, y);
  else sum_strips(tiles, count, x, y);
}

/* diff_dst, diff_src: the sum over the tiles. */
static crema_status tile_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_value *dy = cr_as_values(call->buffer, 0);
  cr_value *dx = cr_as_values(call->buffer, 1);
  if (s.inner == 1) {
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
    for (int part = 0; part < CR_REF_PARTS; ++part) {
      const int64_t from = cr_ref_part(s.outer, part), to = cr_ref_part(s.outer, part + 1);
      sum_runs(s.channels, to - from, dy + from * s.channels, dx + from);
    }
    return CREMA_OK;
  }
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < s.outer; ++r) {
    sum_tiles(s.channels, s.inner, dy + r * s.channels * s.inner, dx + r * s.inner);
  }
  return CREMA_OK;
}

/* Every index names a row. */
static crema_status check_index(const cr_real *index, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(index[i] >= 0 && (double)index[i] < (double)rows)) {
      return cr_fail(CREMA_E_RANGE, "index %g at position %lld of %lld is outside 0..%lld",
                     (double)index[i], (long long)i, (long long)count, (long long)rows - 1);
    }
  }
  return CREMA_OK;
}

/* Asks for the beginning of a row, as the processor does not foresee which row comes next; the rest
 * of a long one it does. */
static inline void fetch_row(const void *row, int64_t bytes) {
  enum { LINE = 64, MOST = 4096 };
  for (int64_t i = 0; i < bytes && i < MOST; i += LINE) {
    __builtin_prefetch((const char *)row + i, 0, CR_SECOND_CACHE);
  }
}

CR_CLONES static void add_bias(int64_t count, const cr_value *row, const cr_value *bias,
                               cr_value *to) {
#pragma omp simd
  for (int64_t k = 0; k < count; ++k) cr_put(to, k, cr_get(row, k) + cr_get(bias, k));
}

/* src (R, K), index (N), dst (N, K), bias (K). */
static crema_status gather_fwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 0);
  const cr_real *index = cr_as_reals(call->buffer, 1);
  const int64_t count = cr_op_arg_count(call->desc, 1);
  const cr_value *src = cr_as_values(call->buffer, 0);
  const cr_value *bias = call->desc->args > 3 ? cr_as_values(call->buffer, 3) : NULL;
  cr_value *dst = cr_as_values(call->buffer, 2);
  const int64_t bytes = s.inner * (int64_t)sizeof *src;
  CR_TRY(check_index(index, count, s.channels));
#pragma omp parallel for schedule(static) if (count * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t next = i + 1 < count ? i + 1 : i;
    const cr_value *row = src + (int64_t)index[i] * s.inner;
    fetch_row(src + (int64_t)index[next] * s.inner, bytes);
    if (bias) add_bias(s.inner, row, bias, dst + i * s.inner);
    else memcpy(dst + i * s.inner, row, (size_t)bytes);
  }
  return CREMA_OK;
}

CR_CLONES static void add_row(int64_t count, const cr_value *from, cr_real *to) {
#pragma omp simd
  for (int64_t k = 0; k < count; ++k) to[k] += cr_get(from, k);
}

/* So many threads each have some columns of all rows. */
static int64_t strips_of(const cr_call *call, int64_t columns) {
  enum { LEAST = 64 };
  const int64_t threads = call->plan->threads > 0 ? call->plan->threads : 1;
  const int64_t most = columns / LEAST > 0 ? columns / LEAST : 1;
  return threads < most ? threads : most;
}

/* diff_dst (N, K), index, diff_src (R, K): each row is added to the one that it came from. */
static crema_status gather_bwd(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 2, 0);
  const cr_real *index = cr_as_reals(call->buffer, 1);
  const cr_value *diff_dst = cr_as_values(call->buffer, 0);
  cr_real *sums = cr_as_reals(call->buffer, 2);
  const int64_t count = cr_op_arg_count(call->desc, 1), values = cr_op_arg_count(call->desc, 2);
  const int64_t strips = strips_of(call, s.inner);
  CR_TRY(check_index(index, count, s.channels));
  if (!call->accumulate[2]) memset(sums, 0, (size_t)values * sizeof *sums);
#pragma omp parallel for schedule(static) if (count * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t from = s.inner * strip / strips, to = s.inner * (strip + 1) / strips;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t next = i + 1 < count ? i + 1 : i;
      fetch_row(sums + (int64_t)index[next] * s.inner + from, (to - from) * (int64_t)sizeof *sums);
      add_row(to - from, diff_dst + i * s.inner + from, sums + (int64_t)index[i] * s.inner + from);
    }
  }
  return CREMA_OK;
}

static crema_status window_keep(cr_plan *plan, const crema_shape *image,
                                const crema_shape *columns) {
  cr_slide slide;
  CR_TRY(cr_slide_make(&plan->desc->u.window, image, columns, &slide));
  if (image->dim[0] != columns->dim[0] || image->dim[1] * slide.kernel_count != columns->dim[1]) {
    return cr_fail(CREMA_E_SHAPE, "the columns do not hold the image's windows");
  }
  cr_slide *kept = malloc(sizeof *kept);
  if (!kept) return cr_fail_memory(sizeof *kept, "the plan of columns");
  *kept = slide;
  plan->state = kept;
  return CREMA_OK;
}

static crema_status im2col_plan(cr_plan *plan) {
  return window_keep(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

static crema_status col2im_plan(cr_plan *plan) {
  return window_keep(plan, &plan->desc->arg[1].shape, &plan->desc->arg[0].shape);
}

static void window_destroy(cr_plan *plan) {
  free(plan->state);
}

/* src (N, C, S...), dst (N, C * window, S'...). */
static crema_status im2col(const cr_call *call) {
  const cr_slide *s = call->plan->state;
  const crema_shape *image = &call->desc->arg[0].shape;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < image->dim[0] * image->dim[1]; ++c) {
    cr_ref_unfold(s, cr_as_values(call->buffer, 0) + c * s->in_count,
                  cr_as_values(call->buffer, 1) + c * s->kernel_count * s->out_count);
  }
  return CREMA_OK;
}

/* diff_dst, diff_src. */
static crema_status col2im(const cr_call *call) {
  const cr_slide *s = call->plan->state;
  const crema_shape *image = &call->desc->arg[1].shape;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < image->dim[0] * image->dim[1]; ++c) {
    cr_real *plane = cr_as_reals(call->buffer, 1) + c * s->in_count;
    memset(plane, 0, (size_t)s->in_count * sizeof *plane);
    cr_ref_fold_add(s, cr_as_values(call->buffer, 0) + c * s->kernel_count * s->out_count, plane);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(crop_fwd, CROP_FWD, .plan = cr_check_crop, .run = crop_fwd);
CR_REF_KERNEL(crop_bwd, CROP_BWD, .plan = cr_check_crop, .run = crop_bwd);
CR_REF_KERNEL(tile_fwd, TILE_FWD, .run = tile_fwd);
CR_REF_KERNEL(tile_bwd, TILE_BWD, .run = tile_bwd);
CR_REF_KERNEL(gather_fwd, GATHER_FWD, .plan = cr_check_gather, .run = gather_fwd);
CR_REF_KERNEL(gather_bwd, GATHER_BWD, .can_accumulate = true, .run = gather_bwd);
CR_REF_KERNEL(im2col, IM2COL, .plan = im2col_plan, .run = im2col, .destroy = window_destroy);
CR_REF_KERNEL(col2im, COL2IM, .plan = col2im_plan, .run = col2im, .destroy = window_destroy);
