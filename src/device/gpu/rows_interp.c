/* Rows that make maps larger and smaller: interpolation, and the reverse of max pooling. */
#include <inttypes.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

/* The arguments with the small and the large planes. */
static int small_of(const cr_op_desc *desc) {
  return desc->kind == CR_OP_INTERP_BWD ? 1 : desc->kind == CR_OP_UNPOOL_BWD ? 2 : 0;
}
static int large_of(const cr_op_desc *desc) {
  return desc->kind == CR_OP_INTERP_FWD ? 1 : desc->kind == CR_OP_UNPOOL_FWD ? 2 : 0;
}

static crema_status maps_plan(cr_plan *plan) {
  const int small = small_of(plan->desc), large = large_of(plan->desc);
  const crema_shape *s = &plan->desc->arg[small].shape, *l = &plan->desc->arg[large].shape;
  CR_TRY(cr_check_maps(plan, small, large));
  /* Places are worked out by products of two extents. */
  for (int a = 2; a < 4; ++a) {
    if (s->dim[a] > INT32_MAX || l->dim[a] > INT32_MAX ||
        (s->dim[a] + 1) * (l->dim[a] + 1) > INT32_MAX) {
      return cr_fail(CREMA_E_UNSUPPORTED, "%s: from %" PRId64 " to %" PRId64 " positions",
                     cr_op_kind_name(plan->desc->kind), s->dim[a], l->dim[a]);
    }
  }
  return CREMA_OK;
}

static cr_interp_axis axis_of(int64_t small, int64_t large) {
  return (cr_interp_axis){.small = (int32_t)small,
                          .large = (int32_t)large,
                          .by_small = cr_divisor_of(small),
                          .by_large = cr_divisor_of(large),
                          .steps_of_small = cr_divisor_of(small - 1),
                          .steps_of_large = cr_divisor_of(large - 1)};
}

static cr_interp_args interp_args(const cr_call *call) {
  const cr_op_arg *arg = call->desc->arg;
  const int64_t *s = arg[small_of(call->desc)].shape.dim, *l = arg[large_of(call->desc)].shape.dim;
  return (cr_interp_args){.from = cr_gpu_values(call, 0),
                          .out = cr_gpu_values(call, 1),
                          .y = axis_of(s[2], l[2]),
                          .x = axis_of(s[3], l[3])};
}

/* src, dst; or diff_dst, diff_src. */
static crema_status interp(const cr_call *call) {
  const cr_interp_args args = interp_args(call);
  const bool forward = call->desc->kind == CR_OP_INTERP_FWD;
  return cr_gpu_each_of(
      call, 1, forward ? CR_DEVICE_FUNCTION_interp_fwd : CR_DEVICE_FUNCTION_interp_bwd, &args);
}

/* Argument 1 is the mask, of the small planes' shape. */
static cr_unpool_args unpool_args(const cr_call *call) {
  const cr_op_arg *arg = call->desc->arg;
  const int small = small_of(call->desc);
  const int64_t *s = arg[small].shape.dim, *l = arg[large_of(call->desc)].shape.dim;
  return (cr_unpool_args){.from = cr_gpu_values(call, 0),
                          .mask = cr_gpu_f32(call, 1),
                          .out = cr_gpu_values(call, 2),
                          .small = cr_divisor_of(s[2] * s[3]),
                          .large = l[2] * l[3],
                          .count = cr_op_arg_count(call->desc, small),
                          .fault = cr_gpu_fault_of(call->context)};
}

/* src, mask, dst. */
static crema_status unpool_fwd(const cr_call *call) {
  const cr_unpool_args args = unpool_args(call);
  CR_TRY(cr_gpu_clear(call, 2));
  const int64_t *dim = call->desc->arg[0].shape.dim;
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_unpool_fwd, &args, dim[0] * dim[1]);
}

/* diff_dst, mask, diff_src. */
static crema_status unpool_bwd(const cr_call *call) {
  const cr_unpool_args args = unpool_args(call);
  return cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_unpool_bwd, &args);
}

CR_GPU_ROW(interp_fwd, INTERP_FWD, interp, .plan = maps_plan);
CR_GPU_ROW(interp_bwd, INTERP_BWD, interp, .plan = maps_plan);
CR_GPU_ROW_OF(unpool_fwd_f32_gpu, UNPOOL_FWD, F32, unpool_fwd, false, .plan = maps_plan);
CR_GPU_ROW(unpool_bwd, UNPOOL_BWD, unpool_bwd, .plan = maps_plan);
