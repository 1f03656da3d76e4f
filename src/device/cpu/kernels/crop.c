/* Crop: a window of an array, and its gradient, which is 0 outside the window. */
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"

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

CR_REF_KERNEL(crop_fwd, CROP_FWD, .plan = cr_check_crop, .run = crop_fwd);
CR_REF_KERNEL(crop_bwd, CROP_BWD, .plan = cr_check_crop, .run = crop_bwd);
