/* Exchange of axes. Axes that stay neighbours count as one. If source and result have the same
 * fastest axis, whole rows are copied; otherwise square tiles are transposed, which use each cache
 * line whole on both sides. */
#include "device/backend/op_check.h"
#include "device/cpu/kernels/transpose.h"

enum { TILE = 64 };

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

static void remove_axis(axes *x, int a) {
  --x->count;
  for (; a < x->count; ++a) {
    x->dim[a] = x->dim[a + 1];
    x->from[a] = x->from[a + 1];
    x->to[a] = x->to[a + 1];
  }
}

static void append_axis(axes *x, int64_t dim, int64_t from, int64_t to) {
  x->dim[x->count] = dim;
  x->from[x->count] = from;
  x->to[x->count++] = to;
}

static int64_t elements_of(const axes *x) {
  int64_t count = 1;
  for (int a = 0; a < x->count; ++a) count *= x->dim[a];
  return count;
}

/* An element of some axes: its index on each, and where it lies in source and result. */
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
static void copy_rows(axes x, const cr_value *src, cr_value *dst) {
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

/* `fast` is the axis whose elements are neighbours in the source. It and the last axis are cut into
 * pieces, which become axes of tiles. */
static void transpose_tiles(axes x, int fast, const cr_value *src, cr_value *dst) {
  const int last = x.count - 1;
  const int64_t rows = x.dim[fast], to_step = x.to[fast];
  const int64_t columns = x.dim[last], from_step = x.from[last];
  remove_axis(&x, last);
  remove_axis(&x, fast);
  append_axis(&x, (rows + TILE - 1) / TILE, TILE, TILE * to_step);
  append_axis(&x, (columns + TILE - 1) / TILE, TILE * from_step, TILE);
  const int64_t tiles = elements_of(&x);
#pragma omp parallel for schedule(static) if (tiles * TILE * TILE >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    position p = locate(&x, cr_ref_part(tiles, part));
    for (int64_t i = cr_ref_part(tiles, part); i < cr_ref_part(tiles, part + 1); ++i) {
      const int64_t height = rows - p.at[x.count - 2] * TILE;
      const int64_t width = columns - p.at[x.count - 1] * TILE;
      cr_transpose(width < TILE ? width : TILE, height < TILE ? height : TILE, src + p.from,
                   from_step, dst + p.to, to_step);
      advance(&x, &p);
    }
  }
}

/* src, dst: axis a of dst is axis u.order[a] of src. */
static crema_status permute(const cr_call *call) {
  const cr_value *src = cr_as_values(call->buffer, 0);
  cr_value *dst = cr_as_values(call->buffer, 1);
  if (cr_op_arg_count(call->desc, 1) == 0) return CREMA_OK;
  const axes x = axes_of(call->desc);
  int fast = x.count - 1;
  while (fast > 0 && x.from[fast] != 1) --fast;
  if (fast == x.count - 1) copy_rows(x, src, dst);
  else transpose_tiles(x, fast, src, dst);
  return CREMA_OK;
}

CR_REF_KERNEL(permute, PERMUTE, .plan = cr_check_permute, .run = permute);
