/* Exchange of axes, in tiles. Axes that stay neighbours count as one. If source and result have the
 * same fastest axis, full rows are copied. Otherwise square tiles are transposed, which use
 * complete cache lines on both sides.
 *
 * Gain over the plain kernel, one thread of a Xeon with AVX-512: bench/layers Permute takes a third
 * of the time. SSD's nets use it after each of their prediction layers. */
#include <string.h>
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/ref.h"

enum { TILE = 16, ROWS = 256, LONG = 128 };

/* The axes of the result, the fastest last: extents, and the steps in source and result. */
typedef struct axes {
  int count;
  int64_t dim[CREMA_MAX_AXES], from[CREMA_MAX_AXES], to[CREMA_MAX_AXES];
} axes;

static axes axes_of(const cr_op_desc *desc) {
  const crema_shape *src = &desc->arg[0].shape, *dst = &desc->arg[1].shape;
  int64_t stride[CREMA_MAX_AXES], step = 1;
  axes out = {.count = 0};
  for (int a = src->axes - 1; a >= 0; --a) {
    stride[a] = step;
    step *= src->dim[a];
  }
  for (int a = 0; a < dst->axes; ++a) {
    const int64_t dim = dst->dim[a], from = stride[desc->u.order[a]];
    const int last = out.count - 1;
    if (dim == 1) continue;
    if (last >= 0 && out.from[last] == dim * from) {
      out.dim[last] *= dim;
      out.from[last] = from;
    } else {
      out.dim[out.count] = dim;
      out.from[out.count++] = from;
    }
  }
  if (out.count == 0) out = (axes){.count = 1, .dim = {1}, .from = {1}};
  step = 1;
  for (int a = out.count - 1; a >= 0; --a) {
    out.to[a] = step;
    step *= out.dim[a];
  }
  return out;
}

/* Removes axis a. */
static void remove_axis(axes *x, int a) {
  --x->count;
  for (; a < x->count; ++a) {
    x->dim[a] = x->dim[a + 1];
    x->from[a] = x->from[a + 1];
    x->to[a] = x->to[a + 1];
  }
}

/* Adds an axis after the last. */
static void append(axes *x, int64_t dim, int64_t from, int64_t to) {
  x->dim[x->count] = dim;
  x->from[x->count] = from;
  x->to[x->count++] = to;
}

static int64_t elements_of(const axes *x) {
  int64_t count = 1;
  for (int a = 0; a < x->count; ++a) count *= x->dim[a];
  return count;
}

/* An element of some axes: its index on each axis, and its position in source and result. */
typedef struct position {
  int64_t at[CREMA_MAX_AXES], from, to;
} position;

static position locate(const axes *x, int64_t index) {
  position out = {.from = 0};
  for (int a = x->count - 1; a >= 0; --a) {
    out.at[a] = index % x->dim[a];
    out.from += out.at[a] * x->from[a];
    out.to += out.at[a] * x->to[a];
    index /= x->dim[a];
  }
  return out;
}

static void advance(const axes *x, position *p) {
  for (int a = x->count - 1; a >= 0; --a) {
    p->from += x->from[a];
    p->to += x->to[a];
    if (++p->at[a] < x->dim[a]) return;
    p->from -= x->dim[a] * x->from[a];
    p->to -= x->dim[a] * x->to[a];
    p->at[a] = 0;
  }
}

/* The last axis is a row of both. */
static void copy_rows(axes x, const float *src, float *dst) {
  const int64_t width = x.dim[x.count - 1];
  remove_axis(&x, x.count - 1);
  const int64_t rows = elements_of(&x);
#pragma omp parallel for schedule(static) if (rows * width >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    position p = locate(&x, cr_ref_part(rows, part));
    for (int64_t i = cr_ref_part(rows, part); i < cr_ref_part(rows, part + 1); ++i) {
      memcpy(dst + p.to, src + p.from, (size_t)width * sizeof *dst);
      advance(&x, &p);
    }
  }
}

/* Four values that are moved as one vector. */
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));

