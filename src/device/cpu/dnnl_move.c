#include "device/cpu/dnnl_move.h"

#include <string.h>

#include "core/fail.h"
#include "device/cpu/ref.h"

/* Where the values of one side lie. */
typedef struct where {
  cr_md_view view;
  dnnl_dims_t row_major; /* the strides of a side without a layout */
} where;

static crema_status locate(const crema_shape *shape, const cr_layout *layout, where *out) {
  *out = (where){0};
  if (layout != NULL) {
    cr_md_look(cr_dnnl_layout_md(layout), &out->view);
    if (out->view.blocked && out->view.ndims == shape->axes) return CREMA_OK;
    return cr_fail(CREMA_E_UNSUPPORTED, "a layout that only oneDNN can convert");
  }
  dnnl_dim_t step = 1;
  for (int axis = shape->axes - 1; axis >= 0; --axis) {
    out->row_major[axis] = step;
    step *= shape->dim[axis];
  }
  return CREMA_OK;
}

/* The number of the value at `index`, counted from the start of the memory. */
static int64_t position(const where *w, int axes, const int64_t *index) {
  const cr_md_view *v = &w->view;
  const dnnl_dim_t *strides = v->strides != NULL ? v->strides : w->row_major;
  int64_t outer[CREMA_MAX_AXES], at = v->offset, step = 1;
  memcpy(outer, index, (size_t)axes * sizeof *outer);
  for (int b = v->inner_blocks - 1; b >= 0; --b) {
    int64_t *along = &outer[v->block_axis[b]];
    at += *along % v->block[b] * step;
    *along /= v->block[b];
    step *= v->block[b];
  }
  for (int axis = 0; axis < axes; ++axis) at += outer[axis] * strides[axis];
  return at;
}

/* Moves row `row` of the values, counted over all axes but the last. */
static void move_row(const crema_shape *shape, size_t size, int64_t row, const where *to, char *dst,
                     const where *from, const char *src) {
  int64_t index[CREMA_MAX_AXES];
  int last = shape->axes - 1;
  for (int axis = last - 1; axis >= 0; --axis) {
    index[axis] = row % shape->dim[axis];
    row /= shape->dim[axis];
  }
  for (index[last] = 0; index[last] < shape->dim[last]; ++index[last]) {
    memcpy(dst + (size_t)position(to, shape->axes, index) * size,
           src + (size_t)position(from, shape->axes, index) * size, size);
  }
}

crema_status cr_dnnl_move(const crema_shape *shape, size_t size, cr_dnnl_side to,
                          cr_dnnl_side from) {
  where dst, src;
  CR_TRY(locate(shape, to.layout, &dst));
  CR_TRY(locate(shape, from.layout, &src));
  if (shape->axes < 1) return cr_fail(CREMA_E_UNSUPPORTED, "a layout without axes");
  if (to.layout != NULL) memset(to.memory, 0, to.layout->bytes);
  int64_t rows = crema_shape_count(shape, 0, shape->axes - 1);
#pragma omp parallel for schedule(static) if (rows * shape->dim[shape->axes - 1] >= \
                                              CR_REF_PARALLEL_MIN)
  for (int64_t row = 0; row < rows; ++row) {
    move_row(shape, size, row, &dst, to.memory, &src, from.memory);
  }
  return CREMA_OK;
}