/* Four rows and columns of `transpose`. */
static inline void transpose_four(int64_t from, int64_t to, const float *src, float *dst) {
  const four a = *(const four *)src, b = *(const four *)(src + from);
  const four c = *(const four *)(src + 2 * from), d = *(const four *)(src + 3 * from);
  const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(four *)dst = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  *(four *)(dst + to) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  *(four *)(dst + 2 * to) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  *(four *)(dst + 3 * to) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* One row of the result: of every second value of the source, a common case, in vectors. */
static inline void pick(int64_t count, int64_t from, const float *restrict src,
                        float *restrict dst) {
  if (from == 2) {
    for (int64_t l = 0; l < count; ++l) dst[l] = src[2 * l];
  } else {
    for (int64_t l = 0; l < count; ++l) dst[l] = src[l * from];
  }
}

/* dst[f to + l] = src[l from + f] for `rows` values f and `columns` values l. */
static void transpose(int64_t rows, int64_t columns, int64_t from, int64_t to, const float *src,
                      float *dst) {
  const int64_t tile_width = rows < 4 ? columns : TILE;
  for (int64_t begin = 0; begin < columns; begin += tile_width) {
    const int64_t left = columns - begin, width = left < tile_width ? left : tile_width;
    const float *tile = src + begin * from;
    float *row = dst + begin;
    int64_t f = 0;
    if (rows >= 4 && width == TILE) {
      for (; f + 4 <= rows; f += 4) {
        for (int l = 0; l < TILE; l += 4) {
          transpose_four(from, to, tile + l * from + f, row + f * to + l);
        }
      }
    }
    for (; f < rows; ++f) pick(width, from, tile + f, row + f * to);
  }
}

/* Prefetches the cache lines after `count` values that are `step` apart. Lines of a short run are
 * read soon and go to the L1 cache, all other lines to the L2 cache. Prefetching past the end of
 * the array is harmless. */
static inline void fetch_ahead(const float *values, int64_t count, int64_t step) {
  const uintptr_t apart = (uintptr_t)step * sizeof *values, most = apart > 64 ? apart : 64;
  const uintptr_t from = (uintptr_t)values + LONG * apart, end = from + (uintptr_t)count * apart;
  for (uintptr_t at = from; at < end; at += most) {
    const void *line = (const void *)at; /* NOLINT: an address that is only prefetched */
    if (apart < 64) __builtin_prefetch(line);
    else __builtin_prefetch(line, 0, 2);
  }
}

/* Transposes long columns. Of each part that fits the cache it computes a few rows of the result at
 * a time, so that long runs are written to few places. */
static void transpose_long(int64_t rows, int64_t columns, int64_t from, int64_t to,
                           const float *src, float *dst) {
  for (int64_t l = 0; l < columns; l += LONG) {
    const int64_t width = columns - l < LONG ? columns - l : LONG;
    for (int64_t f = 0; f < rows; f += TILE) {
      const int64_t height = rows - f < TILE ? rows - f : TILE;
      fetch_ahead(src + l * from + f, width, from);
      transpose(height, width, from, to, src + l * from + f, dst + f * to + l);
    }
  }
}

/* `fast` is the axis whose elements are neighbours in the source. It is cut into pieces of ROWS,
 * which become one more axis: long runs are read from few places. */
static void transpose_tiles(axes x, int fast, const float *src, float *dst) {
  const int64_t columns = x.dim[x.count - 1], from_step = x.from[x.count - 1];
  const int64_t rows = x.dim[fast], to_step = x.to[fast], most = rows < ROWS ? rows : ROWS;
  remove_axis(&x, x.count - 1);
  remove_axis(&x, fast);
  append(&x, (rows + ROWS - 1) / ROWS, ROWS, ROWS * to_step);
  const int64_t tiles = elements_of(&x);
#pragma omp parallel for schedule(static) if (tiles * most * columns >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    position p = locate(&x, cr_ref_part(tiles, part));
    for (int64_t i = cr_ref_part(tiles, part); i < cr_ref_part(tiles, part + 1); ++i) {
      const int64_t left = rows - p.at[x.count - 1] * ROWS, height = left < most ? left : most;
      if (columns > height) {
        transpose_long(height, columns, from_step, to_step, src + p.from, dst + p.to);
      } else {
        transpose(height, columns, from_step, to_step, src + p.from, dst + p.to);
      }
      advance(&x, &p);
    }
  }
}

/* src, dst: axis a of dst is axis u.order[a] of src. */
static crema_status permute_fast(const cr_call *call) {
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  if (cr_op_arg_count(call->desc, 1) == 0) return CREMA_OK;
  const axes x = axes_of(call->desc);
  int fast = x.count - 1;
  while (fast > 0 && x.from[fast] != 1) --fast;
  if (fast == x.count - 1) copy_rows(x, src, dst);
  else transpose_tiles(x, fast, src, dst);
  return CREMA_OK;
}

CR_KERNEL(permute_fast, PERMUTE, .plan = cr_check_permute, .run = permute_fast);
